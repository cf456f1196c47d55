// Words of fixed size, and floats as their bits: what every module begins with.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ inline float float_of_bits(u32 bits) {
    union { u32 bits; float value; } both;
    both.bits = bits;
    return both.value;
}

__device__ inline u32 bits_of_float(float value) {
    union { u32 bits; float value; } both;
    both.value = value;
    return both.bits;
}
