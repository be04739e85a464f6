/* The windows of random resized crops, of the random words of each sample: what _crop_windows.py draws one by one. Every
   step is rounded as Python rounds it, and exp is that of the same library. */

#include <math.h>
#include <stdint.h>

static double number(uint64_t word) { return (double)(word >> 11) * 0x1p-53; }

/* A whole number below a count, of half a word; -1 where another half would have to be drawn. */
static int64_t below(int64_t count, uint64_t half) {
    uint64_t product = (half & UINT32_MAX) * (uint64_t)count;
    return (product & UINT32_MAX) < (UINT64_C(1) << 32) % (uint64_t)count ? -1 : (int64_t)(product >> 32);
}

/* Left, top, columns and rows of a window for each sample, which has `each` words; 0 columns where these are not enough
   or no attempt fits. Returns how many samples that is so for. */
int64_t seqpipe_crop_windows(const uint64_t *words, int64_t samples, int64_t each, int64_t height, int64_t width,
                             double least_area, double more_area, double least_log, double more_log, int64_t attempts,
                             int64_t *out) {
    int64_t missing = 0;
    for (int64_t sample = 0; sample < samples; sample++, words += each, out += 4) {
        out[2] = 0;
        for (int64_t attempt = 0; attempt < attempts && 2 * attempt + 2 < each; attempt++) {
            const uint64_t *word = words + 2 * attempt;
            double area = (double)(height * width) * (least_area + more_area * number(word[0]));
            double ratio = exp(least_log + more_log * number(word[1]));
            double columns = rint(sqrt(area * ratio)), rows = rint(sqrt(area / ratio));
            if (!(0 < columns && columns <= (double)width && 0 < rows && rows <= (double)height))
                continue;
            /* where there is but one place, nothing is drawn */
            int64_t across = width - (int64_t)columns + 1, down = height - (int64_t)rows + 1;
            int64_t left = across > 1 ? below(across, word[2]) : 0;
            int64_t top = down > 1 ? below(down, across > 1 ? word[2] >> 32 : word[2]) : 0;
            if (left >= 0 && top >= 0) {
                out[0] = left;
                out[1] = top;
                out[2] = (int64_t)columns;
                out[3] = (int64_t)rows;
            }
            break;
        }
        missing += out[2] == 0;
    }
    return missing;
}
