//! A thread pool for many tiny parallel regions.
//!
//! A decode step runs some two hundred regions of a few microseconds, so a region must cost about a microsecond when
//! the workers are awake. The caller takes part in every region and never waits for a worker that has not joined: with
//! no worker awake it simply does all the work. Workers spin for a bounded time after a region, then sleep. They never
//! spin when there are more threads than cores. A worker that the system preempted stays away for a while: somebody else
//! needs the core, and a region that waits for a worker without one is slower than a region without that worker (with
//! both cores busy, waking it for every region took 15 µs where the caller alone took 8).
//!
//! How a region opens and closes: one word holds the region's number, an open bit and the count of joined workers. The
//! caller writes the job, then opens; a worker joins by adding one while the open bit is set; the caller closes by
//! clearing the bit and waits for the count to fall to zero. A late worker finds the region closed and touches nothing.

mod patience;

pub use patience::Waiting;

use patience::{Patience, involuntary_switches};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker looks for the next region before it sleeps.
const SPIN: Duration = Duration::from_micros(60);
/// How long the caller spins for the last tasks before it sleeps.
const CALLER_SPIN: Duration = Duration::from_micros(40);

const OPEN: u64 = 1 << 16;
const JOINED: u64 = OPEN - 1;
const NUMBER: u64 = 1 << 17;

/// What the next task becomes when a worker panics: no task is left.
const PANICKED: usize = usize::MAX / 2;

thread_local! {
    /// The index of this thread in the region it is running, for regions opened inside a task.
    static INSIDE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Marks the calling thread as inside a region until dropped.
struct Inside;

impl Inside {
    fn enter(thread: usize) -> Self {
        INSIDE.set(Some(thread));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(None);
    }
}

/// One region's work: a borrowed closure behind a thin call.
#[derive(Clone, Copy)]
struct Job {
    closure: *const (),
    call: unsafe fn(*const (), usize, usize),
    tasks: usize,
}

unsafe fn call<F: Fn(usize, usize) + Sync>(closure: *const (), task: usize, thread: usize) {
    // SAFETY: `closure` points to the `F` that the region's caller keeps alive until the region has closed.
    unsafe { (*closure.cast::<F>())(task, thread) }
}

#[repr(align(128))]
struct Padded<T>(T);

struct Shared {
    /// Region number, open bit, joined workers.
    region: Padded<AtomicU64>,
    next_task: Padded<AtomicUsize>,
    /// Written by the caller while the region is closed and no worker is joined; read by joined workers.
    job: UnsafeCell<Job>,
    sleepers: AtomicUsize,
    stopping: AtomicBool,
    waiting: Waiting,
    may_spin: bool,
    /// How often a thread began to look for news in a loop.
    spins: AtomicU64,
    caller_waits: AtomicBool,
    sleep: Mutex<()>,
    opened: Condvar,
    finished: Condvar,
    stopped: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is the only field that is not `Sync` by itself. It is written only by the thread that holds the pool's
// caller lock, while the region is closed and its count of joined workers is zero, and read only by joined workers;
// the release and acquire operations on `region` order the two.
unsafe impl Sync for Shared {}
// SAFETY: the closure behind `job` is `Sync`, and it is used only within the region its owner waits for.
unsafe impl Send for Shared {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No invariant spans a panic while one of these locks is held, so a poisoned lock is still good.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A fixed set of threads that run regions together with the calling thread.
///
/// ```
/// use fiddlehead_cpu::pool::Pool;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let pool = Pool::new(2);
/// let sum = AtomicUsize::new(0);
/// pool.run(10, |task, _thread| { sum.fetch_add(task, Ordering::Relaxed); });
/// assert_eq!(sum.into_inner(), 45);
/// ```
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held by the thread whose region is open.
    caller: Mutex<()>,
}

impl Pool {
    /// A pool of `threads` threads, the caller included; at least one. One thread means no workers.
    ///
    /// When the system refuses a thread the pool has fewer: see [`Pool::threads`].
    pub fn new(threads: usize) -> Self {
        Self::with_waiting(threads, Waiting::here())
    }

    /// As [`Pool::new`], with another rule of waiting: for tests and to measure what the rule is worth.
    pub fn with_waiting(threads: usize, waiting: Waiting) -> Self {
        let shared = Arc::new(Shared {
            region: Padded(AtomicU64::new(0)),
            next_task: Padded(AtomicUsize::new(0)),
            job: UnsafeCell::new(Job { closure: std::ptr::null(), call: call::<fn(usize, usize)>, tasks: 0 }),
            sleepers: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            waiting,
            may_spin: waiting.may_spin(threads),
            spins: AtomicU64::new(0),
            caller_waits: AtomicBool::new(false),
            sleep: Mutex::new(()),
            opened: Condvar::new(),
            finished: Condvar::new(),
            stopped: Condvar::new(),
            panic: Mutex::new(None),
        });
        let workers = (1..threads.clamp(1, JOINED as usize))
            .map_while(|index| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("kernel-{index}"))
                    .spawn(move || Worker::new(shared, index).serve())
                    .ok()
            })
            .collect();
        Self { shared, workers, caller: Mutex::new(()) }
    }

    /// The number of threads, the caller included. Thread indices in tasks are below it.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// How often one of its threads, the caller included, began to look for news in a loop instead of sleeping.
    pub fn spins(&self) -> u64 {
        self.shared.spins.load(Ordering::Relaxed)
    }

    /// Calls `function(task, thread)` once for every task below `tasks`, and returns when all have returned.
    ///
    /// Tasks are handed out one at a time in rising order. `thread` is below [`Pool::threads`]; no two tasks run at the
    /// same time with the same `thread`, so it may index scratch space. A region opened from inside a task runs on that
    /// task's thread alone.
    ///
    /// # Panics
    /// When a task panics, the remaining tasks may be skipped and the panic continues here once every thread has left.
    pub fn run<F: Fn(usize, usize) + Sync>(&self, tasks: usize, function: F) {
        if let Some(thread) = INSIDE.get() {
            return (0..tasks).for_each(|task| function(task, thread));
        }
        let _turn = lock(&self.caller);
        let inside = Inside::enter(0);
        if tasks <= 1 || self.workers.is_empty() {
            return (0..tasks).for_each(|task| function(task, 0));
        }
        self.open(Job { closure: (&raw const function).cast(), call: call::<F>, tasks });
        let own = catch_unwind(AssertUnwindSafe(|| self.shared.work(0)));
        if own.is_err() {
            self.shared.next_task.0.store(tasks, Ordering::Relaxed);
        }
        self.close();
        drop(inside);
        if let Err(panic) = own {
            lock(&self.shared.panic).take();
            resume_unwind(panic);
        }
        // A worker's panic leaves a huge next task, which saves looking into the lock when there was none.
        if self.shared.next_task.0.load(Ordering::Relaxed) >= PANICKED
            && let Some(panic) = lock(&self.shared.panic).take()
        {
            resume_unwind(panic);
        }
    }

    /// Splits `0..length` into ranges of `grain` (the last may be shorter) and calls `function(range, thread)` for each,
    /// as [`Pool::run`] does. A grain of zero counts as one.
    pub fn run_ranges<F: Fn(Range<usize>, usize) + Sync>(&self, length: usize, grain: usize, function: F) {
        let grain = grain.max(1);
        self.run(length.div_ceil(grain), |task, thread| {
            let start = task * grain;
            function(start..length.min(start + grain), thread)
        })
    }

    fn open(&self, job: Job) {
        let shared = &*self.shared;
        // SAFETY: the caller lock is held, the region is closed, and `close` waited for the last joined worker.
        unsafe { *shared.job.get() = job };
        shared.next_task.0.store(0, Ordering::Relaxed);
        // Sequentially consistent with a sleeper's count: either it sees the open region or we see the sleeper.
        shared.region.0.fetch_add(NUMBER | OPEN, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            // Zeroed here, not by the woken: regions that open before they wake need not call the system again.
            shared.sleepers.store(0, Ordering::SeqCst);
            drop(lock(&shared.sleep));
            shared.opened.notify_all();
        }
    }

    /// Closes the region to newcomers and waits until every joined worker has left it.
    fn close(&self) {
        let shared = &*self.shared;
        let mut joined = shared.region.0.fetch_sub(OPEN, Ordering::AcqRel) & JOINED;
        if joined == 0 {
            return;
        }
        if shared.may_spin {
            shared.spins.fetch_add(1, Ordering::Relaxed);
            let spinning = Instant::now();
            loop {
                for _ in 0..64 {
                    if shared.region.0.load(Ordering::Acquire) & JOINED == 0 {
                        return;
                    }
                    std::hint::spin_loop();
                }
                if spinning.elapsed() > CALLER_SPIN {
                    break;
                }
            }
        }
        let mut guard = lock(&shared.sleep);
        shared.caller_waits.store(true, Ordering::SeqCst);
        loop {
            joined = shared.region.0.load(Ordering::SeqCst) & JOINED;
            if joined == 0 {
                break;
            }
            guard = shared.finished.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        shared.caller_waits.store(false, Ordering::SeqCst);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        drop(lock(&self.shared.sleep));
        self.shared.opened.notify_all();
        self.shared.stopped.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches its tasks' panics; one that died otherwise has nothing left to hand over.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Runs tasks of the open region until none is left.
    fn work(&self, thread: usize) {
        // SAFETY: this thread is the region's caller or has joined it, so the job is not written meanwhile.
        let job = unsafe { *self.job.get() };
        loop {
            let task = self.next_task.0.fetch_add(1, Ordering::Relaxed);
            if task >= job.tasks {
                return;
            }
            // SAFETY: the closure lives until its caller has closed the region, which waits for this thread.
            unsafe { (job.call)(job.closure, task, thread) }
        }
    }

    /// Joins the open region if there is one.
    fn join(&self) -> bool {
        let mut seen = self.region.0.load(Ordering::Acquire);
        while seen & OPEN != 0 {
            match self.region.0.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    fn leave(&self) {
        let before = self.region.0.fetch_sub(1, Ordering::SeqCst);
        if before & JOINED == 1 && self.caller_waits.load(Ordering::SeqCst) {
            drop(lock(&self.sleep));
            self.finished.notify_all();
        }
    }
}

/// A worker's own state: what it last saw, and whether it may spin.
struct Worker {
    shared: Arc<Shared>,
    index: usize,
    patience: Patience,
}

impl Worker {
    fn new(shared: Arc<Shared>, index: usize) -> Self {
        let patience = shared.waiting.patience(involuntary_switches());
        Self { shared, index, patience }
    }

    fn serve(mut self) {
        let mut last = 0;
        while self.wait(last) {
            // The number of the region this thread saw, joined or not: a region is worked on once.
            last = self.shared.region.0.load(Ordering::Acquire) / NUMBER;
            if !self.shared.join() {
                continue;
            }
            last = self.shared.region.0.load(Ordering::Acquire) / NUMBER;
            let inside = Inside::enter(self.index);
            let result = catch_unwind(AssertUnwindSafe(|| self.shared.work(self.index)));
            drop(inside);
            if let Err(panic) = result {
                lock(&self.shared.panic).get_or_insert(panic);
                self.shared.next_task.0.store(PANICKED, Ordering::Relaxed);
            }
            self.shared.leave();
        }
    }

    /// Whether a region after `last` is open or the pool is stopping.
    fn news(&self, last: u64) -> bool {
        let region = self.shared.region.0.load(Ordering::SeqCst);
        region & OPEN != 0 && region / NUMBER != last || self.shared.stopping.load(Ordering::SeqCst)
    }

    /// Waits for a region after `last`; false when the pool stops.
    fn wait(&mut self, last: u64) -> bool {
        if self.shared.may_spin {
            if self.spin(last) {
                return !self.shared.stopping.load(Ordering::SeqCst);
            }
            self.pause_if_preempted();
        }
        let shared = &*self.shared;
        let mut guard = lock(&shared.sleep);
        loop {
            shared.sleepers.fetch_add(1, Ordering::SeqCst);
            if self.news(last) {
                break;
            }
            guard = shared.opened.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        drop(guard);
        !shared.stopping.load(Ordering::SeqCst)
    }

    /// Looks for news for a bounded time.
    fn spin(&mut self, last: u64) -> bool {
        self.shared.spins.fetch_add(1, Ordering::Relaxed);
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                if self.news(last) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() > SPIN {
                return false;
            }
        }
    }

    /// Stays away, not to be woken by regions, when the system took the core since the last look. Reading the count is a
    /// system call, so it is done once a bounded spin, just before sleeping.
    fn pause_if_preempted(&mut self) {
        let Some(pause) = self.patience.after(involuntary_switches()) else { return };
        let end = Instant::now() + pause;
        let mut guard = lock(&self.shared.sleep);
        while !self.shared.stopping.load(Ordering::SeqCst) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let (held, _) = self
                .shared
                .stopped
                .wait_timeout(guard, left)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            guard = held;
        }
    }
}
