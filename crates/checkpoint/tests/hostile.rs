//! Safetensors files that lie about themselves. Each test carries the name of the public fault it covers.

use fiddlehead_checkpoint::safetensors::{FileError, parse};

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0x5a);
    bytes
}

fn tensor(name: &str, dtype: &str, shape: &str, begin: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

fn object(tensors: &[String]) -> String {
    format!("{{{}}}", tensors.join(","))
}

/// Refused, with a message that holds `words`.
fn refused(bytes: &[u8], words: &str) {
    let error = parse(bytes).expect_err(words);
    assert!(error.to_string().contains(words), "{error} should hold {words:?}");
}

#[test]
fn a_good_file_is_read() {
    let header = object(&[
        tensor("b", "BF16", "[2,3]", 8, 20),
        tensor("a", "F32", "[2]", 0, 8),
        tensor("none", "F32", "[0,7]", 20, 20),
        tensor("scalar", "F32", "[]", 20, 24),
        r#""__metadata__":{"format":"pt"}"#.to_owned(),
    ]);
    let bytes = file(&header, 24);
    let entries = parse(&bytes).expect("good");
    let start = 8 + header.len();
    assert_eq!(
        entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(),
        ["a", "b", "none", "scalar"]
    );
    assert_eq!(entries[1].range, start + 8..start + 20);
    assert_eq!(entries[1].shape, [2, 3]);
    assert_eq!(entries[3].range.end, bytes.len());
    safetensors::SafeTensors::deserialize(&bytes).expect("the format's own crate agrees");
}

#[test]
fn safetensors_h3c48_overlapping_ranges() {
    let header = object(&[tensor("a", "F32", "[2]", 0, 8), tensor("b", "F32", "[2]", 4, 12)]);
    let error = parse(&file(&header, 12)).expect_err("overlap");
    assert_eq!(
        error,
        FileError::NotContiguous { name: "b".into(), begin: 4, expected: 8, kind: "two tensors overlap" }
    );
    let same = object(&[tensor("a", "F32", "[2]", 0, 8), tensor("b", "F32", "[2]", 0, 8)]);
    refused(&file(&same, 8), "overlap");
}

#[test]
fn safetensors_h3c48_bytes_of_no_tensor() {
    let hole = object(&[tensor("a", "F32", "[1]", 0, 4), tensor("b", "F32", "[1]", 8, 12)]);
    refused(&file(&hole, 12), "belong to no tensor");
    let before = object(&[tensor("a", "F32", "[1]", 4, 8)]);
    refused(&file(&before, 8), "belong to no tensor");
    let after = object(&[tensor("a", "F32", "[1]", 0, 4)]);
    refused(&file(&after, 9), "5 bytes after the last tensor");
}

#[test]
fn hub_4602_a_long_header_is_trusted_within_the_file() {
    for length in [99_994, 99_999, 100_000, 100_001, 1_200_000] {
        let mut header = object(&[tensor("a", "F32", "[1]", 0, 4)]);
        header.push_str(&" ".repeat(length - header.len()));
        let bytes = file(&header, 4);
        assert_eq!(parse(&bytes).expect("padded").len(), 1, "{length}");
    }
}

#[test]
fn hub_4602_a_header_longer_than_the_file() {
    for claimed in [9u64, 1 << 40, u64::MAX, u64::MAX - 7] {
        let mut bytes = claimed.to_le_bytes().to_vec();
        bytes.extend(b"{\"a\":{}}");
        refused(&bytes, "truncated");
    }
    for length in 0..8 {
        assert_eq!(parse(&vec![0; length]), Err(FileError::TooShort { length }));
    }
}

#[test]
fn pie_423_a_truncated_file() {
    let header = object(&[tensor("first", "F32", "[2]", 0, 8), tensor("last", "F32", "[3]", 8, 20)]);
    let bytes = file(&header, 20);
    parse(&bytes).expect("whole");
    for cut in 1..=20 {
        let name = if cut <= 12 { "last" } else { "first" };
        let error = parse(&bytes[..bytes.len() - cut]).expect_err("truncated");
        assert!(
            matches!(&error, FileError::Truncated { name: found, .. } if found == name),
            "{cut}: {error}"
        );
    }
    for length in 0..bytes.len() - 20 {
        parse(&bytes[..length]).expect_err("cut in the header");
    }
}

#[test]
fn llama_cpp_18674_wrapped_dimensions() {
    let wraps = [
        format!("[{},4]", (1u64 << 62) + 1),
        "[4294967296,4294967296,4294967296]".to_owned(),
        format!("[{}]", u64::MAX),
        format!("[{},0]", u64::MAX),
    ];
    for shape in wraps {
        let refused_shape = object(&[tensor("wide", "F32", &shape, 0, 4)]);
        refused(&file(&refused_shape, 4), "tensor `wide`");
    }
    let bits = object(&[tensor("nibbles", "F4", "[3]", 0, 1)]);
    refused(&file(&bits, 1), "inside a byte");
    let offsets = object(&[tensor("far", "F32", "[1]", 0, u64::MAX)]);
    refused(&file(&offsets, 4), "`far`");
    let reversed = object(&[tensor("back", "F32", "[1]", 8, 4)]);
    refused(&file(&reversed, 8), "before it begins");
}

#[test]
fn llama_cpp_25378_too_many_dimensions() {
    let shape = format!("[{}1]", "1,".repeat(5000));
    refused(&file(&object(&[tensor("deep", "F32", &shape, 0, 4)]), 4), "tensor `deep`");
}

#[test]
fn hfjs_2028_deep_nesting_is_no_recursion() {
    let nested = format!(r#"{{"a":{}{}}}"#, "[".repeat(200_000), "]".repeat(200_000));
    parse(&file(&nested, 0)).expect_err("nested");
    let ignored = format!(
        r#"{{"a":{{"other":{}{},"dtype":"F32","shape":[],"data_offsets":[0,4]}}}}"#,
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    assert_eq!(parse(&file(&ignored, 4)).expect("a field that is not looked at").len(), 1);
}

#[test]
fn unsloth_3124_an_unknown_type_is_named() {
    let header = object(&[tensor("odd", "Q9_Z", "[1]", 0, 4)]);
    refused(&file(&header, 4), "tensor `odd`: unknown element type `Q9_Z`");
}

#[test]
fn sizes_that_do_not_fit_their_range() {
    let header = object(&[tensor("a", "BF16", "[2,2]", 0, 4)]);
    refused(&file(&header, 4), "takes 8 bytes, its range has 4");
}

#[test]
fn names_occur_once() {
    let twice = object(&[tensor("a", "F32", "[1]", 0, 4), tensor("a", "F32", "[1]", 4, 8)]);
    refused(&file(&twice, 8), "occurs twice");
    let metadata = r#"{"__metadata__":{},"__metadata__":{}}"#;
    refused(&file(metadata, 0), "occurs twice");
}

#[test]
fn headers_that_are_no_headers() {
    for header in [
        "",
        "[]",
        "null",
        "{",
        r#"{"a":3}"#,
        r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}"#,
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}"#,
        r#"{"a":{"dtype":"F32","data_offsets":[0,4]}}"#,
        r#"{"__metadata__":{"a":1}}"#,
        r#"{} {}"#,
    ] {
        assert!(matches!(parse(&file(header, 4)), Err(FileError::BadHeader { .. })), "{header}");
    }
    let mut not_text = file("{}", 0);
    not_text[8] = 0xff;
    parse(&not_text).expect_err("not UTF-8");
}

#[test]
fn messages_stay_short_whatever_the_file_says() {
    let name = "x".repeat(100_000);
    let header = object(&[tensor(&name, &name, "[1]", 0, 4)]);
    assert!(parse(&file(&header, 4)).expect_err("unknown").to_string().len() < 2_000);
}
