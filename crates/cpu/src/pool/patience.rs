//! When a thread may look for work in a loop, and when it must leave the core to others.

use std::time::Duration;

/// First pause of a worker after a preemption; doubles up to `LONGEST_PAUSE` while preemptions go on.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

/// The rule of waiting of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Cores that the pool's threads have between them: with more threads than cores none looks for work in a loop.
    pub cores: usize,
    /// Whether a worker that the system preempted stays away for a while.
    pub pauses: bool,
}

impl Waiting {
    /// The rule for the cores that this process may use.
    pub fn here() -> Waiting {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Waiting { cores, pauses: true }
    }

    /// Whether that many threads may look for work in a loop.
    pub(super) fn may_spin(self, threads: usize) -> bool {
        threads <= self.cores
    }

    pub(super) fn patience(self, preemptions: i64) -> Patience {
        Patience { pauses: self.pauses, preemptions, pause: FIRST_PAUSE }
    }
}

/// What a worker remembers of its preemptions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pauses: bool,
    preemptions: i64,
    pause: Duration,
}

impl Patience {
    /// How long to stay away, given how often the system has taken the core from this thread since it began: not at all
    /// unless that grew since the last look, else a millisecond, twice as long each time that it goes on.
    pub(super) fn after(&mut self, preemptions: i64) -> Option<Duration> {
        let preempted = preemptions > self.preemptions;
        self.preemptions = preemptions;
        if !(preempted && self.pauses) {
            self.pause = FIRST_PAUSE;
            return None;
        }
        let pause = self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Some(pause)
    }
}

/// How often the system took the core from this thread; a constant where that is not known.
pub(super) fn involuntary_switches() -> i64 {
    #[cfg(target_os = "linux")]
    {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a writable `rusage`, which the call fills; zeroes are a valid value if it fails.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        usage.ru_nivcsw
    }
    #[cfg(not(target_os = "linux"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preempted_worker_stays_away_twice_as_long_each_time() {
        let mut patience = Waiting { cores: 2, pauses: true }.patience(7);
        let mut after = |preemptions| patience.after(preemptions).map(|pause| pause.as_millis());
        assert_eq!(after(7), None);
        let pauses: Vec<_> = (8..15).map(&mut after).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32].map(Some));
        // Left in peace once, it begins anew.
        assert_eq!(after(14), None);
        assert_eq!(after(20), Some(1));
        assert_eq!(after(21), Some(2));
    }

    #[test]
    fn without_pauses_it_never_stays_away() {
        let mut patience = Waiting { cores: 2, pauses: false }.patience(0);
        assert!((1..50).all(|preemptions| patience.after(preemptions).is_none()));
    }

    #[test]
    fn more_threads_than_cores_may_not_spin() {
        for cores in 1..6 {
            let waiting = Waiting { cores, pauses: true };
            assert!((1..10).all(|threads| waiting.may_spin(threads) == (threads <= cores)));
        }
    }
}
