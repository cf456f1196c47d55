//! The completion scripts in the shells that they are for. A shell that is not installed is skipped, and said to be.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::fiddlehead;
use crate::terminal::Terminal;

/// The script of a shell in a folder of its own, and whether the shell is there.
fn script(shell: &str, file: &str) -> Option<(TempDir, PathBuf)> {
    let there = Command::new(shell).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        eprintln!("skipped: {shell} is not installed");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(file);
    std::fs::write(&path, fiddlehead(&["completions", shell]).succeeded()).expect("written");
    Some((folder, path))
}

/// Lines that must and must not be offered after a beginning of a command line.
const OFFERED: [(&str, &[&str], &[&str]); 5] = [
    ("fiddlehead ru", &["run"], &["exec"]),
    ("fiddlehead ", &["run", "exec", "explain", "inspect", "bench", "completions"], &["reference", "script"]),
    ("fiddlehead run --nu", &["--numerics"], &["--threads"]),
    ("fiddlehead run --numerics ", &["f32", "auto", "strict"], &["script"]),
    ("fiddlehead completions ", &["bash", "zsh", "fish"], &["script"]),
];

fn check(shell: &str, offered: impl Fn(&str) -> Vec<String>) {
    for (line, wanted, unwanted) in OFFERED {
        let words = offered(line);
        let has = |word: &str| words.iter().any(|offered| offered.starts_with(word));
        for word in wanted {
            assert!(has(word), "{shell}: `{line}` does not offer {word}: {words:?}");
        }
        for word in unwanted {
            assert!(!has(word), "{shell}: `{line}` offers {word}: {words:?}");
        }
    }
}

#[test]
fn bash_completes() {
    let Some((folder, path)) = script("bash", "script.bash") else { return };
    check("bash", |line| {
        let words: Vec<&str> = line.split(' ').collect();
        let last = words.len() - 1;
        let previous = words[last - 1];
        let program = format!(
            "source '{}'; COMP_WORDS=({} ''); COMP_CWORD={last}; \
             [ -n '{}' ] && COMP_WORDS=({}); _fiddlehead fiddlehead '{}' '{previous}'; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            path.display(),
            words[..last].join(" "),
            words[last],
            words.join(" "),
            words[last],
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &program])
            .current_dir(folder.path())
            .output()
            .expect("bash");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    });
}

#[test]
fn fish_completes() {
    let Some((folder, path)) = script("fish", "script.fish") else { return };
    check("fish", |line| {
        let program = format!("source '{}'; complete -C '{line}'", path.display());
        let output = Command::new("fish")
            .args(["--no-config", "-c", &program])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .output()
            .expect("fish");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    });
}

/// zsh has no command that tells what it would offer, so it is asked at a terminal.
#[test]
fn zsh_completes() {
    let Some((folder, _)) = script("zsh", "_fiddlehead") else { return };
    let mut terminal = Terminal::start("zsh", &["-f", "-i"]);
    terminal.line("unsetopt zle_bracketed_paste prompt_sp; LISTMAX=1000; PS1=ready:");
    terminal.shows("ready:");
    let setup = format!(
        "cd '{0}'; fpath=('{0}' $fpath); autoload -U compinit; compinit -u -D; print set'up'",
        folder.path().display()
    );
    terminal.line(&setup);
    terminal.shows("setup");
    terminal.shows("ready:");
    for (beginning, shown) in [
        ("fiddlehead ru\t", "run"),
        ("fiddlehead run --nu\t", "--numerics"),
        ("fiddlehead run --numerics \t", "strict"),
        ("fiddlehead completions \t", "powershell"),
        ("fiddlehead \t", "completions"),
    ] {
        terminal.keys(beginning);
        terminal.shows(shown);
        // Drops the line; the next prompt is a new one.
        terminal.keys("\u{3}");
        terminal.shows("ready:");
    }
    terminal.line("exit 0");
    assert_eq!(terminal.ends(), 0);
}
