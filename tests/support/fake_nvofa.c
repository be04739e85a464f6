/* An optical-flow library for machines without the engine: the structures of its header, and memory of the host.
   A vector's x is the second frame's level minus the first one's, its y is that of the hint, or 1 with temporal hints;
   the cost is the difference. DECLARATIONS stands for the structures, as seqpipe declares them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
DECLARATIONS

typedef struct { InitParams params; int initialized; } Session;
typedef struct { BufferDescriptor told; uint32_t pitch; uint8_t *memory; } Buffer;

static int live_sessions, live_buffers, created, never_initialized, fail_at, fail_code;
static uint32_t newest = 0x50, asked;

int fake_counts(int what) {
    return what == 0 ? live_sessions : what == 1 ? live_buffers : what == 2 ? created : never_initialized;
}
void fake_set(int function, int code, uint32_t version) { fail_at = function; fail_code = code; newest = version; }
uint32_t fake_version(void) { return asked; }
#define MAY_FAIL(number) if (fail_at == number) return fail_code

static int32_t create(void *context, void **session) {
    MAY_FAIL(1);
    if (context != (void *)0x1234) return 4;
    *session = calloc(1, sizeof(Session));
    live_sessions++, created++;
    return 0;
}
static int32_t init(Session *session, const InitParams *params) {
    MAY_FAIL(2);
    session->params = *params;
    session->initialized = 1;
    return params->width < 32 || params->height < 32 ? 5 : 0;
}
static int32_t create_buffer(Session *session, const BufferDescriptor *told, int32_t kind, void **handle) {
    MAY_FAIL(3);
    if (!session->initialized || kind != 2) return 6;
    Buffer *buffer = calloc(1, sizeof(Buffer));
    buffer->told = *told;
    buffer->pitch = (told->width * (told->bufferFormat == 5 ? 4 : 1) + 127) / 64 * 64;
    buffer->memory = malloc((size_t)buffer->pitch * told->height);
    memset(buffer->memory, 0xAA, (size_t)buffer->pitch * told->height);
    *handle = buffer;
    live_buffers++;
    return 0;
}
static uint64_t pointer(Buffer *buffer) { return (uint64_t)(uintptr_t)buffer->memory; }
static int32_t strides(Buffer *buffer, StrideInfo *info) {
    MAY_FAIL(6);
    info->strideInfo[0].strideXInBytes = buffer->pitch;
    info->strideInfo[0].strideYInBytes = buffer->told.height;
    info->numPlanes = 1;
    return 0;
}
static int32_t streams(void *session, void *in, void *out) { MAY_FAIL(7); return session && in && out ? 0 : 4; }

static void flow(Session *s, Buffer *first, Buffer *second, Buffer *hints, int temporal, Buffer *out, Buffer *cost) {
    int grid = s->params.outGridSize;
    for (uint32_t y = 0; y < out->told.height; y++)
        for (uint32_t x = 0; x < out->told.width; x++) {
            size_t at = (size_t)y * grid * first->pitch + x * grid;
            int change = second->memory[at] - first->memory[at];
            int16_t *vector = (int16_t *)(out->memory + (size_t)y * out->pitch) + 2 * x;
            vector[0] = change * 32, vector[1] = temporal * 32;
            if (hints) {
                int side = s->params.hintGridSize / grid;
                vector[1] = ((int16_t *)(hints->memory + (size_t)(y / side) * hints->pitch))[2 * (x / side) + 1];
            }
            if (cost) cost->memory[(size_t)y * cost->pitch + x] = abs(change);
        }
}
static int32_t execute(Session *s, const ExecuteInput *in, const ExecuteOutput *out) {
    MAY_FAIL(8);
    if (!s->initialized || !in->inputFrame || !in->referenceFrame || !out->outputBuffer) return 4;
    if (s->params.enableOutputCost && !out->outputCostBuffer) return 4;
    if (s->params.enableExternalHints && !in->externalHints) return 4;
    int temporal = !in->disableTemporalHints;
    flow(s, in->inputFrame, in->referenceFrame, in->externalHints, temporal, out->outputBuffer, out->outputCostBuffer);
    if (asked >= 0x30 && s->params.predDirection == 2) {
        if (!out->bwdOutputBuffer) return 4;
        flow(s, in->referenceFrame, in->inputFrame, 0, temporal, out->bwdOutputBuffer, out->bwdOutputCostBuffer);
    }
    return 0;
}
static int32_t destroy_buffer(Buffer *buffer) { free(buffer->memory), free(buffer), live_buffers--; return 0; }
static int32_t destroy(Session *session) {
    never_initialized += !session->initialized;
    free(session), live_sessions--;
    return 0;
}
static int32_t last_error(void *session, char *text, uint32_t *size) {
    strncpy(text, session ? "as the fake says" : "", *size);
    return 0;
}
static int32_t caps(void *session, int32_t what, uint32_t *values, uint32_t *size) {
    static const uint32_t one[] = {0, 0, 1, 0, 32, 32, 8192, 8192, 1, 1, 0}, grids[] = {2, 4}, hints[] = {1, 2, 4, 8};
    uint32_t count = what == 0 ? 2 : what == 1 ? 4 : 1;
    if (!session || what < 0 || what > 10) return 5;
    if (values) memcpy(values, what == 0 ? grids : what == 1 ? hints : one + what, count * sizeof(uint32_t));
    *size = count;
    return 0;
}

int32_t NvOFGetMaxSupportedApiVersion(uint32_t *version) { *version = newest; return 0; }
int32_t NvOFAPICreateInstanceCuda(uint32_t version, FunctionList *list) {
    if (version > newest) return 7;
    asked = version;
    list->nvCreateOpticalFlowCuda = create, list->nvOFInit = init, list->nvOFCreateGPUBufferCuda = create_buffer;
    list->nvOFGPUBufferGetCUarray = pointer, list->nvOFGPUBufferGetCUdeviceptr = pointer;
    list->nvOFGPUBufferGetStrideInfo = strides, list->nvOFSetIOCudaStreams = streams, list->nvOFExecute = execute;
    list->nvOFDestroyGPUBufferCuda = destroy_buffer, list->nvOFDestroy = destroy;
    list->nvOFGetLastError = last_error, list->nvOFGetCaps = caps;
    return 0;
}
