// The input lines of a strip in shared memory: they are requested first, and may be used after a wait.
#include "strip.cuh"
#include "copied.cuh"

// How many lines are taken at a time, of so many bytes each, so that all warps have room.
__device__ constexpr int rows_of(int bytes) { return 8 * bytes <= BYTES ? 8 : 4 * bytes <= BYTES ? 4 : 2; }

// What a strip of WIDTH values sees of ROWS lines, LEAD values before it, which are whole words, and REACH beyond it. So
// many threads take a line; lines are PITCH words from one to the next.
template <int ROWS, int LEAD, int REACH, int WIDTH = STRIP, int BESIDE = LANES / ROWS, int APART = 0> struct Seen {
    static constexpr int COUNT = (LEAD + WIDTH + REACH + EACH - 1) / EACH, PITCH = APART ? APART : COUNT | 1;
    static constexpr int AT_ONCE = LANES / BESIDE;  // lines

    unsigned words[ROWS * PITCH];

    __device__ __forceinline__ const unsigned* line(int number) const { return words + number * PITCH; }

    // Asks for lines from `line` on. All threads have done with those before.
    __device__ __forceinline__ void ask(const Known& known, const Strip& strip, int line) {
        if (!known.quick) return;
        const int y = threadIdx.x % LANES / BESIDE, x = threadIdx.x % BESIDE, begin = strip.left - LEAD;
        const int length = known.given.length;
        unsigned* to = words + y * PITCH + x;
        // where a thread has few words of a line, it tells once for all lines which of them there are
        constexpr bool FEW = COUNT <= 4 * BESIDE;
        if (line >= 0 && line + ROWS <= known.height && (FEW || (begin >= 0 && begin + COUNT * EACH <= length))) {
            Address start = known.given.beside_at(strip.channel, line + y, begin + x * EACH);
            const Address step = AT_ONCE * known.given.line;
            const unsigned before = FEW ? max(0, -begin) / EACH : 0, there = FEW ? (length - begin) / EACH - before : COUNT;
#pragma unroll
            for (int k = 0; k < ROWS; k += AT_ONCE, to += AT_ONCE * PITCH, start += step)
#pragma unroll
                for (int e = 0; e < COUNT; e += BESIDE)
                    if ((e + BESIDE <= COUNT || e + x < COUNT) && (!FEW || e + x - before < there))
                        copy_word(to + e, start + (Address)(e * 4));
            return;
        }
#pragma unroll 1
        for (int k = y; k < ROWS; k += AT_ONCE, to += AT_ONCE * PITCH) {
            const int from = bordered(line + k, known.height, known.border);
            const Address start = known.given.beside_at(strip.channel, max(from, 0), begin + x * EACH);
#pragma unroll
            for (int e = 0; e < COUNT; e += BESIDE)
                if (from >= 0 && begin + (e + x) * EACH >= 0 && e + x < min(COUNT, (length - begin) / EACH))
                    copy_word(to + e, start + (Address)(e * 4));
        }
    }

    // Waits for them, and puts in what is beyond the border, and all that does not lie in whole words.
    __device__ __forceinline__ void wait(const Known& known, const Strip& strip, int line) {
        wait_for_words();
        __syncwarp();
        const int begin = strip.left - LEAD, length = known.given.length, end = min(strip.left + WIDTH, length) + REACH;
        const bool filled = known.border == CONSTANT && (line < 0 || line + ROWS > known.height);
        if (known.quick && begin >= 0 && end <= length && !filled) return;
        if (known.quick && !filled)
            put_beside(known, strip, line, max(0, -begin), max(0, end - length));
        else
            put_apart(known, strip, line, end);
        __syncwarp();
    }

    // The value that stands at `number` of a line, -1 for none.
    static __device__ __forceinline__ int source_of(const Known& known, int number) {
        constexpr int FAR = 1024;  // pixels, so that there are no negative numbers
        if (number >= 0 && number < known.given.length) return number;
        const unsigned far = number + FAR * STEP;
        const int column = bordered((int)(far / STEP) - FAR, known.width, known.border);
        return column < 0 ? -1 : column * STEP + (int)(far % STEP);
    }

    // So many values before and behind lines whose words are there; what is on this side of the border mostly is, too.
    __device__ __forceinline__ void put_beside(const Known& known, const Strip& strip, int line, int before, int behind) {
        const int begin = strip.left - LEAD;
#pragma unroll 1
        for (int e = threadIdx.x % LANES; e < before + behind; e += LANES) {
            const int number = e < before ? begin + e : known.given.length + e - before;
            const int at = source_of(known, number);
            One* const to = (One*)words + (number - begin);
            if (at >= max(begin, 0) && at < begin + COUNT * EACH) {
                One values[ROWS];
#pragma unroll
                for (int k = 0; k < ROWS; k++) values[k] = to[k * PITCH * EACH + at - number];
#pragma unroll
                for (int k = 0; k < ROWS; k++) to[k * PITCH * EACH] = values[k];
            } else {
#pragma unroll 1
                for (int k = 0; k < ROWS; k++)
                    to[k * PITCH * EACH] = given(known, strip, bordered(line + k, known.height, known.border), at);
            }
        }
    }

    // All values of all lines.
    __device__ __forceinline__ void put_apart(const Known& known, const Strip& strip, int line, int end) {
        const int begin = strip.left - LEAD;
#pragma unroll 1
        for (int k = threadIdx.x % LANES / BESIDE; k < ROWS; k += AT_ONCE) {
            const int from = bordered(line + k, known.height, known.border);
            One* const to = (One*)(words + k * PITCH);
#pragma unroll 1
            for (int number = begin + (int)threadIdx.x % BESIDE; number < end; number += BESIDE)
                to[number - begin] = given(known, strip, from, from < 0 ? -1 : source_of(known, number));
        }
    }
    static __device__ __forceinline__ One given(const Known& known, const Strip& strip, int from, int at) {
        if (from < 0 || at < 0) return kept_of(known.beyond);
        return kept_of(load<IN>(known.given.at(strip.channel, from, at)));
    }
};
