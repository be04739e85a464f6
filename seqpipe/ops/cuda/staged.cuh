// Interpolates bytes in shared memory, into which a block has copied the source of its pixels, a word for each pixel:
// neighbors of the result are on many lines of the source, each of which would otherwise be a separate memory access.
// Outside the image the copy contains the border's values, so that no pixel has to test for it.
#if IN == 0 && CHANNELS >= 1 && CHANNELS <= 4
#include "part.cuh"

// Four pixels beside each other as a word for each, out of the words that hold them. WORDS: they begin with a word.
struct __align__(16) Four {
    unsigned pixels[4];
};
template <bool WORDS> struct FourPixels {
    Bytes<4 * CHANNELS> bytes;
    __device__ __forceinline__ void read(Address from) {
        if constexpr (WORDS) {
#pragma unroll
            for (int k = 0; k < CHANNELS; k++) bytes.words[k] = __ldg((const unsigned*)from + k);
        } else {
            bytes.read(from);
        }
    }
    __device__ __forceinline__ Four spread() const {
        Four four;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int word = k * CHANNELS / 4, behind = word + 1 < CHANNELS ? word + 1 : word;
            four.pixels[k] = __funnelshift_r(bytes.words[word], bytes.words[behind], 8 * (k * CHANNELS % 4));
        }
        return four;
    }
};

// The same where some are outside of the image.
__device__ __forceinline__ void copy_edge(const Image& image, int y, int x, unsigned* to) {
    const bool repeats = image.row.fill.v != image.row.fill.v;
    const int height = image.item.in_height, width = image.item.in_width;
    const unsigned fill = repeats ? 0 : (unsigned)image.row.fill.v * 0x01010101u;
    if (!repeats && (!is_inside(y, height) || x + 4 <= 0 || x >= width)) {
        *(Four*)to = {{fill, fill, fill, fill}};
        return;
    }
    const Address line = image.from(limited(y, height), 0);
#pragma unroll 1
    for (int k = 0; k < 4; k++, x++) {
        unsigned pixel = fill;
        if (repeats || is_inside(x, width)) {
            const unsigned char* at = (const unsigned char*)(line + (Address)(limited(x, width) * CHANNELS));
            pixel = __ldg(at);
#pragma unroll
            for (int channel = 1; channel < CHANNELS; channel++) pixel |= (unsigned)__ldg(at + channel) << 8 * channel;
        }
        to[k] = pixel;
    }
}

constexpr int COPIERS = 8;  // threads that copy a line

// Copies a part. Some threads have a line, and ask for several pixels of it before they write one.
template <bool WORDS, int AT_ONCE> __device__ __forceinline__ void copy_part(const Image& image, const Part& part, unsigned* room) {
    constexpr int LINES = THREADS / COPIERS;
    const int begin = threadIdx.x / COPIERS, tall = part.tall, pitch = part.pitch, across = part.across;
    const long long step = image.item.in_strides[2];
    const Span lines = part.lines;
#pragma unroll 1
    for (int four = threadIdx.x % COPIERS; four < across; four += AT_ONCE * COPIERS) {
        Address from = part.from + (Address)(begin * step + four * 4 * CHANNELS);
        unsigned* to = room + begin * pitch + 4 * four;
        bool known[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) known[k] = part.fours.has(four + k * COPIERS);
#pragma unroll 1
        for (int y = begin; y < tall; y += LINES, from += (Address)(LINES * step), to += LINES * pitch) {
            FourPixels<WORDS> taken[AT_ONCE];
            const bool inside = lines.has(y);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (inside && known[k]) taken[k].read(from + k * COPIERS * 4 * CHANNELS);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int x = four + k * COPIERS;
                if (inside && known[k])
                    *(Four*)(to + k * COPIERS * 4) = taken[k].spread();
                else if (x < across)
                    copy_edge(image, part.top + y, part.left + 4 * x, to + k * COPIERS * 4);
            }
        }
    }
}

// Some taps of a line that is copied.
template <int COUNT> struct Line {
    unsigned words[COUNT];
    __device__ __forceinline__ explicit Line(const unsigned* from) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) words[i] = from[i];
    }
    __device__ __forceinline__ Real sum(const Weight (&weights)[COUNT], int channel, unsigned lift) const {
        Real sum = weights[0].times(words[0], channel, lift);
#pragma unroll
        for (int i = 1; i < COUNT; i++) sum = sum + weights[i].times(words[i], channel, lift);
        return sum;
    }
};

// The weights of taps, of which it is known on which side of 1 and 2 their distances are: there both forms of `cubic` are 0.
__device__ __forceinline__ Real near_weight(Real u) { return (Real(1.5f) * u - Real(2.5f)) * u * u + Real(1.0f); }
__device__ __forceinline__ Real far_weight(Real u) {
    return ((Real(2.5f) - Real(0.5f) * u) * u - Real(4.0f)) * u + Real(2.0f);
}
template <int COUNT> __device__ __forceinline__ Real weight_at(Real part, int number) {
    if constexpr (COUNT == 2) return number ? part : Real(1.0f) - part;
    const Real u = number == 0 ? part + Real(1.0f) : number == 1 ? part : Real((float)(number - 1)) - part;
    return number == 1 || number == 2 ? near_weight(u) : far_weight(u);
}

// The values of a pixel whose first taps are at `from`.
template <int KIND>
__device__ __forceinline__ void weigh_staged(const unsigned* from, int pitch, unsigned lift, Real across, Real down, Real* values) {
    constexpr int COUNT = 2 * KIND;
    Weight weights[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) weights[i] = Weight(weight_at<COUNT>(across, i));
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        const Line<COUNT> taps(from + j * pitch);
        const Real weight = weight_at<COUNT>(down, j);
#pragma unroll
        for (int k = 0; k < CHANNELS; k++) {
            const Real share = weight * taps.sum(weights, k, lift);
            values[k] = j ? values[k] + share : share;
        }
    }
}

// A value as it is stored. Bytes of linear interpolation are within their range: they are rounded by a sum.
template <int KIND> __device__ __forceinline__ Result result_of(Real value) {
    if constexpr (OUT == 0 && KIND == 1) return (Result)__float_as_uint((value + Real(12582912.0f)).v);
    return stored<OUT>(value + Real(0.0f));  // sums that begin at 0 are never -0
}

// Makes pixels of a thread in a line. FLAT: the map has no perspective.
template <int KIND, bool FLAT>
__device__ __forceinline__ void make_line(
    const Real* m, const Part& part, const unsigned* room, int x, int end, int y, Result* to) {
    const int pitch = part.pitch;
    const unsigned lift = part.lift, corner = part.corner;
    const Real line = (float)y + 0.5f;
    Real column = (float)x + 0.5f;
#pragma unroll 1
    for (; x < end; x += BROAD, column = column + Real((float)BROAD), to += BROAD * CHANNELS) {
        Real from_x = sum_at(m, column, line), from_y = sum_at(m + 3, column, line);
        if (!FLAT) {
            const Real divisor = sum_at(m + 6, column, line), part = reciprocal(divisor);
            from_x = quotient(from_x, divisor, part), from_y = quotient(from_y, divisor, part);
        }
        const Floor across = floor_of(from_x, KIND), down = floor_of(from_y, KIND);
        const unsigned* from = room + (int)(down.bits * pitch + across.bits - corner);
        if constexpr (KIND == 0) {
#pragma unroll
            for (int k = 0; k < CHANNELS; k++) to[k] = OUT ? stored<OUT>(byte_of(*from, k)) : (Result)(*from >> 8 * k);
        } else {
            Real values[CHANNELS];
            weigh_staged<KIND>(from, pitch, lift, across.part, down.part, values);
#pragma unroll
            for (int k = 0; k < CHANNELS; k++) to[k] = result_of<KIND>(values[k]);
        }
    }
}

// Writes the bytes of some lines, which a warp has laid together: memory takes a byte as long as a word.
__device__ __forceinline__ void write_lines(Address to, long long step, int lines, int words, const unsigned char* results) {
    constexpr int LINE = WIDE * CHANNELS / WORD, TIMES = (LINE + LANES - 1) / LANES;
    const int lane = threadIdx.x % LANES;
    const unsigned* const from = (const unsigned*)results + lane;
    Address at = to + (Address)(lane * WORD);
#pragma unroll
    for (int line = 0; line < HIGH; line++, at += (Address)step) {
#pragma unroll
        for (int k = 0; k < TIMES; k++) {
            if (line >= lines || lane + k * LANES >= words) continue;
            *(unsigned*)(at + (Address)(k * LANES * WORD)) = from[line * LINE + k * LANES];
        }
    }
}

// Writes the bytes of a tile that is outside of the image.
__device__ __forceinline__ void fill_tile(const Image& image, Tile tile, Address to) {
    const unsigned word = (unsigned)image.row.fill.v * 0x01010101u;
    for (int line = threadIdx.x / LANES; line < tile.tall; line += THREADS / LANES)
        for (int k = threadIdx.x % LANES; k < tile.wide * CHANNELS / WORD; k += LANES)
            *(unsigned*)(to + (Address)(line * image.item.out_strides[2] + k * WORD)) = word;
}

// Makes the pixels of a tile whose part is copied, some lines after the others.
template <int KIND, bool FLAT> __device__ __forceinline__ void make_lines(const Image& image, Tile tile, Staged& staged) {
    constexpr int LINES = THREADS / LANES * HIGH;
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES * HIGH, row = lane / BROAD, x = tile.left + lane % BROAD;
    const bool contiguous = staged.part.contiguous;
    const long long step = image.item.out_strides[2];
    unsigned char* const results = staged.results + warp * (WIDE * CHANNELS);
    Address to = staged.part.to + (Address)(warp * step);
    Real m[FLAT ? 6 : 9];
#pragma unroll
    for (int k = 0; k < (FLAT ? 6 : 9); k++) m[k] = image.row.matrix[k];
#pragma unroll 1
    for (int first = warp; first < tile.tall; first += LINES, to += (Address)(LINES * step)) {
        const int end = first + row < tile.tall ? tile.left + tile.wide : 0;
        const Address own = to + (Address)(row * step) + (Address)(lane % BROAD * CHANNELS * sizeof(Result));
        Result* const at = contiguous ? (Result*)(results + (row * WIDE + lane % BROAD) * CHANNELS) : (Result*)own;
        make_line<KIND, FLAT>(m, staged.part, staged.room, x, end, tile.top + first + row, at);
        if (contiguous) {
            __syncwarp();
            write_lines(to, step, tile.tall - first, tile.wide * CHANNELS / WORD, results);
            __syncwarp();
        }
    }
}

template <bool FLAT> __device__ __forceinline__ void make_lines(const Image& image, Tile tile, Staged& staged) {
    if (image.row.kind == 0) return make_lines<0, FLAT>(image, tile, staged);
    if (image.row.kind == 1) return make_lines<1, FLAT>(image, tile, staged);
    if constexpr (FLAT) make_lines<2, FLAT>(image, tile, staged);  // else a thread would have too few registers
}

// Makes the pixels of a tile; False if there is no room. All threads of a block must come here.
__device__ __forceinline__ bool make_tile(const Image& image, Tile tile) {
    __shared__ Staged staged;
    if (threadIdx.x == 0) staged.part = part_of(image, tile);
    __syncthreads();
    if (!staged.part.fits) return false;
    if (staged.part.outside) {
        fill_tile(image, tile, staged.part.to);
        return true;
    }
    staged.part.words ? copy_part<true, 3>(image, staged.part, staged.room) : copy_part<false, 1>(image, staged.part, staged.room);
    __syncthreads();
    staged.part.flat ? make_lines<true>(image, tile, staged) : make_lines<false>(image, tile, staged);
    return true;
}
#else
__device__ __forceinline__ bool make_tile(const Image&, Tile) { return false; }
#endif
