// The delta rule over values of one head: S <- d S; u = beta (v - S^T k); S <- S + k u^T; o = S^T q. Kernels that call
// these are emitted: `emit/sites/delta`.
//
// A block of threads has COLUMNS values of a head. Its thread (group, column) keeps the state's keys `group * PART` and
// on in registers, so that a sum over keys is one of PART products in a thread and one of GROUPS parts in shared memory.
// Operands are functions of a forest node: `key(node, k)`, `value(node, j)`, `decay(node)`, `beta(node)`.

enum { DELTA_COLUMNS = 32, DELTA_GROUPS = 4, DELTA_THREADS = 128 };

template <int KEYS> struct DeltaSize {
    // Keys of a thread, and of a row in shared memory: a multiple of four a thread, zeros behind the last.
    enum { PART = (KEYS + 15) / 16 * 4, WIDTH = PART * DELTA_GROUPS };
};

// What a commit that walks a path again is given: `executor/replay.rs`.
struct Replay {
    int states, count;
    const int* path;   // [count] nodes counted from the segment's first
    const u64* rows;   // [states] what was kept of each node
    const u64* from;   // [states]
    const u64* to;     // [states]
};

__device__ __forceinline__ int delta_column() { return threadIdx.x % DELTA_COLUMNS; }
__device__ __forceinline__ int delta_group() { return threadIdx.x / DELTA_COLUMNS; }

// `word(k)`: where key k of the thread's column lies in a stored state. `live`: the column is one of the head's.
template <int KEYS, int PART, class Word>
__device__ __forceinline__ void delta_load(float (&S)[PART], const float* from, const Word& word, bool live) {
#pragma unroll
    for (int x = 0; x < PART; x++) {
        const int k = delta_group() * PART + x;
        S[x] = live && k < KEYS ? from[word(k)] : 0.0f;
    }
}
template <int KEYS, int PART, class Word>
__device__ __forceinline__ void delta_store(const float (&S)[PART], float* to, const Word& word, bool live) {
#pragma unroll
    for (int x = 0; x < PART; x++) {
        const int k = delta_group() * PART + x;
        if (live && k < KEYS) to[word(k)] = S[x];
    }
}

// ---- node by node

template <int KEYS, int QUERIES> struct DeltaStep {
    // Two places, which nodes take in turn: the next node's rows come while the last one's are still read.
    alignas(16) float key[2][DeltaSize<KEYS>::WIDTH];
    alignas(16) float query[2][QUERIES][DeltaSize<KEYS>::WIDTH];
    float parts[QUERIES + 1][DELTA_GROUPS][DELTA_COLUMNS];
};

// A node's row on its way to shared memory. It is asked for a node ahead, so that nobody waits for memory.
template <int KEYS> struct DeltaRow {
    enum { COUNT = (DeltaSize<KEYS>::WIDTH + DELTA_THREADS - 1) / DELTA_THREADS };
    float held[COUNT];

    template <class Row> __device__ __forceinline__ void ask(int node, const Row& row) {
#pragma unroll
        for (int at = 0; at < COUNT; at++) {
            const int k = at * DELTA_THREADS + threadIdx.x;
            held[at] = k < KEYS ? row(node, k) : 0.0f;
        }
    }
    __device__ __forceinline__ void put(float (&to)[DeltaSize<KEYS>::WIDTH]) const {
#pragma unroll
        for (int at = 0; at < COUNT; at++) {
            const int k = at * DELTA_THREADS + threadIdx.x;
            if (k < DeltaSize<KEYS>::WIDTH) to[k] = held[at];
        }
    }
};

// The thread's part of S^T x.
template <int PART> __device__ __forceinline__ float delta_part(const float (&S)[PART], const float* x) {
    const float* own = x + delta_group() * PART;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < PART; k++) sums[k % 4] = fmaf(S[k], own[k], sums[k % 4]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// S^T x of the column, for every thread of it. `parts` is written again only after another barrier.
template <int PART>
__device__ __forceinline__ float delta_read(
    const float (&S)[PART], const float* x, float (&parts)[DELTA_GROUPS][DELTA_COLUMNS]) {
    const int column = delta_column();
    parts[delta_group()][column] = delta_part(S, x);
    __syncthreads();
    return (parts[0][column] + parts[1][column]) + (parts[2][column] + parts[3][column]);
}

// One node's decay and correction.
template <bool DECAYED, int KEYS, int PART>
__device__ __forceinline__ void delta_correct(
    float (&S)[PART], const float (&key)[DeltaSize<KEYS>::WIDTH], float decay, float beta, float value,
    float (&parts)[DELTA_GROUPS][DELTA_COLUMNS]) {
    if (DECAYED) {
#pragma unroll
        for (int x = 0; x < PART; x++) S[x] *= decay;
    }
    const float u = beta * (value - delta_read(S, key, parts));
#pragma unroll
    for (int x = 0; x < PART; x++) {
        const int k = delta_group() * PART + x;
        if (!DECAYED) S[x] *= decay;
        if (k < KEYS) S[x] = fmaf(key[k], u, S[x]);
    }
}

// ---- what a commit needs of a node to walk it again: [keys, values, decay, beta] of each head

template <int KEYS, int VALUES>
__device__ __forceinline__ void delta_keep_value(float* kept, int j, float value, float decay, float beta) {
    if (j < VALUES) kept[KEYS + j] = value;
    if (j == 0) {
        kept[KEYS + VALUES] = decay;
        kept[KEYS + VALUES + 1] = beta;
    }
}

// ---- a piece of a chain, or a tree, at once
//
// With F_ij the product of the decays after node j up to node i (j an ancestor of i), D_i that of the whole path:
//     A_ij = beta_i F_ij k_i . k_j         R_i = beta_i (v_i - D_i S^T k_i)         (I + A) U = R
//     o_i = D_i S^T q_i + sum_j F_ij (q_i . k_j) u_j         S <- D_n S + sum_j F_nj k_j u_j^T
// where sums go over strict ancestors, for o over the node itself too. What reads a state before the decay takes F and D
// up to the parent. F is a product and no difference of logarithms, so a decay may be zero, and nothing overflows that
// the serial rule does not. What is no ancestor is passed over, never multiplied by zero.
//
// Rows come in tiles of TILE. A tile's sums over the state and over the tiles before it are subtracted first, then its
// own rows are solved one after another, all in f32.

enum { DELTA_PIECE = 64, DELTA_TILE = 16, DELTA_SHARE = DELTA_TILE / DELTA_GROUPS };

template <int KEYS> struct DeltaPiece {
    // Rows lie four words further apart than they are long: threads that read several at once meet no bank twice.
    enum { STRIDE = DeltaSize<KEYS>::WIDTH + 4 };
    alignas(16) float rows[DELTA_TILE][STRIDE];
    union {
        alignas(16) float others[DELTA_TILE][STRIDE];
        float parts[DELTA_GROUPS][DELTA_TILE][DELTA_COLUMNS];
    };
    float update[DELTA_PIECE][DELTA_COLUMNS];
    float factor[DELTA_PIECE * (DELTA_PIECE + 1) / 2];   // F, row after row of its lower triangle
    u64 above[DELTA_PIECE];                              // bit j: node j is a strict ancestor
    float root[DELTA_PIECE];                             // D
    float decay[DELTA_PIECE], beta[DELTA_PIECE];
    int parent[DELTA_PIECE];                             // in the piece; -1 where the state before it is the parent's
    alignas(16) float tile[DELTA_TILE][DELTA_TILE + 4];
};

__device__ __forceinline__ int delta_pair(int i, int j) { return i * (i + 1) / 2 + j; }

// Nodes of the piece that begins at a node: prompts are cut at absolute multiples of the piece, so that a prompt's bits
// do not depend on where runs were cut; other rows of a chain are taken together. A tree is one piece.
__device__ __forceinline__ int delta_count(const Batch* b, int segment, int node, int end) {
    if (!b->chain[segment]) return end - node;
    const int run = b->prompt_run[node];
    return run > 0 ? min_int(run, DELTA_PIECE - b->depth[node] % DELTA_PIECE) : min_int(-run, DELTA_PIECE);
}

// Who descends from whom, and the decays between them.
template <int KEYS, class Decay, class Beta>
__device__ __forceinline__ void delta_begin(
    const Batch* b, DeltaPiece<KEYS>& piece, int first, int count, bool chain, const Decay& decay,
    const Beta& beta) {
    const int i = threadIdx.x;
    if (i < count) {
        piece.decay[i] = decay(first + i);
        piece.beta[i] = beta(first + i);
        const int parent = chain ? i - 1 : b->parent[first + i] - first;
        piece.parent[i] = parent < 0 ? -1 : parent;
    }
    __syncthreads();
    if (i < count) {
        u64 above = chain ? ((u64)1 << i) - 1 : 0;
        if (!chain)
            for (int at = piece.parent[i]; at >= 0; at = piece.parent[at]) above |= (u64)1 << at;
        piece.above[i] = above;
    }
    __syncthreads();
    if (i < count) {
        float last = 1.0f;
        piece.factor[delta_pair(i, i)] = last;
        for (int node = i + 1; node < count; node++) {
            if (!(piece.above[node] >> i & 1)) continue;
            const int parent = piece.parent[node];
            last = piece.decay[node] * (parent == node - 1 ? last : piece.factor[delta_pair(parent, i)]);
            piece.factor[delta_pair(node, i)] = last;
        }
    } else if (i == DELTA_PIECE) {
        for (int node = 0; node < count; node++) {
            const int parent = piece.parent[node];
            piece.root[node] = piece.decay[node] * (parent < 0 ? 1.0f : piece.root[parent]);
        }
    }
    __syncthreads();
}

// Rows of nodes; zeros behind the last.
template <int KEYS, class Row>
__device__ __forceinline__ void delta_rows(
    float (&to)[DELTA_TILE][DeltaPiece<KEYS>::STRIDE], int first, int count, const Row& row) {
    const int width = DeltaSize<KEYS>::WIDTH;
#pragma unroll 8
    for (int at = threadIdx.x; at < DELTA_TILE * width; at += DELTA_THREADS) {
        const int i = at / width, k = at % width;
        to[i][k] = i < count && k < KEYS ? row(first + i, k) : 0.0f;
    }
}

// The decays that a row's state has seen: up to its own, or to its parent's.
template <bool OWN, int KEYS> __device__ __forceinline__ float delta_seen(const DeltaPiece<KEYS>& piece, int i) {
    const int at = OWN ? i : piece.parent[i];
    return at < 0 ? 1.0f : piece.root[at];
}

// S^T x of the thread's share of the tile's rows, decayed. Ends with nobody waited for: `parts` is still read.
template <bool OWN, int KEYS, int PART>
__device__ __forceinline__ void delta_through(
    DeltaPiece<KEYS>& piece, const float (&S)[PART], int i0, int count, float (&sums)[DELTA_SHARE]) {
    const int column = delta_column(), group = delta_group();
#pragma unroll 4
    for (int i = 0; i < DELTA_TILE; i++) piece.parts[group][i][column] = delta_part(S, piece.rows[i]);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < DELTA_SHARE; r++) {
        const int i = group * DELTA_SHARE + r;
        const float sum = (piece.parts[0][i][column] + piece.parts[1][i][column]) +
                          (piece.parts[2][i][column] + piece.parts[3][i][column]);
        sums[r] = i0 + i < count ? delta_seen<OWN>(piece, i0 + i) * sum : 0.0f;
    }
}

// Products of the tile's rows with others' keys, decayed; only those of ancestors are numbers. SELF: and of the node.
template <bool OWN, bool SELF, int KEYS>
__device__ __forceinline__ void delta_tile(
    DeltaPiece<KEYS>& piece, const float (&others)[DELTA_TILE][DeltaPiece<KEYS>::STRIDE], int i0, int j0,
    int count) {
    const int i = threadIdx.x / 8;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int j = threadIdx.x % 8 + half * 8;
        float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 8
        for (int k = 0; k < DeltaSize<KEYS>::WIDTH; k += 4) {
#pragma unroll
            for (int lane = 0; lane < 4; lane++)
                sums[lane] = fmaf(piece.rows[i][k + lane], others[j][k + lane], sums[lane]);
        }
        const int row = i0 + i, column = j0 + j;
        if (row >= count) continue;
        if ((piece.above[row] >> column & 1) || (SELF && row == column)) {
            const float factor = piece.factor[delta_pair(OWN ? row : piece.parent[row], column)];
            piece.tile[i][j] = factor * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
        }
    }
}

// Adds what ancestors among the tile's columns gave to the thread's share of its rows.
template <bool SELF, int KEYS>
__device__ __forceinline__ void delta_add(
    const DeltaPiece<KEYS>& piece, int i0, int j0, int count, float (&sums)[DELTA_SHARE]) {
    const int column = delta_column(), first = delta_group() * DELTA_SHARE;
    u32 masks[DELTA_SHARE], all = 0xffffu;
#pragma unroll
    for (int r = 0; r < DELTA_SHARE; r++) {
        const int row = i0 + first + r;
        const u64 above = row < count ? piece.above[row] | (SELF ? (u64)1 << row : 0) : 0;
        masks[r] = (u32)(above >> j0) & 0xffffu;
        all &= masks[r];
    }
    if (all == 0xffffu) {
#pragma unroll
        for (int j = 0; j < DELTA_TILE; j++) {
            const float update = piece.update[j0 + j][column];
#pragma unroll
            for (int r = 0; r < DELTA_SHARE; r++) sums[r] = fmaf(piece.tile[first + r][j], update, sums[r]);
        }
    } else {
        for (int j = 0; j < DELTA_TILE; j++) {
            const float update = piece.update[j0 + j][column];
#pragma unroll
            for (int r = 0; r < DELTA_SHARE; r++)
                if (masks[r] >> j & 1) sums[r] = fmaf(piece.tile[first + r][j], update, sums[r]);
        }
    }
}

// (I + A) U = R within a tile, R without its beta in `update`: a thread a column, one row after another.
template <bool CHAIN, int KEYS>
__device__ __forceinline__ void delta_substitute(DeltaPiece<KEYS>& piece, int i0, int count) {
    const int column = delta_column(), rows = min_int(DELTA_TILE, count - i0);
    float right[DELTA_TILE];
#pragma unroll
    for (int i = 0; i < DELTA_TILE; i++) right[i] = i < rows ? piece.update[i0 + i][column] : 0.0f;
#pragma unroll
    for (int i = 0; i < DELTA_TILE; i++) {
        if (i < rows) {
            const float u = piece.beta[i0 + i] * right[i];
            piece.update[i0 + i][column] = u;
#pragma unroll
            for (int below = i + 1; below < DELTA_TILE; below++)
                if (below < rows && (CHAIN || (piece.above[i0 + below] >> (i0 + i) & 1)))
                    right[below] = fmaf(-piece.tile[below][i], u, right[below]);
        }
    }
}

// Solves a piece for its updates.
template <bool DECAYED, int KEYS, int VALUES, int PART, class Key, class Value>
__device__ __forceinline__ void delta_solve(
    DeltaPiece<KEYS>& piece, const float (&S)[PART], int first, int count, bool chain, int j, const Key& key,
    const Value& value, float* kept, long long kept_words) {
    const int column = delta_column();
    for (int i0 = 0; i0 < count; i0 += DELTA_TILE) {
        delta_rows<KEYS>(piece.rows, first + i0, count - i0, key);
        __syncthreads();
        float sums[DELTA_SHARE];
        delta_through<DECAYED>(piece, S, i0, count, sums);
        for (int j0 = 0; j0 < i0; j0 += DELTA_TILE) {
            __syncthreads();
            delta_rows<KEYS>(piece.others, first + j0, DELTA_TILE, key);
            __syncthreads();
            delta_tile<DECAYED, false>(piece, piece.others, i0, j0, count);
            __syncthreads();
            delta_add<false>(piece, i0, j0, count, sums);
        }
        __syncthreads();
        delta_tile<DECAYED, false>(piece, piece.rows, i0, i0, count);
        for (int r = 0; r < DELTA_SHARE; r++) {
            const int i = i0 + delta_group() * DELTA_SHARE + r;
            if (i >= count) continue;
            const float target = j < VALUES ? value(first + i, j) : 0.0f;
            piece.update[i][column] = target - sums[r];
            if (kept) delta_keep_value<KEYS, VALUES>(kept + i * kept_words, j, target, piece.decay[i], piece.beta[i]);
        }
        if (kept && j == column)
            for (int at = threadIdx.x; at < min_int(DELTA_TILE, count - i0) * KEYS; at += DELTA_THREADS)
                kept[(i0 + at / KEYS) * kept_words + at % KEYS] = piece.rows[at / KEYS][at % KEYS];
        __syncthreads();
        if (delta_group() == 0) {
            if (chain) delta_substitute<true>(piece, i0, count);
            else delta_substitute<false>(piece, i0, count);
        }
        __syncthreads();
    }
}

// Reads the states of a solved piece's nodes, outgoing ones (OWN) or incoming: `out(node, S^T q)` of the thread's column.
template <bool OWN, int KEYS, int PART, class Key, class Query, class Out>
__device__ __forceinline__ void delta_answer(
    DeltaPiece<KEYS>& piece, const float (&S)[PART], int first, int count, const Key& key, const Query& query,
    const Out& out) {
    for (int i0 = 0; i0 < count; i0 += DELTA_TILE) {
        delta_rows<KEYS>(piece.rows, first + i0, count - i0, query);
        __syncthreads();
        float sums[DELTA_SHARE];
        delta_through<OWN>(piece, S, i0, count, sums);
        for (int j0 = 0; j0 <= i0; j0 += DELTA_TILE) {
            __syncthreads();
            delta_rows<KEYS>(piece.others, first + j0, count - j0, key);
            __syncthreads();
            delta_tile<OWN, OWN>(piece, piece.others, i0, j0, count);
            __syncthreads();
            delta_add<OWN>(piece, i0, j0, count, sums);
        }
        for (int r = 0; r < DELTA_SHARE; r++) {
            const int i = i0 + delta_group() * DELTA_SHARE + r;
            if (i < count) out(first + i, sums[r]);
        }
        __syncthreads();
    }
}

// The state after a solved piece of a chain.
template <int KEYS, int PART, class Key>
__device__ __forceinline__ void delta_advance(
    DeltaPiece<KEYS>& piece, float (&S)[PART], int first, int count, const Key& key) {
    const int column = delta_column(), group = delta_group(), last = count - 1;
#pragma unroll
    for (int x = 0; x < PART; x++) S[x] *= piece.root[last];
    for (int j0 = 0; j0 < count; j0 += DELTA_TILE) {
        delta_rows<KEYS>(piece.rows, first + j0, count - j0, key);
        __syncthreads();
        const int rows = min_int(DELTA_TILE, count - j0);
        for (int j = 0; j < rows; j++) {
            const float update = piece.factor[delta_pair(last, j0 + j)] * piece.update[j0 + j][column];
#pragma unroll
            for (int x = 0; x < PART; x++) S[x] = fmaf(piece.rows[j][group * PART + x], update, S[x]);
        }
        __syncthreads();
    }
}
