// Unchanged pixels, several at a time where neighbors stay neighbors. A skeleton's `make(image, y, x)` moves one; its
// `RunSource(image)` states whether an image is copied `by_runs`: then `fetch(image, source, y, x, run)` reads the source of a run of
// pixels in a row; it returns false if they are not contiguous.
#if CHANNELS
__device__ __forceinline__ void move(const Image& image, const RunSource& source, unsigned first) {
    unsigned y = first / image.item.width, x = first % image.item.width;
    Run run;
    if (x + RUN <= image.item.width && fetch(image, source, y, x, run)) {
        unsigned* out = (unsigned*)(image.out + (Address)first * PIXEL);
#pragma unroll
        for (int k = 0; k < WORDS; k++) out[k] = run.words[k];
        return;
    }
#pragma unroll 1
    for (int k = 0; k < RUN; k++) {
        make(image, y, x);
        if (++x == image.item.width) x = 0, y++;
    }
}
#endif

KERNEL(4, each) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image found = image_of(job, number);
    OwnItem item = found.item;
    OwnRow row = found.row;
    const Image image = {item, row, found.in, found.out};
    const unsigned width = item.width, pixels = width * item.height, step = gridDim.x * THREADS;
    const unsigned thread = blockIdx.x * THREADS + threadIdx.x;
    unsigned before = 0, moved = 0;  // pixels before the first whole word, and those of the runs that follow
#if CHANNELS
    const RunSource source(image);
    if (source.by_runs && packed(item.in_strides) && packed(item.out_strides) &&
        item.out_strides[2] == (long long)width * PIXEL) {
        while (before < 4 && (image.out + before * PIXEL) % sizeof(unsigned)) before++;
        if (before < 4 && before < pixels) moved = (pixels - before) / RUN * RUN;
        for (unsigned k = thread; k < moved / RUN; k += step) move(image, source, before + k * RUN);
    }
#endif
    for (unsigned k = thread; k < pixels - moved; k += step) {
        const unsigned pixel = k < before || moved == 0 ? k : k + moved;
        make(image, pixel / width, pixel % width);
    }
}
