// One-hot encoding: for each label and class, whether they are equal. For `row.inner` labels the classes follow one another;
// after the last class come the next labels. A thread writes 16 bytes.
//
// LABEL  type of labels: 0 to 3 without a sign, of 1, 2, 4 and 8 bytes; 4 to 7 with one
template <int TYPE> struct Labels;
template <> struct Labels<0> { typedef unsigned char T; };
template <> struct Labels<1> { typedef unsigned short T; };
template <> struct Labels<2> { typedef unsigned T; };
template <> struct Labels<3> { typedef unsigned long long T; };
template <> struct Labels<4> { typedef signed char T; };
template <> struct Labels<5> { typedef short T; };
template <> struct Labels<6> { typedef int T; };
template <> struct Labels<7> { typedef long long T; };

constexpr int MANY = 16 / ELEMENT_BYTES;
static_assert(TALL == 1 && WIDE % MANY == 0, "results lie in a row, and a block makes some for each thread");

struct __align__(16) Many {
    Element values[MANY];
};

// A label's class; -1 if there is none.
__device__ __forceinline__ int class_of(const Image& image, unsigned label) {
    const long long number = __ldg((const Labels<LABEL>::T*)image.in + label);
    return (Address)number < (Address)image.row.classes ? (int)number : -1;  // less than 0 is more than any
}

__device__ __forceinline__ Element value_of(const int* bits) {
    return (Element)((Address)(unsigned)bits[0] | (Address)(unsigned)bits[1] << 32);
}

KERNEL(4, each) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    const unsigned inner = image.row.inner, results = image.item.width;
    const int classes = image.row.classes, last = image.item.in_width - 1;
    const Element on = value_of(image.row.on), off = value_of(image.row.off);
    for (unsigned group = blockIdx.x * THREADS + threadIdx.x; group * MANY < results; group += gridDim.x * THREADS) {
        const unsigned line = group * MANY / inner;
        unsigned of_line = group * MANY % inner, first = line / classes * inner;
        int of_class = line % classes, own = class_of(image, first + of_line);
        Many made;
#pragma unroll
        for (int k = 0; k < MANY; k++) {
            made.values[k] = own == of_class ? on : off;
            const bool ends = ++of_line == inner;
            if (ends) of_line = 0, of_class++;
            const bool all = ends && of_class == classes;
            if (all) of_class = 0, first += inner;
            if ((all || inner > 1) && k + 1 < MANY) own = class_of(image, min((int)(first + of_line), last));
        }
        if (results - group * MANY >= MANY) {
            ((Many*)image.out)[group] = made;
            continue;
        }
#pragma unroll
        for (int k = 0; k < MANY; k++)
            if (group * MANY + k < results) ((Element*)image.out)[group * MANY + k] = made.values[k];
    }
}
