/* Fused decode run: decodes a run of packets and converts the wanted frames into their target arrays without the GIL.
 *
 * Does what decode/run.py, session.py, painter.py and converter.py do as long as nothing is damaged. On damage it stops
 * and returns so; the run is then decoded again step by step, which finds the damaged packet. The driver's functions
 * are passed as pointers.
 */
#include "feeder.c"

enum { MOST_FRAMES = 8, PLANES = 3 };
enum { WANTED = 1, TRACKED = 2, UNDECODABLE = 4 }; /* flags of a packet: frame and report outstanding; may be damaged */
enum { UNDAMAGED = 1, FLUSHED = 2 };               /* results of a run; a flushed decoder can be reused */

typedef int (*Launch)(void *kernel, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
                      unsigned shared, void *stream, void **arguments, void **extra);
typedef int (*Record)(void *event, void *stream);
typedef int (*Wait)(void *event_or_stream);

/* a frame in the kernel's argument, see conversion.py */
typedef struct { uint64_t planes[PLANES], out; int32_t pitch, chroma_pitch; } Frame;

/* a converter's kernel, its grid, and the frames gathered for its next launch, see painting.py */
typedef struct {
    void *kernel;
    uint8_t *argument; /* kernel argument; its frames and their number are filled in here */
    int64_t columns, rows;
    int64_t depths[MOST_FRAMES + 1]; /* depth of the grid, by the number of frames */
    int64_t frames;                  /* number of gathered frames */
} Conversion;

/* conversions of the frames of one stream, see painting.py */
typedef struct {
    Launch launch;
    Record record;
    Wait wait_for_event, wait_for_stream;
    void *stream, *events[2];
    int64_t frames_per_launch, threads;
    int64_t count_at;                /* offset of the number of frames in a kernel argument */
    int64_t sequence, pitch, planes; /* properties that the frames must have */
    int64_t offsets[PLANES];         /* offsets of their planes */
    int64_t begun;                   /* whether a frame was converted; the conversions stay the same from then on */
    int64_t count;                   /* number of conversions */
    Conversion *conversions;
} PaintParams;

/* where a frame is converted to, and the index of its conversion */
typedef struct { uint64_t out; int64_t conversion; } Target;

typedef struct { void *decoder; uint64_t pointer; } Held;

typedef struct {
    Feeder *f;
    PaintParams *p;
    int count;
    const int64_t *numbers;
    uint8_t *flags;
    const int64_t *begins; /* index of each packet's first target; one entry more than packets */
    const Target *targets;
    Held held[2][MOST_FRAMES]; /* mapped frames: gathered for the next launches, and read by the last ones, in turns */
    int held_count[2], turn;
    int undamaged;
} Run;

static int index_of_packet(const Run *run, int64_t packet) {
    int low = 0, high = run->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (run->numbers[middle] < packet) low = middle + 1;
        else high = middle;
    }
    return low < run->count && run->numbers[low] == packet ? low : -1;
}

static void unmap_held(Run *run, int turn) {
    for (Held *held = run->held[turn]; held < run->held[turn] + run->held_count[turn]; held++)
        run->f->unmap(held->decoder, held->pointer);
    run->held_count[turn] = 0;
}

/* Launch the conversions that have gathered frames; returns whether there were any. */
static int launch_gathered(Run *run) {
    const PaintParams *p = run->p;
    int launched = 0;
    for (Conversion *conversion = p->conversions; conversion < p->conversions + p->count; conversion++) {
        int32_t frames = (int32_t)conversion->frames;
        void *arguments[] = {conversion->argument};
        conversion->frames = 0; /* also after damage: the argument has a fixed capacity */
        if (!frames || !run->undamaged) continue;
        launched = 1;
        memcpy(conversion->argument + p->count_at, &frames, sizeof frames);
        if (p->launch(conversion->kernel, (unsigned)conversion->columns, (unsigned)conversion->rows,
                      (unsigned)conversion->depths[frames], (unsigned)p->threads, 1, 1, 0, p->stream, arguments, 0))
            run->undamaged = 0;
    }
    return launched;
}

/* Convert the gathered frames, and unmap those of the launches before. */
static void launch(Run *run) {
    const PaintParams *p = run->p;
    int turn = run->turn;
    if (!launch_gathered(run)) return;
    if (!run->undamaged || p->record(p->events[turn], p->stream)) run->undamaged = 0;
    run->turn = !turn;
    if (run->held_count[!turn] && p->wait_for_event(p->events[!turn])) run->undamaged = 0;
    unmap_held(run, !turn);
}

/* Gather a frame for conversion; unmap it instead if it was not expected. */
static void paint(Run *run, const Shown *shown) {
    PaintParams *p = run->p;
    int index = index_of_packet(run, shown->packet);
    Held held = {shown->decoder, (uint64_t)shown->pointer};
    Frame frame = {.pitch = (int32_t)shown->pitch, .chroma_pitch = (int32_t)shown->pitch};
    if (index < 0 || !(run->flags[index] & WANTED)) run->undamaged = 0;
    if (shown->sequence != p->sequence || shown->pitch != p->pitch) run->undamaged = 0;
    if (!run->undamaged) {
        run->f->unmap(held.decoder, held.pointer);
        return;
    }
    p->begun = 1;
    run->flags[index] &= (uint8_t)~WANTED;
    for (int i = 0; i < p->planes; i++) frame.planes[i] = (uint64_t)(shown->pointer + p->offsets[i]);
    for (int64_t i = run->begins[index]; i < run->begins[index + 1]; i++) {
        Conversion *conversion = p->conversions + run->targets[i].conversion;
        frame.out = run->targets[i].out;
        memcpy(conversion->argument + conversion->frames++ * (int64_t)sizeof frame, &frame, sizeof frame);
        /* a frame is unmapped after the launch of its last target */
        if (i + 1 == run->begins[index + 1]) run->held[run->turn][run->held_count[run->turn]++] = held;
        if (conversion->frames == p->frames_per_launch || run->held_count[run->turn] == p->frames_per_launch)
            launch(run);
    }
}

/* Process the output of a step. */
static void collect(Run *run) {
    Feeder *f = run->f;
    for (int i = 0; i < f->decoded_count; i++) {
        int index = index_of_packet(run, f->decoded[i]);
        if (index >= 0) run->flags[index] &= (uint8_t)~TRACKED;
    }
    for (int i = 0; i < f->damaged_count; i++) {
        int index = index_of_packet(run, f->damaged[i]);
        if (index < 0 || !(run->flags[index] & UNDECODABLE)) run->undamaged = 0;
    }
    if (f->failure) run->undamaged = 0;
    for (int i = 0; i < f->shown_count; i++) paint(run, &f->shown[i]);
    f->decoded_count = f->damaged_count = f->shown_count = 0;
}

/* Decode packets from a key packet on, and convert the wanted frames; returns UNDAMAGED and FLUSHED as flags. */
int seqpipe_fused_run(void *feeder, PaintParams *painting, int count, const void *const data[], const int64_t sizes[],
                      const int64_t numbers[], const uint8_t wanted[], const uint8_t forms[], const uint8_t roles[],
                      uint8_t flags[], const int64_t begins[], const Target targets[], int64_t *output, int capacity) {
    Run run = {.f = feeder, .p = painting, .count = count, .numbers = numbers, .flags = flags, .undamaged = 1};
    int fed = 0, flushed = 0, step = (int)painting->frames_per_launch;
    run.begins = begins;
    run.targets = targets;
    while (run.undamaged && fed < count) {
        fed += seqpipe_feed(feeder, fed, count, data, sizes, numbers, wanted, forms, roles, step, output, capacity);
        collect(&run);
    }
    while (!flushed && !run.f->failure && fed == count) {
        flushed = seqpipe_finish(feeder, step, output, capacity);
        collect(&run);
    }
    launch(&run);
    if (painting->wait_for_stream(painting->stream)) run.undamaged = 0;
    unmap_held(&run, 0);
    unmap_held(&run, 1);
    for (int index = 0; index < count; index++)
        if (flags[index] & (WANTED | TRACKED)) run.undamaged = 0;
    return (run.undamaged ? UNDAMAGED : 0) | (flushed ? FLUSHED : 0);
}
