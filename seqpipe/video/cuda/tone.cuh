// Transfer functions, as tone.py has them with their sources: 1 and 2 map PQ and HLG to SDR of BT.709 by method A of
// BT.2446-1, 3 and 4 give their light in units of 203 cd/m2, 5 that of SDR in units of white.

#define TONE (TRANSFER & 7)
#define VALUE_UNIT (OUTPUT == 0 ? 255.0f : OUTPUT == 1 ? 65535.0f : 1.0f)

struct Color {
    float r, g, b;
};

__device__ __forceinline__ float luma_of(Color rgb) { return 0.2627f * rgb.r + 0.6780f * rgb.g + 0.0593f * rgb.b; }

__device__ __forceinline__ float clamped(float value) { return fminf(fmaxf(value, 0.0f), 1.0f); }

// Light of a signal: of a display, or with HLG of the scene; 1 is the greatest that is mapped.
__device__ __forceinline__ float light_of(float value) {
    const float signal = clamped(value / VALUE_UNIT);
#if TONE == 5
    return powf(signal, 2.4f);
#elif TONE % 2
    const float power = powf(signal, 32.0f / 2523.0f);
    const float ratio = fmaxf(power - 3424.0f / 4096.0f, 0.0f) / (2413.0f / 128.0f - 2392.0f / 128.0f * power);
    return 10.0f * powf(ratio, 8192.0f / 1305.0f);
#else
    return signal <= 0.5f ? signal * signal / 3.0f : (expf((signal - 0.55991073f) / 0.17883277f) + 0.28466892f) / 12.0f;
#endif
}

__device__ __forceinline__ Color scaled_by(Color rgb, float gain) {
    rgb.r *= gain, rgb.g *= gain, rgb.b *= gain;
    return rgb;
}

#if TONE < 3
__device__ __forceinline__ Color mapped(Color light) {
    const float r = powf(fminf(light.r, 1.0f), 1.0f / 2.4f), g = powf(fminf(light.g, 1.0f), 1.0f / 2.4f);
    const float b = powf(fminf(light.b, 1.0f), 1.0f / 2.4f);
    const float hdr = 13.259798f, sdr = 5.696958f;  // 1 + 32 * (nits / 10000)^(1/2.4)
    const float luma = luma_of({r, g, b});
    const float p = logf(1.0f + (hdr - 1.0f) * luma) / logf(hdr);
    const float c = p <= 0.7399f ? 1.0770f * p : p < 0.9909f ? (-1.1510f * p + 2.7811f) * p - 0.6302f : 0.5f * p + 0.5f;
    const float compressed = (powf(sdr, c) - 1.0f) / (sdr - 1.0f);
    const float gain = luma > 0.0f ? compressed / (1.1f * luma) : 0.0f;
    const float blue = (b - luma) * gain, red = (r - luma) * gain, base = compressed - fmaxf(red * (0.1f / 1.4746f), 0.0f);
    const float x = powf(clamped(base + red), 2.4f), z = powf(clamped(base + blue), 2.4f);
    const float y = powf(clamped(base - 0.0593f / 0.6780f * blue - 0.2627f / 0.6780f * red), 2.4f);
    return {powf(clamped(1.660491f * x - 0.587641f * y - 0.072850f * z), 1.0f / 2.4f),
            powf(clamped(-0.124550f * x + 1.132900f * y - 0.008349f * z), 1.0f / 2.4f),
            powf(clamped(-0.018151f * x - 0.100579f * y + 1.118730f * z), 1.0f / 2.4f)};
}
#endif

// Changes the transfer function of R, G and B in units of VALUE_UNIT; not inlined, for each pixel of a thread would repeat it.
__device__ __noinline__ Color change_transfer(float r, float g, float b) {
    Color light = {light_of(r), light_of(g), light_of(b)};
#if TONE == 2 || TONE == 4
    light = scaled_by(light, powf(luma_of(light), 0.2f));
#endif
#if TONE < 3
    return scaled_by(mapped(light), VALUE_UNIT);
#else
    return scaled_by(light, (TONE == 5 ? 1.0f : 1000.0f / 203.0f) * VALUE_UNIT);
#endif
}
