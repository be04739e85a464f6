/* The first of some windows that suits boxes: what _bbox_windows.py looks for in all of them together. Every step is
   rounded as NumPy rounds it. */

#include <stdint.h>

static double greater(double a, double b) { return a > b ? a : b; }
static double lesser(double a, double b) { return a < b ? a : b; }

/* Whether a window, left, top, right and bottom, overlaps enough with a box. */
static int overlaps(const double *box, const double *window, double threshold, int64_t of_both) {
    double across = greater(lesser(box[2], window[2]) - greater(box[0], window[0]), 0);
    double down = greater(lesser(box[3], window[3]) - greater(box[1], window[1]), 0);
    double common = across * down, own = (box[2] - box[0]) * (box[3] - box[1]);
    double whole = of_both ? own + (window[2] - window[0]) * (window[3] - window[1]) - common : own;
    return (whole > 0 ? common / whole : 0) >= threshold;
}

static int is_centered(const double *box, const double *window) {
    double x = (box[0] + box[2]) / 2, y = (box[1] + box[3]) / 2;
    return x >= window[0] && y >= window[1] && x <= window[2] && y <= window[3];
}

/* Whether one box, or each of them, overlaps enough, and one has its center in the window; none suit all windows. */
static int suits(const double *boxes, int64_t count, const double *window, double threshold, int64_t of_both, int64_t each) {
    int64_t overlapping = 0, centered = 0;
    for (int64_t k = 0; k < count; k++) {
        overlapping += overlaps(boxes + 4 * k, window, threshold, of_both);
        centered += is_centered(boxes + 4 * k, window);
    }
    return !count || ((each ? overlapping == count : overlapping > 0) && centered > 0);
}

/* Writes the window, of four numbers from 0 to 1 for each; returns whether there is one. */
int64_t seqpipe_bbox_window(const double *drawn, int64_t windows, const double *boxes, int64_t count, double lo, double hi,
                            double least, double most, double threshold, int64_t of_both, int64_t each, double *out) {
    for (int64_t k = 0; k < windows; k++, drawn += 4) {
        double width = lo + (hi - lo) * drawn[0], height = lo + (hi - lo) * drawn[1];
        if (least == most)
            height = width / least;
        double ratio = width / height;
        if (!(least <= ratio * (1 + 1e-12) && ratio <= most * (1 + 1e-12) && lo <= height && height <= hi))
            continue;
        out[0] = drawn[2] * (1 - width);
        out[1] = drawn[3] * (1 - height);
        out[2] = out[0] + width;
        out[3] = out[1] + height;
        if (suits(boxes, count, out, threshold, of_both, each))
            return 1;
    }
    return 0;
}
