//! The thread pool: every task once, panics that arrive, nothing that hangs.

use fiddlehead_cpu::pool::{Pool, Waiting};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn every_task_runs_exactly_once() {
    for threads in [1, 2, 3, 8] {
        let pool = Pool::new(threads);
        assert_eq!(pool.threads(), threads);
        for round in 0..3000usize {
            let tasks = round % 37;
            let counts: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(tasks, |task, thread| {
                assert!(thread < threads);
                counts[task].fetch_add(1, Relaxed);
            });
            assert!(counts.iter().all(|count| count.load(Relaxed) == 1), "round {round}");
        }
    }
}

#[test]
fn no_two_tasks_share_a_thread_index_at_one_time() {
    let pool = Pool::new(4);
    let busy: Vec<_> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for tasks in 0..300 {
                    pool.run(tasks % 9, |_, thread| {
                        assert_eq!(busy[thread].fetch_add(1, Relaxed), 0);
                        std::hint::spin_loop();
                        assert_eq!(busy[thread].fetch_sub(1, Relaxed), 1);
                    });
                }
            });
        }
    });
}

#[test]
fn ranges_cover_everything_without_overlap() {
    let pool = Pool::new(3);
    for (length, grain) in [(0, 4), (1, 4), (4, 4), (17, 4), (1000, 7), (5, 0)] {
        let counts: Vec<_> = (0..length).map(|_| AtomicUsize::new(0)).collect();
        pool.run_ranges(length, grain, |range, _| {
            assert!(range.len() <= grain.max(1));
            range.for_each(|index| {
                counts[index].fetch_add(1, Relaxed);
            });
        });
        assert!(counts.iter().all(|count| count.load(Relaxed) == 1));
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for round in 0..200 {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(64, |task, _| {
                    if task == round % 64 {
                        std::panic::resume_unwind(Box::new(round));
                    }
                })
            }));
            assert_eq!(caught.unwrap_err().downcast_ref::<usize>(), Some(&round));
            let done = AtomicUsize::new(0);
            pool.run(10, |_, _| {
                done.fetch_add(1, Relaxed);
            });
            assert_eq!(done.into_inner(), 10);
        }
    }
}

#[test]
fn a_region_inside_a_task_runs_on_that_thread() {
    let pool = Pool::new(3);
    let done = AtomicUsize::new(0);
    pool.run(6, |_, outer| {
        pool.run(5, |_, inner| {
            assert_eq!(outer, inner);
            done.fetch_add(1, Relaxed);
        });
    });
    pool.run(1, |_, _| {
        pool.run(2, |_, _| {
            done.fetch_add(1, Relaxed);
        })
    });
    assert_eq!(done.into_inner(), 32);
}

#[test]
fn sleeping_workers_wake() {
    let pool = Pool::new(2);
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(2));
        let threads = [AtomicUsize::new(0), AtomicUsize::new(0)];
        pool.run(40, |_, thread| {
            threads[thread].fetch_add(1, Relaxed);
            std::thread::sleep(std::time::Duration::from_micros(100));
        });
        assert!(threads[1].load(Relaxed) > 0, "the worker never joined");
    }
}

/// Regions with pauses between and within them, so that callers and workers have to wait for each other.
fn regions_that_make_wait(pool: &Pool) {
    for round in 0..12 {
        std::thread::sleep(std::time::Duration::from_micros(200));
        pool.run(12, |task, _| {
            if task % 3 == round % 3 {
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        });
    }
}

#[test]
fn nobody_spins_when_there_are_more_threads_than_cores() {
    for (threads, cores) in [(2, 1), (3, 2), (4, 1)] {
        let pool = Pool::with_waiting(threads, Waiting { cores, pauses: true });
        regions_that_make_wait(&pool);
        assert_eq!(pool.spins(), 0, "{threads} threads on {cores} cores");
    }
    // With a core for each the same regions do make threads spin: the count counts.
    let pool = Pool::with_waiting(3, Waiting { cores: 3, pauses: true });
    regions_that_make_wait(&pool);
    assert!(pool.spins() > 0);
}
