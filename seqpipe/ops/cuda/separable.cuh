// Sums of products of a column and a row of symmetric weights. The operator's statements change `value`, the sum; `center` is
// the input value.
//
// Row has taps[2 * TERMS] and weights[2 * TERMS][MOST_TAPS]: column and row of the first term, then of the second.
constexpr bool WEIGHED = true;
constexpr int WAVES = 1;
#include "summed.cuh"
