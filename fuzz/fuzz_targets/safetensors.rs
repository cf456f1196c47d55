//! Any bytes as a safetensors file: no panic, and whatever is accepted is accepted by the format's own crate, with the
//! same tensors.

#![no_main]

use fiddlehead_checkpoint::safetensors::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let Ok(entries) = parse(file) else { return };
    let mut end = None;
    for entry in &entries {
        assert!(end.is_none_or(|end| end == entry.range.start), "ranges follow each other");
        assert_eq!(entry.element.bytes_for(&entry.shape), Some(entry.range.len()));
        assert!(file.get(entry.range.clone()).is_some());
        end = Some(entry.range.end);
    }
    assert!(end.is_none_or(|end| end == file.len()), "the ranges cover the file");
    // Ours skips fields that it does not know without building a tree, so it bears deeper nesting in them.
    if file.windows(100).any(|window| window.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > 90) {
        return;
    }
    let reference = safetensors::SafeTensors::deserialize(file).expect("the format's own crate accepts it too");
    assert_eq!(reference.len(), entries.len());
    for entry in &entries {
        let view = reference.tensor(&entry.name).expect("the same names");
        assert_eq!((view.shape(), view.data()), (entry.shape.as_slice(), &file[entry.range.clone()]));
    }
});
