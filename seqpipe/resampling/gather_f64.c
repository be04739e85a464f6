/* Gathers in double precision, for grids that are compared with those of other software. */
#define F64 1
#define TIE 1e-9
#define nearby nearbyint
typedef double real;
#include "gather.c"
