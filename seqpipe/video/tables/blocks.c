/* Headers of the blocks of Matroska and WebM files; matroska.py has the same code for machines without a compiler, and
   explains each step. Nothing is read beyond END, and at most ROOM entries are written. */

#define _POSIX_C_SOURCE 200809L /* pread */
#define _FILE_OFFSET_BITS 64

#include <stdint.h>
#include <unistd.h>

enum { AHEAD = 512 };
enum { CLUSTER = 0x1F43B675, TIME = 0xE7, SIMPLE_BLOCK = 0xA3, BLOCK_GROUP = 0xA0, BLOCK = 0xA1, REFERENCE = 0xFB,
       DURATION = 0x9B, ADDITIONS = 0x75A1, ENCRYPTED = 0xAF };
/* status of a pass, see matroska.py */
enum { DONE = 0, FULL = 1, CUT = 2, ODD_CLUSTER = 3, TWO_BLOCKS = 4, LACED = 5, LONG_NUMBER = 6 };

typedef struct {
    int file;
    int64_t end, begin, held; /* end of the file; begin and size of the buffered part */
    uint8_t data[AHEAD];
} Window;

typedef struct {
    uint64_t identity;
    int64_t begin, end;
} Element;

typedef struct {
    int64_t room, count, track;
    int64_t *pts, *size, *offset, *duration;
    uint8_t *key;
} Blocks;

/* COUNT bytes at an offset, or null if they are not there. */
static const uint8_t *at(Window *w, int64_t place, int64_t count) {
    if (place < w->begin || place + count > w->begin + w->held) {
        const ssize_t got = pread(w->file, w->data, AHEAD, place);
        w->begin = place, w->held = got < 0 ? 0 : got;
    }
    return place + count <= w->begin + w->held ? w->data + (place - w->begin) : 0;
}

/* Reads a number of variable length, with its marker or without; returns its width, 0 if it is cut. */
static int number(Window *w, int64_t place, int marked, uint64_t *value) {
    const uint8_t *data = at(w, place, 1);
    if (!data || !*data)
        return 0;
    const int width = __builtin_clz(*data) - 23;
    if (!(data = at(w, place, width)))
        return 0;
    *value = marked ? data[0] : data[0] & ((1u << (8 - width)) - 1);
    for (int i = 1; i < width; i++)
        *value = *value << 8 | data[i];
    return width;
}

static int element(Window *w, int64_t place, int64_t end, Element *found) {
    uint64_t size;
    const int head = number(w, place, 1, &found->identity);
    const int width = head ? number(w, place + head, 0, &size) : 0;
    if (!width || size == (1ull << 7 * width) - 1)
        return CUT;
    found->begin = place + head + width;
    if (end > w->end)
        end = w->end;
    if (found->begin > end || size > (uint64_t)(end - found->begin))
        return CUT;
    found->end = found->begin + (int64_t)size;
    return DONE;
}

static int value(Window *w, const Element *from, int64_t *found) {
    const int64_t size = from->end - from->begin;
    const uint8_t *data = size ? at(w, from->begin, size <= 8 ? size : 0) : w->data;
    if (size > 8)
        return LONG_NUMBER;
    if (!data)
        return CUT;
    uint64_t all = 0;
    for (int64_t i = 0; i < size; i++)
        all = all << 8 | data[i];
    *found = (int64_t)all;
    return all >> 62 ? LONG_NUMBER : DONE;
}

static int block(Window *w, Blocks *b, const Element *from, int64_t time, int simple) {
    uint64_t track;
    const int width = number(w, from->begin, 0, &track);
    if (!width)
        return CUT;
    if (track != (uint64_t)b->track)
        return DONE;
    const int64_t place = from->begin + width;
    const uint8_t *data = at(w, place, 3);
    if (!data || time < 0 || data[2] & 6)
        return LACED;
    if (b->count == b->room)
        return FULL;
    const int64_t n = b->count++;
    b->pts[n] = time + (int16_t)(data[0] << 8 | data[1]);
    b->size[n] = from->end - place - 3;
    b->offset[n] = place + 3;
    b->key[n] = simple && data[2] & 0x80;
    b->duration[n] = -1;
    return DONE;
}

static int group(Window *w, Blocks *b, const Element *from, int64_t time) {
    const int64_t before = b->count;
    int refers = 0, added = 0, status;
    int64_t duration = -1;
    Element part;
    for (int64_t place = from->begin; place < from->end; place = part.end) {
        if ((status = element(w, place, from->end, &part)))
            return status;
        if (part.identity == BLOCK)
            status = block(w, b, &part, time, 0);
        else if (part.identity == DURATION)
            status = value(w, &part, &duration);
        refers |= part.identity == REFERENCE;
        added |= part.identity == ADDITIONS;
        if (status)
            return status;
    }
    if (b->count == before)
        return DONE;
    if (added || b->count != before + 1)
        return TWO_BLOCKS;
    b->key[before] = !refers;
    b->duration[before] = duration;
    return DONE;
}

static int cluster(Window *w, Blocks *b, const Element *from) {
    int64_t time = -1;
    int status;
    Element part;
    for (int64_t place = from->begin; place < from->end; place = part.end) {
        if ((status = element(w, place, from->end, &part)))
            return status;
        if (part.identity == TIME)
            status = value(w, &part, &time);
        else if (part.identity == SIMPLE_BLOCK)
            status = block(w, b, &part, time, 1);
        else if (part.identity == BLOCK_GROUP)
            status = group(w, b, &part, time);
        else if (part.identity == ENCRYPTED || part.identity == CLUSTER)
            status = ODD_CLUSTER;
        if (status)
            return status;
    }
    return DONE;
}

/* Reads the blocks of a track from the offset in STATE to END, in whole clusters as long as there is room. STATE then
   holds the number of blocks, the offset to continue from, and the status. */
void seqpipe_blocks(int64_t file, int64_t end, int64_t track, int64_t room, int64_t *pts, int64_t *size,
                    int64_t *offset, int64_t *duration, uint8_t *key, int64_t *state) {
    Window w = {.file = (int)file, .end = end, .begin = 0, .held = 0};
    Blocks b = {room, 0, track, pts, size, offset, duration, key};
    Element part;
    int status = DONE;
    int64_t place = state[1], whole = 0;
    while (place < end && !(status = element(&w, place, end, &part))) {
        if (part.identity == CLUSTER && (status = cluster(&w, &b, &part)))
            break;
        place = part.end, whole = b.count;
    }
    state[0] = whole, state[1] = place, state[2] = status;
}
