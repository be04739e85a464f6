// The part of a source that the pixels of a tile depend on, and whether it fits into shared memory.
constexpr int TOGETHER_BYTES = OUT == 0 ? THREADS / BROAD * WIDE * CHANNELS : WORD;  // results of some lines for each warp
constexpr int ROOM = (COMMON - TOGETHER_BYTES - 128) / WORD;                         // pixels that there is room for
constexpr float NEAR = 1 << 21;                                                      // up to which places are taken

// From where to where something goes.
struct Span {
    int first, count;
    __device__ __forceinline__ bool has(int number) const { return (unsigned)(number - first) < (unsigned)count; }
};
__device__ __forceinline__ Span span_of(int begin, int end) { return {begin, max(end - begin, 0)}; }

typedef Typed<OUT>::T Result;

// What the pixels of a tile are made of: a part of the source. One thread finds it, for it takes as long as to make a pixel or two.
struct __align__(16) Part {
    Address from, to;         // of its first pixel, in the image or beside it; of the first of the tile
    Span fours, lines;        // those of them that are in the image
    int across, tall, pitch;  // four pixels each beside each other; words from line to line
    unsigned corner;          // what to take from lifted places to have their number in the room
    int left, top;
    unsigned lift;            // LIFT out of memory, or the compiler makes it the one constant that a permutation may have
    bool fits, flat;          // whether there is room for it; whether the map has no perspective
    bool words, contiguous;     // whether its lines begin with words; whether those of the result do, and can be written as such
    bool outside;             // whether it is outside of the image, and the result is all of the fill value
};
struct Staged {
    Part part;
    __align__(16) unsigned room[ROOM];
    __align__(16) unsigned char results[TOGETHER_BYTES];
};

// A place as a whole number and what is left of it. The number is that of the lowest bits of 1.5 · 2²³ and a few.
constexpr unsigned LIFTED = 0x4b400000;
struct Floor {
    unsigned bits;
    Real part;
    __device__ __forceinline__ explicit Floor(Real place) {
#ifdef __CUDACC__
        const Real lifted = __fadd_rd(place.v, 12582912.0f);
#else
        const Real lifted = floorf(place.v) + 12582912.0f;
#endif
        bits = __float_as_uint(lifted.v), part = place - (lifted - Real(12582912.0f));
    }
};

__device__ __forceinline__ Floor floor_of(Real place, int kind) { return Floor(kind ? place - Real(0.5f) : place); }

// From where to where a part goes along an axis.
struct Ends {
    int first, end;
};

// The part of the source along an axis that the pixels of a tile may be made of. Their places lie between those of the corners,
// but that they are rounded: by less than a pixel, or nothing is found. FLAT: the map has no perspective, and sums of rounded
// products and numbers never fall where one of them rises.
template <bool FLAT> __device__ __forceinline__ bool find_ends(const Real* m, const Real* under, Tile tile, int kind, Ends& ends) {
    const float left = (float)tile.left + 0.5f, right = (float)(tile.left + tile.wide - 1) + 0.5f;
    const float top = (float)tile.top + 0.5f, bottom = (float)(tile.top + tile.tall - 1) + 0.5f;
    float least = 0.0f, most = 0.0f, nearest = 1.0f;
#pragma unroll
    for (int corner = 0; corner < 4; corner++) {
        const Real column = corner & 1 ? right : left, line = corner & 2 ? bottom : top;
        Real place = sum_at(m, column, line);
        if (!FLAT) {
            const float divisor = sum_at(under, column, line).v;
            if (corner && (divisor > 0.0f) != (nearest > 0.0f)) return false;  // some are behind the horizon
            nearest = corner && fabsf(nearest) < fabsf(divisor) ? nearest : divisor;
            place = place / Real(divisor);
        }
        least = corner ? fminf(least, place.v) : place.v, most = corner ? fmaxf(most, place.v) : place.v;
    }
    const float farthest = fmaxf(-least, most), over = fabsf(m[0].v) * right + fabsf(m[1].v) * bottom + fabsf(m[2].v);
    if (!(over < NEAR && farthest < NEAR)) return false;
    if (!FLAT) {
        const float below = fabsf(under[0].v) * right + fabsf(under[1].v) * bottom + fabsf(under[2].v);
        const float wrong = (over + below * farthest) / (fabsf(nearest) * (1 << 22));  // the most that places are off
        if (!(wrong < 0.5f && fabsf(nearest) > NEAR_ZERO && below < 1.0f / NEAR_ZERO)) return false;
    }
    const int before = (kind == 2 ? 1 : 0) + !FLAT, behind = (kind == 2 ? 3 : kind + 1) + !FLAT;
    ends.first = (int)(floor_of(least, kind).bits - LIFTED) - before;
    ends.end = (int)(floor_of(most, kind).bits - LIFTED) + behind;
    return true;
}

// Whether the pixels of an image can be made so, if there is room for their sources.
__device__ __forceinline__ bool is_staged(const Image& image) {
    const Real fill = image.row.fill;
    const long long *in = image.item.in_strides, *out = image.item.out_strides;
    const bool beside = in[4] == 1 && in[3] == CHANNELS && out[4] == sizeof(Result) && out[3] == (int)(CHANNELS * sizeof(Result));
    const bool whole = fill.v != fill.v || (fill.v >= 0.0f && fill.v <= 255.0f && floorf(fill.v) == fill.v);
    return beside && whole && max(image.item.width, image.item.height) < NEAR;
}

__device__ __forceinline__ Part part_of(const Image& image, Tile tile) {
    const Item& item = image.item;
    const Real* const m = image.row.matrix;
    const int kind = image.row.kind;
    Part part;
    Ends across, down;
    part.flat = m[6].v == 0.0f && m[7].v == 0.0f && m[8].v == 1.0f;
    if (part.flat)
        part.fits = find_ends<true>(m, m + 6, tile, kind, across) && find_ends<true>(m + 3, m + 6, tile, kind, down);
    else
        part.fits = kind < 2 && find_ends<false>(m, m + 6, tile, kind, across) && find_ends<false>(m + 3, m + 6, tile, kind, down);
    if (!part.fits || !is_staged(image)) {
        part.fits = false;
        return part;
    }
    part.to = image.to(tile.top, tile.left);
    part.contiguous = OUT == 0 && image.out % WORD == 0 && item.out_strides[2] % WORD == 0 && tile.wide * CHANNELS % WORD == 0;
    const bool beyond = across.end <= 0 || across.first >= item.in_width || down.end <= 0 || down.first >= item.in_height;
    part.outside = part.contiguous && beyond && image.row.fill.v >= 0.0f;
    if (part.outside) return part;
    const int left = across.first & ~3, top = down.first, before = kind == 2 ? 1 : 0;
    part.from = image.in + (Address)(top * item.in_strides[2] + left * CHANNELS);
    part.across = (across.end - left + 3) / 4, part.tall = down.end - top;
    part.fours = span_of(max(-left, 0) / 4, min((item.in_width - left) >> 2, part.across));
    part.lines = span_of(max(-top, 0), min(item.in_height - top, part.tall));
    // some times 32 words and 8 or 24: so pixels that neighbors are made of are seldom in one bank, however they are turned
    part.pitch = ((4 * part.across + 7) & ~15) + 8;
    part.corner = (LIFTED + before + top) * part.pitch + LIFTED + before + left;
    part.left = left, part.top = top, part.lift = LIFT;
    part.fits = (long long)part.pitch * part.tall <= ROOM;
    part.words = image.in % WORD == 0 && item.in_strides[2] % WORD == 0;
    return part;
}
