//! Any bytes as a GGUF file: no panic, every view within the file, and what is accepted is written again as a file that
//! means the same.

#![no_main]

use fiddlehead_checkpoint::gguf::{Metadata, Value, parse, write};
use fiddlehead_storage::{Bytes, Tensor};
use libfuzzer_sys::fuzz_target;

fn shown(metadata: &Metadata) -> Vec<String> {
    metadata.iter().map(|(key, value)| format!("{key} = {value}")).collect()
}

fuzz_target!(|file: &[u8]| {
    let bytes = Bytes::from(file.to_vec());
    let Ok(parsed) = parse(&bytes) else { return };
    for (_, value) in parsed.metadata.iter() {
        if let Some(array) = value.as_array() {
            assert_eq!(array.values().count(), array.len());
            assert!(array.texts().is_none_or(|texts| texts.count() == array.len()));
        }
        let _ = (value.as_u64(), value.as_i64(), value.as_f64(), value.as_bool(), value.as_str());
    }
    let mut served = Vec::new();
    for entry in &parsed.tensors {
        let view = bytes.slice(entry.range.clone()).expect("within the file");
        if let Some(format) = entry.tensor_type.format() {
            let tensor = Tensor::new(format, entry.shape.clone(), view).expect("the sizes were checked");
            served.push((entry.name.as_str(), tensor));
        }
    }
    let tensors: Vec<(&str, &Tensor)> = served.iter().map(|(name, tensor)| (*name, tensor)).collect();
    // Padding may be megabytes for a hostile count of empty tensors; a fuzzer learns nothing from writing it.
    if parsed.metadata.get("general.alignment").and_then(Value::as_u64).is_some_and(|value| value > 4096) {
        return;
    }
    let again = Bytes::from(write(Vec::new(), &parsed.metadata, &tensors).expect("it was a valid file"));
    let again_parsed = parse(&again).expect("what is written is read");
    assert_eq!(shown(&again_parsed.metadata), shown(&parsed.metadata));
    assert_eq!(again_parsed.tensors.len(), served.len());
    for (entry, (name, tensor)) in again_parsed.tensors.iter().zip(&served) {
        assert_eq!((entry.name.as_str(), entry.shape.as_slice()), (*name, tensor.shape()));
        assert_eq!(&again[entry.range.clone()], tensor.bytes());
    }
});
