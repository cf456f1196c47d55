//! Memory: refused before it is taken, estimated as it is used, and a file that goes away.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::{fiddlehead, models, start};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_advice() {
    let words = ["about", "MiB", "16.0 MiB are allowed by --memory", "fiddlehead quantize", "--memory any"];
    fiddlehead(&["run", "--memory", "16MiB", "Tell me a story."]).failed(1, &words);
    fiddlehead(&["bench", "--memory", "16M", "--json"]).failed(1, &words);
    let said = fiddlehead(&["inspect", "--memory", "16MiB"]).succeeded();
    assert!(said.contains("it does not fit: the model takes about"), "{said}");
    let said = fiddlehead(&["inspect", "--memory", "2GiB"]).succeeded();
    assert!(said.contains("it fits: 2.0 GiB are allowed by --memory"), "{said}");
    let flags = ["run", "--temperature", "0", "--max-tokens", "8", "Tell me a story."];
    let usual = fiddlehead(&flags).succeeded();
    for memory in ["any", "4GiB"] {
        assert_eq!(fiddlehead(&[&flags[..], &["--memory", memory]].concat()).succeeded(), usual);
    }
    for bad in ["", "much", "0", "-1", "5GB"] {
        fiddlehead(&["run", "--memory", bad, "x"]).failed(2, &["--memory"]);
    }
}

#[test]
fn a_shorter_context_is_advised_where_it_would_fit() {
    let fits = |context: &str| {
        let said = fiddlehead(&["inspect", "--json", "--memory", "80MiB", "--context", context]).succeeded();
        let said: Value = serde_json::from_str(&said).expect("JSON");
        said["serving"]["memory"]["fits"] == true
    };
    let refused = fiddlehead(&["run", "--memory", "80MiB", "--context", "100000", "Hello."]);
    refused.failed(1, &["history", "--context"]);
    let (_, after) = refused.stderr.split_once("--context ").expect("advice");
    let (context, _) = after.split_once(' ').expect("a number");
    assert!(fits(context), "{context}");
    assert!(!fits("100000"));
}

#[test]
fn the_estimate_is_near_the_peak() {
    let flags = ["--context", "1024"];
    let run =
        ["bench", "--json", "--prompt", "960", "--generate", "64", "--repetitions", "1", "--threads", "2"];
    let measured = fiddlehead(&[&run[..], &flags].concat()).succeeded();
    let estimated = fiddlehead(&[&["inspect", "--json"][..], &flags].concat()).succeeded();
    let number = |text: &str, path: &str| {
        let value: Value = serde_json::from_str(text).expect("JSON");
        value.pointer(path).and_then(Value::as_u64)
    };
    let Some(peak) = number(&measured, "/peak_memory_bytes") else {
        println!("skipped: the system does not tell the peak");
        return;
    };
    let estimate = number(&estimated, "/serving/memory/total").expect("there");
    let ratio = estimate as f64 / peak as f64;
    assert!((0.8..1.3).contains(&ratio), "estimated {estimate}, measured {peak}: {ratio:.2}");
}

#[cfg(target_os = "linux")]
#[test]
fn pie_423_a_file_that_is_cut_short_while_it_is_used() {
    let folder = models::model(|weights| weights);
    let path = folder.path().join("model.safetensors");
    let mut child =
        start(&["run", "--model", text(folder.path()), "--temperature", "0", "--raw", "Once upon a time"]);
    let mut output = child.stdout.take().expect("piped");
    output.read_exact(&mut [0; 8]).expect("an answer begins");
    fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(4096)).expect("cut");
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).expect("it ends");
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8(ended.stderr).expect("UTF-8");
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("error: a model's file can no longer be read"), "{said}");
}
