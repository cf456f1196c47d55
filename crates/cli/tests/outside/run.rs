//! `fiddlehead run`.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{fiddlehead, fiddlehead_reading, start, stories};

fn golden() -> Vec<Value> {
    let text = std::fs::read(stories("golden.json")).expect("the goldens are here");
    serde_json::from_slice(&text).expect("JSON")
}

fn json(text: &str) -> Value {
    assert_eq!(text.trim_end().lines().count(), 1, "one object on one line");
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn greedy_tokens_are_those_of_the_reference_implementation() {
    let goldens = golden();
    assert_eq!(goldens.len(), 3);
    for golden in goldens {
        let prompt = golden["prompt"].as_str().expect("a text");
        let answer =
            fiddlehead(&["run", "--json", "--numerics", "f32", "--temperature", "0", prompt]).succeeded();
        let answer = json(&answer);
        assert_eq!(answer["prompt_tokens"], golden["prompt_tokens"]);
        assert_eq!(answer["tokens"], golden["greedy_tokens"]);
        assert_eq!(answer["finish_reason"], "stop");
        assert!(answer["timings"]["prefill_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    }
}

#[test]
fn the_text_is_streamed_and_a_seed_repeats_it() {
    let flags = ["run", "--seed", "5", "--max-tokens", "30", "Tell me a story."];
    let first = fiddlehead(&flags).succeeded();
    assert!(first.len() > 20 && first.ends_with('\n'));
    assert_eq!(fiddlehead(&flags).succeeded(), first);
    let object = json(&fiddlehead(&[&flags[..], &["--json"]].concat()).succeeded());
    assert_eq!(object["text"], first.trim_end_matches('\n'));
    assert_eq!(object["finish_reason"], "length");
    assert_eq!(object["seed"], 5);
    assert_eq!(object["tokens"].as_array().map(Vec::len), Some(30));
    let other = fiddlehead(&["run", "--seed", "6", "--max-tokens", "30", "Tell me a story."]).succeeded();
    assert_ne!(other, first);
}

#[test]
fn a_drawn_seed_is_told_and_repeats_the_answer() {
    let drawn = json(&fiddlehead(&["run", "--json", "--max-tokens", "30", "Tell me a story."]).succeeded());
    let seed = drawn["seed"].to_string();
    let again = ["run", "--json", "--max-tokens", "30", "--seed", &seed, "Tell me a story."];
    assert_eq!(json(&fiddlehead(&again).succeeded())["tokens"], drawn["tokens"]);
}

#[test]
fn threads_change_nothing() {
    let tokens = |threads: &str| {
        let flags =
            ["run", "--json", "--seed", "1", "--max-tokens", "40", "--threads", threads, "Tell me a story."];
        json(&fiddlehead(&flags).succeeded())["tokens"].clone()
    };
    assert_eq!(tokens("1"), tokens("2"));
}

#[test]
fn the_prompt_comes_from_standard_input() {
    let flags = ["run", "--temperature", "0", "--max-tokens", "12"];
    let piped = fiddlehead_reading(b"Tell me a story.\n", &flags).succeeded();
    let given = fiddlehead(&[&flags[..], &["Tell me a story."]].concat()).succeeded();
    assert_eq!(piped, given);
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let flags = [
        "run",
        "--temperature",
        "0",
        "--json",
        "Write a story about a brave fox named Tim who finds a lantern.",
    ];
    let whole = json(&fiddlehead(&flags).succeeded());
    let whole = whole["text"].as_str().expect("a text");
    let stopped =
        json(&fiddlehead(&[&flags[..], &["--stop", "lantern", "--stop", "zebra"]].concat()).succeeded());
    let end = whole.find("lantern").expect("the story has a lantern");
    assert_eq!(stopped["text"], whole[..end]);
    assert_eq!(stopped["finish_reason"], "stop");
}

#[test]
fn raw_text_is_taken_as_it_stands() {
    let chat = json(&fiddlehead(&["run", "--json", "--max-tokens", "1", "Hello."]).succeeded());
    let text = "<|im_start|>user\nHello.<|im_end|>\n<|im_start|>assistant\n";
    let raw = json(&fiddlehead(&["run", "--json", "--max-tokens", "1", "--raw", text]).succeeded());
    assert_eq!(raw["prompt_tokens"], chat["prompt_tokens"]);
    // In a chat the same text is what somebody wrote, and opens no turn.
    let literal = json(&fiddlehead(&["run", "--json", "--max-tokens", "1", text]).succeeded());
    let turns =
        |prompt: &Value| prompt.as_array().map(|tokens| tokens.iter().filter(|&token| token == 1).count());
    assert_eq!(turns(&literal["prompt_tokens"]), Some(2));
}

#[test]
fn a_system_message_comes_first() {
    let with = ["run", "--json", "--max-tokens", "1", "--system", "Be brief.", "Hello."];
    let with = json(&fiddlehead(&with).succeeded());
    let without = json(&fiddlehead(&["run", "--json", "--max-tokens", "1", "Hello."]).succeeded());
    let (with, without) = (&with["prompt_tokens"], &without["prompt_tokens"]);
    let length = |tokens: &Value| tokens.as_array().map_or(0, Vec::len);
    assert!(length(with) > length(without));
    let tail = length(with) - length(without);
    assert_eq!(with.as_array().expect("a list")[tail..], without.as_array().expect("a list")[..]);
}

#[test]
fn statistics_go_to_standard_error() {
    let ran = fiddlehead(&["run", "--stats", "--seed", "3", "--max-tokens", "5", "Hello."]);
    assert_eq!(ran.code, Some(0));
    for word in ["load ", "prompt ", "answer 5 tokens", "seed 3"] {
        assert!(ran.stderr.contains(word), "{}", ran.stderr);
    }
}

#[test]
fn the_context_bounds_prompt_and_answer() {
    let ran =
        json(&fiddlehead(&["run", "--json", "--context", "40", "--temperature", "0", "Hello."]).succeeded());
    let prompt = ran["prompt_tokens"].as_array().map_or(0, Vec::len);
    // The last token is chosen after the last that fits, and is not run itself.
    assert!(ran["tokens"].as_array().map_or(0, Vec::len) <= 41 - prompt);
    let long = "a story and a story and a story and a story and a story and a story and a story";
    fiddlehead(&["run", "--context", "16", long]).failed(1, &["tokens", "context holds 16", "--context"]);
}

#[test]
fn a_reader_that_goes_away_ends_the_answer_quietly() {
    let mut child = start(&["run", "--temperature", "1", "--seed", "2", "Tell me a story."]);
    let mut first = [0; 4];
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut first).expect("an answer begins");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[cfg(unix)]
#[test]
fn an_interrupt_stops_the_answer_with_its_own_code() {
    // A model without an end token goes on until the context is full, which takes minutes.
    let folder = crate::models::model(|weights| weights);
    for name in ["config.json", "generation_config.json", "tokenizer_config.json"] {
        let path = folder.path().join(name);
        let text = std::fs::read_to_string(&path).expect("a text");
        let text = text.replace("\"eos_token_id\": 2", "\"eos_token_id\": null");
        std::fs::write(&path, text.replace("\"eos_token\"", "\"no_token\"")).expect("written");
    }
    let path = folder.path().to_str().expect("UTF-8");
    let mut child =
        start(&["run", "--model", path, "--seed", "1", "--context", "1000000", "Tell me a story."]);
    let mut first = [0; 1];
    child.stdout.as_mut().expect("piped").read_exact(&mut first).expect("an answer begins");
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let begun = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(output.status.code(), Some(130));
}
