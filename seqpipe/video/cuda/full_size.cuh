// Frames at the size of the surface. A thread computes four columns of two rows. Their chroma comes from four samples of up
// to three rows, which begin one before the first luma sample's own where chroma is subsampled.

#define CHROMA_ROWS (SHIFT_Y ? 3 : 2)
// whether no luma column coincides with a chroma sample; otherwise the CPU also rounds after the vertical interpolation
#define BETWEEN_COLUMNS (SHIFT_X && OFFSET_X == 1)

__device__ __forceinline__ void read_luma(const Job& job, const Frame& frame, int u, int v, float* four) {
    const Sample* row = (const Sample*)(frame.planes[0] + (Address)(job.top + v) * frame.pitch) + job.left;
#if ALIGNED && SAMPLE_BYTES == 1
    const unsigned word = *(const unsigned*)(row + u);
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = (float)(word >> 8 * i & 255);
#elif ALIGNED
    const Address word = *(const Address*)(row + u);
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = (float)(unsigned)(word >> 16 * i & 65535);
#else
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = (float)row[min(u + i, job.width - 1)];
#endif
}

// Reads four chroma samples of one row.
__device__ __forceinline__ void read_chroma(
    const Job& job, const Frame& frame, int column, int row, float* cb, float* cr) {
    const Address start = (Address)limited(row, 0, job.chroma_height - 1) * frame.chroma_pitch;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int x = limited(column + i, 0, job.chroma_width - 1);
#if INTERLEAVED && SAMPLE_BYTES == 1
        const unsigned pair = ((const unsigned short*)(frame.planes[1] + start))[x];
        cb[i] = (float)(pair & 255);
        cr[i] = (float)(pair >> 8);
#elif INTERLEAVED
        const unsigned pair = ((const unsigned*)(frame.planes[1] + start))[x];
        cb[i] = (float)(pair & 65535);
        cr[i] = (float)(pair >> 16);
#else
        cb[i] = (float)((const Sample*)(frame.planes[1] + start))[x];
        cr[i] = (float)((const Sample*)(frame.planes[2] + start))[x];
#endif
    }
}

// Interpolates chroma at `quarters` quarters of a sample. The positions are constants after unrolling, so samples without a
// weight are not read.
__device__ __forceinline__ float between(const float* samples, int step, int quarters) {
    const float near = samples[(quarters >> 2) * step];
    if ((quarters & 3) == 0) return near;
    return fmaf(samples[((quarters >> 2) + 1) * step] - near, 0.25f * (quarters & 3), near);
}

__device__ __forceinline__ int quarters_x(int i) {
    return SHIFT_X ? 4 + 2 * (i + ODD_X) - OFFSET_X : 4 * i;
}

__device__ __forceinline__ int quarters_y(int i) {
    return SHIFT_Y ? 4 + 2 * (i + ODD_Y) - OFFSET_Y : 4 * i;
}

__device__ __forceinline__ void read_block(const Job& job, const Frame& frame, int u, int v, float (*pixels)[4][PLANES]) {
#if PLANES == 3
    float samples[2][CHROMA_ROWS][4];
    const int column = ((job.left + u) >> SHIFT_X) - SHIFT_X, row = ((job.top + v) >> SHIFT_Y) - SHIFT_Y;
#pragma unroll
    for (int i = 0; i < CHROMA_ROWS; i++)
        read_chroma(job, frame, column, row + i, samples[0][i], samples[1][i]);
#endif
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float four[4];
        read_luma(job, frame, u, min(v + j, job.height - 1), four);
#pragma unroll
        for (int i = 0; i < 4; i++) pixels[j][i][0] = four[i];
#if PLANES == 3
#pragma unroll
        for (int component = 0; component < 2; component++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                four[i] = between(&samples[component][0][i], 4, quarters_y(j));
                if (ROUNDED && !BETWEEN_COLUMNS) four[i] = round_even(four[i]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float chroma = between(four, 1, quarters_x(i));
                pixels[j][i][1 + component] = ROUNDED ? round_even(chroma) : chroma;
            }
        }
#endif
    }
}

// Writes four pixels of a row to the tile: in words where they stay adjacent.
__device__ __forceinline__ void put_four(const Job& job, Value* tile, int u, int v, const float (*pixels)[PLANES]) {
#if TRANSPOSED
#pragma unroll
    for (int i = 0; i < 4; i++) {
        Value values[CHANNELS];
        convert_pixel(job, pixels[i], values);
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++) tile[tile_index(u + i, v, channel)] = values[channel];
    }
#else
    union {
        Value values[4 * CHANNELS];
        unsigned words[CHANNELS * sizeof(Value)];
    } run;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int at = REVERSED_U ? 3 - i : i;
        Value values[CHANNELS];
        convert_pixel(job, pixels[i], values);
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            run.values[PLANAR ? 4 * channel + at : CHANNELS * at + channel] = values[channel];
    }
    const int words = PLANAR ? sizeof(Value) : CHANNELS * sizeof(Value);
#pragma unroll
    for (int part = 0; part < (PLANAR ? CHANNELS : 1); part++) {
        unsigned* to = (unsigned*)(tile + tile_index(REVERSED_U ? u + 3 : u, v, part));
#pragma unroll
        for (int i = 0; i < words; i++) to[i] = run.words[part * words + i];
    }
#endif
}

__device__ __forceinline__ void make_tile(const Job& job, const Frame& frame, Value* tile) {
    const int across = TILE_U / 4;
    const int u = threadIdx.x % across * 4, v = threadIdx.x / across * 2;
    const int column = blockIdx.x * TILE_U + u, row = blockIdx.y * TILE_V + v;
    if (column >= job.width || row >= job.height) return;
    float pixels[2][4][PLANES];
    read_block(job, frame, column, row, pixels);
    put_four(job, tile, u, v, pixels[0]);
    put_four(job, tile, u, v + 1, pixels[1]);
}

__device__ __forceinline__ void make_tiles(const Job& job) {
    __shared__ __align__(16) Value tile[TILE_U * TILE_V * CHANNELS];
    const Frame& frame = job.frames[blockIdx.z];
    make_tile(job, frame, tile);
    __syncthreads();
    write_tile(job, frame.out, tile);
}
