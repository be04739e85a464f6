// Philox4x32-7, as in philox.py: the four random words of the counter (counter, 0, frame, 0), with a key of two words.
struct Random {
    unsigned words[4];
};

__device__ __forceinline__ Random philox(unsigned counter, unsigned frame, unsigned low, unsigned high) {
    unsigned a = counter, b = 0, c = frame, d = 0;
#pragma unroll
    for (int round = 0; round < 7; round++) {
        const unsigned long long first = 0xD2511F53ull * a, second = 0xCD9E8D57ull * c;
        a = (unsigned)(second >> 32) ^ b ^ low, b = (unsigned)second;
        c = (unsigned)(first >> 32) ^ d ^ high, d = (unsigned)first;
        low += 0x9E3779B9u, high += 0xBB67AE85u;
    }
    return {{a, b, c, d}};
}
