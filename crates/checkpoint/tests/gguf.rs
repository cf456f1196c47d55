//! GGUF files written and read back, whole and in parts, and those of llama.cpp's own tools.

use std::fs;
use std::path::Path;

use fiddlehead_checkpoint::gguf::{Declaration, Metadata, WriteError, Writer, write};
use fiddlehead_checkpoint::{Checkpoint, Description};
use fiddlehead_storage::{Format, Tensor};

fn tensor(rows: usize, value: f32) -> Tensor {
    Tensor::from_f32(vec![rows, 3], vec![value; rows * 3]).expect("fits")
}

fn part(number: u16, count: u16, tensors: i32) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.set("split.no", number);
    metadata.set("split.count", count);
    metadata.set("split.tensors.count", tensors);
    metadata
}

fn save(path: &Path, metadata: &Metadata, tensors: &[(&str, &Tensor)]) {
    fs::write(path, write(Vec::new(), metadata, tensors).expect("valid")).expect("written");
}

fn refused(path: &Path, words: &str) {
    let error = Checkpoint::open(path).expect_err(words).to_string();
    assert!(error.contains(words), "{error} should hold {words:?}");
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.gguf");
    let mut metadata = Metadata::default();
    metadata.set("general.architecture", "test");
    metadata.set("general.alignment", 128u32);
    metadata.set("test.numbers", &[1.5f32, -2.0][..]);
    metadata.set("test.flags", &[true, false][..]);
    metadata.set("test.texts", &["ä", "", "b"][..]);
    metadata.set("test.size", -3i64);
    save(&path, &metadata, &[("one", &tensor(5, 1.0)), ("two", &tensor(1, 2.0))]);
    for path in [path.as_path(), folder.path()] {
        let checkpoint = Checkpoint::open(path).expect("opens");
        let Description::Gguf(found) = checkpoint.description() else { panic!("it is a GGUF file") };
        let show = |metadata: &Metadata| {
            metadata.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>()
        };
        assert_eq!(show(found), show(&metadata));
        assert_eq!(checkpoint.tensor("one").expect("there").shape(), [5, 3]);
        assert_eq!(checkpoint.tensor("two").expect("there").to_f32().expect("values"), [2.0; 3]);
        assert_eq!(checkpoint.bytes(), fs::metadata(folder.path().join("a.gguf")).expect("there").len());
    }
}

#[test]
fn a_model_in_parts_opens_from_any_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = [1, 2].map(|number| folder.path().join(format!("m-{number:05}-of-00002.gguf")));
    let mut first = part(0, 2, 2);
    first.set("general.architecture", "test");
    save(&paths[0], &first, &[("one", &tensor(5, 1.0))]);
    refused(&paths[0], "there is no m-00002-of-00002.gguf");
    save(&paths[1], &part(1, 2, 2), &[("two", &tensor(1, 2.0))]);
    for path in [&paths[0], &paths[1], folder.path()] {
        let checkpoint = Checkpoint::open(path).expect("opens");
        assert_eq!(checkpoint.tensors().keys().collect::<Vec<_>>(), ["one", "two"]);
        let Description::Gguf(found) = checkpoint.description() else { panic!("it is a GGUF file") };
        assert_eq!(found.architecture(), Some("test"));
    }
    save(&paths[1], &part(0, 2, 2), &[("two", &tensor(1, 2.0))]);
    refused(&paths[0], "it should be part 2 of 2");
    save(&paths[1], &part(1, 2, 2), &[]);
    refused(&paths[0], "should hold 2 tensors together and hold 1");
    save(&paths[1], &part(1, 2, 2), &[("one", &tensor(1, 2.0))]);
    refused(&paths[0], "a tensor belongs to one file");
    let renamed = folder.path().join("renamed.gguf");
    fs::copy(&paths[0], &renamed).expect("copied");
    refused(&renamed, "one of 2 files");
}

#[test]
fn a_writer_writes_what_was_declared() {
    let metadata = Metadata::default();
    let declared =
        |format, shape: &[usize]| [Declaration { name: "a".to_owned(), format, shape: shape.to_vec() }];
    let mut writer = Writer::new(Vec::new(), &metadata, &declared(Format::F32, &[2])).expect("valid");
    assert!(matches!(writer.tensor(&[0; 7]), Err(WriteError::WrongLength { expected: 8, found: 7, .. })));
    writer.tensor(&[0; 8]).expect("declared");
    assert!(matches!(writer.tensor(&[]), Err(WriteError::WrongCount { .. })));
    let writer = Writer::new(Vec::new(), &metadata, &declared(Format::F32, &[2])).expect("valid");
    assert!(matches!(writer.finish(), Err(WriteError::WrongCount { declared: 1, found: 0 })));
    for (format, shape) in [(Format::F8_E4M3_128, &[128][..]), (Format::Q8_0, &[33]), (Format::F32, &[1; 5])]
    {
        assert!(matches!(
            Writer::new(Vec::new(), &metadata, &declared(format, shape)),
            Err(WriteError::File(_))
        ));
    }
}

#[test]
fn files_of_other_tools_are_written_again_as_they_were() {
    let Some(fixtures) = std::env::var_os("FIDDLEHEAD_TEST_FIXTURES") else {
        println!("skipped: needs the fixtures' folder");
        return;
    };
    let path = Path::new(&fixtures).join("stories-11m/stories-q8_0.gguf");
    let bytes = fs::read(&path).expect("there");
    let file = fiddlehead_checkpoint::gguf::parse(&bytes.clone().into()).expect("good");
    let tensors: Vec<(&str, Tensor)> = file
        .tensors
        .iter()
        .map(|entry| {
            let format = entry.tensor_type.format().expect("served");
            let data = bytes[entry.range.clone()].to_vec().into();
            (entry.name.as_str(), Tensor::new(format, entry.shape.clone(), data).expect("checked"))
        })
        .collect();
    let tensors: Vec<(&str, &Tensor)> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
    let again = write(Vec::new(), &file.metadata, &tensors).expect("valid");
    assert!(again == bytes, "the same bytes, {} and {}", again.len(), bytes.len());
}
