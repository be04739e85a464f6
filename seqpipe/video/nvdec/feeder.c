/* Feeder of the driver's parser: feeds a few dozen packets and maps their frames in one call without the GIL.
 *
 * All functions that may wait for the GPU are called from here, so the GIL is released once for a few dozen packets,
 * not several times for each.
 * The driver's functions are passed as pointers: the file compiles without CUDA.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SURFACES = 256, RECENT = 256 };
enum { END_OF_STREAM = 1, TIMESTAMP = 2, END_OF_PICTURE = 8 };
enum { IN_PROGRESS = 1, FAILED = 8, FAILED_CONCEALED = 9 };
enum { PARSER_FAILED = 1, FRAME_REFUSED = 2, MAP_FAILED = 3, TOO_MANY = 4, STOPPED = 5, UNSUPPORTED = 6 };
/* forms of a packet: as the parser takes it, or with 4-byte length prefixes; Python converts any other form */
enum { READY = 0, LENGTH_PREFIXED = 1, PREFIX_BYTES = 4 };
/* display roles, see bitstream/elementary.py */
enum { SHOWS_LAST = 1, SHOWS_EARLIER = 2, AT_KEY = 4, ANY_SURFACE = -1 };

/* first fields of the driver's structures, see cuvid.py; the rest is passed on unread */
typedef struct { unsigned long flags, size; const void *payload; long long timestamp; } Packet;
typedef struct { int width, height, surface, is_field, is_bottom_field, is_second_field; } Picture;
typedef struct { int surface, progressive, top_field_first, repeat_first_field; long long timestamp; } Display;
typedef struct { int progressive, second_field, top_field_first, unpaired_field; } Proc;
typedef struct { int state, reserved[31]; void *reserved_pointers[8]; } Status;
typedef struct { uint8_t bytes[64]; } Format; /* CUVIDEOFORMAT holds no pointers, so that it can be compared as bytes */

typedef int (*Parse)(void *, void *);
typedef int (*Decode)(void *, void *);
typedef int (*GetStatus)(void *, int, void *);
typedef int (*Map)(void *, int, void *, void *, void *);
typedef int (*Unmap)(void *, uint64_t);
typedef int (*Announce)(void *, void *);

typedef struct { int64_t packet, pointer, pitch, sequence; void *decoder; } Shown;
/* a frame released for display: still in its surface, or mapped early because the surface is decoded into again */
typedef struct {
    Display display;
    int64_t packet, sequence;
    void *decoder;
    Proc *proc;
    int early;
    uint64_t pointer;
    unsigned pitch;
} Waiting;
typedef struct { int surface; int64_t packet; } Undecided;
typedef struct { int64_t packet; int wanted; } Fed;
/* a packet that is due to show a frame, and the frame's surface; ANY_SURFACE for an earlier packet's frame */
typedef struct { int64_t packet; int surface; } Due;

typedef struct {
    Parse parse; Decode decode; GetStatus status; Map map; Unmap unmap;
    Announce announce;
    void *parser, *decoder;
    Proc *proc;
    Format format;            /* of the last stream, and the number of surfaces created for it */
    int surfaces;
    int64_t sequence;         /* Python's number for the decoder and the shape of its stream */
    int in_order;
    int64_t number;           /* the packet being parsed */
    int role;                 /* its display role */
    int touched;              /* whether it decoded or showed a frame */
    int64_t inside[SURFACES]; /* the packet of each surface */
    Undecided undecided[SURFACES];
    int undecided_count;
    Due due[RECENT];          /* used where frames are shown in packet order */
    int due_count;
    Fed recent[RECENT];
    unsigned recent_count;
    int64_t *decoded, *damaged; /* packets in the order of their reports */
    Shown *shown;
    int decoded_count, damaged_count, shown_count, capacity;
    Waiting waiting[SURFACES];
    int waiting_begin, waiting_end;
    int mapped_count, ended;
    int failure, code;
    uint8_t *scratch;
    int64_t scratch_size;
} Feeder;

static int fail(Feeder *f, int failure, int code) {
    if (!f->failure) { f->failure = failure; f->code = code; }
    return 0;
}

static int report(Feeder *f, int64_t packet, int damaged) {
    if (f->decoded_count >= f->capacity) return fail(f, TOO_MANY, 0);
    f->decoded[f->decoded_count++] = packet;
    if (damaged) f->damaged[f->damaged_count++] = packet;
    return 1;
}

static int state_of(Feeder *f, int surface) {
    Status status;
    memset(&status, 0, sizeof status);
    return f->status(f->decoder, surface, &status) ? 0 : status.state;
}

static int map(Feeder *f, Waiting *waiting) {
    const Display *display = &waiting->display;
    Proc *proc = waiting->proc;
    proc->progressive = display->progressive;
    proc->second_field = display->repeat_first_field + 1;
    proc->top_field_first = display->top_field_first;
    proc->unpaired_field = display->repeat_first_field < 0;
    int code = f->map(waiting->decoder, display->surface, &waiting->pointer, &waiting->pitch, proc);
    return code ? fail(f, MAP_FAILED, code) : 1;
}

/* Wait until the frame in a surface is decoded: mapping waits. */
static int wait_for(Feeder *f, int surface) {
    Waiting waiting = {.display = {surface, 1, 0, 0, 0}, .decoder = f->decoder, .proc = f->proc};
    if (state_of(f, surface) != IN_PROGRESS) return 1;
    if (!map(f, &waiting)) return 0;
    f->unmap(f->decoder, waiting.pointer);
    return 1;
}

/* Report the state of the oldest undecided frame; 0 if it is still in progress. */
static int report_oldest(Feeder *f, int wait) {
    Undecided oldest = f->undecided[0];
    if (wait && !wait_for(f, oldest.surface)) return 0;
    int state = state_of(f, oldest.surface);
    if (state == IN_PROGRESS) return 0;
    f->undecided_count--;
    memmove(f->undecided, f->undecided + 1, (size_t)f->undecided_count * sizeof *f->undecided);
    return report(f, oldest.packet, state == FAILED || state == FAILED_CONCEALED);
}

static int index_of(const Feeder *f, int surface) {
    for (int i = 0; i < f->undecided_count; i++)
        if (f->undecided[i].surface == surface) return i;
    return -1;
}

static int is_wanted(const Feeder *f, int64_t packet) {
    unsigned known = f->recent_count < RECENT ? f->recent_count : RECENT;
    for (unsigned i = 1; i <= known; i++) {
        const Fed *fed = &f->recent[(f->recent_count - i) % RECENT];
        if (fed->packet == packet) return fed->wanted;
    }
    return 0;
}

/* Map frames that wait in a surface that is about to be overwritten. */
static int map_early(Feeder *f, int surface) {
    for (int i = f->waiting_begin; i < f->waiting_end; i++) {
        Waiting *waiting = &f->waiting[i];
        if (waiting->decoder != f->decoder || waiting->display.surface != surface || waiting->early) continue;
        if (!map(f, waiting)) return 0;
        waiting->early = 1;
    }
    return 1;
}

/* Map waiting frames, up to a step of them. */
static void map_waiting(Feeder *f, int step) {
    while (f->waiting_begin < f->waiting_end && f->mapped_count < step) {
        Waiting *waiting = &f->waiting[f->waiting_begin];
        if (!waiting->early && !map(f, waiting)) return;
        Shown shown = {waiting->packet, (int64_t)waiting->pointer, waiting->pitch, waiting->sequence,
                       waiting->decoder};
        f->shown[f->shown_count++] = shown;
        f->waiting_begin++;
        f->mapped_count++;
        while (f->undecided_count && report_oldest(f, 0)) {}
    }
    if (f->waiting_begin == f->waiting_end) f->waiting_begin = f->waiting_end = 0;
}

/* Drop due packets that have shown nothing; one that was to show an earlier frame is damaged. */
static int skip_due(Feeder *f, int count) {
    for (int i = 0; i < count; i++)
        if (f->due[i].surface == ANY_SURFACE && !report(f, f->due[i].packet, 1)) return 0;
    f->due_count -= count;
    memmove(f->due, f->due + count, (size_t)f->due_count * sizeof *f->due);
    return 1;
}

/* Note that the current packet is due to show a frame; of several frames, the last. */
static int add_due(Feeder *f, int surface) {
    Due *last = f->due_count ? &f->due[f->due_count - 1] : 0;
    if (!last || last->packet != f->number) {
        if (f->due_count == RECENT && !skip_due(f, 1)) return 0;
        last = &f->due[f->due_count++];
    }
    last->packet = f->number;
    last->surface = surface;
    return 1;
}

/* The packet whose frame is shown; -1 if it is none's. See PythonFeeder._packet_shown. */
static int64_t packet_shown(Feeder *f, int surface) {
    int index = 0;
    int64_t packet;
    while (index < f->due_count && f->due[index].surface != surface) index++;
    if (index == f->due_count)
        for (index = 0; index < f->due_count && f->due[index].surface != ANY_SURFACE;) index++;
    if (index == f->due_count || !skip_due(f, index)) return -1;
    packet = f->due[0].packet;
    if (f->due[0].surface == ANY_SURFACE && !report(f, packet, 0)) return -1;
    f->due[0].surface = surface;
    skip_due(f, 1);
    return packet;
}

/* Call Python only for a stream that differs from the last one: the call acquires the GIL. */
int seqpipe_on_sequence(void *user, void *address) {
    Feeder *f = user;
    if (f->decoder && f->surfaces && !memcmp(&f->format, address, sizeof f->format)) return f->surfaces;
    f->surfaces = f->announce(user, address);
    memcpy(&f->format, address, sizeof f->format);
    return f->surfaces;
}

int seqpipe_on_picture(void *user, void *address) {
    Feeder *f = user;
    const Picture *picture = address;
    int surface = picture->surface, index, code;
    if (!f->decoder || surface < 0 || surface >= SURFACES || !map_early(f, surface)) return 0;
    index = index_of(f, surface);
    if (index >= 0 && !picture->is_second_field) {
        for (; index >= 0; index--) /* the GPU decodes in order, so older frames are finished, too */
            if (!report_oldest(f, 1)) return 0;
    }
    code = f->decode(f->decoder, address);
    if (code) return fail(f, FRAME_REFUSED, code);
    if (index < 0) {
        index = f->undecided_count++;
        f->undecided[index].surface = surface;
    }
    f->undecided[index].packet = f->inside[surface] = f->number;
    f->touched = 1;
    return f->in_order && f->role & SHOWS_LAST ? add_due(f, surface) : 1;
}

int seqpipe_on_display(void *user, void *address) {
    Feeder *f = user;
    const Display *display = address;
    int64_t number;
    if (!display || !f->decoder || display->surface < 0 || display->surface >= SURFACES) return 1;
    number = f->in_order ? packet_shown(f, display->surface) : f->inside[display->surface];
    f->touched |= !f->in_order;
    if (!is_wanted(f, number)) return 1;
    if (f->waiting_end == SURFACES) return fail(f, TOO_MANY, 0);
    Waiting waiting = {*display, number, f->sequence, f->decoder, f->proc, 0, 0, 0};
    f->waiting[f->waiting_end++] = waiting;
    return 1;
}

/* Start an output of three consecutive arrays of the given capacity. */
static void reset_output(Feeder *f, int64_t *output, int capacity) {
    f->decoded = output;
    f->damaged = output + capacity;
    f->shown = (Shown *)(output + 2 * capacity);
    f->capacity = capacity;
    f->decoded_count = f->damaged_count = f->shown_count = f->mapped_count = f->failure = f->code = 0;
}

/* A packet with its 4-byte length prefixes replaced by start codes; null if the lengths do not add up. */
static const void *with_start_codes(Feeder *f, const uint8_t *data, int64_t size) {
    int64_t at = 0;
    if (size > f->scratch_size) {
        uint8_t *larger = realloc(f->scratch, (size_t)(2 * size));
        if (!larger) return 0;
        f->scratch = larger;
        f->scratch_size = 2 * size;
    }
    memcpy(f->scratch, data, (size_t)size);
    while (at + PREFIX_BYTES <= size) {
        const uint8_t *length = data + at;
        int64_t unit = (int64_t)length[0] << 24 | length[1] << 16 | length[2] << 8 | length[3];
        if (!unit) return 0;
        memcpy(f->scratch + at, "\0\0\0\1", PREFIX_BYTES);
        at += PREFIX_BYTES + unit;
    }
    return at == size ? f->scratch : 0;
}

static void parse(Feeder *f, unsigned long flags, const void *data, int64_t size, int64_t number) {
    Packet packet = {flags, (unsigned long)size, data, number};
    int code = f->parse(f->parser, &packet);
    if (code) fail(f, PARSER_FAILED, code);
}

void *seqpipe_feeder_new(void *const functions[5], int in_order) {
    Feeder *f = calloc(1, sizeof *f);
    if (!f) return 0;
    f->parse = (Parse)functions[0];
    f->decode = (Decode)functions[1];
    f->status = (GetStatus)functions[2];
    f->map = (Map)functions[3];
    f->unmap = (Unmap)functions[4];
    f->in_order = in_order;
    return f;
}

void seqpipe_feeder_free(void *feeder) {
    if (feeder) free(((Feeder *)feeder)->scratch);
    free(feeder);
}

void seqpipe_feeder_parser(void *feeder, void *parser) { ((Feeder *)feeder)->parser = parser; }

/* Set the callback for new streams. */
void seqpipe_feeder_announce(void *feeder, Announce announce) { ((Feeder *)feeder)->announce = announce; }

/* Use another decoder from now on; proc holds its mapping parameters, sequence is reported with its frames. */
void seqpipe_feeder_use(void *feeder, void *decoder, void *proc, int64_t sequence) {
    Feeder *f = feeder;
    f->decoder = decoder;
    f->proc = proc;
    f->sequence = sequence;
}

/* Drop waiting frames. */
void seqpipe_drop(void *feeder) {
    Feeder *f = feeder;
    for (int i = f->waiting_begin; i < f->waiting_end; i++)
        if (f->waiting[i].early) f->unmap(f->waiting[i].decoder, f->waiting[i].pointer);
    f->waiting_begin = f->waiting_end = 0;
}

/* Map waiting frames, then feed packets from an index on until a step of frames is mapped; returns the packets fed. */
int seqpipe_feed(void *feeder, int index, int count, const void *const data[], const int64_t sizes[],
                 const int64_t numbers[], const uint8_t wanted[], const uint8_t forms[], const uint8_t roles[],
                 int step, int64_t *output, int capacity) {
    Feeder *f = feeder;
    int first = index;
    reset_output(f, output, capacity);
    map_waiting(f, step);
    for (; index < count && !f->failure && f->mapped_count < step; index++) {
        const void *payload = forms[index] == READY             ? data[index]
                              : forms[index] == LENGTH_PREFIXED ? with_start_codes(f, data[index], sizes[index])
                                                                : 0;
        Fed *recent;
        if (f->capacity - f->decoded_count <= SURFACES) break;
        if (!payload) {
            fail(f, UNSUPPORTED, 0);
            break;
        }
        recent = &f->recent[f->recent_count++ % RECENT];
        recent->packet = f->number = numbers[index];
        recent->wanted = wanted[index];
        f->role = roles[index];
        f->touched = f->in_order && f->role & SHOWS_EARLIER;
        if (f->touched && !add_due(f, ANY_SURFACE)) break;
        parse(f, TIMESTAMP | END_OF_PICTURE, payload, sizes[index], f->number);
        if (!f->touched && !f->failure) report(f, f->number, 1);
        if (!f->failure) map_waiting(f, step);
    }
    return index - first;
}

/* Wait for all undecided frames, and append their reports to the output. */
void seqpipe_wait_decoded(void *feeder) {
    Feeder *f = feeder;
    while (f->undecided_count && report_oldest(f, 1)) {}
    skip_due(f, f->due_count);
}

/* Whether the packet being parsed begins with a key frame. */
int seqpipe_at_key(const void *feeder) { return (((const Feeder *)feeder)->role & AT_KEY) != 0; }

/* Stop feeding the packets of the current call. */
void seqpipe_stop(void *feeder) { fail(feeder, STOPPED, 0); }

/* Return the sizes of the output so far and restart it; called also before the decoder changes. */
void seqpipe_drain(void *feeder, int counts[4]) {
    Feeder *f = feeder;
    counts[0] = f->decoded_count;
    counts[1] = f->damaged_count;
    counts[2] = f->shown_count;
    counts[3] = f->waiting_end - f->waiting_begin;
    f->decoded_count = f->damaged_count = f->shown_count = 0;
}

/* Map the remaining frames and prepare for another stream; 0 if frames remain after a step of them. */
int seqpipe_finish(void *feeder, int step, int64_t *output, int capacity) {
    Feeder *f = feeder;
    reset_output(f, output, capacity);
    if (!f->ended) parse(f, END_OF_STREAM, 0, 0, 0);
    f->ended = 1;
    if (!f->failure) map_waiting(f, step);
    if (f->failure || f->waiting_end) return 0;
    seqpipe_wait_decoded(f);
    f->undecided_count = f->recent_count = f->ended = 0;
    return 1;
}

int seqpipe_failure(const void *feeder) { return ((const Feeder *)feeder)->failure; }
int seqpipe_code(const void *feeder) { return ((const Feeder *)feeder)->code; }
