//! Texts that nobody would write: the checker answers each with messages, in time, and never panics.

use std::time::{Duration, Instant};

use fiddlehead_lang::{Rule, compile};
use proptest::prelude::*;

const PROGRAM: &str = include_str!("../../models/programs/qwen3_5.fh");

/// Pieces that random programs are put together from.
const PIECES: &[&str] = &[
    "fn ",
    "step ",
    "fn f",
    "[N]",
    "(",
    ")",
    "x: f32[N]",
    " -> ",
    "f32",
    "i32",
    "id",
    "bool",
    " = ",
    ";",
    "{",
    "}",
    "[",
    "]",
    ",",
    "let ",
    "if ",
    " else ",
    "each[i in N] ",
    "sum[i in N] ",
    "max[t in path] ",
    "x[i]",
    "x",
    "y",
    "N",
    "0",
    "1.5",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    "s'",
    "state s: f32 = 0.0;",
    "history h = x;",
    "h[here]",
    "scan[t in N](c = 0.0) {",
    "emit c;",
    "next c",
    "fold[i in N](a = 0.0) ",
    "model m {",
    "dims D;",
    "param p: f32[D];",
    "layers[D] {",
    "kind k {",
    "layer l: k;",
    "match layer.kind {",
    "for layer in layers(x = p) {",
    "compute bf16 | q8 {",
    "top[2](x)",
    "argmax(x)",
    "0..=i",
    "..",
    "\n",
    "'",
    ".",
    "&&",
    "==",
    "<",
    "!",
    "|",
    "\u{e9}",
    "//",
    "$",
    "f(x)",
    "0xff",
    "1e999",
    "99999999999",
];

fn answers(text: &str) -> Duration {
    let start = Instant::now();
    if let Err(messages) = compile("hostile.fh", text) {
        assert!(!messages.items.is_empty());
        assert!(!messages.render(false).is_empty());
        for item in &messages.items {
            assert!(item.span.start <= item.span.end && item.span.end as usize <= text.len());
        }
    }
    start.elapsed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        answers(&text);
    }

    #[test]
    fn any_pieces(places in prop::collection::vec(0..PIECES.len(), 0..60)) {
        let text: String = places.into_iter().map(|place| PIECES[place]).collect();
        answers(&text);
    }

    #[test]
    fn a_program_with_parts_moved(cuts in prop::collection::vec((0..PROGRAM.len(), 0..80usize, 0..PROGRAM.len()), 1..6)) {
        let mut text: Vec<char> = PROGRAM.chars().collect();
        for (from, length, to) in cuts {
            let from = from.min(text.len());
            let piece: Vec<char> = text.drain(from..(from + length).min(text.len())).collect();
            let to = to.min(text.len());
            text.splice(to..to, piece);
        }
        answers(&text.into_iter().collect::<String>());
    }
}

#[test]
fn deep_nesting_is_refused() {
    let count = 100_000;
    let shapes: [(&str, &str, &str); 8] = [
        ("(", "x", ")"),
        ("-", "x", ""),
        ("{", "x", "}"),
        ("if b {", "x", "} else { x }"),
        ("each[i in N] ", "x", ""),
        ("f(", "x", ")"),
        ("x[", "0", "]"),
        ("x + ", "x", ""),
    ];
    for (open, middle, close) in shapes {
        let body = format!("{}{middle}{}", open.repeat(count / open.len()), close.repeat(count / open.len()));
        let text = format!("fn f[N](x: f32[N], b: bool) -> f32 = {body};\nfn g(x: f33) -> f32 = x;\n");
        let start = Instant::now();
        let messages = compile("deep.fh", &text).expect_err("too deep");
        assert!(start.elapsed() < Duration::from_secs(5), "{open} took {:?}", start.elapsed());
        assert_eq!(messages.items[0].rule, Rule::Depth, "{open}: {}", messages.items[0].message);
        let last = messages.items.last().expect("a message");
        assert!(last.message.contains("f33"), "the parser goes on after a deep text: {}", last.message);
    }
}

#[test]
fn nesting_at_the_limit_is_checked() {
    let body = format!("{}x{}", "(".repeat(100), ")".repeat(100));
    compile("deep.fh", &format!("fn f(x: f32) -> f32 = {body};")).expect("a hundred levels are fine");
    let body = vec!["x"; 100].join(" + ");
    compile("long.fh", &format!("fn f(x: f32) -> f32 = {body};")).expect("a hundred terms are fine");
}

#[test]
fn long_texts_take_linear_time() {
    let good: String = (0..10_000).map(|i| format!("fn f{i}(x: f32) -> f32 = x * 2.0;\n")).collect();
    let bad: String = (0..10_000).map(|i| format!("fn f{i}(x: f32) -> f32 = y{i} + g{i}(x);\n")).collect();
    let broken: String = (0..10_000).map(|i| format!("fn f{i}(x: f32 -> f32 = [;\n")).collect();
    let chain: String =
        (1..10_000).map(|i| format!("fn f{i}(x: f32) -> f32 = f{}(x);\n", i - 1)).collect::<String>();
    let chain = format!("fn f0(x: f32) -> f32 = x;\n{chain}");
    for text in [good, bad, broken, chain] {
        let taken = answers(&text);
        assert!(taken < Duration::from_secs(10), "{taken:?} for {}...", &text[..40]);
    }
}

#[test]
fn a_text_beyond_the_limit_is_refused() {
    let text = " ".repeat((1 << 20) + 1);
    let messages = compile("long.fh", &text).expect_err("too long");
    assert!(messages.items[0].message.contains("bytes"));
}

#[test]
fn a_line_too_long_to_look_at_is_not_drawn() {
    let garbage: String = (0..1_000_000u32).map(|at| char::from(33 + (at * at / 7 % 90) as u8)).collect();
    assert!(answers(&garbage) < Duration::from_secs(10));
    let text = format!("fn main(x: f32) -> f32 =\n    y{};\n", " + x".repeat(100_000));
    let messages = compile("long.fh", &text).expect_err("messages");
    let drawn = messages.render(false);
    assert!(drawn.contains("long.fh:2:"), "{drawn}");
    assert!(drawn.len() < 10_000, "{} bytes", drawn.len());
}

#[test]
fn a_byte_order_mark_at_the_beginning_is_no_part_of_a_program() {
    assert!(compile("marked.fh", "\u{feff}fn main(x: f32) -> f32 = x;").is_ok());
    assert!(compile("marked.fh", "fn main(x: f32) -> f32 = \u{feff}x;").is_err());
}
