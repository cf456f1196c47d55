// Test support: enough of CUDA on an x86-64 CPU to run a kernel's blocks one after another, every thread of a block a
// fiber of its own. Barriers and shuffles hand over to the next fiber; a barrier that some thread never reaches is
// told instead of waited for. Prefixed to a module's text, followed by one `run_NAME` a kernel.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIDDLEHEAD_EMULATOR 1
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(threads)

struct Index { unsigned x, y, z; };
struct float4 { float x, y, z, w; };
static Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

enum State { READY, WARP, BLOCK, DONE };
const int MOST = 1024, STACK = 1 << 16;
static char* stacks;
static void* saved[MOST];
static State states[MOST];
static uint64_t slots[MOST];
static void* home;
static int current, threads;
static void (*body)(const uint64_t*);
static const uint64_t* arguments;

extern "C" __attribute__((visibility("hidden"))) void fiddlehead_switch(void** save, void* load);
asm(".text\n.hidden fiddlehead_switch\n.globl fiddlehead_switch\nfiddlehead_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");

static void leave(State state) {
    states[current] = state;
    fiddlehead_switch(&saved[current], home);
}

static void enter() {
    body(arguments);
    leave(DONE);
}

static void prepare(int thread) {
    uintptr_t top = (uintptr_t)(stacks + (size_t)(thread + 1) * STACK) & ~(uintptr_t)63;
    // `ret` takes the entry from here and leaves the stack as a call would.
    void** at = (void**)(top - 64);
    at[6] = (void*)&enter;
    saved[thread] = at;
    states[thread] = READY;
}

static int block() {
    for (int thread = 0; thread < threads; thread++) prepare(thread);
    for (;;) {
        bool ran = false, live = false;
        for (int thread = 0; thread < threads; thread++) {
            if (states[thread] != READY) continue;
            current = thread;
            threadIdx.x = (unsigned)thread;
            fiddlehead_switch(&home, saved[thread]);
            ran = true;
        }
        bool all = true;
        for (int first = 0; first < threads; first += 32) {
            int last = first + 32 < threads ? first + 32 : threads;
            bool waits = false, warp = true;
            for (int thread = first; thread < last; thread++) {
                if (states[thread] == DONE) continue;
                live = true;
                all = all && states[thread] == BLOCK;
                waits = waits || states[thread] == WARP;
                warp = warp && states[thread] == WARP;
            }
            if (waits && warp) {
                ran = true;
                for (int thread = first; thread < last; thread++)
                    if (states[thread] == WARP) states[thread] = READY;
            }
        }
        if (!live) return 0;
        if (all) {
            for (int thread = 0; thread < threads; thread++)
                if (states[thread] == BLOCK) states[thread] = READY;
        } else if (!ran) {
            return 1;
        }
    }
}

static int launch(void (*kernel)(const uint64_t*), const uint64_t* given, unsigned grid, unsigned block_threads) {
    if (!stacks) stacks = (char*)malloc((size_t)MOST * STACK);
    body = kernel;
    arguments = given;
    threads = (int)block_threads;
    gridDim.x = grid;
    blockDim.x = block_threads;
    for (unsigned at = 0; at < grid; at++) {
        blockIdx.x = at;
        if (block()) return 1;
    }
    return 0;
}

// An address that becomes whatever pointer a kernel declares, or a number.
struct Any {
    uint64_t address;
    template <class T> operator T*() const { return (T*)address; }
    operator unsigned long long() const { return address; }
};

}  // namespace emulator

static void __syncthreads() { emulator::leave(emulator::BLOCK); }
static void __syncwarp(unsigned = ~0u) { emulator::leave(emulator::WARP); }

template <class T> static T __shfl_sync(unsigned, T value, int lane) {
    int first = emulator::current / 32 * 32;
    emulator::slots[emulator::current] = 0;
    memcpy(&emulator::slots[emulator::current], &value, sizeof(T));
    emulator::leave(emulator::WARP);
    T found;
    memcpy(&found, &emulator::slots[first + (lane & 31)], sizeof(T));
    emulator::leave(emulator::WARP);
    return found;
}
template <class T> static T __shfl_xor_sync(unsigned mask, T value, int step) {
    return __shfl_sync(mask, value, (emulator::current & 31) ^ step);
}
template <class T> static T __shfl_up_sync(unsigned mask, T value, int step) {
    int lane = emulator::current & 31;
    return __shfl_sync(mask, value, lane < step ? lane : lane - step);
}
static unsigned __ballot_sync(unsigned mask, bool value) {
    unsigned found = value ? 1u << (emulator::current & 31) : 0;
    for (int step = 16; step > 0; step >>= 1) found |= __shfl_xor_sync(mask, found, step);
    return found;
}
static int __popc(unsigned bits) { return __builtin_popcount(bits); }
static int atomicAdd(int* at, int more) {
    int old = *at;
    *at = old + more;
    return old;
}
static bool __any_sync(unsigned mask, bool value) {
    int found = value;
    for (int step = 16; step > 0; step >>= 1) found |= __shfl_xor_sync(mask, found, step);
    return found != 0;
}
// Fibers run one after another, so nothing comes between reading and writing.
template <class T> static T atomicAdd(T* at, T value) {
    T old = *at;
    *at = old + value;
    return old;
}
static uint64_t atomicMin(unsigned long long* at, unsigned long long value) {
    unsigned long long old = *at;
    if (value < old) *at = value;
    return old;
}
