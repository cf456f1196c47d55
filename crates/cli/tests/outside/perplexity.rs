//! `fiddlehead perplexity`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::fiddlehead;

const STORY: &str = "<|im_start|>user\nTell me a story.<|im_end|>\n<|im_start|>assistant\n\
                     Once upon a time, there was a brave fox named Tim.<|im_end|>\n";

struct Texts {
    folder: TempDir,
}

impl Texts {
    fn new() -> Texts {
        Texts { folder: tempfile::tempdir().expect("a folder") }
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }
}

fn json(arguments: &[&str]) -> Value {
    let said = fiddlehead(&[&["perplexity", "--json"], arguments].concat()).succeeded();
    serde_json::from_str(&said).expect("JSON")
}

fn number(report: &Value, key: &str) -> f64 {
    report[key].as_f64().unwrap_or_else(|| panic!("no {key} in {report}"))
}

#[test]
fn a_text_with_its_error() {
    let texts = Texts::new();
    let file = texts.file("story.txt", STORY);
    let report = json(&[&file]);
    let (mean, perplexity) = (number(&report, "mean_negative_log_likelihood"), number(&report, "perplexity"));
    assert!((mean.exp() - perplexity).abs() < 1e-12 && perplexity > 1.0 && perplexity < 3.0, "{report}");
    let error = number(&report, "mean_standard_error");
    assert!(error > 0.0 && (number(&report, "perplexity_standard_error") - perplexity * error).abs() < 1e-12);
    let scored = number(&report, "scored_tokens");
    assert_eq!((&report["documents"], &report["bytes"]), (&1.into(), &STORY.len().into()));
    let bits = mean * scored / std::f64::consts::LN_2 / STORY.len() as f64;
    assert!((number(&report, "bits_per_byte") - bits).abs() < 1e-12);
    assert_eq!((&report["context"], &report["stride"]), (&512.into(), &256.into()));

    let ran = fiddlehead(&["perplexity", "--stats", &file]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.contains(&format!("perplexity               {perplexity:.4} ± ")), "{}", ran.stdout);
    assert!(
        ran.stderr.contains("load ") && ran.stderr.contains(&format!("{scored} tokens in ")),
        "{}",
        ran.stderr
    );
}

#[test]
fn documents_are_scored_from_their_own_beginnings() {
    let texts = Texts::new();
    let one = json(&[&texts.file("one.txt", STORY)]);
    let mean = number(&one, "mean_negative_log_likelihood");
    let separated = texts.file("two.txt", format!("{STORY}\n<|endoftext|>\n{STORY}\n<|endoftext|>\n"));
    let object = serde_json::json!({ "story": STORY });
    let lines = texts.file("two.jsonl", format!("{object}\n{object}\n"));
    for two in [json(&["--separator", "<|endoftext|>", &separated]), json(&["--json-lines", "story", &lines])]
    {
        assert_eq!(two["documents"], 2);
        assert_eq!(number(&two, "scored_tokens"), 2.0 * number(&one, "scored_tokens"));
        assert!((number(&two, "mean_negative_log_likelihood") - mean).abs() < 1e-12);
    }
    // As one document the second story has the first one before it.
    let whole = json(&[&separated]);
    assert_eq!(whole["documents"], 1);
    assert!((number(&whole, "mean_negative_log_likelihood") - mean).abs() > 1e-3);
}

#[test]
fn windows_and_special_tokens() {
    let texts = Texts::new();
    let file = texts.file("story.txt", STORY.repeat(3));
    let whole = json(&[&file]);
    let same = json(&["--context", "2048", "--stride", "1", &file]);
    assert_eq!(whole["mean_negative_log_likelihood"], same["mean_negative_log_likelihood"]);
    let short = json(&["--context", "8", "--stride", "7", &file]);
    assert_eq!(short["scored_tokens"], whole["scored_tokens"]);
    assert!(number(&short, "perplexity") > 1.5 * number(&whole, "perplexity"), "{short} {whole}");
    let literal = json(&["--literal", &file]);
    assert!(number(&literal, "scored_tokens") > number(&whole, "scored_tokens"));
}

#[test]
fn texts_that_cannot_be_scored() {
    let texts = Texts::new();
    let refused = |arguments: &[&str], words: &[&str]| {
        fiddlehead(&[&["perplexity"], arguments].concat()).failed(1, words);
    };
    refused(&["no/such.txt"], &["no/such.txt", "No such file"]);
    refused(&[texts.folder.path().to_str().expect("UTF-8")], &["irectory"]);
    refused(&[&texts.file("empty.txt", "")], &["empty.txt", "it is empty"]);
    refused(&[&texts.file("short.txt", "<|im_end|>")], &["short.txt", "longer text"]);
    refused(&[&texts.file("bytes.txt", b"abc\xff")], &["bytes.txt", "byte 3", "UTF-8"]);
    let lines = texts.file("lines.jsonl", "{\"text\": \"a b c\"}\n{\"body\": \"d\"}\n");
    refused(&["--json-lines", "text", &lines], &["lines.jsonl", "line 2", "`text`"]);
    refused(&["--separator", "b", &texts.file("b.txt", "b\nb")], &["b.txt", "it is empty"]);
    let story = texts.file("story.txt", STORY);
    for (flags, words) in [
        (&["--context", "8", "--stride", "8"][..], &["--stride", "from 1 to 7"][..]),
        (&["--context", "1"], &["--context"]),
        (&["--stride", "600"], &["--stride", "from 1 to 511"]),
        (&["--separator", ""], &["--separator"]),
        (&["--separator", "x", "--json-lines", "y"], &["--separator", "--json-lines"]),
    ] {
        fiddlehead(&[&["perplexity"], flags, &[&story]].concat()).failed(2, words);
    }
    fiddlehead(&["perplexity"]).failed(2, &["FILE"]);
}

/// 200 stories that the stories model was not trained on, as its recipe writes them; none without Python.
fn stories(texts: &Texts) -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/stories_text.py");
    let output = Command::new("python3").args([script, "200", "7"]).output().ok()?;
    output.status.success().then(|| texts.file("stories.txt", output.stdout))
}

fn fixture(name: &str) -> Option<PathBuf> {
    Some(Path::new(&std::env::var_os("FIDDLEHEAD_TEST_FIXTURES")?).join("stories-11m").join(name))
}

#[test]
fn eight_bit_weights_are_as_good_on_200_stories() {
    let texts = Texts::new();
    let files = (stories(&texts), fixture("stories-bf16.gguf"), fixture("stories-q8_0.gguf"));
    let (Some(text), Some(bf16), Some(q8_0)) = files else {
        println!("skipped: there is no python3, or the fixtures' folder is not given");
        return;
    };
    let of = |model: Option<&Path>, numerics: &str| {
        let model = model.map(|path| ["--model", path.to_str().expect("UTF-8")]);
        let flags = ["--separator", "<|endoftext|>", "--numerics", numerics, &text];
        let report = json(&[model.as_ref().map_or(&[][..], |model| &model[..]), &flags].concat());
        assert_eq!(report["documents"], 200);
        number(&report, "perplexity")
    };
    let safetensors = of(None, "f32");
    let same = of(Some(&bf16), "f32");
    println!("f32: safetensors {safetensors}, GGUF {same}");
    assert!((same / safetensors - 1.0).abs() < 1e-5, "{same}, not {safetensors}");
    for numerics in ["f32", "auto"] {
        let found = of(Some(&q8_0), numerics);
        println!("{numerics}: Q8_0 {found}, {:.4}% from bf16", 100.0 * (found / safetensors - 1.0));
        assert!((found / safetensors - 1.0).abs() < 0.005, "{numerics}: {found}, not {safetensors}");
    }
}
