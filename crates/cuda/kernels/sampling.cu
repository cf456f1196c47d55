// The choice of the next token from a row of logits: what `fiddlehead_plan::sampling` says, to the bit. Every decision is a
// comparison, a sum of whole numbers, or f64 sums, products and quotients in the order stated there; nothing depends on the
// order in which threads come.
//
// A row is gone through by one block of THREADS threads (`sampling_filter`), which finds its greatest logit and which
// candidates top-k and top-p leave; then, where noise decides, by several (`sampling_draw`), whose findings
// `sampling_last` joins. Filled and launched by `executor/sampler.rs`.

#define THREADS 1024
#define NOBODY 0xffffffffu
// A bin of so many candidates is searched by one warp.
#define FEW 1024
#define ALL_LANES 0xffffffffu

struct Penalty {
    u32 token;
    float off;  // taken off after the division or product
};

// One row's choice.
struct Choice {
    const float* logits;       // [vocabulary]
    float* penalised;          // [vocabulary] room; absent without penalties
    u32* list;                 // [vocabulary] room; absent without top-k and top-p
    const Penalty* penalties;  // [penalty_count], each token once
    u64 noise;                 // what the noise of each token is mixed from
    u64 top_k;                 // 0 keeps all
    double temperature;        // 0 takes the greatest
    double share;              // top-p; 1 keeps all
    double least;              // min-p: the least logit over the temperature, relative to the greatest
    u32 vocabulary, penalty_count;
    float repetition;
    u32 unused;
};

// The candidates that are left: those of a rank above `rank`, and of that rank the tokens up to `last`.
struct Kept {
    u32 rank, last;
    float greatest;
    u32 drawn;  // whether noise decides; the row's result is there already otherwise
};

struct Best {
    double score;
    u32 token;  // NOBODY when there is none
    u32 unused;
};

// What became of a row.
enum Status { CHOSEN = 0, NOT_A_NUMBER = 1, NO_CANDIDATE = 2 };
struct Chosen {
    u32 token, status;
    float value;
    u32 unused;
};

// ---- bits and numbers

__device__ inline u64 bits_of_double(double value) {
    union { double value; u64 bits; } both;
    both.value = value;
    return both.bits;
}
__device__ inline double double_of_bits(u64 bits) {
    union { double value; u64 bits; } both;
    both.bits = bits;
    return both.value;
}

// Whole numbers in the order of floats, both zeros alike.
__device__ inline u32 rank_of(float x) {
    u32 bits = bits_of_float(x + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ inline float of_rank(u32 rank) { return float_of_bits(rank >> 31 ? rank & 0x7fffffffu : ~rank); }
// The rank of minus infinity: what is above it may be chosen.
#define RULED_OUT 0x007fffffu

// The natural logarithm of a positive, normal, finite number.
__device__ inline double exact_ln(double x) {
    u64 bits = bits_of_double(x);
    double exponent = (double)((int)(bits >> 52) - 1023);
    double mantissa = double_of_bits((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
    if (mantissa > 1.4142135623730951) {
        mantissa *= 0.5;
        exponent += 1.0;
    }
    double s = (mantissa - 1.0) / (mantissa + 1.0);
    double square = s * s;
    double tail = 1.0 / 23.0;
    tail = tail * square + 1.0 / 21.0;
    tail = tail * square + 1.0 / 19.0;
    tail = tail * square + 1.0 / 17.0;
    tail = tail * square + 1.0 / 15.0;
    tail = tail * square + 1.0 / 13.0;
    tail = tail * square + 1.0 / 11.0;
    tail = tail * square + 1.0 / 9.0;
    tail = tail * square + 1.0 / 7.0;
    tail = tail * square + 1.0 / 5.0;
    tail = tail * square + 1.0 / 3.0;
    double twice = 2.0 * s;
    return exponent * 0.6931471803691238 + (twice + (twice * square * tail + exponent * 1.9082149292705877e-10));
}

// e^x for x from -700 to 0.
__device__ inline double exact_exp(double x) {
    int whole = (int)(x * 1.4426950408889634 - 0.5);
    double n = (double)whole;
    double r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
    double sum = 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 1.0 / 2.0;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    return sum * double_of_bits((u64)(1023 + whole) << 52);
}

__device__ inline u64 weight_of(double scaled) {
    return scaled < -28.0 ? 0 : (u64)(exact_exp(scaled) * 1099511627776.0);
}

__device__ inline u64 share_of(double share, u64 total) {
    double product = share * (double)total;
    u64 whole = (u64)product;
    whole += (double)whole < product;
    return whole == 0 ? 1 : whole;
}

__device__ inline u64 mix(u64 word) {
    word += 0x9e3779b97f4a7c15ull;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ word >> 27) * 0x94d049bb133111ebull;
    return word ^ word >> 31;
}

__device__ inline double gumbel(u64 noise, u32 token) {
    double uniform = ((double)(mix(noise ^ token) >> 12) + 0.5) * (1.0 / 4503599627370496.0);
    return -exact_ln(-exact_ln(uniform));
}

// ---- a block's threads

struct Larger { template <class T> __device__ T operator()(T x, T y) const { return x > y ? x : y; } };
struct Smaller { template <class T> __device__ T operator()(T x, T y) const { return x < y ? x : y; } };
struct Plus { template <class T> __device__ T operator()(T x, T y) const { return x + y; } };

// Every thread's value joined with all others' of a team; all of them get the result.
struct Warp {
    static const u32 THREADS_OF = 32;
    template <class T, class Join> __device__ static T all(T x, Join join) {
        for (int step = 16; step > 0; step >>= 1) x = join(x, __shfl_xor_sync(ALL_LANES, x, step));
        return x;
    }
};

// THREADS is 32 warps of 32.
struct Block {
    static const u32 THREADS_OF = THREADS;
    template <class T, class Join> __device__ static T all(T x, Join join) {
        __shared__ T parts[32];
        x = Warp::all(x, join);
        __syncthreads();
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
        __syncthreads();
        return Warp::all(parts[threadIdx.x % 32], join);
    }
};

// Calls `visit(token, logit)` for this thread's part of a row. Loads go ahead of their use, four quads at once: a block
// alone would wait for memory otherwise.
template <class Visit>
__device__ void each(const float* row, u32 count, u32 thread, u32 threads, const Visit& visit) {
    u32 head = (u32)((16 - (u64)row % 16) % 16 / 4);
    if (head > count) head = count;
    if (thread < head) visit(thread, row[thread]);
    const float4* quads = (const float4*)(row + head);
    u32 all = (count - head) / 4;
    for (u32 first = thread; first < all; first += 4 * threads) {
        float4 quad[4];
#pragma unroll
        for (u32 at = 0; at < 4; at++)
            if (first + at * threads < all) quad[at] = quads[first + at * threads];
#pragma unroll
        for (u32 at = 0; at < 4; at++) {
            u32 place = first + at * threads;
            if (place >= all) continue;
            u32 token = head + 4 * place;
            visit(token, quad[at].x);
            visit(token + 1, quad[at].y);
            visit(token + 2, quad[at].z);
            visit(token + 3, quad[at].w);
        }
    }
    u32 token = head + 4 * all + thread;
    if (token < count) visit(token, row[token]);
}

__device__ inline bool is_kept(const Kept& kept, u32 rank, u32 token) {
    return rank > kept.rank || (rank == kept.rank && token <= kept.last);
}

// ---- cutting the order of candidates

// Every candidate counts one.
struct Counted {
    u64 most;
    __device__ u64 of(float) const { return 1; }
    __device__ u64 wanted(u64) const { return most; }
};

// Every candidate counts its share.
struct Weighed {
    double greatest, temperature, share;
    __device__ u64 of(float x) const { return weight_of(((double)x - greatest) / temperature); }
    __device__ u64 wanted(u64 total) const { return share_of(share, total); }
};

// Candidates of one bin: their tokens, and the lowest and the highest of their ranks.
struct Bin {
    const u32* list;
    u32 count, low, high;
};

// The fewest of a bin's candidates, in their order, whose measures sum to what is needed, which all of them do.
template <class Team, class Measure>
__device__ Kept search(const Choice& c, const float* row, Kept kept, const Measure& measure, Bin bin, u64 needed) {
    u32 me = threadIdx.x, low = bin.low;
    auto worth_from = [&](u32 rank) {
        u64 sum = 0;
        for (u32 at = me; at < bin.count; at += Team::THREADS_OF) {
            float x = row[bin.list[at]];
            if (rank_of(x) >= rank) sum += measure.of(x);
        }
        return Team::all(sum, Plus());
    };
    // The greatest rank from which on there is enough.
    for (u32 past = bin.high + 1; past - low > 1;) {
        u32 middle = low + (past - low) / 2;
        u64 sum = worth_from(middle);
        if (sum >= needed) {
            low = middle;
        } else {
            past = middle;
        }
    }
    // Of those of that rank, as many as are needed: the lowest tokens.
    u64 above = worth_from(low + 1), one = measure.of(of_rank(low)), most = (needed - above + one - 1) / one;
    auto ties_to = [&](u32 last) {
        u64 ties = 0;
        for (u32 at = me; at < bin.count; at += Team::THREADS_OF) {
            u32 token = bin.list[at];
            ties += token <= last && rank_of(row[token]) == low;
        }
        return Team::all(ties, Plus());
    };
    u32 last = low == kept.rank ? kept.last : NOBODY;
    if (ties_to(NOBODY) > most) {
        u32 least = 0;
        for (last = c.vocabulary - 1; least < last;) {
            u32 middle = least + (last - least) / 2;
            if (ties_to(middle) >= most) {
                last = middle;
            } else {
                least = middle + 1;
            }
        }
    }
    kept.rank = low;
    kept.last = last;
    return kept;
}

// Leaves the fewest candidates, in their order, whose measures sum to what is wanted; all when they sum to less.
//
// Candidates are first measured by bins of their distance from the greatest logit; the bin in which the sum is reached is
// then searched by itself.
template <class Measure>
__device__ Kept cut(const Choice& c, const float* row, Kept kept, const Measure& measure) {
    __shared__ u64 bins[THREADS];
    __shared__ u64 before;
    __shared__ u32 reached, listed;
    __shared__ Kept found;
    u32 me = threadIdx.x;
    // What is 28 natural logarithms behind has no share, so the bins go that far; the last one takes what is farther.
    float greatest = kept.greatest, scale = (float)(THREADS / (28.0 * c.temperature));
    auto bin_of = [=](float x) -> u32 {
        float place = (greatest - x) * scale;
        if (place < THREADS - 1.0f) return (u32)place;
        return place == place ? THREADS - 1 : 0;
    };
    bins[me] = 0;
    if (me == 0) listed = 0;
    __syncthreads();
    each(row, c.vocabulary, me, THREADS, [&](u32 token, float x) {
        if (!is_kept(kept, rank_of(x), token)) return;
        u64 worth = measure.of(x);
        if (worth != 0) atomicAdd(&bins[bin_of(x)], worth);
    });
    __syncthreads();
    for (u32 step = 1; step < THREADS; step *= 2) {
        u64 left = me >= step ? bins[me - step] : 0;
        __syncthreads();
        bins[me] += left;
        __syncthreads();
    }
    u64 total = bins[THREADS - 1], wanted = measure.wanted(total);
    if (total < wanted) return kept;
    u64 mine = me ? bins[me - 1] : 0;
    if (mine < wanted && wanted <= bins[me]) {
        before = mine;
        reached = me;
    }
    __syncthreads();
    Bin bin = {c.list, 0, NOBODY, 0};
    each(row, c.vocabulary, me, THREADS, [&](u32 token, float x) {
        u32 rank = rank_of(x);
        if (!is_kept(kept, rank, token) || bin_of(x) != reached) return;
        c.list[atomicAdd(&listed, 1u)] = token;
        bin.low = rank < bin.low ? rank : bin.low;
        bin.high = rank > bin.high ? rank : bin.high;
    });
    // These wait for every thread, so that the list is whole.
    bin.low = Block::all(bin.low, Smaller());
    bin.high = Block::all(bin.high, Larger());
    bin.count = listed;
    if (bin.count > FEW) return search<Block>(c, row, kept, measure, bin, wanted - before);
    // One warp need not wait for the others at every step.
    if (me < 32) {
        Kept left = search<Warp>(c, row, kept, measure, bin, wanted - before);
        if (me == 0) found = left;
    }
    __syncthreads();
    return found;
}

// ---- kernels

// A block a row: penalties, the greatest logit, top-k and top-p. Writes the result of a row that needs no noise.
extern "C" __global__ void __launch_bounds__(THREADS)
    sampling_filter(const Choice* choices, Kept* all_kept, Chosen* all_chosen) {
    const Choice c = choices[blockIdx.x];
    const float* row = c.logits;
    u32 me = threadIdx.x;
    if (c.penalty_count) {
        for (u32 token = me; token < c.vocabulary; token += THREADS) c.penalised[token] = row[token];
        __syncthreads();
        for (u32 at = me; at < c.penalty_count; at += THREADS) {
            Penalty penalty = c.penalties[at];
            float x = c.penalised[penalty.token];
            x = x > 0.0f ? x / c.repetition : x * c.repetition;
            c.penalised[penalty.token] = x - penalty.off;
        }
        __syncthreads();
        row = c.penalised;
    }
    u32 bad = NOBODY;
    u64 best = 0;
    each(row, c.vocabulary, me, THREADS, [&](u32 token, float x) {
        u32 bits = bits_of_float(x);
        if ((bits & 0x7f800000u) == 0x7f800000u) {
            if (bits != 0xff800000u && token < bad) bad = token;
            return;
        }
        // The greatest rank, and of that the lowest token.
        u64 found = (u64)rank_of(x) << 32 | (NOBODY - token);
        best = found > best ? found : best;
    });
    bad = Block::all(bad, Smaller());
    best = Block::all(best, Larger());
    u32 token = NOBODY - (u32)best;
    Kept kept = {RULED_OUT + 1, NOBODY, 0.0f, 0};
    Chosen chosen = {token, CHOSEN, 0.0f, 0};
    if (bad != NOBODY) {
        chosen.token = bad;
        chosen.status = NOT_A_NUMBER;
        chosen.value = row[bad];
    } else if (best == 0) {
        chosen.status = NO_CANDIDATE;
    } else if (c.temperature != 0.0) {
        kept.greatest = row[token];
        kept.drawn = 1;
        if (c.top_k) {
            Counted counted = {c.top_k};
            kept = cut(c, row, kept, counted);
        }
        if (c.share < 1.0) {
            Weighed weighed = {(double)kept.greatest, c.temperature, c.share};
            kept = cut(c, row, kept, weighed);
        }
    }
    if (me == 0) {
        all_kept[blockIdx.x] = kept;
        all_chosen[blockIdx.x] = chosen;
    }
}

// `parts` blocks a row: the best sum of logit and noise of each block's part.
extern "C" __global__ void __launch_bounds__(THREADS)
    sampling_draw(const Choice* choices, const Kept* all_kept, Best* all_best, u64 parts) {
    u32 which = blockIdx.x / (u32)parts, part = blockIdx.x % (u32)parts;
    const Choice c = choices[which];
    const Kept kept = all_kept[which];
    if (!kept.drawn) return;
    const float* row = c.penalty_count ? c.penalised : c.logits;
    double greatest = kept.greatest, best = 0.0;
    u32 best_token = NOBODY;
    each(row, c.vocabulary, part * THREADS + threadIdx.x, (u32)parts * THREADS, [&](u32 token, float x) {
        if (!is_kept(kept, rank_of(x), token)) return;
        double scaled = ((double)x - greatest) / c.temperature;
        // Noise is below 37.
        if (scaled < c.least || (best_token != NOBODY && scaled + 37.0 < best)) return;
        double score = scaled + gumbel(c.noise, token);
        if (best_token == NOBODY || score > best || (score == best && token < best_token)) {
            best = score;
            best_token = token;
        }
    });
    // Every score is far above what stands for none.
    double score = Block::all(best_token == NOBODY ? -1e300 : best, Larger());
    u32 token = Block::all(best_token != NOBODY && best == score ? best_token : NOBODY, Smaller());
    if (threadIdx.x == 0) {
        Best found = {score, token, 0};
        all_best[blockIdx.x] = found;
    }
}

// A block a row: the best of its parts.
extern "C" __global__ void __launch_bounds__(32)
    sampling_last(const Kept* all_kept, const Best* all_best, Chosen* all_chosen, u64 parts) {
    if (threadIdx.x != 0 || !all_kept[blockIdx.x].drawn) return;
    double score = 0.0;
    u32 token = NOBODY;
    for (u64 part = 0; part < parts; part++) {
        Best found = all_best[blockIdx.x * parts + part];
        if (found.token == NOBODY) continue;
        if (token == NOBODY || found.score > score || (found.score == score && found.token < token)) {
            score = found.score;
            token = found.token;
        }
    }
    all_chosen[blockIdx.x].token = token;
}
