//! `fiddlehead score`.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fiddlehead;

fn file(folder: &TempDir, text: &str) -> String {
    let path = folder.path().join("tokens.json");
    fs::write(&path, text).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

fn score(path: &str, more: &[&str]) -> Value {
    let said = fiddlehead(&[&["score", "--json", "--tokens", path], more].concat()).succeeded();
    serde_json::from_str(&said).expect("JSON")
}

#[test]
fn a_greedy_answer_is_what_the_model_would_choose() {
    let flags = ["run", "--temperature", "0", "--max-tokens", "40", "--json", "Tell me a story."];
    let answer = fiddlehead(&flags).succeeded();
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, &answer);
    let report = score(&path, &[]);
    assert_eq!(
        (&report["positions"], &report["agreeing"], &report["agreement"]),
        (&40.into(), &40.into(), &1.0.into())
    );
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(report["sequences"][0]["best"], answer["tokens"]);
    assert!(fiddlehead(&["score", "--tokens", &path]).succeeded().contains("at 40 of 40 places"));
}

#[test]
fn another_token_is_told_with_its_leads() {
    let flags = ["run", "--temperature", "0", "--max-tokens", "6", "--json", "Tell me a story."];
    let mut answer: Value = serde_json::from_str(&fiddlehead(&flags).succeeded()).expect("JSON");
    let chosen = answer["tokens"][3].clone();
    answer["tokens"][3] = json!(3);
    let folder = tempfile::tempdir().expect("a folder");
    // Twice, in a list: each is scored from its own beginning.
    let path = file(&folder, &json!([answer, answer]).to_string());
    let report = score(&path, &["--reference", "--numerics", "f32"]);
    assert_eq!(report["positions"], 12);
    for sequence in 0..2 {
        let told = &report["sequences"][sequence]["disagreements"][0];
        assert_eq!((&told["place"], &told["token"], &told["best"]), (&3.into(), &3.into(), &chosen));
        let lead = told["lead"].as_f64().expect("a number");
        let reference = told["reference_lead_over_token"].as_f64().expect("a number");
        assert!(lead > 1.0 && (lead - reference).abs() < 1e-3 * lead, "{told}");
        assert_eq!(told["reference_lead_over_best"], 0.0);
    }
    let words = fiddlehead(&["score", "--tokens", &path]).succeeded();
    assert!(words.contains("place 3: 3 ") && words.contains("all: "), "{words}");
}

#[test]
fn files_without_tokens_to_score() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, words) in [
        ("", "nothing to score"),
        ("{\"tokens\": [5]}", "nothing to score"),
        ("{\"tokens\": [5", "no JSON"),
        ("{\"prompt_tokens\": [5]}", "sequence 1 has no `tokens`"),
        ("{\"prompt_tokens\": [5], \"tokens\": [99999]}", "token 99999"),
    ] {
        let path = file(&folder, text);
        fiddlehead(&["score", "--tokens", &path]).failed(1, &[words]);
    }
    fs::write(folder.path().join("tokens.json"), [0xff]).expect("written");
    let path = folder.path().join("tokens.json");
    fiddlehead(&["score", "--tokens", path.to_str().expect("UTF-8")]).failed(1, &["byte 0", "UTF-8"]);
    fiddlehead(&["score"]).failed(2, &["--tokens"]);
}
