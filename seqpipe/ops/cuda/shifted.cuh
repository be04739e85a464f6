// Bytes that a map only shifts, by whole pixels. They are copied: one tap has the weight 1, all others 0.
#if CHANNELS && IN == 0 && OUT == 0
constexpr int SIDE_BY_SIDE = 16;   // words of a line that are copied at once: a tile has some times as many
constexpr float FAR = 4194304.0f;  // up to which float32 has the halves that centers of pixels are at

__device__ __forceinline__ bool is_whole(Real way) { return floorf(way.v) == way.v && fabsf(way.v) < FAR; }

// Whether it does, and its rows are made of whole words.
__device__ __forceinline__ bool is_shifted(const Image& image) {
    const Real* const m = image.row.matrix;
    const long long *in = image.item.in_strides, *out = image.item.out_strides;
    const bool shifts = m[0].v == 1.0f && m[1].v == 0.0f && m[3].v == 0.0f && m[4].v == 1.0f && m[6].v == 0.0f &&
                        m[7].v == 0.0f && m[8].v == 1.0f && is_whole(m[2]) && is_whole(m[5]);
    return shifts && in[4] == 1 && in[3] == CHANNELS && out[4] == 1 && out[3] == CHANNELS &&
           out[2] % WORD == 0 && image.out % WORD == 0 && image.item.width * CHANNELS % WORD == 0 &&
           max(image.item.width, image.item.in_width) < FAR;
}

// A word of each of some lines of a tile, byte by byte: some are beyond the image.
__device__ __forceinline__ void shift_bytes(const Image& image, Tile tile, int first, int begin) {
    const Row& row = image.row;
    const int width = image.item.in_width, height = image.item.in_height;
    const bool repeats = row.fill.v != row.fill.v;
#pragma unroll 1
    for (int y = begin; y < tile.tall; y += THREADS / SIDE_BY_SIDE) {
        const int line = tile.top + y + (int)row.matrix[5].v;
#pragma unroll 1
        for (int byte = first; byte < first + WORD; byte++) {
            const int pixel = tile.left + byte / CHANNELS, from = pixel + (int)row.matrix[2].v;
            const Address at = image.from(limited(line, height), limited(from, width)) + (Address)(byte % CHANNELS);
            const bool known = repeats || (is_inside(line, height) && is_inside(from, width));
            const Address to = image.to(tile.top + y, pixel) + (Address)(byte % CHANNELS);
            *(unsigned char*)to = known ? __ldg((const unsigned char*)at) : stored<OUT>(row.fill);
        }
    }
}

// The tile of a block. A thread has the same words of some lines: what it knows of them it finds once, and it asks for those
// of several lines before the first one is written.
__device__ __forceinline__ void shift(const Image& image, Tile tile) {
    constexpr int COLUMNS = WIDE * CHANNELS / WORD / SIDE_BY_SIDE, LINES = 2, ROWS = THREADS / SIDE_BY_SIDE;
    static_assert(WIDE * CHANNELS / WORD % SIDE_BY_SIDE == 0, "some would be left");
    const Row& row = image.row;
    const long long pitch = image.item.in_strides[2], out_pitch = image.item.out_strides[2];
    const int width = image.item.in_width, height = image.item.in_height, bytes = tile.wide * CHANNELS;
    const int left = tile.left + (int)row.matrix[2].v, top = tile.top + (int)row.matrix[5].v;
    const int first = threadIdx.x % SIDE_BY_SIDE * WORD, from = left * CHANNELS + first, begin = threadIdx.x / SIDE_BY_SIDE;
    const bool repeats = row.fill.v != row.fill.v;
    const unsigned fill = stored<OUT>(row.fill);
    const Address to = image.to(tile.top, tile.left) + (Address)first;
    unsigned whole = 0, outside = 0, others = 0;  // a bit for each word of a line
#pragma unroll
    for (int k = 0, step = 0; k < COLUMNS; k++, step += SIDE_BY_SIDE * WORD) {
        const bool beyond = from + step + WORD <= 0 || from + step >= width * CHANNELS;
        if (first + step >= bytes) break;
        if (from + step >= 0 && from + step + WORD <= width * CHANNELS)
            whole |= 1u << k;
        else if (beyond && !repeats)
            outside |= 1u << k;
        else
            others |= 1u << k;
    }
    for (int y = begin; y < tile.tall; y += LINES * ROWS) {
        Bytes<WORD> given[LINES][COLUMNS];
#pragma unroll
        for (int line = 0; line < LINES; line++) {
            const Address at = image.in + (Address)(limited(top + y + line * ROWS, height) * pitch + from);
#pragma unroll
            for (int k = 0; k < COLUMNS; k++)
                if (whole >> k & 1) given[line][k].read(at + k * SIDE_BY_SIDE * WORD);
        }
#pragma unroll
        for (int line = 0; line < LINES; line++) {
            const int number = y + line * ROWS;
            if (number >= tile.tall) break;
            const bool known = repeats || is_inside(top + number, height);
#pragma unroll
            for (int k = 0; k < COLUMNS; k++) {
                const unsigned word = known && whole >> k & 1 ? given[line][k].words[0] : fill * 0x01010101u;
                if ((whole | outside) >> k & 1) *(unsigned*)(to + (Address)(number * out_pitch + k * SIDE_BY_SIDE * WORD)) = word;
            }
        }
    }
#pragma unroll 1
    for (int k = 0; others >> k; k++)
        if (others >> k & 1) shift_bytes(image, tile, first + k * SIDE_BY_SIDE * WORD, begin);
}
#else
__device__ __forceinline__ bool is_shifted(const Image&) { return false; }
__device__ __forceinline__ void shift(const Image&, Tile) {}
#endif
