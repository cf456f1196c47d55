//! Models that a program could load and would compute wrongly.

use std::fs;
use std::path::Path;

use fiddlehead_checkpoint::Checkpoint;
use fiddlehead_models::bind;

/// What is said of a tiny checkpoint in whose configuration a text was replaced.
fn refusal(name: &str, from: &str, to: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny").join(name);
    let config = fs::read_to_string(folder.join("config.json")).unwrap();
    assert!(config.contains(from), "{name}: no {from}");
    let weights = fs::read(folder.join("model.safetensors")).unwrap().leak();
    let config = config.replacen(from, to, 1).into_bytes().leak();
    let companions = vec![("config.json", &*config)].leak();
    let bound = bind(&Checkpoint::embedded(weights, companions).unwrap());
    bound.map_or_else(|error| error.to_string(), |bound| panic!("{name}, {to}: {bound:?}"))
}

#[test]
fn windows_that_a_program_does_not_have() {
    let used = ("\"use_sliding_window\": false", "\"use_sliding_window\": true");
    let listed = ("\"full_attention\"", "\"sliding_attention\"");
    let list = ("{", "{ \"layer_types\": [\"full_attention\", \"sliding_attention\"],");
    for (name, (from, to), words) in [
        ("qwen2", used, "`use_sliding_window` is true; false is wanted"),
        ("qwen3", used, "`use_sliding_window` is true; false is wanted"),
        ("qwen3_moe", used, "`use_sliding_window` is true; false is wanted"),
        ("qwen2", list, "full_attention alone is wanted"),
        ("qwen3", listed, "full_attention alone is wanted"),
        ("mistral", ("\"sliding_window\": 16", "\"sliding_window\": 0"), "`sliding_window` is 0"),
    ] {
        let said = refusal(name, from, to);
        assert!(said.contains(words), "{name}: {said}");
    }
}
