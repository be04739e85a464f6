// Transfer functions, as tone.py has them with their sources: 1 and 2 map PQ and HLG to SDR of BT.709 by method A of
// BT.2446-1, 3 and 4 give their light in units of 203 cd/m2, 5 that of SDR in units of white.

#define TONE (TRANSFER & 7)
#define VALUE_UNIT (OUTPUT == 0 ? 255.0f : OUTPUT == 1 ? 65535.0f : 1.0f)

__device__ __forceinline__ float pq_light(float signal) {
    const float power = powf(signal, 32.0f / 2523.0f);
    const float ratio = fmaxf(power - 3424.0f / 4096.0f, 0.0f) / (2413.0f / 128.0f - 2392.0f / 128.0f * power);
    return 10000.0f * powf(ratio, 8192.0f / 1305.0f);
}

__device__ __forceinline__ float hlg_light(float signal) {
    return signal <= 0.5f ? signal * signal / 3.0f : (expf((signal - 0.55991073f) / 0.17883277f) + 0.28466892f) / 12.0f;
}

__device__ __forceinline__ float luma_of(const float* rgb) { return 0.2627f * rgb[0] + 0.6780f * rgb[1] + 0.0593f * rgb[2]; }

__device__ __forceinline__ float mapped_luma(float luma) {
    const float hdr = 13.259798f, sdr = 5.696958f;  // 1 + 32 * (nits / 10000)^(1/2.4)
    const float p = logf(1.0f + (hdr - 1.0f) * luma) / logf(hdr);
    const float c = p <= 0.7399f ? 1.0770f * p : p < 0.9909f ? (-1.1510f * p + 2.7811f) * p - 0.6302f : 0.5f * p + 0.5f;
    return (powf(sdr, c) - 1.0f) / (sdr - 1.0f);
}

// Changes the values of a pixel, R, G and B in units of VALUE_UNIT.
__device__ __forceinline__ void change_transfer(float* rgb) {
#pragma unroll
    for (int c = 0; c < 3; c++) {
        const float signal = fminf(fmaxf(rgb[c] / VALUE_UNIT, 0.0f), 1.0f);
        rgb[c] = TONE == 5 ? powf(signal, 2.4f) : TONE % 2 ? pq_light(signal) / 1000.0f : hlg_light(signal);
    }
    if (TONE == 2 || TONE == 4) {
        const float gain = powf(luma_of(rgb), 0.2f);
#pragma unroll
        for (int c = 0; c < 3; c++) rgb[c] *= gain;
    }
    if (TONE >= 3) {
#pragma unroll
        for (int c = 0; c < 3; c++) rgb[c] *= (TONE == 5 ? 1.0f : 1000.0f / 203.0f) * VALUE_UNIT;
        return;
    }
#pragma unroll
    for (int c = 0; c < 3; c++) rgb[c] = powf(fminf(rgb[c], 1.0f), 1.0f / 2.4f);
    const float luma = luma_of(rgb), mapped = mapped_luma(luma), gain = luma > 0.0f ? mapped / (1.1f * luma) : 0.0f;
    const float blue = (rgb[2] - luma) * gain, red = (rgb[0] - luma) * gain;
    const float base = mapped - fmaxf(red * (0.1f / 1.4746f), 0.0f);
    const float wide[3] = {base + red, base - 0.0593f / 0.6780f * blue - 0.2627f / 0.6780f * red, base + blue};
    float light[3];
#pragma unroll
    for (int c = 0; c < 3; c++) light[c] = powf(fminf(fmaxf(wide[c], 0.0f), 1.0f), 2.4f);
    rgb[0] = 1.660491f * light[0] - 0.587641f * light[1] - 0.072850f * light[2];
    rgb[1] = -0.124550f * light[0] + 1.132900f * light[1] - 0.008349f * light[2];
    rgb[2] = -0.018151f * light[0] - 0.100579f * light[1] + 1.118730f * light[2];
#pragma unroll
    for (int c = 0; c < 3; c++) rgb[c] = powf(fminf(fmaxf(rgb[c], 0.0f), 1.0f), 1.0f / 2.4f) * VALUE_UNIT;
}
