//! What is wrong gives one clear message and an exit code, never a panic.

use crate::{fiddlehead, fiddlehead_reading};

#[test]
fn flags() {
    for (arguments, words) in [
        (&["run", "--temperature", "hot", "x"][..], &["--temperature", "hot"][..]),
        (&["run", "--temperature", "-1", "x"], &["--temperature", "-1", "from 0 to 100"]),
        (&["run", "--temperature", "nan", "x"], &["--temperature"]),
        (&["run", "--top-p", "0", "x"], &["--top-p", "above 0"]),
        (&["run", "--min-p", "2", "x"], &["--min-p"]),
        (&["run", "--repetition-penalty", "0", "x"], &["--repetition-penalty"]),
        (&["run", "--presence-penalty", "-3", "x"], &["--presence-penalty", "-2 to 2"]),
        (&["run", "--top-k", "-1", "x"], &["--top-k"]),
        (&["run", "--seed", "x", "x"], &["--seed"]),
        (&["run", "--max-tokens", "many", "x"], &["--max-tokens"]),
        (&["run", "--stop", "", "x"], &["--stop"]),
        (&["run", "--threads", "0", "x"], &["--threads"]),
        (&["run", "--context", "0", "x"], &["--context"]),
        (&["run", "--numerics", "f16", "x"], &["--numerics", "f32, auto, strict"]),
        (&["run", "--dispatch", "contraction", "x"], &["--dispatch"]),
        (&["run", "--raw", "--system", "s", "x"], &["--raw", "--system"]),
        (&["run", "--tempratur", "1", "x"], &["--tempratur", "--temperature"]),
        (&["rum"], &["rum", "run"]),
        (&["exec"], &["PROGRAM"]),
        (&["exec", "p.fh", "--dim", "N"], &["--dim", "NAME=NUMBER"]),
        (&["exec", "p.fh", "--dim", "N=0"], &["--dim", "0"]),
        (&["exec", "p.fh", "--input", "x"], &["--input"]),
        (&["explain"], &["PROGRAM"]),
        (&["bench", "--repetitions", "0"], &["--repetitions"]),
        (&["bench", "--prompt", "0", "--generate", "0"], &["nothing to measure"]),
        (&["completions", "cmd"], &["cmd", "bash"]),
    ] {
        fiddlehead(arguments).failed(2, words);
    }
}

#[test]
fn dispatch_is_checked_by_the_device() {
    fiddlehead(&["run", "--dispatch", "magic=off", "x"]).failed(1, &["magic", "contraction"]);
    fiddlehead(&["run", "--dispatch", "contraction=magic", "x"]).failed(1, &["magic"]);
}

#[test]
fn empty_prompts() {
    for prompt in ["", "  \n "] {
        fiddlehead(&["run", prompt]).failed(2, &["the prompt is empty"]);
        fiddlehead_reading(prompt.as_bytes(), &["run"]).failed(2, &["the prompt is empty"]);
    }
}

#[test]
fn a_prompt_that_is_no_text() {
    fiddlehead_reading(&[0xff, 0xfe, 0x00], &["run"]).failed(1, &["prompt", "UTF-8"]);
}

#[test]
fn a_huge_prompt() {
    let words = "the lantern ".repeat(40_000);
    fiddlehead_reading(words.as_bytes(), &["run"]).failed(1, &["tokens", "context holds 4096", "--context"]);
}

#[test]
fn a_prompt_without_an_end() {
    fiddlehead_reading(&vec![b'y'; 17 << 20], &["run"]).failed(1, &["standard input", "16 MiB"]);
}
