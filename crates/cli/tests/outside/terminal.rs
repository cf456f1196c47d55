//! A pseudo-terminal with a program in it, and what somebody at it sees and types.

use std::process::Command;

use rexpect::process::WaitStatus;
use rexpect::reader::Options;
use rexpect::session::{PtySession, spawn_with_options};
use rustix::termios::{Winsize, tcsetwinsize};

/// How long one answer of a program may take, in milliseconds: far longer than any should, on a busy machine too.
const PATIENCE: u64 = 120_000;

/// A program at a terminal.
pub struct Terminal {
    session: PtySession,
}

impl Terminal {
    /// Starts a program at a terminal of 24 lines of 80 characters.
    pub fn start(program: &str, arguments: &[&str]) -> Terminal {
        let mut command = Command::new(program);
        command.args(arguments).env("TERM", "xterm").env("HISTFILE", "/dev/null");
        let options = Options::new().timeout_ms(Some(PATIENCE)).strip_ansi_escape_codes(true);
        let mut session = spawn_with_options(command, options).expect("a terminal");
        session.process_mut().set_kill_timeout(Some(1000));
        let terminal = Terminal { session };
        terminal.resize(24, 80);
        terminal
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) {
        self.session.send(keys).expect("typed");
        self.session.flush().expect("typed");
    }

    /// Types a line and the return key.
    pub fn line(&mut self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// Waits until a text is shown, and gives what came before it.
    pub fn shows(&mut self, text: &str) -> String {
        self.session.exp_string(text).unwrap_or_else(|error| panic!("waiting for `{text}`: {error}"))
    }

    /// Makes the window another size.
    pub fn resize(&self, lines: u16, columns: u16) {
        let file = self.session.process().get_file_handle().expect("the terminal");
        let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(file, size).expect("resized");
    }

    /// Waits for the program to end, which it must of itself, and gives its exit code.
    pub fn ends(mut self) -> i32 {
        self.session.exp_eof().expect("it ends");
        match self.session.process().wait().expect("it ended") {
            WaitStatus::Exited(_, code) => code,
            other => panic!("it did not end of itself: {other:?}"),
        }
    }
}
