//! The facts of this device that sizing goes by.

use fiddlehead_plan::DeviceFacts;

use crate::features::Isa;

/// The facts for a family of instructions and a number of threads. Rates are those measured in
/// `docs/performance/cpu-kernels.md`; what depends on the machine's clock and caches is taken from there too, since it only
/// decides when work is shared among threads and what `explain` predicts.
pub(super) fn device_facts(isa: Isa, threads: usize) -> DeviceFacts {
    let (multiplications, bytes) = match isa {
        Isa::Plain => (19.0, 30.0),
        Isa::Avx2 => (62.0, 60.0),
        Isa::Avx512 => (110.0, 110.0),
    };
    DeviceFacts {
        threads,
        multiplications_per_nanosecond: multiplications,
        cached_bytes_per_nanosecond: bytes,
        memory_bytes_per_nanosecond: 50.0,
        cache_bytes: 32 << 20,
        // Waking takes a few microseconds when a worker has gone to sleep, less than one while it looks for work.
        region_nanoseconds: 1000.0,
    }
}
