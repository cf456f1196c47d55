//! Memory stays near the file's size, whatever a file claims. The allocator counts, so these tests have a program of
//! their own and run one after another.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use fiddlehead_checkpoint::{Checkpoint, gguf, safetensors};
use fiddlehead_storage::Bytes;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system's allocator's; only sizes are added up.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What tests, errors and the like take beside the thing measured.
const SLACK: usize = 1 << 20;

/// The most that was held at once while `work` ran, beyond what was held before.
fn peak(work: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed) - before
}

fn text(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

fn header(tensors: u64, values: u64) -> Vec<u8> {
    [&b"GGUF"[..], &3u32.to_le_bytes(), &tensors.to_le_bytes(), &values.to_le_bytes()].concat()
}

fn bounded(what: &str, bytes: &[u8], factor: usize, parse: impl Fn()) {
    let used = peak(parse);
    assert!(used <= factor * bytes.len() + SLACK, "{what}: {used} bytes for a file of {}", bytes.len());
}

/// Claims of any size in a few bytes.
fn claims() -> Vec<(&'static str, Vec<u8>)> {
    let huge = [1u64 << 30, 1 << 48, u64::MAX];
    let mut files = Vec::new();
    for claim in huge {
        files.push(("tensors", [header(claim, 0), vec![0; 999]].concat()));
        files.push(("values", [header(0, claim), vec![0; 999]].concat()));
        files.push(("a key", [header(0, 1), claim.to_le_bytes().to_vec(), vec![b'k'; 99]].concat()));
        for element in [0u32, 8, 12] {
            let value = [text(b"many"), 9u32.to_le_bytes().to_vec(), element.to_le_bytes().to_vec()].concat();
            files.push((
                "an array",
                [header(0, 1), value, claim.to_le_bytes().to_vec(), vec![0; 99]].concat(),
            ));
        }
        let tensor = [text(b"wide"), 1u32.to_le_bytes().to_vec(), claim.to_le_bytes().to_vec(), vec![0; 12]];
        files.push(("a dimension", [header(1, 0), tensor.concat(), vec![0; 99]].concat()));
    }
    files
}

#[test]
fn memory_stays_near_the_files_size() {
    for (what, bytes) in claims() {
        let file = Bytes::from(bytes.clone());
        bounded(what, &bytes, 8, || assert!(gguf::parse(&file).is_err(), "{what}"));
    }
    // As many values and tensors as are read at all, and more: small ones take their most beside the file.
    for (count, accepted) in [(gguf::MAXIMUM_VALUES, true), (gguf::MAXIMUM_VALUES + 1, false)] {
        let values = (0..count)
            .flat_map(|key| [text(&(key as u32).to_string().into_bytes()), vec![0, 0, 0, 0, 1]].concat());
        let bytes: Vec<u8> = header(0, count).into_iter().chain(values).collect();
        let file = Bytes::from(bytes.clone());
        bounded("values", &bytes, 16, || assert_eq!(gguf::parse(&file).is_ok(), accepted));
    }
    for (count, accepted) in [(gguf::MAXIMUM_TENSORS, true), (gguf::MAXIMUM_TENSORS + 1, false)] {
        let tensors = (0..count)
            .flat_map(|name| [text(&(name as u32).to_le_bytes().map(|b| b % 128)), vec![0; 16]].concat());
        let bytes: Vec<u8> = header(count, 0).into_iter().chain(tensors).collect();
        let file = Bytes::from(bytes.clone());
        let parsed = || {
            // Names of four letters repeat for some, which is an error of its own.
            let result = gguf::parse(&file).map(|_| ());
            let refused_for_count = matches!(result, Err(gguf::FileError::TooMany { .. }));
            assert_eq!(refused_for_count, !accepted, "{result:?}");
        };
        bounded("tensors", &bytes, 16, parsed);
    }
    let declared = |count: usize| {
        let tensors: Vec<String> = (0..count)
            .map(|name| format!(r#""{name}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#))
            .collect();
        let header = format!("{{{}}}", tensors.join(","));
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()
    };
    for (count, accepted) in [(1 << 18, true), ((1 << 18) + 1, false)] {
        let bytes = declared(count);
        bounded("safetensors", &bytes, 16, || assert_eq!(safetensors::parse(&bytes).is_ok(), accepted));
    }
    large_files_are_mapped();
}

/// A large file's tensors are not read on opening; its companions neither.
fn large_files_are_mapped() {
    let folder = tempfile::tempdir().expect("a folder");
    let sparse = |name: &str, start: &[u8], length: u64| {
        fs::write(folder.path().join(name), start).expect("written");
        let file = fs::OpenOptions::new().write(true).open(folder.path().join(name)).expect("opens");
        file.set_len(length).expect("sparse files are at hand");
    };
    let bytes: u64 = 1 << 33;
    let header = format!(r#"{{"a":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{bytes}]}}}}"#, bytes / 4);
    let start = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    sparse("model.safetensors", &start, bytes + start.len() as u64);
    fs::write(folder.path().join("config.json"), "{}").expect("written");
    let open = |folder: &Path| {
        Checkpoint::open(folder).map(|found| found.tensors().len()).map_err(|e| e.to_string())
    };
    let used = peak(|| assert_eq!(open(folder.path()), Ok(1)));
    assert!(used < SLACK, "{used} bytes to open a large file");
    sparse("config.json", b"{}", bytes);
    let used = peak(|| assert!(open(folder.path()).is_err_and(|error| error.contains("config.json"))));
    assert!(used < SLACK, "{used} bytes to refuse a large configuration");
}
