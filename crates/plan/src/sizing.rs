//! The sizing model: how long work takes on a device, from the work's own numbers and the device's facts.
//!
//! One model serves every kind of site. It ranks, it does not promise: receipts of measurements override it.

/// What a device is, as far as sizing cares. Rates are those that kernels reach, not those of data sheets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceFacts {
    /// Threads that may share work.
    pub threads: usize,
    /// f32 multiply-adds of one thread in a nanosecond.
    pub multiplications_per_nanosecond: f64,
    /// Bytes that one thread reads in a nanosecond when they are in its caches.
    pub cached_bytes_per_nanosecond: f64,
    /// Bytes that all threads together read in a nanosecond from memory.
    pub memory_bytes_per_nanosecond: f64,
    /// Bytes that stay in the caches from one use to the next.
    pub cache_bytes: usize,
    /// What it costs to hand work to other threads and to wait for them.
    pub region_nanoseconds: f64,
}

/// The numbers of a piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// f32 multiply-adds.
    pub multiplications: usize,
    /// Bytes read or written once.
    pub bytes: usize,
    /// Nanoseconds of one thread for what is counted otherwise.
    pub nanoseconds: f64,
}

impl std::ops::Add for Work {
    type Output = Work;
    fn add(self, other: Work) -> Work {
        Work {
            multiplications: self.multiplications + other.multiplications,
            bytes: self.bytes + other.bytes,
            nanoseconds: self.nanoseconds + other.nanoseconds,
        }
    }
}

impl DeviceFacts {
    /// Nanoseconds of work spread evenly over `threads`, of bytes that lie in the caches or in memory: arithmetic and
    /// reading overlap, so that the longer one counts.
    pub fn nanoseconds(&self, work: Work, threads: usize, cached: bool) -> f64 {
        let threads = threads.clamp(1, self.threads.max(1)) as f64;
        let arithmetic = work.multiplications as f64 / (self.multiplications_per_nanosecond * threads);
        let rate = match cached {
            true => self.cached_bytes_per_nanosecond * threads,
            // One thread alone does not reach what the memory gives.
            false => self.memory_bytes_per_nanosecond.min(self.cached_bytes_per_nanosecond * threads),
        };
        arithmetic.max(work.bytes as f64 / rate) + work.nanoseconds / threads
    }

    /// Whether sharing work among all threads saves more than a region costs.
    pub fn pays_to_split(&self, work: Work) -> bool {
        self.threads > 1
            && self.nanoseconds(work, 1, true) - self.nanoseconds(work, self.threads, true)
                > self.region_nanoseconds
    }

    /// Nanoseconds of work done the better way, by one thread or by all.
    pub fn best_nanoseconds(&self, work: Work) -> f64 {
        let cached = work.bytes <= self.cache_bytes;
        match self.pays_to_split(work) {
            true => self.nanoseconds(work, self.threads, cached) + self.region_nanoseconds,
            false => self.nanoseconds(work, 1, cached),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: DeviceFacts = DeviceFacts {
        threads: 4,
        multiplications_per_nanosecond: 100.0,
        cached_bytes_per_nanosecond: 100.0,
        memory_bytes_per_nanosecond: 50.0,
        cache_bytes: 1 << 20,
        region_nanoseconds: 1000.0,
    };

    #[test]
    fn small_work_stays_on_one_thread() {
        let small = Work { multiplications: 100_000, ..Work::default() };
        let large = Work { multiplications: 1_000_000, ..Work::default() };
        assert!(!FACTS.pays_to_split(small) && FACTS.pays_to_split(large));
        assert_eq!(FACTS.best_nanoseconds(small), 1000.0);
        assert_eq!(FACTS.best_nanoseconds(large), 3500.0);
        assert!(!DeviceFacts { threads: 1, ..FACTS }.pays_to_split(large));
    }

    #[test]
    fn the_longer_of_reading_and_arithmetic_counts() {
        let read = Work { multiplications: 1000, bytes: 4 << 20, nanoseconds: 0.0 };
        let seconds = FACTS.nanoseconds(read, 4, false);
        assert!((seconds - (4 << 20) as f64 / 50.0).abs() < 1e-6);
        assert!(FACTS.nanoseconds(read, 4, true) < seconds);
        assert_eq!(
            FACTS.nanoseconds(read + Work { nanoseconds: 8.0, ..Work::default() }, 4, false),
            seconds + 2.0
        );
    }
}
