// Bytes that a map only shifts, by whole pixels. They are copied: of all taps, one has the weight 1, the others 0.
#if CHANNELS && IN == 0 && OUT == 0
constexpr int WORD = sizeof(unsigned);
constexpr float FAR = 4194304.0f;  // up to which float32 has the halves that centres of pixels are at

__device__ __forceinline__ bool is_whole(Real way) { return floorf(way.v) == way.v && fabsf(way.v) < FAR; }

// Whether it does, and its rows are made of whole words.
__device__ __forceinline__ bool is_shifted(const Image& image) {
    const Real* const m = image.row.matrix;
    const long long *in = image.item.in_strides, *out = image.item.out_strides;
    const bool shifts = m[0].v == 1.0f && m[1].v == 0.0f && m[3].v == 0.0f && m[4].v == 1.0f && m[6].v == 0.0f &&
                        m[7].v == 0.0f && m[8].v == 1.0f && is_whole(m[2]) && is_whole(m[5]);
    return shifts && in[4] == 1 && in[3] == CHANNELS && out[4] == 1 && out[3] == CHANNELS &&
           out[2] % WORD == 0 && image.out % WORD == 0 && max(image.item.width, image.item.in_width) < FAR;
}

// The bytes from place `first` of a line on, some of which are beyond its ends; `left` is the pixel that place 0 is of.
__device__ __forceinline__ unsigned taken_one_by_one(Address line, int left, int first, int width, bool repeats, unsigned fill) {
    unsigned word = 0;
#pragma unroll
    for (int k = 0; k < WORD; k++) {
        const int pixel = left + (first + k) / CHANNELS, channel = (first + k) % CHANNELS;
        const bool known = repeats || is_inside(pixel, width);
        const Address from = line + (Address)(limited(pixel, width) * CHANNELS + channel);
        word |= (known ? __ldg((const unsigned char*)from) : fill) << 8 * k;
    }
    return word;
}

// The tile of a block, a word at a time.
__device__ __forceinline__ void shift(const Image& image, Tile tile) {
    constexpr int WORDS = WIDE * CHANNELS / WORD;  // of a whole tile's line
    const Row& row = image.row;
    const int width = image.item.in_width, height = image.item.in_height, bytes = tile.wide * CHANNELS;
    const int left = tile.left + (int)row.matrix[2].v, top = tile.top + (int)row.matrix[5].v;
    const bool repeats = row.fill.v != row.fill.v;
    const unsigned fill = stored<OUT>(row.fill);
    for (int e = threadIdx.x; e < tile.tall * WORDS; e += THREADS) {
        const int y = e / WORDS, first = e % WORDS * WORD, from = left * CHANNELS + first;
        if (first >= bytes) continue;
        unsigned word = fill * 0x01010101u;
        if (repeats || is_inside(top + y, height)) {
            const Address line = image.from(limited(top + y, height), 0);
            Bytes<WORD> whole;
            if (from >= 0 && from + WORD <= width * CHANNELS)
                whole.read(line + (Address)from), word = whole.words[0];
            else
                word = taken_one_by_one(line, left, first, width, repeats, fill);
        }
        const Address to = image.to(tile.top + y, tile.left) + (Address)first;
        if (first + WORD <= bytes)
            *(unsigned*)to = word;
        else
            for (int k = 0; first + k < bytes; k++) *(unsigned char*)(to + (Address)k) = word >> 8 * k;
    }
}
#else
__device__ __forceinline__ bool is_shifted(const Image&) { return false; }
__device__ __forceinline__ void shift(const Image&, Tile) {}
#endif
