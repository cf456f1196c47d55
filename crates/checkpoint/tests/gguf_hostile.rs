//! GGUF files that lie about themselves. Each test carries the name of the public fault it covers.

use fiddlehead_checkpoint::gguf::{File, FileError, TensorType, Value, parse};
use fiddlehead_storage::{Bytes, Format};

/// A file written byte by byte, so that it can say anything.
#[derive(Clone, Default)]
struct Raw {
    values: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: usize,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

impl Raw {
    fn value(mut self, key: &str, kind: u32, bytes: &[u8]) -> Raw {
        self.values.push([&text(key), &kind.to_le_bytes()[..], bytes].concat());
        self
    }

    fn tensor(mut self, name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Raw {
        let mut bytes = text(name);
        bytes.extend((dimensions.len() as u32).to_le_bytes());
        dimensions.iter().for_each(|size| bytes.extend(size.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        self.tensors.push(bytes);
        self
    }

    fn data(mut self, bytes: usize) -> Raw {
        self.data = bytes;
        self
    }

    fn header(&self, version: u32, tensors: u64, values: u64) -> Vec<u8> {
        let counts = [tensors.to_le_bytes(), values.to_le_bytes()].concat();
        let header = [&b"GGUF"[..], &version.to_le_bytes(), &counts].concat();
        [header, self.values.concat(), self.tensors.concat()].concat()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header(3, self.tensors.len() as u64, self.values.len() as u64);
        bytes.resize(bytes.len().next_multiple_of(32) + self.data, 0x5a);
        bytes
    }
}

fn read(bytes: Vec<u8>) -> Result<File, FileError> {
    parse(&Bytes::from(bytes))
}

/// Refused, with a message that holds `words`.
fn refused(bytes: Vec<u8>, words: &str) {
    let error = read(bytes).expect_err(words);
    assert!(error.to_string().contains(words), "{error} should hold {words:?}");
}

fn raw() -> Raw {
    Raw::default()
}

#[test]
fn a_good_file_is_read() {
    let array = [&5u32.to_le_bytes()[..], &2u64.to_le_bytes(), &(-7i32).to_le_bytes(), &8i32.to_le_bytes()];
    let texts = [&8u32.to_le_bytes()[..], &2u64.to_le_bytes(), &text("a"), &text("")];
    let file = raw()
        .value("general.architecture", 8, &text("test"))
        .value("numbers", 9, &array.concat())
        .value("texts", 9, &texts.concat())
        .value("flag", 7, &[1])
        .tensor("b", &[3, 2], 0, 32)
        .tensor("a", &[32], 8, 0)
        .tensor("scalar", &[], 30, 64)
        .data(66);
    let bytes = file.bytes();
    let length = bytes.len();
    for version in [2u32, 3] {
        let mut bytes = bytes.clone();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        // The q8_0 block takes 34 bytes: it runs into `b`.
        refused(bytes, "tensor `b`: it overlaps tensor `a`");
    }
    let file = raw()
        .value("general.architecture", 8, &text("test"))
        .value("numbers", 9, &array.concat())
        .value("texts", 9, &texts.concat())
        .value("flag", 7, &[1])
        .tensor("b", &[3, 2], 0, 64)
        .tensor("a", &[32], 8, 0)
        .tensor("scalar", &[], 30, 96)
        .data(98);
    let file = read(file.bytes()).expect("good");
    assert_eq!(file.metadata.architecture(), Some("test"));
    let array = file.metadata.get("numbers").and_then(Value::as_array).expect("an array");
    assert_eq!(array.values().map(|value| value.as_i64()).collect::<Vec<_>>(), [Some(-7), Some(8)]);
    let texts = file.metadata.get("texts").and_then(Value::as_array).expect("an array");
    assert_eq!(texts.texts().expect("texts").collect::<Vec<_>>(), [&b"a"[..], b""]);
    assert_eq!(texts.values().map(|text| text.to_string()).collect::<String>(), "\"a\"\"\"");
    assert_eq!(file.metadata.get("flag").and_then(Value::as_bool), Some(true));
    assert_eq!(file.tensors[0].shape, [2, 3]);
    assert_eq!(file.tensors[1].tensor_type.format(), Some(Format::Q8_0));
    assert_eq!(file.tensors[2].range, length + 30..length + 32);
}

#[test]
fn llama_cpp_18674_wrapped_dimensions() {
    for dimensions in [
        vec![(1u64 << 42) + 1, 1 << 22],
        vec![1 << 62, 4],
        vec![u64::MAX],
        vec![u64::MAX, 0],
        vec![1 << 32, 1 << 32, 1],
    ] {
        for kind in [0, 8, 16] {
            refused(raw().tensor("wide", &dimensions, kind, 0).data(64).bytes(), "tensor `wide`");
        }
    }
    refused(raw().tensor("far", &[1], 0, u64::MAX - 31).data(64).bytes(), "tensor `far` ends at byte");
}

#[test]
fn ggml_1516_a_claimed_length_is_capped_by_the_bytes_left() {
    let gigabyte = (1u64 << 30).to_le_bytes();
    let mut key = raw().header(3, 0, 1);
    key.extend(gigabyte);
    key.resize(160, b'k');
    refused(key, "should take 1073741824 bytes");
    for length in [1u64 << 30, u64::MAX] {
        refused(
            raw().value("long", 8, &length.to_le_bytes()).data(99).bytes(),
            "metadata `long` should take",
        );
        for element in [0u32, 8, 12] {
            let array = [&element.to_le_bytes()[..], &length.to_le_bytes()].concat();
            refused(raw().value("many", 9, &array).data(99).bytes(), "metadata `many`");
        }
    }
    for count in [9u64, 1 << 40, u64::MAX] {
        refused(raw().header(3, count, 0), "the tensors' declarations");
        refused(raw().header(3, 0, count), "the metadata");
    }
}

#[test]
fn ggml_1516_alignment_is_bounded() {
    for (alignment, words) in
        [(1u32 << 30, "1073741824"), (0, "is wanted"), (24, "is wanted"), (1 << 17, "is wanted")]
    {
        let file = raw().value("general.alignment", 4, &alignment.to_le_bytes()).tensor("a", &[1], 0, 0);
        refused(file.data(160).bytes(), words);
    }
    refused(raw().value("general.alignment", 8, &text("32")).bytes(), "general.alignment");
    let file = raw().value("general.alignment", 4, &64u32.to_le_bytes()).tensor("a", &[1], 0, 32);
    refused(file.data(160).bytes(), "no multiple of 64");
}

#[test]
fn llama_cpp_25378_too_many_dimensions() {
    let mut file = raw();
    let mut tensor = text("deep");
    tensor.extend(u32::MAX.to_le_bytes());
    tensor.extend([1; 64]);
    file.tensors.push(tensor);
    refused(file.data(64).bytes(), "tensor `deep`: 4294967295 dimensions");
    refused(raw().tensor("five", &[1; 5], 0, 0).data(64).bytes(), "tensor `five`: 5 dimensions");
}

#[test]
fn hfjs_2028_arrays_of_arrays_are_no_recursion() {
    let level = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat();
    refused(
        raw().value("nested", 9, &level.repeat(100_000)).bytes(),
        "metadata `nested`: an array of arrays",
    );
    let unknown = [&77u32.to_le_bytes()[..], &1u64.to_le_bytes(), &[0; 8]].concat();
    refused(raw().value("odd", 9, &unknown).bytes(), "metadata `odd`: unknown value type 77");
    refused(raw().value("odd", 13, &[0; 8]).bytes(), "metadata `odd`: unknown value type 13");
    refused(raw().value("flag", 7, &[2]).bytes(), "metadata `flag`");
}

#[test]
fn pie_423_a_truncated_file() {
    let file = raw()
        .value("general.name", 8, &text("whole"))
        .tensor("first", &[8], 0, 0)
        .tensor("last", &[8], 0, 32)
        .data(64)
        .bytes();
    read(file.clone()).expect("whole");
    for cut in 1..=64 {
        let name = if cut <= 32 { "last" } else { "first" };
        let error = read(file[..file.len() - cut].to_vec()).expect_err("truncated");
        assert!(
            matches!(&error, FileError::TensorPastEnd { name: found, .. } if found == name),
            "{cut}: {error}"
        );
    }
    for length in 0..file.len() - 64 {
        read(file[..length].to_vec()).expect_err("cut in the header");
    }
}

#[test]
fn unsloth_3124_an_unknown_type_keeps_its_name_and_number() {
    let file = raw().tensor("odd", &[8], 77, 0).tensor("next", &[1], 0, 64).data(68);
    let file = read(file.bytes()).expect("the other tensors are fine");
    assert_eq!(file.tensors[0].tensor_type.to_string(), "the unknown type 77");
    assert_eq!(file.tensors[0].range.len(), 64);
    assert_eq!(TensorType::from_id(16).to_string(), "iq2_xxs (type 16)");
    refused(raw().tensor("odd", &[8], 77, 1 << 40).data(68).bytes(), "tensor `odd`");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("odd.gguf");
    std::fs::write(&path, raw().tensor("odd", &[8], 77, 0).data(64).bytes()).expect("written");
    let checkpoint = fiddlehead_checkpoint::Checkpoint::open(&path).expect("opens");
    let error = checkpoint.tensor("odd").expect_err("unserved").to_string();
    assert!(error.contains("`odd` is stored as the unknown type 77"), "{error}");
}

#[test]
fn names_and_keys_occur_once() {
    let twice = raw().tensor("a", &[1], 0, 0).tensor("a", &[1], 0, 32).data(64);
    refused(twice.bytes(), "tensor `a`: the name occurs twice");
    let twice = raw().value("a", 0, &[1]).value("a", 0, &[1]);
    refused(twice.bytes(), "metadata `a`: the key occurs twice");
}

#[test]
fn overlapping_ranges_and_partial_blocks() {
    let same = raw().tensor("a", &[8], 0, 0).tensor("b", &[8], 0, 0).data(64);
    refused(same.bytes(), "overlaps");
    refused(raw().tensor("part", &[33], 8, 0).data(99).bytes(), "ends inside a block");
    refused(raw().tensor("part", &[255, 256], 16, 0).data(99_999).bytes(), "ends inside a block");
}

#[test]
fn a_tensor_of_no_elements_takes_no_bytes() {
    let file = raw().tensor("none", &[0, 7], 0, 0).tensor("some", &[8], 0, 0).tensor("last", &[0], 8, 32);
    let file = read(file.data(32).bytes()).expect("they share no byte");
    assert_eq!(file.tensors.iter().map(|entry| entry.range.len()).collect::<Vec<_>>(), [0, 32, 0]);
    refused(raw().tensor("none", &[0], 0, 64).data(32).bytes(), "tensor `none` ends at byte 64");
}

#[test]
fn offsets_are_aligned_and_within_the_file() {
    for offset in [1, 31, 33, u64::MAX] {
        refused(raw().tensor("askew", &[1], 0, offset).data(64).bytes(), "no multiple of 32");
    }
    for offset in [64, 1 << 40, 1 << 63, u64::MAX - 31] {
        refused(raw().tensor("far", &[1], 0, offset).data(64).bytes(), "tensor `far` ends at byte");
    }
}

#[test]
fn files_of_other_kinds() {
    refused(Vec::new(), "not a GGUF file");
    refused(b"GGML".repeat(9), "not a GGUF file");
    refused(raw().header(1, 0, 0), "version 1");
    refused(raw().header(3u32.swap_bytes(), 0, 0), "big-endian");
    let mut name = raw().tensor("a", &[1], 0, 0).data(32).bytes();
    name[24 + 8] = 0xff;
    refused(name, "not UTF-8");
    let mut key = raw().value("a", 0, &[1]).bytes();
    key[24 + 8] = 0xff;
    refused(key, "metadata `number 0`: its key is not UTF-8");
    refused(raw().value(&"k".repeat(65_536), 0, &[1]).bytes(), "longer than 65535");
}

#[test]
fn messages_stay_short_whatever_the_file_says() {
    let name = "x".repeat(60_000);
    for bytes in [
        raw().tensor(&name, &[3, 3], 8, 0).data(64).bytes(),
        raw().value(&name, 77, &[]).bytes(),
        raw().value(&name, 8, &u64::MAX.to_le_bytes()).bytes(),
    ] {
        assert!(read(bytes).expect_err("bad").to_string().len() < 2_000);
    }
}
