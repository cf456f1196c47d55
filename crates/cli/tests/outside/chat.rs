//! The chat at a terminal.

use crate::terminal::Terminal;

const PROMPT: &str = "> ";
const CONTROL_C: &str = "\u{3}";
const CONTROL_D: &str = "\u{4}";
const UP: &str = "\u{1b}[A";

fn chat(flags: &[&str]) -> Terminal {
    let arguments = [&["run", "--threads", "2"], flags].concat();
    let mut terminal = Terminal::start(env!("CARGO_BIN_EXE_fiddlehead"), &arguments);
    terminal.shows("/help lists the commands");
    terminal.shows(PROMPT);
    terminal
}

#[test]
fn commands_are_answered_and_control_d_leaves() {
    let mut terminal = chat(&["--max-tokens", "4"]);
    terminal.line("/help");
    terminal.shows("begin a new conversation under a system message");
    terminal.shows(PROMPT);
    terminal.line("/nonsense");
    terminal.shows("there is no /nonsense; /help lists the commands");
    terminal.shows(PROMPT);
    terminal.line("/set temperature hot");
    terminal.shows("invalid value 'hot'");
    terminal.shows(PROMPT);
    terminal.line("/set max-tokens 3");
    terminal.shows("max-tokens is 3");
    terminal.shows(PROMPT);
    terminal.line("/stats");
    terminal.shows("timings are shown");
    terminal.shows(PROMPT);
    terminal.line("Hello there");
    terminal.shows("answer 3 tokens");
    terminal.shows(PROMPT);
    terminal.keys(CONTROL_D);
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn earlier_lines_come_back() {
    let mut terminal = chat(&["--max-tokens", "2"]);
    terminal.line("/set seed 41");
    terminal.shows("seed is 41");
    terminal.shows(PROMPT);
    terminal.line("/set top-k 7");
    terminal.shows("top-k is 7");
    terminal.shows(PROMPT);
    terminal.keys(UP);
    terminal.shows("/set top-k 7");
    terminal.keys(UP);
    terminal.shows("/set seed 41");
    terminal.keys("2\r");
    terminal.shows("seed is 412");
    terminal.shows(PROMPT);
    terminal.line("/quit");
    assert_eq!(terminal.ends(), 0);
}

/// The first Ctrl-C stops an answer, and at the prompt it drops the line; the chat goes on after both. At this
/// temperature all tokens are about as likely, so that the answer would fill the context.
#[test]
fn control_c_stops_the_answer_and_not_the_program() {
    let mut terminal = chat(&["--temperature", "100", "--seed", "3"]);
    terminal.line("Tell me a very long story about a fox.");
    // Past the echo and into the answer.
    terminal.shows("fox.");
    terminal.shows(" ");
    terminal.keys(CONTROL_C);
    terminal.shows("(stopped)");
    terminal.shows(PROMPT);
    terminal.keys("half a line");
    terminal.shows("half a line");
    terminal.keys(CONTROL_C);
    terminal.shows("Ctrl-D or /quit leaves");
    terminal.shows(PROMPT);
    terminal.line("/set max-tokens 2");
    terminal.shows("max-tokens is 2");
    terminal.shows(PROMPT);
    terminal.line("/quit");
    assert_eq!(terminal.ends(), 0);
}

/// A paste of several lines is one message, not a message a line; one beyond the context is refused in one line.
#[test]
fn pasted_lines_are_one_message() {
    let mut terminal = chat(&["--max-tokens", "2", "--stats"]);
    terminal.keys("\u{1b}[200~Once\nupon\na time\u{1b}[201~");
    terminal.shows("a time");
    terminal.keys("\r");
    terminal.shows("answer 2 tokens");
    terminal.shows(PROMPT);
    terminal.keys(&format!("\u{1b}[200~{}\u{1b}[201~", "fern and fox ".repeat(2000)));
    terminal.keys("\r");
    terminal.shows("/reset begins a new conversation");
    terminal.shows(PROMPT);
    terminal.line("/reset");
    terminal.shows("a new conversation");
    terminal.shows(PROMPT);
    terminal.line("/quit");
    assert_eq!(terminal.ends(), 0);
}

/// The window may change its size while a line is being typed.
#[test]
fn a_window_that_changes_its_size_keeps_the_line() {
    let mut terminal = chat(&["--max-tokens", "2"]);
    terminal.keys("/set max-");
    terminal.shows("/set max-");
    terminal.resize(5, 12);
    terminal.keys("tokens 31");
    terminal.resize(50, 200);
    terminal.keys("7\r");
    terminal.shows("max-tokens is 317");
    terminal.shows(PROMPT);
    terminal.line("/quit");
    assert_eq!(terminal.ends(), 0);
}
