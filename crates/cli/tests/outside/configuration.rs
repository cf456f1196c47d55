//! The configuration file.

use std::fs;

use serde_json::Value;

use crate::fiddlehead;

struct Configured {
    folder: tempfile::TempDir,
}

impl Configured {
    fn new(text: &str) -> Configured {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("flags.toml"), text).expect("written");
        Configured { folder }
    }

    fn run(&self, arguments: &[&str]) -> crate::Ran {
        let path = self.folder.path().join("flags.toml");
        fiddlehead(&[arguments, &["--config", path.to_str().expect("UTF-8")]].concat())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(arguments).succeeded()).expect("JSON")
    }
}

#[test]
fn a_file_sets_flags_and_the_command_line_wins() {
    let file = Configured::new(
        "json = true\nraw = false\nseed = 7\ntemperature = 0\nmax-tokens = 3\nstop = [\"xyzzy\", \"plugh\"]\n\
         numerics = \"f32\"\nrepetitions = 2\n[dispatch]\ncontraction = \"off\"\n",
    );
    let answer = file.json(&["run", "Tell me a story."]);
    assert_eq!(answer["seed"], 7);
    assert_eq!(answer["tokens"].as_array().map(Vec::len), Some(3));
    let answer = file.json(&["run", "--max-tokens", "5", "Tell me a story."]);
    assert_eq!(answer["tokens"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_file_that_is_wrong() {
    for (text, words) in [
        ("temprature = 1\n", &["temprature", "temperature"][..]),
        ("config = \"x\"\n", &["config"]),
        ("temperature = \"hot\"\n", &["--temperature", "hot"]),
        ("temperature = -1\n", &["--temperature", "-1"]),
        ("seed = [1]\n", &["seed"]),
        ("threads = 0\n", &["--threads"]),
        ("temperature = \n", &["flags.toml"]),
        ("numerics = 2001-01-01\n", &["numerics"]),
    ] {
        Configured::new(text).run(&["run", "Hello."]).failed(2, words);
    }
    fiddlehead(&["run", "--config", "no.toml", "Hello."]).failed(2, &["no.toml", "No such file"]);
}
