// As separable.cuh, and by products of matrices in fixed point.
#include "separable.cuh"
#include "banded.cuh"
