// As separable.cuh, and by matrix products in fixed point.
#include "separable.cuh"
#include "banded.cuh"
