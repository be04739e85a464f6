/* Gathers in single precision, for operators: fast, and to 1e-5 of the range of values. */
#define F64 0
#define TIE 0
#define nearby nearbyintf
typedef float real;
#include "gather.c"
