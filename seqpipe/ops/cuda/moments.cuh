// Mean square of values: of their deviations from their mean, or from 0. An image is a row of input values, and its result as
// many pairs of numbers as it has blocks. First each block reduces its part of the row; then the first one combines the pairs
// and stores the row's result in the first of them.
//
// Deviations are relative to the mean of each part, and combined as by Chan, Golub and LeVeque ("Updating formulae and a
// pairwise algorithm for computing sample variances", 1979), to avoid cancellation. For integers, the sums of a part are
// exact.
#include "block.cuh"

typedef Typed<IN>::T Value;
static_assert(TALL * WIDE == 1, "a block makes one pair");

struct Pair {  // of a part: its sum, and the squares of the distances from its mean, or from 0
    double sum, squares;
};

// Consecutive values of a row.
struct Part {
    int first, count;
};
__device__ __forceinline__ Part part_of(const Item& item, int block) {
    const int values = item.in_width, each = ((values - 1) / item.width + 16) / 16 * 16;
    const int first = min(block * each, values);
    return {first, min(each, values - first)};
}

// Passes the values of a part to `add`: one by one if they have 16 bits or more, bytes as words of up to four.
struct __align__(16) Vector {
    unsigned words[4];
};
template <class Add> __device__ __forceinline__ void visit(unsigned word, Add& add) {
    if constexpr (sizeof(Value) == 1) {
        add(word);
    } else if constexpr (sizeof(Value) == 2) {
        add((Value)(word & 0xffffu));
        add((Value)(word >> 16));
    } else {
        add(__uint_as_float(word));
    }
}
template <class Add> __device__ __forceinline__ void for_values(Address at, int count, Add& add) {
    constexpr int EACH = sizeof(Vector) / sizeof(Value);
    const int before = min((int)((16 - at % 16) % 16 / sizeof(Value)), count), vectors = (count - before) / EACH;
    const Vector* from = (const Vector*)(at + (Address)before * sizeof(Value));
#pragma unroll 4
    for (int k = threadIdx.x; k < vectors; k += THREADS) {
        const Vector found = from[k];
#pragma unroll
        for (int word = 0; word < 4; word++) visit(found.words[word], add);
    }
    for (int k = threadIdx.x; k < count - vectors * EACH; k += THREADS)
        add(__ldg((const Value*)at + (k < before ? k : k + vectors * EACH)));
}

#if IN == 0
struct Sums {  // of 2^16 bytes at most
    unsigned sum, squares;
    __device__ __forceinline__ void operator()(unsigned bytes) {
        sum = __dp4a(bytes, 0x01010101u, sum);
        squares = __dp4a(bytes, bytes, squares);
    }
};
#elif IN <= 2
struct Sums {  // of 2^16 values at most
    long long sum;
    Address squares;
    __device__ __forceinline__ void operator()(Value value) {
        sum += value;
        squares += (unsigned)value * (unsigned)value;
    }
};
#else
struct Sum {
    double sum;
    __device__ __forceinline__ void operator()(Value value) { sum += (double)value_of<IN>(value).v; }
};
struct Squares {
    double mean, sum;
    __device__ __forceinline__ void operator()(Value value) {
        const double distance = (double)value_of<IN>(value).v - mean;
        sum += distance * distance;
    }
};
#endif

__device__ __forceinline__ Pair added_up(Address at, int count, bool from_mean) {
#if IN <= 2
    Sums own = {};
    for_values(at, count, own);
    const long long sum = of_block((long long)own.sum);
    const Address squares = of_block((Address)own.squares);
    if (!from_mean || count == 0) return {(double)sum, (double)squares};
    return {(double)sum, (double)(count * squares - (Address)(sum * sum)) / count};
#else
    Sum own = {};
    if (from_mean) for_values(at, count, own);
    const double sum = of_block(own.sum);
    Squares distances = {from_mean ? sum / count : 0.0, 0.0};
    for_values(at, count, distances);
    return {sum, of_block(distances.sum)};
#endif
}

KERNEL(4, add) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Image image = image_of(job, number);
    if (blockIdx.x >= image.item.width) return;
    const Part part = part_of(image.item, blockIdx.x);
    const Pair made = added_up(image.in + (Address)part.first * sizeof(Value), part.count, image.row.from_mean);
    if (threadIdx.x == 0) ((Pair*)image.out)[blockIdx.x] = made;
}

// How far the mean of a part is from that of all.
__device__ __forceinline__ double between(double sum, int count, double all, int values) {
#if IN <= 2
    const long long difference = (long long)sum * values - (long long)all * count;  // less than 2^62
    return (double)difference / ((double)count * values);
#else
    return sum / count - all / values;
#endif
}

KERNEL(4, finish) {
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images || blockIdx.x != 0) return;
    const Image image = image_of(job, number);
    const Pair* pairs = (const Pair*)image.out;
    double sum = 0, squares = 0;
    for (int k = threadIdx.x; k < image.item.width; k += THREADS) sum += pairs[k].sum, squares += pairs[k].squares;
    if (image.row.from_mean) {
        sum = of_block(sum);
        for (int k = threadIdx.x; k < image.item.width; k += THREADS) {
            const int count = part_of(image.item, k).count;
            const double distance = count ? between(pairs[k].sum, count, sum, image.item.in_width) : 0.0;
            squares += count * (distance * distance);
        }
    }
    squares = of_block(squares);
    const double freedom = (double)image.item.in_width - image.row.ddof;
    if (threadIdx.x == 0) *(double*)image.out = squares / (freedom > 1 ? freedom : 1.0);
}
