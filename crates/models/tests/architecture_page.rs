//! What `docs/architecture.md` and the README link to is there, and the mapping that the page shows is the shipped one.

use std::fs;
use std::path::{Path, PathBuf};

/// A link's words and its target.
struct Link {
    words: String,
    target: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn links(page: &str) -> Vec<Link> {
    let ends = page.match_indices("](");
    let link = |(at, _): (usize, &str)| {
        let words = page[..at].rsplit_once('[')?.1.trim_matches('`').to_owned();
        let target = page[at + 2..].split_once(')')?.0.to_owned();
        // Others lead out of the repository, or are a program's function with its sizes.
        (!target.contains("://") && !target.contains(' ')).then_some(Link { words, target })
    };
    ends.filter_map(link).collect()
}

/// Whether a file declares what a link's words name: a function or type, perhaps of a type; or is what they name.
fn declares(file: &Path, words: &str) -> bool {
    let text = fs::read_to_string(file).expect("a text");
    let (of, name) = words.rsplit_once("::").unwrap_or(("", words));
    let stem = |path: Option<&Path>| path.and_then(Path::file_stem).is_some_and(|stem| stem == name);
    let declared = ["fn", "struct", "enum", "trait", "type", "const"].iter().any(|kind| {
        text.match_indices(&format!("{kind} {name}")).any(|(at, found)| {
            !text[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    });
    stem(Some(file)) || stem(file.parent()) || (declared && text.contains(of))
}

#[test]
fn links_lead_to_what_they_name() {
    let mut checked = 0;
    for page in ["README.md", "docs/architecture.md"] {
        let path = root().join(page);
        for Link { words, target } in links(&fs::read_to_string(&path).expect("a page")) {
            let file = path.parent().expect("a folder").join(&target);
            assert!(file.exists(), "{page}: `{words}` leads to {target}, which is not there");
            if target.ends_with(".rs") && !words.ends_with(".rs") {
                assert!(declares(&file, &words), "{page}: {target} declares no `{words}`");
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn the_page_shows_the_mapping_that_is_shipped() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("a page");
    let (_, code) = page.split_once("```rust\n").expect("a mapping");
    let (code, _) = code.split_once("```").expect("its end");
    let shipped = fs::read_to_string(root().join("crates/models/src/mappings/qwen2.rs")).expect("a mapping");
    let shipped: Vec<&str> = shipped.lines().map(str::trim).collect();
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        assert!(shipped.contains(&line), "mappings/qwen2.rs has no line `{line}`");
    }
}
