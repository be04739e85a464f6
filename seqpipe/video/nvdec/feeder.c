/* Feeder: packets into the driver's parser, pictures out of the decoder, for many packets at a time without Python.
 *
 * It does what callbacks.py does, and is tested by the same tests; that module says why each thing is done. All that
 * can wait for the GPU happens here, so Python's lock is let go once for a few dozen packets instead of several times
 * for each. What is called of the driver comes in as pointers: nothing of CUDA is needed to compile this.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SURFACES = 256, RECENT = 256 };
enum { END_OF_STREAM = 1, TIMESTAMP = 2, END_OF_PICTURE = 8 };
enum { IN_PROGRESS = 1, FAILED = 8, FAILED_CONCEALED = 9 };
enum { PARSER_FAILED = 1, PICTURE_REFUSED = 2, MAP_FAILED = 3, NO_ROOM = 4, STOPPED = 5, NOT_PLAIN = 6 };
/* how packets come: as the parser takes them, with lengths of four bytes before their units, or for Python to convert */
enum { AS_IT_IS = 0, MARKED = 1, START_CODE = 4 };
/* what a packet shows, and whether it begins anew, as bitstream/display.py has it */
enum { SHOWS_LAST = 1, SHOWS_EARLIER = 2, ANEW = 4, ANY_SURFACE = -1 };

/* heads of the driver's structures, as cuvid.py has them; what follows in them is passed on unread */
typedef struct { unsigned long flags, size; const void *payload; long long timestamp; } Packet;
typedef struct { int width, height, surface, is_field, is_bottom_field, is_second_field; } Picture;
typedef struct { int surface, progressive, top_field_first, repeat_first_field; long long timestamp; } Display;
typedef struct { int progressive, second_field, top_field_first, unpaired_field; } Proc;
typedef struct { int state, reserved[31]; void *reserved_pointers[8]; } Status;
typedef struct { uint8_t bytes[64]; } Format; /* CUVIDEOFORMAT is plain values from end to end */

typedef int (*Parse)(void *, void *);
typedef int (*Decode)(void *, void *);
typedef int (*GetStatus)(void *, int, void *);
typedef int (*Map)(void *, int, void *, void *, void *);
typedef int (*Unmap)(void *, uint64_t);
typedef int (*Announce)(void *, void *);

typedef struct { int64_t packet, pointer, pitch, sequence; void *decoder; } Shown;
/* a picture whose turn has come: in its surface still, or mapped early, for another is decoded into that */
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
/* a packet whose picture is to be shown, and the surface that it is in; ANY_SURFACE if it is one from before */
typedef struct { int64_t packet; int surface; } Due;

typedef struct {
    Parse parse; Decode decode; GetStatus status; Map map; Unmap unmap;
    Announce announce;
    void *parser, *decoder;
    Proc *proc;
    Format format;            /* of the stream before, and how many surfaces were made for it */
    int surfaces;
    int64_t sequence;         /* Python's number for the decoder, and for how its pictures are to be read */
    int in_order;
    int64_t number;           /* the packet that is being parsed */
    int role;                 /* what it shows */
    int touched;              /* whether anything came of it */
    int64_t inside[SURFACES]; /* the packet of each surface */
    Undecided undecided[SURFACES];
    int undecided_count;
    Due due[RECENT];          /* where pictures are shown in the order of their packets */
    int due_count;
    Fed recent[RECENT];
    unsigned recent_count;
    int64_t *decoded, *damaged; /* packets, in the order in which they were reported */
    Shown *shown;
    int decoded_count, damaged_count, shown_count, room;
    Waiting waiting[SURFACES];
    int waiting_begin, waiting_end;
    int handed_over, ended;
    int failure, code;
    uint8_t *scratch;
    int64_t scratch_size;
} Feeder;

static int fail(Feeder *f, int failure, int code) {
    if (!f->failure) { f->failure = failure; f->code = code; }
    return 0;
}

static int report(Feeder *f, int64_t packet, int damaged) {
    if (f->decoded_count >= f->room) return fail(f, NO_ROOM, 0);
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

/* Wait until the picture in a surface is decoded: handing it over waits. */
static int wait_for(Feeder *f, int surface) {
    Waiting waiting = {.display = {surface, 1, 0, 0, 0}, .decoder = f->decoder, .proc = f->proc};
    if (state_of(f, surface) != IN_PROGRESS) return 1;
    if (!map(f, &waiting)) return 0;
    f->unmap(f->decoder, waiting.pointer);
    return 1;
}

/* Report on the oldest undecided picture; 0 if it is not known yet how decoding it went. */
static int judge_oldest(Feeder *f, int wait) {
    Undecided oldest = f->undecided[0];
    if (wait && !wait_for(f, oldest.surface)) return 0;
    int state = state_of(f, oldest.surface);
    if (state == IN_PROGRESS) return 0;
    f->undecided_count--;
    memmove(f->undecided, f->undecided + 1, (size_t)f->undecided_count * sizeof *f->undecided);
    return report(f, oldest.packet, state == FAILED || state == FAILED_CONCEALED);
}

static int place_of(const Feeder *f, int surface) {
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

/* Map what waits in a surface that is about to be decoded into. */
static int map_early(Feeder *f, int surface) {
    for (int i = f->waiting_begin; i < f->waiting_end; i++) {
        Waiting *waiting = &f->waiting[i];
        if (waiting->decoder != f->decoder || waiting->display.surface != surface || waiting->early) continue;
        if (!map(f, waiting)) return 0;
        waiting->early = 1;
    }
    return 1;
}

/* Hand over what waits, until it is enough. */
static void hand_over(Feeder *f, int enough) {
    while (f->waiting_begin < f->waiting_end && f->handed_over < enough) {
        Waiting *waiting = &f->waiting[f->waiting_begin];
        if (!waiting->early && !map(f, waiting)) return;
        Shown shown = {waiting->packet, (int64_t)waiting->pointer, waiting->pitch, waiting->sequence,
                       waiting->decoder};
        f->shown[f->shown_count++] = shown;
        f->waiting_begin++;
        f->handed_over++;
        while (f->undecided_count && judge_oldest(f, 0)) {}
    }
    if (f->waiting_begin == f->waiting_end) f->waiting_begin = f->waiting_end = 0;
}

/* Packets whose turn is over; an earlier picture that one of them had to show was not shown. */
static int pass_over(Feeder *f, int count) {
    for (int i = 0; i < count; i++)
        if (f->due[i].surface == ANY_SURFACE && !report(f, f->due[i].packet, 1)) return 0;
    f->due_count -= count;
    memmove(f->due, f->due + count, (size_t)f->due_count * sizeof *f->due);
    return 1;
}

/* Expect a picture of the present packet to be shown; of several, the last. */
static int expect(Feeder *f, int surface) {
    Due *last = f->due_count ? &f->due[f->due_count - 1] : 0;
    if (!last || last->packet != f->number) {
        if (f->due_count == RECENT && !pass_over(f, 1)) return 0;
        last = &f->due[f->due_count++];
    }
    last->packet = f->number;
    last->surface = surface;
    return 1;
}

/* The packet whose picture is shown; -1 if it is none's. See PythonFeeder._shown_of. */
static int64_t packet_shown(Feeder *f, int surface) {
    int place = 0;
    int64_t packet;
    while (place < f->due_count && f->due[place].surface != surface) place++;
    if (place == f->due_count)
        for (place = 0; place < f->due_count && f->due[place].surface != ANY_SURFACE;) place++;
    if (place == f->due_count || !pass_over(f, place)) return -1;
    packet = f->due[0].packet;
    if (f->due[0].surface == ANY_SURFACE && !report(f, packet, 0)) return -1;
    f->due[0].surface = surface;
    pass_over(f, 1);
    return packet;
}

/* Python is asked only about a stream unlike the one before: it would have to wait for its lock. */
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
    int surface = picture->surface, place, code;
    if (!f->decoder || surface < 0 || surface >= SURFACES || !map_early(f, surface)) return 0;
    place = place_of(f, surface);
    if (place >= 0 && !picture->is_second_field) {
        for (; place >= 0; place--) /* the GPU decodes in order, so the older ones are decided, too */
            if (!judge_oldest(f, 1)) return 0;
    }
    code = f->decode(f->decoder, address);
    if (code) return fail(f, PICTURE_REFUSED, code);
    if (place < 0) {
        place = f->undecided_count++;
        f->undecided[place].surface = surface;
    }
    f->undecided[place].packet = f->inside[surface] = f->number;
    f->touched = 1;
    return f->in_order && f->role & SHOWS_LAST ? expect(f, surface) : 1;
}

int seqpipe_on_display(void *user, void *address) {
    Feeder *f = user;
    const Display *display = address;
    int64_t number;
    if (!display || !f->decoder || display->surface < 0 || display->surface >= SURFACES) return 1;
    number = f->in_order ? packet_shown(f, display->surface) : f->inside[display->surface];
    f->touched |= !f->in_order;
    if (!is_wanted(f, number)) return 1;
    if (f->waiting_end == SURFACES) return fail(f, NO_ROOM, 0);
    Waiting waiting = {*display, number, f->sequence, f->decoder, f->proc, 0, 0, 0};
    f->waiting[f->waiting_end++] = waiting;
    return 1;
}

/* What is told goes into three arrays, one behind the other, of so many entries each. */
static void begin(Feeder *f, int64_t *told, int room) {
    f->decoded = told;
    f->damaged = told + room;
    f->shown = (Shown *)(told + 2 * room);
    f->room = room;
    f->decoded_count = f->damaged_count = f->shown_count = f->handed_over = f->failure = f->code = 0;
}

/* A packet with start codes in the place of its lengths, which are as long; null if these are not plain. */
static const void *marked(Feeder *f, const uint8_t *data, int64_t size) {
    int64_t at = 0;
    if (size > f->scratch_size) {
        uint8_t *larger = realloc(f->scratch, (size_t)(2 * size));
        if (!larger) return 0;
        f->scratch = larger;
        f->scratch_size = 2 * size;
    }
    memcpy(f->scratch, data, (size_t)size);
    while (at + START_CODE <= size) {
        const uint8_t *length = data + at;
        int64_t unit = (int64_t)length[0] << 24 | length[1] << 16 | length[2] << 8 | length[3];
        if (!unit) return 0;
        memcpy(f->scratch + at, "\0\0\0\1", START_CODE);
        at += START_CODE + unit;
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

/* What is asked about streams. */
void seqpipe_feeder_announce(void *feeder, Announce announce) { ((Feeder *)feeder)->announce = announce; }

/* Decode with another decoder from now on; proc says how it hands pictures over, and sequence comes with them. */
void seqpipe_feeder_use(void *feeder, void *decoder, void *proc, int64_t sequence) {
    Feeder *f = feeder;
    f->decoder = decoder;
    f->proc = proc;
    f->sequence = sequence;
}

/* Let go what waits. */
void seqpipe_drop(void *feeder) {
    Feeder *f = feeder;
    for (int i = f->waiting_begin; i < f->waiting_end; i++)
        if (f->waiting[i].early) f->unmap(f->waiting[i].decoder, f->waiting[i].pointer);
    f->waiting_begin = f->waiting_end = 0;
}

/* Hand over what waits, then feed packets from a place on, until enough pictures are handed over. Returns how many packets
 * were fed. */
int seqpipe_feed(void *feeder, int place, int count, const void *const data[], const int64_t sizes[],
                 const int64_t numbers[], const uint8_t wanted[], const uint8_t forms[], const uint8_t roles[],
                 int enough, int64_t *told, int room) {
    Feeder *f = feeder;
    int first = place;
    begin(f, told, room);
    hand_over(f, enough);
    for (; place < count && !f->failure && f->handed_over < enough && f->room - f->decoded_count > SURFACES; place++) {
        const void *payload = forms[place] == AS_IT_IS ? data[place]
                              : forms[place] == MARKED ? marked(f, data[place], sizes[place])
                                                       : 0;
        Fed *recent;
        if (!payload) {
            fail(f, NOT_PLAIN, 0);
            break;
        }
        recent = &f->recent[f->recent_count++ % RECENT];
        recent->packet = f->number = numbers[place];
        recent->wanted = wanted[place];
        f->role = roles[place];
        f->touched = f->in_order && f->role & SHOWS_EARLIER;
        if (f->touched && !expect(f, ANY_SURFACE)) break;
        parse(f, TIMESTAMP | END_OF_PICTURE, payload, sizes[place], f->number);
        if (!f->touched && !f->failure) report(f, f->number, 1);
        if (!f->failure) hand_over(f, enough);
    }
    return place - first;
}

/* Report on all that is undecided, at the end of what was reported since feeding or finishing began. */
void seqpipe_wait_decoded(void *feeder) {
    Feeder *f = feeder;
    while (f->undecided_count && judge_oldest(f, 1)) {}
    pass_over(f, f->due_count);
}

/* Whether the packet that is being parsed needs none before it. */
int seqpipe_anew(const void *feeder) { return (((const Feeder *)feeder)->role & ANEW) != 0; }

/* Feed nothing more of what was given. */
void seqpipe_stop(void *feeder) { fail(feeder, STOPPED, 0); }

/* Take out what was told so far, and how much that is: the decoder that it came from may be about to change. */
void seqpipe_drain(void *feeder, int counts[4]) {
    Feeder *f = feeder;
    counts[0] = f->decoded_count;
    counts[1] = f->damaged_count;
    counts[2] = f->shown_count;
    counts[3] = f->waiting_end - f->waiting_begin;
    f->decoded_count = f->damaged_count = f->shown_count = 0;
}

/* Hand over what is left, and make ready for another stream; 0 if enough is handed over and more is left. */
int seqpipe_finish(void *feeder, int enough, int64_t *told, int room) {
    Feeder *f = feeder;
    begin(f, told, room);
    if (!f->ended) parse(f, END_OF_STREAM, 0, 0, 0);
    f->ended = 1;
    if (!f->failure) hand_over(f, enough);
    if (f->failure || f->waiting_end) return 0;
    seqpipe_wait_decoded(f);
    f->undecided_count = f->recent_count = f->ended = 0;
    return 1;
}

int seqpipe_failure(const void *feeder) { return ((const Feeder *)feeder)->failure; }
int seqpipe_code(const void *feeder) { return ((const Feeder *)feeder)->code; }
