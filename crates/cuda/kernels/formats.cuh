// One element of a stored weight, dequantised plainly: `read_FORMAT(bytes, element)`. The layouts are those of the
// storage crate, whose values these must equal bit for bit.

__device__ inline u16 u16_at(const u8* bytes) { return (u16)(bytes[0] | bytes[1] << 8); }

__device__ inline float half_of_bits(u16 bits) {
#ifdef FIDDLEHEAD_EMULATOR
    u32 sign = (u32)(bits >> 15) << 31, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)mantissa * 5.9604644775390625e-8f;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000u | mantissa << 13);
    return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
#else
    float value;
    asm("{ .reg .b16 half; mov.b16 half, %1; cvt.f32.f16 %0, half; }" : "=f"(value) : "h"(bits));
    return value;
#endif
}

__device__ inline float half_at(const u8* bytes) { return half_of_bits(u16_at(bytes)); }

__device__ inline float read_f32(const u8* bytes, long long i) { return ((const float*)bytes)[i]; }
__device__ inline float read_f16(const u8* bytes, long long i) { return half_of_bits(((const u16*)bytes)[i]); }
__device__ inline float read_bf16(const u8* bytes, long long i) {
    return float_of_bits((u32)((const u16*)bytes)[i] << 16);
}

__device__ inline int nibble_at(const u8* packed, int at) {
    return at < 16 ? packed[at] & 15 : packed[at - 16] >> 4;
}

__device__ inline float read_q8_0(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 5) * 34;
    return half_at(block) * (float)(signed char)block[2 + (i & 31)];
}
__device__ inline float read_q4_0(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 5) * 18;
    return half_at(block) * ((float)nibble_at(block + 2, (int)(i & 31)) - 8.0f);
}
__device__ inline float read_q4_1(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 5) * 20;
    return half_at(block) * (float)nibble_at(block + 4, (int)(i & 31)) + half_at(block + 2);
}
__device__ inline int fifth_bit(const u8* bits, int at) { return (bits[at >> 3] >> (at & 7) & 1) << 4; }
__device__ inline float read_q5_0(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 5) * 22;
    int at = (int)(i & 31);
    return half_at(block) * ((float)(nibble_at(block + 6, at) | fifth_bit(block + 2, at)) - 16.0f);
}
__device__ inline float read_q5_1(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 5) * 24;
    int at = (int)(i & 31);
    return half_at(block) * (float)(nibble_at(block + 8, at) | fifth_bit(block + 4, at)) + half_at(block + 2);
}

// The 6-bit scale and minimum of a sub-block of the 4- and 5-bit super-blocks.
__device__ inline void scale_and_minimum(const u8* packed, int index, float& scale, float& minimum) {
    if (index < 4) {
        scale = (float)(packed[index] & 63);
        minimum = (float)(packed[index + 4] & 63);
    } else {
        int low = packed[index + 4];
        scale = (float)((low & 15) | (packed[index - 4] >> 6) << 4);
        minimum = (float)((low >> 4) | (packed[index] >> 6) << 4);
    }
}
__device__ inline float read_q4_k(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 8) * 144;
    int at = (int)(i & 255), index = at >> 5;
    float scale, minimum;
    scale_and_minimum(block + 4, index, scale, minimum);
    int number = block[16 + (index >> 1) * 32 + (at & 31)] >> ((index & 1) * 4) & 15;
    return half_at(block) * scale * (float)number - half_at(block + 2) * minimum;
}
__device__ inline float read_q5_k(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 8) * 176;
    int at = (int)(i & 255), index = at >> 5;
    float scale, minimum;
    scale_and_minimum(block + 4, index, scale, minimum);
    int number = block[48 + (index >> 1) * 32 + (at & 31)] >> ((index & 1) * 4) & 15;
    number |= (block[16 + (at & 31)] >> index & 1) << 4;
    return half_at(block) * scale * (float)number - half_at(block + 2) * minimum;
}
__device__ inline float read_q6_k(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 8) * 210;
    int at = (int)(i & 255), half = at >> 7, quarter = at >> 5 & 3, within = at & 31;
    float scale = half_at(block + 208) * (float)(signed char)block[192 + (at >> 4)];
    int low = block[half * 64 + (quarter & 1) * 32 + within] >> ((quarter >> 1) * 4) & 15;
    int high = block[128 + half * 32 + within] >> (quarter * 2) & 3;
    return scale * ((float)(low | high << 4) - 32.0f);
}
__device__ inline float read_q2_k(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 8) * 84;
    int at = (int)(i & 255), half = at >> 7, shift = (at >> 5 & 3) * 2;
    u8 sub = block[at >> 4];
    int number = block[16 + half * 32 + (at & 31)] >> shift & 3;
    return half_at(block + 80) * (float)(sub & 15) * (float)number - half_at(block + 82) * (float)(sub >> 4);
}
__device__ inline float read_q3_k(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 8) * 110;
    int at = (int)(i & 255), half = at >> 7, index = at >> 4, group = at >> 5;
    const u8* packed = block + 96;
    int low = packed[index & 7] >> ((index >> 3) * 4) & 15, high = packed[8 + (index & 3)] >> ((index >> 2) * 2) & 3;
    float scale = half_at(block + 108) * ((float)(low | high << 4) - 32.0f);
    int number = block[32 + half * 32 + (at & 31)] >> ((group & 3) * 2) & 3;
    number |= (block[at & 31] >> group & 1) << 2;
    return scale * ((float)number - 4.0f);
}

__device__ inline float uneven_value(int nibble) {
    const signed char values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return (float)values[nibble];
}
__device__ inline float read_iq4_nl(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 5) * 18;
    return half_at(block) * uneven_value(nibble_at(block + 2, (int)(i & 31)));
}
__device__ inline float read_iq4_xs(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 8) * 136;
    int at = (int)(i & 255), index = at >> 5;
    int low = block[4 + (index >> 1)] >> ((index & 1) * 4) & 15, high = u16_at(block + 2) >> (index * 2) & 3;
    float scale = half_at(block) * ((float)(low | high << 4) - 32.0f);
    return scale * uneven_value(nibble_at(block + 8 + index * 16, at & 31));
}
__device__ inline float read_f8_e4m3_128(const u8* bytes, long long i) {
    const u8* block = bytes + (i >> 7) * 132;
    u8 bits = block[4 + (i & 127)];
    int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float value;
    if (exponent == 15 && mantissa == 7) value = float_of_bits(0x7fc00000u);
    else if (exponent == 0) value = (float)mantissa / 512.0f;
    else value = (1.0f + (float)mantissa / 8.0f) * float_of_bits((u32)(exponent + 120) << 23);
    return ((const float*)block)[0] * (bits & 0x80 ? -value : value);
}
