// The taps of pixels along an axis, as in resampling.py: positions in fixed point, weights from sums, products and quotients
// only.

// One axis of a row of parameters; 64-bit numbers lie there as two halves.
struct Axis {
    long long begin, step, reach;
    int taps, filter;
    Real scale;
    int length;
    bool cut;
};

__device__ __forceinline__ long long whole(const int* halves) {
    return (long long)halves[1] << 32 | (unsigned)halves[0];
}

template <class Axes> __device__ __forceinline__ Axis axis_of(const Axes& row, int number, int length) {
    return {whole(row.begin + 2 * number), whole(row.step + 2 * number), whole(row.reach + 2 * number),
            row.taps[number], row.filter[number], row.scale[number], length, row.cut[number] != 0};
}

// Where a pixel's first tap is, and how far that one's center is from the pixel's.
struct Start {
    int place;
    Real distance;
};

__device__ __forceinline__ Start start_of(const Axis& axis, int pixel) {
    const long long half = 1ll << 31, center = axis.begin + axis.step * pixel + (axis.step >> 1);
    const int place = (int)((center - axis.reach + half) >> 32);
    const Real units = (float)(((long long)place << 32) + half - center);
    return {place, units * Real(1.0f / 4294967296.0f)};
}

__device__ __forceinline__ Real series(const Real (&terms)[7], Real x) {
    Real value = terms[6];
#pragma unroll
    for (int k = 5; k >= 0; k--) value = value * x + terms[k];
    return value;
}

__device__ __forceinline__ Real cubic(Real u, Real a) {
    const Real near = ((a + Real(2.0f)) * u - (a + Real(3.0f))) * u * u + Real(1.0f);
    const Real far = ((a * u - Real(5.0f) * a) * u + Real(8.0f) * a) * u - Real(4.0f) * a;
    return u.v < 1.0f ? near : u.v < 2.0f ? far : Real(0.0f);
}

// sin(pi u), for u from 0 to 3
__device__ __forceinline__ Real sine(Real u) {
    const Real terms[7] = {3.14159265358979f, -5.16771278004997f, 2.55016403987734f, -0.599264529320792f,
                           0.0821458866111282f, -0.00737043094571435f, 0.000466302805767613f};
    const Real turns = floorf((u + Real(0.5f)).v), r = u - turns;
    const Real value = series(terms, r * r) * r;
    return turns.v == 1.0f || turns.v == 3.0f ? -value : value;
}

__device__ __forceinline__ Real lanczos(Real u) {
    const Real safe = fmaxf(u.v, 1e-4f);
    const Real value = sine(safe) * sine(safe / Real(3.0f)) * Real(0.303963550927013f) / (safe * safe);
    return u.v < 1e-3f ? Real(1.0f) : u.v < 3.0f ? value : Real(0.0f);
}

__device__ __forceinline__ Real gaussian(Real u) {
    const Real terms[7] = {1.0f, -1.0f, 0.5f, -1.0f / 6, 1.0f / 24, -1.0f / 120, 1.0f / 720};
    Real power = series(terms, u * u * Real(0.25f));
#pragma unroll
    for (int k = 0; k < 4; k++) power = power * power;
    return u.v < 1.0f ? power : Real(0.0f);
}

__device__ __forceinline__ Real weight_at(const Axis& axis, Real distance) {
    const Real away = fabsf(distance.v);
    if (axis.filter == 1) return fmaxf((Real(1.0f) - away * axis.scale).v, 0.0f);
    if (axis.filter == 0) return 1.0f;
    if (axis.filter == 2 || axis.filter == 6) return cubic(away * axis.scale, axis.filter == 2 ? -0.5f : -0.75f);
    if (axis.filter == 3) return lanczos(away * axis.scale);
    if (axis.filter == 4) return gaussian(away * axis.scale);
    const Real covered = fmaxf((axis.scale + Real(0.5f) - away).v, 0.0f);
    return fminf(covered.v, fminf(1.0f, (axis.scale + axis.scale).v));
}

struct Tap {
    int place;
    Real weight;
};

__device__ __forceinline__ Tap tap_of(const Axis& axis, const Start& start, int number) {
    const int place = start.place + number, inside = min(max(place, 0), axis.length - 1);
    if (axis.cut && place != inside) return {inside, 0.0f};
    return {inside, weight_at(axis, start.distance + Real((float)number))};
}
