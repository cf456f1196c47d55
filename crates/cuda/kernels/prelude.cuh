// What every emitted kernel may use: the batch, traps, the arithmetic of the graph, and reductions of a team of threads.

struct Trap {
    u64 key;      // (row << 32 | code) of the trap that counts: the lowest row's; all ones when nothing trapped
    u64 told;     // the key that the numbers below belong to
    long long value, low, high;
};

// One run's batch; what `fiddlehead_forest` says, as arrays. Filled by the executor: `executor/batch.rs`.
struct Batch {
    int rows, segments;
    const int* set_count;    // [sets]
    const int* set_start;    // [sets] into the two after it
    const int* set_node;     // forest node of each row of each set
    const int* set_row;      // [sets, rows] row of a forest node in a set, or -1
    const int* depth;        // [rows]
    const int* parent;       // [rows], -1 for a root
    const int* segment_of;   // [rows]
    const int* prompt_run;   // [rows] rows of its class from it on in its segment; negative for generated ones
    const int* base;         // [segments] committed nodes before it
    const int* first;        // [segments]
    const int* count;        // [segments]
    const int* chain;        // [segments] 1 for a node or a chain
    const int* path_start;   // [rows] into path_row, for nodes of a tree
    const int* path_row;     // rows counted from the segment's first, root first
    const int* page_start;   // [histories, segments] into pages
    const int* page_first;   // [histories, segments] number of the first page that is kept
    const int* page_rows;    // [histories]
    const u64* pages;
    const u64* state_in;     // [states, rows] each row's incoming value; of a state that a kernel carries from row to
                             // row: that of rows that do not follow their parent
    const u64* state_out;    // [states, rows] where outgoing values go, zero where nobody will read one
    const u64* kept;         // [states, segments] where a commit will find what a carried state needs of each row, or zero
    Trap* trap;
};

__device__ inline void trap(const Batch* b, int row, u32 code, long long value, long long low, long long high) {
    u64 key = (u64)(u32)row << 32 | code;
    if (atomicMin(&b->trap->key, key) > key) {
        b->trap->told = key;
        b->trap->value = value;
        b->trap->low = low;
        b->trap->high = high;
    }
}

// An index that must lie in low .. high; the lowest one where it does not.
__device__ inline long long checked(const Batch* b, int row, u32 code, long long i, long long low, long long high) {
    if (i >= low && i < high) return i;
    trap(b, row, code, i, low, high);
    return low;
}

__device__ inline int wrap_add(int x, int y) { return (int)((u32)x + (u32)y); }
__device__ inline int wrap_sub(int x, int y) { return (int)((u32)x - (u32)y); }
__device__ inline int wrap_mul(int x, int y) { return (int)((u32)x * (u32)y); }
__device__ inline int wrap_neg(int x) { return (int)(0u - (u32)x); }
__device__ inline int wrap_abs(int x) { return x < 0 ? wrap_neg(x) : x; }
__device__ inline int min_int(int x, int y) { return x < y ? x : y; }
__device__ inline int max_int(int x, int y) { return x > y ? x : y; }
__device__ inline long long floor_quotient(long long x, long long y) {
    long long q = x / y;
    return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}
__device__ inline long long floor_remainder(long long x, long long y) {
    long long r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
__device__ inline int floor_div(const Batch* b, int row, u32 code, int x, int y) {
    if (y == 0) { trap(b, row, code, x, 0, 0); return 0; }
    return (int)floor_quotient(x, y);
}
__device__ inline int floor_mod(const Batch* b, int row, u32 code, int x, int y) {
    if (y == 0) { trap(b, row, code, x, 0, 0); return 0; }
    return (int)floor_remainder(x, y);
}
__device__ inline u32 to_id(const Batch* b, int row, u32 code, int x) {
    if (x < 0) { trap(b, row, code, x, 0, 0); return 0; }
    return (u32)x;
}
__device__ inline int to_int(float x) {
    if (!(x > -2147483648.0f)) return x == x ? (int)0x80000000u : 0;
    return x >= 2147483648.0f ? 0x7fffffff : (int)x;
}
__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }
__device__ inline float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}
__device__ inline float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }

// Whether a ranks before b, greatest first: a NaN ranks behind every number.
__device__ inline bool outranks(float a, float b) { return a > b || (b != b && a == a); }
__device__ inline bool outranks(int a, int b) { return a > b; }

// ---- rows and paths

__device__ inline int set_node(const Batch* b, int set, int row) { return b->set_node[b->set_start[set] + row]; }
__device__ inline int row_in(const Batch* b, int set, int node) { return b->set_row[set * b->rows + node]; }

__device__ inline const u32* history_place(const Batch* b, int history, int segment, int place, int words) {
    int page_rows = b->page_rows[history], table = history * b->segments + segment;
    int page = place / page_rows - b->page_first[table];
    return (const u32*)b->pages[b->page_start[table] + page] + (long long)(place % page_rows) * words;
}

// The row at `depth`, not below zero nor above the node's own, on the path of a forest node.
__device__ inline const u32* history_row(const Batch* b, int history, int node, int depth, int words) {
    int segment = b->segment_of[node], base = b->base[segment], place = depth;
    if (depth >= base && !b->chain[segment]) place = base + b->path_row[b->path_start[node] + depth - base];
    return history_place(b, history, segment, place, words);
}

// Where a forest node's own row of a history goes.
__device__ inline u32* own_row(const Batch* b, int history, int node, int words) {
    int segment = b->segment_of[node];
    return (u32*)history_place(b, history, segment, b->base[segment] + node - b->first[segment], words);
}

__device__ inline const u32* state_in(const Batch* b, int state, int node) {
    return (const u32*)b->state_in[state * b->rows + node];
}
__device__ inline u32* state_out(const Batch* b, int state, int node) {
    return (u32*)b->state_out[state * b->rows + node];
}
__device__ inline float* kept_rows(const Batch* b, int state, int segment) {
    return (float*)b->kept[state * b->segments + segment];
}

// ---- teams: a warp, or a whole block; every thread of the team gets the result, the same bits

struct Ranked { float value; int index; };

#define WARP_MASK 0xffffffffu
__device__ inline float warp_sum(float x) {
    for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(WARP_MASK, x, step);
    return x;
}
__device__ inline int warp_sum(int x) {
    for (int step = 16; step > 0; step >>= 1) x = wrap_add(x, __shfl_xor_sync(WARP_MASK, x, step));
    return x;
}
__device__ inline float warp_product(float x) {
    for (int step = 16; step > 0; step >>= 1) x *= __shfl_xor_sync(WARP_MASK, x, step);
    return x;
}
__device__ inline int warp_product(int x) {
    for (int step = 16; step > 0; step >>= 1) x = wrap_mul(x, __shfl_xor_sync(WARP_MASK, x, step));
    return x;
}
__device__ inline float warp_max(float x) {
    for (int step = 16; step > 0; step >>= 1) x = fmaxf(x, __shfl_xor_sync(WARP_MASK, x, step));
    return x;
}
__device__ inline int warp_max(int x) {
    for (int step = 16; step > 0; step >>= 1) x = max_int(x, __shfl_xor_sync(WARP_MASK, x, step));
    return x;
}
__device__ inline float warp_min(float x) {
    for (int step = 16; step > 0; step >>= 1) x = fminf(x, __shfl_xor_sync(WARP_MASK, x, step));
    return x;
}
__device__ inline int warp_min(int x) {
    for (int step = 16; step > 0; step >>= 1) x = min_int(x, __shfl_xor_sync(WARP_MASK, x, step));
    return x;
}
__device__ inline bool warp_any(bool x) { return __any_sync(WARP_MASK, x); }
__device__ inline bool warp_all(bool x) { return !__any_sync(WARP_MASK, !x); }

// The greatest, the lowest index on ties; index -1 stands for nothing.
__device__ inline Ranked better(Ranked x, Ranked y) {
    if (y.index < 0) return x;
    if (x.index < 0) return y;
    if (outranks(x.value, y.value)) return x;
    if (outranks(y.value, x.value)) return y;
    return x.index < y.index ? x : y;
}
__device__ inline Ranked warp_best(Ranked x) {
    for (int step = 16; step > 0; step >>= 1) {
        Ranked y;
        y.value = __shfl_xor_sync(WARP_MASK, x.value, step);
        y.index = __shfl_xor_sync(WARP_MASK, x.index, step);
        x = better(x, y);
    }
    return x;
}

// The index of the greatest over a warp's lanes; `at` is -1 in a lane that saw nothing. Floats and integers are ranked
// by the one of the two that was counted: the other is zero everywhere.
__device__ inline u32 warp_argmax(long long at, float value, int number) {
    for (int step = 16; step > 0; step >>= 1) {
        long long other_at = __shfl_xor_sync(WARP_MASK, at, step);
        float other_value = __shfl_xor_sync(WARP_MASK, value, step);
        int other_number = __shfl_xor_sync(WARP_MASK, number, step);
        bool ahead = outranks(other_value, value) || (!outranks(value, other_value) && other_number > number);
        bool level = !outranks(value, other_value) && !outranks(other_value, value) && other_number == number;
        if (other_at >= 0 && (at < 0 || ahead || (level && other_at < at))) {
            at = other_at;
            value = other_value;
            number = other_number;
        }
    }
    return at < 0 ? 0u : (u32)at;
}
