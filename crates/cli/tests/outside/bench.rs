//! `fiddlehead bench`.

use serde_json::Value;

use crate::fiddlehead;

#[test]
fn every_key_is_there() {
    let flags =
        ["bench", "--prompt", "64", "--generate", "8", "--threads", "2", "--repetitions", "2", "--json"];
    let report: Value = serde_json::from_str(&fiddlehead(&flags).succeeded()).expect("JSON");
    for key in ["prefill_tokens_per_second", "decode_tokens_per_second", "load_seconds", "plan_seconds"] {
        assert!(report[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {report}");
    }
    if cfg!(target_os = "linux") {
        assert!(report["peak_memory_bytes"].as_u64().is_some_and(|bytes| bytes > 20 << 20));
    }
    for key in ["prefill", "decode"] {
        assert_eq!(report["samples"][key].as_array().map(Vec::len), Some(2));
    }
    assert_eq!((&report["threads"], &report["numerics"]), (&2.into(), &"auto".into()));
}

#[test]
fn a_table_for_people() {
    let said = fiddlehead(&["bench", "--prompt", "16", "--generate", "0", "--repetitions", "1"]).succeeded();
    assert!(said.contains("| prompt     16 |") && !said.contains("| generate"), "{said}");
    fiddlehead(&["bench", "--prompt", "5000"]).failed(2, &["4096", "--context"]);
}
