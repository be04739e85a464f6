/* Classification of H.264 packets that hold only slices, messages, delimiters and filler, as nearly all do. h264.py has
   the same code for all packets and explains each step; invalid packets and parameter sets are left to it. */

#include <stdint.h>
#include <string.h>

enum { SLICE = 1, PARTITION_A = 2, IDR = 5, MESSAGE = 6, HEADER_BYTES = 16, LONGEST_MESSAGE = 4096, SETS = 256 };
/* flags of a result, see h264.py */
enum { REFERENCE = 1, CONTRADICTS = 2, ACCESS = 4, ACCESS_UNKNOWN = 8, LETTER = 16 };
enum { LEFT = -1 }; /* left to h264.py */
/* frame numbering of a sequence, see h264.py; 0 for an unknown picture parameter set, LEFT for an invalid one */
enum { NUMBER_BITS = 31, PLANES_APART = 32, FRAMES_ONLY = 64, GAPS = 128 };

typedef struct {
    const uint8_t *data;
    int64_t left, at; /* bits */
    int cut;
} Bits;

static uint64_t bits(Bits *b, int64_t count) {
    uint64_t value = 0;
    if (b->cut || count > b->left)
        return b->cut = 1, 0;
    b->left -= count;
    for (; count; count--, b->at++)
        value = value << 1 | (b->data[b->at >> 3] >> (7 - (b->at & 7)) & 1);
    return value;
}

static uint64_t golomb(Bits *b) {
    int zeros = 0;
    while (!b->cut && !bits(b, 1))
        if (++zeros > 32)
            b->cut = 1;
    return ((1ull << zeros) | bits(b, zeros)) - 1;
}

/* Remove emulation prevention bytes; TO has at least SIZE bytes. */
static int64_t unescape(const uint8_t *from, int64_t size, uint8_t *to) {
    int64_t count = 0;
    for (int64_t i = 0; i < size; count++) {
        if (i + 2 < size && !from[i] && !from[i + 1] && from[i + 2] == 3)
            to[count++] = 0, to[count] = 0, i += 3;
        else
            to[count] = from[i++];
    }
    return count;
}

/* Offset of the next start code, or SIZE. */
static int64_t start_code(const uint8_t *data, int64_t size, int64_t from) {
    for (from += 2; from < size;) {
        const uint8_t *one = memchr(data + from, 1, (size_t)(size - from));
        if (!one)
            break;
        if (!one[-1] && !one[-2])
            return one - data - 2;
        from = one - data + 1;
    }
    return size;
}

static int message_number(const uint8_t *data, int64_t size, int64_t *at, int64_t *value) {
    *value = 0;
    while (*at < size) {
        *value += data[*at];
        if (data[(*at)++] < 255)
            return 1;
    }
    return 0;
}

/* Whether a message is a recovery point without delay; LEFT if it is truncated. */
static int recovers(const uint8_t *unit, int64_t size) {
    uint8_t data[LONGEST_MESSAGE];
    int64_t at = 0, kind, length;
    if (size > LONGEST_MESSAGE)
        return LEFT;
    size = unescape(unit, size, data);
    while (at + 2 < size) {
        if (!message_number(data, size, &at, &kind) || !message_number(data, size, &at, &length))
            return LEFT;
        if (kind == 6) {
            const int64_t end = at + length < size ? at + length : size;
            Bits b = {data + at, 8 * (end - at), 0, 0};
            const uint64_t frames = golomb(&b);
            return b.cut ? LEFT : frames == 0;
        }
        at += length;
    }
    return 0;
}

/* Whether the frame number of a picture's first slice is inconsistent; LEFT if it is truncated. */
static int contradicts(Bits b, const int32_t *sets, int64_t *last, int reference, int checked) {
    golomb(&b), golomb(&b);
    const uint64_t set = golomb(&b);
    if (b.cut || set >= SETS)
        return LEFT;
    const int32_t sequence = sets[set];
    if (sequence <= 0)
        return sequence;
    const int count = sequence & NUMBER_BITS;
    const int64_t mask = (1ll << count) - 1, before = *last;
    const int64_t number = (int64_t)bits(&b, count + (sequence & PLANES_APART ? 2 : 0)) & mask;
    if (b.cut)
        return LEFT;
    if (reference)
        *last = number;
    if (before < 0 || !checked)
        return 0;
    const int64_t step = (number - before) & mask;
    return step ? step != 1 && !(sequence & GAPS) : reference && sequence & FRAMES_ONLY;
}

static int answer(const uint8_t *data, int64_t size, int64_t length_size, const int32_t *sets, int64_t *last) {
    uint8_t header[HEADER_BYTES], first[HEADER_BYTES];
    int64_t first_size = 0, next = length_size ? 0 : start_code(data, size, 0);
    int reference = 0, idr = 0, recovery = 0, letters = 0;
    if (next >= size)
        return LEFT;
    while (next < size) {
        int64_t begin = next + 3, end;
        if (length_size) {
            uint64_t length = 0;
            if (next + length_size > size)
                return LEFT;
            for (int i = 0; i < length_size; i++)
                length = length << 8 | data[next + i];
            begin = next + length_size;
            if (length > (uint64_t)(size - begin))
                return LEFT;
            next = end = begin + (int64_t)length;
        } else {
            next = end = start_code(data, size, begin);
        }
        if (end <= begin)
            continue;
        const int kind = data[begin] & 31;
        if (kind == SLICE || kind == PARTITION_A || kind == IDR) {
            const int64_t stop = end < begin + HEADER_BYTES ? end : begin + HEADER_BYTES;
            const int64_t found = unescape(data + begin + 1, stop - begin - 1, header);
            Bits b = {header, 8 * found, 0, 0};
            golomb(&b);
            const uint64_t type = golomb(&b);
            if (b.cut || type > 9)
                return LEFT;
            reference |= (data[begin] & 0x60) != 0;
            idr |= kind == IDR;
            letters |= 1 << type % 5;
            if (!first_size)
                memcpy(first, header, (size_t)(first_size = found));
        } else if (kind == MESSAGE) {
            if (!recovery && (recovery = recovers(data + begin + 1, end - begin - 1)) < 0)
                return LEFT;
        } else if ((kind >= 7 && kind <= 11 && kind != 9) || kind == 13 || kind == 15) {
            return LEFT; /* parameter sets and ends */
        }
    }
    if (!letters)
        return LEFT;
    const int predicted = letters & 2 ? 2 : letters & 9 ? 1 : 0; /* B; P or SP; I */
    const int access = idr || (recovery && !predicted) ? ACCESS : predicted ? 0 : ACCESS_UNKNOWN;
    const Bits b = {first, 8 * first_size, 0, 0};
    const int odd = contradicts(b, sets, last, reference, predicted);
    if (odd < 0)
        return LEFT;
    return (reference || recovery ? REFERENCE : 0) | (odd ? CONTRADICTS : 0) | access | predicted * LETTER;
}

/* Classify packets from number STATE[0] on, up to one that is left to h264.py; STATE then holds its number, and the
   frame number of the last reference, -1 if there is none. */
void seqpipe_h264(const uint64_t *data, const int64_t *size, int64_t count, int64_t length_size, const int32_t *sets,
                  int64_t *state, uint8_t *answers) {
    int64_t n = state[0];
    for (; n < count; n++) {
        const int found = answer((const uint8_t *)(uintptr_t)data[n], size[n], length_size, sets, state + 1);
        if (found < 0)
            break;
        answers[n] = (uint8_t)found;
    }
    state[0] = n;
}
