// JPEG compression artifacts. A warp processes two adjacent coded units at a time, independently of other warps: their bytes
// are copied into shared memory during the previous ones; colors are converted to luminance and chrominance there, eight
// threads transform and quantize a block, and the resulting colors replace the bytes. jpeg.py documents the integer steps.
#include "squares.cuh"
#include "copied.cuh"
#include "tile.cuh"
#include "cosine.cuh"

constexpr int LANES = 32, WARPS = THREADS / LANES, WORDS = UNITS * SIDE * 3 / 4, PITCH = WORDS + 2;  // no bank is met twice
static_assert(WARPS * UNITS * SIDE * SIDE == TALL * WIDE, "");

// What threads know of their image. It stands in shared memory, for their registers are few.
struct ImageInfo {
    const Item* item;
    const Row* row;
    Address in, out;
    int in_line, out_line, height, width, last;
    bool in_words, out_words;  // whether lines are whole words
    __device__ __forceinline__ void set(const Image& image) {
        item = &image.item, row = &image.row, in = image.in, out = image.out;
        height = item->height, width = item->width, last = height - 1;
        in_line = (int)item->in_strides[2], out_line = (int)item->out_strides[2];
        in_words = IN == 0 && are_words(in, item->in_strides);
        out_words = IN == 0 && OUT == 0 && are_words(out, item->out_strides);
    }
    __device__ __forceinline__ bool are_words(Address at, const long long* strides) const {
        const int size = sizeof(unsigned);
        return at % size == 0 && strides[2] % size == 0 && strides[2] == (int)strides[2] && strides[3] == 3 && strides[4] == 1 &&
               width % FOUR == 0;
    }
    __device__ __forceinline__ Image image() const { return {*item, *row, in, out}; }
};

// Where units of an image are that a warp makes at a time.
struct Part {
    int top, left;
    __device__ __forceinline__ Part(const ImageInfo& info, int number) {
        const int across = (info.width + UNITS * SIDE - 1) / (UNITS * SIDE);
        top = number / across * SIDE, left = number % across * (UNITS * SIDE);
    }
    __device__ __forceinline__ Part next(const ImageInfo& info) const {
        Part found = *this;
        found.left += UNITS * SIDE;
        if (found.left >= info.width) found.left = 0, found.top += SIDE;
        return found;
    }
    // How many words a line of the image has for them.
    __device__ __forceinline__ int words(const ImageInfo& info) const { return min(WORDS, (info.width - left) * 3 / 4); }
};
__device__ __forceinline__ int parts_of(const ImageInfo& info) {
    return (info.width + UNITS * SIDE - 1) / (UNITS * SIDE) * ((info.height + SIDE - 1) / SIDE);
}

// What a warp has of shared memory: bytes that are made, and those of the next units that are on their way.
struct WarpMemory {
    Line lines[BLOCKS * BLOCK_LINES];
    unsigned words[2][SIDE * PITCH];
};

// Calls `make(line, word)` for the words that lines have, neighboring threads with neighboring ones: of every FURTHER-th
// line from that one on.
constexpr int TURNS = 3, FURTHER = TURNS * LANES / WORDS, EACH = SIDE / FURTHER;
static_assert(FURTHER * WORDS == TURNS * LANES && EACH * FURTHER == SIDE, "");
template <class Make> __device__ __forceinline__ void for_words(int words, Make make) {
#pragma unroll 1
    for (int turn = 0; turn < TURNS; turn++) {
        const int at = turn * LANES + threadIdx.x % LANES, line = at / WORDS, word = at % WORDS;
        if (word < words) make(line, word);
    }
}

// The values of a line that a thread has where lines are no whole words: how far each is from the line's first one. Of
// what is beside the image, as the last pixel's.
struct Values {
    static constexpr int COUNT = WORDS * 4 / LANES;
    Address columns[COUNT];
    static __device__ __forceinline__ int number(int k) { return k * LANES + threadIdx.x % LANES; }
    __device__ __forceinline__ Values(const Part& part, const long long* strides, int width) {
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            columns[k] = (Address)(min(part.left + number(k) / 3, width - 1) * strides[3] + number(k) % 3 * strides[4]);
    }
};

// Asks for the bytes of units. Beyond the image its last lines come again; what is beside it, `complete` finds.
__device__ __forceinline__ void prefetch(const ImageInfo& info, const Part& part, unsigned* to) {
    if (info.in_words) {
        const int step = info.in_line, last = info.last;
        const Address begin = info.in + (Address)((long long)part.top * step + part.left * 3);
        const bool inside = part.top + SIDE <= info.height;
        for_words(part.words(info), [&](int line, int word) {
            unsigned* own = to + line * PITCH + word;
            if (inside) {
                Address from = begin + (Address)((long long)line * step + word * 4);
#pragma unroll
                for (int k = 0; k < EACH; k++, own += FURTHER * PITCH, from += (Address)((long long)FURTHER * step))
                    copy_async(own, from);
            } else {
#pragma unroll 1
                for (; line < SIDE; line += FURTHER, own += FURTHER * PITCH)
                    copy_async(own, begin + (Address)((long long)min(line, last - part.top) * step + word * 4));
            }
        });
        return;
    }
    const Image image = info.image();
    const Values own(part, image.item.in_strides, info.width);
    const Real scale = image.row.scale;
#pragma unroll 1
    for (int line = 0; line < SIDE; line++, to += PITCH) {
        const Address from = image.from(min(part.top + line, info.last), 0);
#pragma unroll
        for (int k = 0; k < own.COUNT; k++)
            ((unsigned char*)to)[own.number(k)] = (unsigned char)stored<0>(load<IN>(from + own.columns[k]) * scale);
    }
}

// Waits for them, and puts the last pixel of each line beside it.
__device__ __forceinline__ void complete(const ImageInfo& info, const Part& part, unsigned* words) {
    wait_for_copies();
    __syncwarp();
    const int count = part.words(info);
    if (!info.in_words || count == WORDS) return;
    unsigned* const line = words + threadIdx.x % SIDE * PITCH;
    const unsigned color = line[count - 1] >> 8;
    __syncwarp();
#pragma unroll 1
    for (int k = count; k < WORDS; k += 3)
        line[k] = color | color << 24, line[k + 1] = color >> 8 | color << 16, line[k + 2] = color >> 16 | color << 8;
    __syncwarp();
}

// Luminance and differences of a unit: those of lines beyond the image are the last ones of each plane, in its own size.
__device__ __forceinline__ void load_unit(const ImageInfo& info, int top, const unsigned* words, int unit, Line* lines) {
    const Place place;
    const unsigned* const own = words + place.y * PITCH + place.x * 3 / 4;
    const Squares squares(own, PITCH);
    squares.put_luminance(lines + place.luminance_line(unit), place.luminance_column());
    lines += place.difference_line(unit);
    const int beyond = max(0, top + place.y - info.last / 2 * 2);
    if (!beyond) return squares.put_differences(lines, place.difference_column());
    Squares(own - beyond * PITCH, PITCH).put_differences(lines, place.difference_column());
}

// Writes the results of a part.
__device__ __forceinline__ void store_part(const ImageInfo& info, const Part& part, const unsigned* words) {
    if (info.out_words) {
        const int step = info.out_line, lines = info.height - part.top;
        const Address begin = info.out + (Address)((long long)part.top * step + part.left * 3);
        for_words(part.words(info), [&](int line, int word) {
            const unsigned* const own = words + line * PITCH + word;
            Address to = begin + (Address)((long long)line * step + word * 4);
            unsigned found[EACH];
#pragma unroll
            for (int k = 0; k < EACH; k++) found[k] = own[k * FURTHER * PITCH];
#pragma unroll
            for (int k = 0; k < EACH; k++, to += (Address)((long long)FURTHER * step))
                if (line + k * FURTHER < lines) *(unsigned*)to = found[k];
        });
        return;
    }
    const Image image = info.image();
    const Values own(part, image.item.out_strides, info.width);
    const Real scale = image.row.scale;
    const int count = (info.width - part.left) * 3;
#pragma unroll 1
    for (int line = 0; line < min(SIDE, info.height - part.top); line++, words += PITCH) {
        const Address to = image.to(part.top + line, 0);
#pragma unroll
        for (int k = 0; k < own.COUNT; k++)
            if (own.number(k) < count)
                store<OUT>(to + own.columns[k], Real((float)((const unsigned char*)words)[own.number(k)]) / scale);
    }
}

// All parts of an image: each warp has consecutive ones, as many as the others or one more.
__device__ __forceinline__ void make(const ImageInfo& info, const Steps& steps, WarpMemory& memory) {
    const int warps = gridDim.x * WARPS, warp = blockIdx.x * WARPS + threadIdx.x / LANES;
    const int each = parts_of(info) / warps, more = parts_of(info) % warps;
    int rest = warp < more ? each + 1 : each;
    if (rest == 0) return;
    int turn = 0;
    Part part(info, warp * each + min(warp, more));
    prefetch(info, part, memory.words[0]);
#pragma unroll 1
    for (; rest > 0; rest--, part = part.next(info), turn ^= 1) {
        unsigned* const words = memory.words[turn];
        complete(info, part, words);
        if (rest > 1) prefetch(info, part.next(info), memory.words[turn ^ 1]);
#pragma unroll 1
        for (int unit = 0; unit < UNITS; unit++)
            load_unit(info, part.top, words + unit * (WORDS / UNITS), unit, memory.lines);
        __syncwarp();
#pragma unroll 1
        for (int block = 0; block < BLOCKS; block += LANES / 8)
            quantize(steps.steps[block / (UNITS * 4)], memory.lines + (block + threadIdx.x % LANES / 8) * BLOCK_LINES);
        __syncwarp();
#pragma unroll 1
        for (int unit = 0; unit < UNITS; unit++) {
            const Place place;
            put_colors(memory.lines, place, unit, words + unit * (WORDS / UNITS) + place.y * PITCH + place.x * 3 / 4, PITCH);
        }
        __syncwarp();
        store_part(info, part, words);
        __syncwarp();
    }
}

// What is given, as it is.
__device__ __forceinline__ void copy(const Image& image, const Tile& tile) {
    for (int e = threadIdx.x; e < TALL * WIDE; e += THREADS) {
        const int y = tile.top + e / WIDE, x = tile.left + e % WIDE;
        if (y >= image.item.height || x >= image.item.width) continue;
        const Address in = image.from(y, x), out = image.to(y, x);
#pragma unroll 1
        for (int channel = 0; channel < 3; channel++)
            store<OUT>(out + (Address)(channel * image.item.out_strides[4]),
                       load<IN>(in + (Address)(channel * image.item.in_strides[4])));
    }
}

KERNEL(4, each) {
    __shared__ Steps steps;
    __shared__ WarpMemory memory[WARPS];
    __shared__ ImageInfo info;
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (image.row.acts) {
        if (threadIdx.x == 0) info.set(image);
        steps.set(image.row);
        return make(info, steps, memory[threadIdx.x / LANES]);
    }
    for (int place = blockIdx.x; place < tiles_of(image.item); place += gridDim.x) copy(image, tile_of(image.item, place));
}
