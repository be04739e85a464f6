/* A whole run at once: packets into the decoder, pictures into the memory of their sequences, nothing of Python between.
 *
 * It does what decode.py, session.py, painter.py and converter.py do as long as all is as it should be. Where something is
 * not, it ends and says so: they then do the run once more from its start, and say what is wrong. What is called of the
 * driver comes in as pointers.
 */
#include "feeder.c"

enum { MOST_AT_ONCE = 8, PLANES = 3 };
enum { WANTED = 1, AWAITED = 2, UNDECODABLE = 4 }; /* of a packet: what has not come of it yet, and that it need not */
enum { CLEAN = 1, ENDED = 2 };                     /* of a run: nothing was wrong; the decoder is ready for another */

typedef int (*Launch)(void *kernel, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
                      unsigned shared, void *stream, void **arguments, void **extra);
typedef int (*Record)(void *event, void *stream);
typedef int (*Wait)(void *event_or_stream);

/* as conversion.py has it at the head of a kernel's argument */
typedef struct { uint64_t planes[PLANES], out; int32_t pitch, chroma_pitch; } Frame;

/* how pictures of one form are converted, as whole_run.py has it */
typedef struct {
    Launch launch;
    Record record;
    Wait wait_for_event, wait_for_stream;
    void *stream, *events[2], *kernel;
    uint8_t *argument;               /* of the kernel; its frames are filled in here, and how many they are */
    int64_t count_at;                /* where that is */
    int64_t sequence, pitch, planes; /* what pictures have to be like */
    int64_t offsets[PLANES];         /* where their planes begin */
    int64_t at_once, columns, rows, threads;
    int64_t depths[MOST_AT_ONCE + 1]; /* of the grid, by the number of frames */
    int64_t begun;                   /* whether a picture has come; from then on nothing of this may change */
} Painting;

typedef struct { void *decoder; uint64_t pointer; } Held;

typedef struct {
    Feeder *f;
    Painting *p;
    int count;
    const int64_t *numbers;
    uint8_t *left;
    const int64_t *begins; /* for each packet, which of the outs is the first of its picture; one entry more */
    const uint64_t *outs;
    Held held[2][MOST_AT_ONCE]; /* pictures that are gathered or being converted, by turns */
    int held_count[2], turn;
    int32_t frames; /* that are gathered: as many of a picture as it has outs */
    int clean;
} Run;

static int place_of_packet(const Run *run, int64_t packet) {
    int low = 0, high = run->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (run->numbers[middle] < packet) low = middle + 1;
        else high = middle;
    }
    return low < run->count && run->numbers[low] == packet ? low : -1;
}

static void let_go(Run *run, int turn) {
    for (int i = 0; i < run->held_count[turn]; i++) run->f->unmap(run->held[turn][i].decoder, run->held[turn][i].pointer);
    run->held_count[turn] = 0;
}

/* Convert what is gathered, and let go what was converted before. */
static void launch(Run *run) {
    const Painting *p = run->p;
    int turn = run->turn;
    int32_t frames = run->frames;
    void *arguments[] = {p->argument};
    run->frames = 0; /* also where nothing is launched any more: there is room for so many */
    if (!frames || !run->clean) return;
    memcpy(p->argument + p->count_at, &frames, sizeof frames);
    if (p->launch(p->kernel, (unsigned)p->columns, (unsigned)p->rows, (unsigned)p->depths[frames], (unsigned)p->threads, 1,
                  1, 0, p->stream, arguments, 0) ||
        p->record(p->events[turn], p->stream))
        run->clean = 0;
    run->turn = !turn;
    if (run->held_count[!turn] && p->wait_for_event(p->events[!turn])) run->clean = 0;
    let_go(run, !turn);
}

/* Note a picture for conversion; one that is not like the others is let go. */
static void paint(Run *run, const Shown *shown) {
    Painting *p = run->p;
    int place = place_of_packet(run, shown->packet);
    Held held = {shown->decoder, (uint64_t)shown->pointer};
    Frame frame = {.pitch = (int32_t)shown->pitch, .chroma_pitch = (int32_t)shown->pitch};
    if (place < 0 || !(run->left[place] & WANTED)) run->clean = 0;
    if (shown->sequence != p->sequence || shown->pitch != p->pitch) run->clean = 0;
    if (!run->clean) {
        run->f->unmap(held.decoder, held.pointer);
        return;
    }
    p->begun = 1;
    run->left[place] &= (uint8_t)~WANTED;
    for (int i = 0; i < p->planes; i++) frame.planes[i] = (uint64_t)(shown->pointer + p->offsets[i]);
    for (int64_t out = run->begins[place]; out < run->begins[place + 1]; out++) {
        frame.out = run->outs[out];
        memcpy(p->argument + run->frames++ * (int64_t)sizeof frame, &frame, sizeof frame);
        if (out + 1 == run->begins[place + 1]) run->held[run->turn][run->held_count[run->turn]++] = held;
        if (run->frames == p->at_once) launch(run);
    }
}

/* Take over what a step has told. */
static void hear(Run *run) {
    Feeder *f = run->f;
    for (int i = 0; i < f->decoded_count; i++) {
        int place = place_of_packet(run, f->decoded[i]);
        if (place >= 0) run->left[place] &= (uint8_t)~AWAITED;
    }
    for (int i = 0; i < f->damaged_count; i++) {
        int place = place_of_packet(run, f->damaged[i]);
        if (place < 0 || !(run->left[place] & UNDECODABLE)) run->clean = 0;
    }
    if (f->failure) run->clean = 0;
    for (int i = 0; i < f->shown_count; i++) paint(run, &f->shown[i]);
    f->decoded_count = f->damaged_count = f->shown_count = 0;
}

/* Decode some packets, from a key packet on, and convert what is wanted of them; returns CLEAN and ENDED where it is so. */
int seqpipe_whole_run(void *feeder, Painting *painting, int count, const void *const data[], const int64_t sizes[],
                      const int64_t numbers[], const uint8_t wanted[], const uint8_t forms[], const uint8_t roles[],
                      uint8_t left[], const int64_t begins[], const uint64_t outs[], int64_t *told, int room) {
    Run run = {.f = feeder, .p = painting, .count = count, .numbers = numbers, .left = left, .clean = 1};
    int fed = 0, ended = 0, enough = (int)painting->at_once;
    run.begins = begins;
    run.outs = outs;
    while (run.clean && fed < count) {
        fed += seqpipe_feed(feeder, fed, count, data, sizes, numbers, wanted, forms, roles, enough, told, room);
        hear(&run);
    }
    while (!ended && !run.f->failure && fed == count) {
        ended = seqpipe_finish(feeder, enough, told, room);
        hear(&run);
    }
    launch(&run);
    if (painting->wait_for_stream(painting->stream)) run.clean = 0;
    let_go(&run, 0);
    let_go(&run, 1);
    for (int place = 0; place < count; place++)
        if (left[place] & (WANTED | AWAITED)) run.clean = 0;
    return (run.clean ? CLEAN : 0) | (ended ? ENDED : 0);
}
