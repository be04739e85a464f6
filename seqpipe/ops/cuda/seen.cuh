// The input lines of a strip in shared memory: they are requested first, and may be used after a wait.
#include "strip.cuh"
#include "copied.cuh"

// The number of lines of so many bytes that are loaded at a time, so that the memory of a warp suffices.
__device__ constexpr int rows_of(int bytes) { return 8 * bytes <= BYTES ? 8 : 4 * bytes <= BYTES ? 4 : 2; }

// The input of a strip of WIDTH values: ROWS lines, with LEAD values before it, which are whole words, and REACH behind it.
// BESIDE threads load a line; lines are PITCH words apart.
template <int ROWS, int LEAD, int REACH, int WIDTH = STRIP, int BESIDE = LANES / ROWS, int APART = 0> struct Seen {
    static constexpr int COUNT = (LEAD + WIDTH + REACH + EACH - 1) / EACH, PITCH = APART ? APART : COUNT | 1;
    static constexpr int AT_ONCE = LANES / BESIDE;  // lines

    unsigned words[ROWS * PITCH];

    __device__ __forceinline__ const unsigned* line(int number) const { return words + number * PITCH; }

    // Requests lines from `line` on. All threads must have finished with the lines before.
    __device__ __forceinline__ void prefetch(const ImageInfo& info, const Strip& strip, int line) {
        if (!info.aligned) return;
        const int y = threadIdx.x % LANES / BESIDE, x = threadIdx.x % BESIDE, begin = strip.left - LEAD;
        const int length = info.input.length;
        unsigned* to = words + y * PITCH + x;
        // a thread with few words of a line determines once, for all lines, which of them exist
        constexpr bool FEW = COUNT <= 4 * BESIDE;
        if (line >= 0 && line + ROWS <= info.height && (FEW || (begin >= 0 && begin + COUNT * EACH <= length))) {
            Address start = info.input.contiguous_at(strip.channel, line + y, begin + x * EACH);
            const Address step = AT_ONCE * info.input.line;
            const unsigned before = FEW ? max(0, -begin) / EACH : 0, there = FEW ? (length - begin) / EACH - before : COUNT;
#pragma unroll
            for (int k = 0; k < ROWS; k += AT_ONCE, to += AT_ONCE * PITCH, start += step)
#pragma unroll
                for (int e = 0; e < COUNT; e += BESIDE)
                    if ((e + BESIDE <= COUNT || e + x < COUNT) && (!FEW || e + x - before < there))
                        copy_async(to + e, start + (Address)(e * 4));
            return;
        }
#pragma unroll 1
        for (int k = y; k < ROWS; k += AT_ONCE, to += AT_ONCE * PITCH) {
            const int from = bordered(line + k, info.height, info.border);
            const Address start = info.input.contiguous_at(strip.channel, max(from, 0), begin + x * EACH);
#pragma unroll
            for (int e = 0; e < COUNT; e += BESIDE)
                if (from >= 0 && begin + (e + x) * EACH >= 0 && e + x < min(COUNT, (length - begin) / EACH))
                    copy_async(to + e, start + (Address)(e * 4));
        }
    }

    // Waits for them, and fills in values beyond the border, and all values of unaligned images.
    __device__ __forceinline__ void wait(const ImageInfo& info, const Strip& strip, int line) {
        wait_for_copies();
        __syncwarp();
        const int begin = strip.left - LEAD, length = info.input.length, end = min(strip.left + WIDTH, length) + REACH;
        const bool filled = info.border == CONSTANT && (line < 0 || line + ROWS > info.height);
        if (info.aligned && begin >= 0 && end <= length && !filled) return;
        if (info.aligned && !filled)
            fill_margins(info, strip, line, max(0, -begin), max(0, end - length));
        else
            load_unaligned(info, strip, line, end);
        __syncwarp();
    }

    // The index of the value that a line shows at `number`, which may be beyond the border; -1 for the fill value.
    static __device__ __forceinline__ int source_of(const ImageInfo& info, int number) {
        constexpr int FAR = 1024;  // pixels, so that there are no negative numbers
        if (number >= 0 && number < info.input.length) return number;
        const unsigned far = number + FAR * STEP;
        const int column = bordered((int)(far / STEP) - FAR, info.width, info.border);
        return column < 0 ? -1 : column * STEP + (int)(far % STEP);
    }

    // Fills in `before` and `behind` values on both sides of lines whose words are loaded; their sources mostly are, too.
    __device__ __forceinline__ void fill_margins(const ImageInfo& info, const Strip& strip, int line, int before, int behind) {
        const int begin = strip.left - LEAD;
#pragma unroll 1
        for (int e = threadIdx.x % LANES; e < before + behind; e += LANES) {
            const int number = e < before ? begin + e : info.input.length + e - before;
            const int at = source_of(info, number);
            SharedValue* const to = (SharedValue*)words + (number - begin);
            if (at >= max(begin, 0) && at < begin + COUNT * EACH) {
                SharedValue values[ROWS];
#pragma unroll
                for (int k = 0; k < ROWS; k++) values[k] = to[k * PITCH * EACH + at - number];
#pragma unroll
                for (int k = 0; k < ROWS; k++) to[k * PITCH * EACH] = values[k];
            } else {
#pragma unroll 1
                for (int k = 0; k < ROWS; k++)
                    to[k * PITCH * EACH] = input_at(info, strip, bordered(line + k, info.height, info.border), at);
            }
        }
    }

    // Loads all values of all lines one by one.
    __device__ __forceinline__ void load_unaligned(const ImageInfo& info, const Strip& strip, int line, int end) {
        const int begin = strip.left - LEAD;
#pragma unroll 1
        for (int k = threadIdx.x % LANES / BESIDE; k < ROWS; k += AT_ONCE) {
            const int from = bordered(line + k, info.height, info.border);
            SharedValue* const to = (SharedValue*)(words + k * PITCH);
#pragma unroll 1
            for (int number = begin + (int)threadIdx.x % BESIDE; number < end; number += BESIDE)
                to[number - begin] = input_at(info, strip, from, from < 0 ? -1 : source_of(info, number));
        }
    }
    static __device__ __forceinline__ SharedValue input_at(const ImageInfo& info, const Strip& strip, int from, int at) {
        if (from < 0 || at < 0) return shared_value(info.beyond);
        return shared_value(load<IN>(info.input.at(strip.channel, from, at)));
    }
};
