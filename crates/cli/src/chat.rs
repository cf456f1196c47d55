//! The chat: a conversation at the terminal.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::Parser;
use fiddlehead_engine::{EngineError, FinishReason, Generation, Generator, Model};
use fiddlehead_text::ChatRequest;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};
use serde_json::Value;

use crate::arguments::{RunArguments, SamplingArguments};
use crate::{device, failure, interrupt, output, run, statistics};

/// Snapshots of earlier turns are kept up to this many bytes.
const PREFIX_BYTES: usize = 256 << 20;

const HELP: &str = "/help               this list
/reset              begin a new conversation
/system TEXT        begin a new conversation under a system message; without TEXT, under none
/set FLAG VALUE     change a flag of `fiddlehead run`: /set temperature 0.5, /set seed 7
/stats              show how long each answer took, or stop showing it
/quit               leave, as Ctrl-D does
Ctrl-C stops an answer. A line that begins with // is a message that begins with /.";

/// Talks until the user leaves.
///
/// # Errors
/// When the model cannot be loaded, the terminal fails, or the output is closed.
pub fn chat(arguments: &RunArguments) -> Result<ExitCode> {
    let cancel = interrupt::catch()?;
    let mut model = device::load(&arguments.model, &arguments.device)?;
    if !model.has_chat_template() {
        return Err(EngineError::NoChatTemplate.into());
    }
    let name = device::name(arguments.model.model.as_deref());
    output::print_line(&format!("{name}, {} tokens of context; /help lists the commands", model.context()))?;
    let configuration = Config::builder().auto_add_history(true).build();
    let mut editor = Editor::<(), MemHistory>::with_history(configuration, MemHistory::new())?;
    let mut chat = Chat::new(&mut model, arguments)?;
    loop {
        match editor.readline("> ") {
            Ok(line) => {
                cancel.store(false, Ordering::Relaxed);
                if chat.line(&mut model, &line, &cancel)? == Next::Leave {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Err(ReadlineError::Interrupted) => output::print_line("(Ctrl-D or /quit leaves)")?,
            Err(ReadlineError::Eof) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Flags as `/set` takes them: the very definition of the command line.
#[derive(Debug, Parser)]
#[command(name = "/set", no_binary_name = true, disable_help_flag = true)]
struct Settings {
    #[command(flatten)]
    sampling: SamplingArguments,
}

#[derive(Debug, PartialEq)]
enum Next {
    GoOn,
    Leave,
}

/// What a line asks for.
#[derive(Debug, PartialEq)]
enum Line<'a> {
    Nothing,
    Message(&'a str),
    Help,
    Reset,
    System(&'a str),
    Set(&'a str, &'a str),
    Stats,
    Quit,
    Unknown(&'a str),
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Line<'a> {
        let line = line.trim();
        if line.is_empty() {
            return Line::Nothing;
        }
        let Some(command) = line.strip_prefix('/') else { return Line::Message(line) };
        if command.starts_with('/') {
            return Line::Message(command);
        }
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match name {
            "help" | "?" => Line::Help,
            "reset" | "new" => Line::Reset,
            "system" => Line::System(rest),
            "set" => {
                let (flag, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                Line::Set(flag, value.trim())
            }
            "stats" => Line::Stats,
            "quit" | "exit" | "bye" => Line::Quit,
            _ => Line::Unknown(name),
        }
    }
}

struct Chat {
    generator: Generator,
    settings: Settings,
    system: Option<String>,
    messages: Vec<Value>,
    stats: bool,
}

impl Chat {
    fn new(model: &mut Model, arguments: &RunArguments) -> Result<Chat> {
        Ok(Chat {
            generator: Generator::new(model, PREFIX_BYTES)?,
            settings: Settings { sampling: arguments.sampling.clone() },
            system: arguments.system.clone(),
            messages: Vec::new(),
            stats: arguments.stats,
        })
    }

    /// Does what a line asks for. What the engine refuses is told and the chat goes on.
    fn line(&mut self, model: &mut Model, line: &str, cancel: &AtomicBool) -> Result<Next> {
        match Line::parse(line) {
            Line::Nothing => {}
            Line::Message(text) => self.message(model, text, cancel)?,
            Line::Help => output::print_line(HELP)?,
            Line::Reset => self.reset()?,
            Line::System(text) => {
                self.system = (!text.is_empty()).then(|| text.to_owned());
                self.reset()?;
            }
            Line::Set(flag, value) => {
                let said = self.settings.set(flag, value);
                output::print_line(&said.unwrap_or_else(|why| why))?;
            }
            Line::Stats => {
                self.stats = !self.stats;
                output::print_line(if self.stats { "timings are shown" } else { "timings are not shown" })?;
            }
            Line::Quit => return Ok(Next::Leave),
            Line::Unknown(name) => {
                output::print_line(&format!("there is no /{name}; /help lists the commands"))?
            }
        }
        Ok(Next::GoOn)
    }

    fn reset(&mut self) -> Result<()> {
        self.messages.clear();
        output::print_line("a new conversation")
    }

    fn message(&mut self, model: &mut Model, text: &str, cancel: &AtomicBool) -> Result<()> {
        self.messages.push(ChatRequest::message("user", text));
        match self.answer(model, cancel) {
            Ok(generation) => {
                output::print_line("")?;
                self.messages.push(ChatRequest::message("assistant", &generation.text));
                if generation.finish_reason == FinishReason::Cancelled {
                    output::print_line("(stopped)")?;
                }
                if self.stats {
                    output::remark(&statistics::line(None, &generation));
                }
                Ok(())
            }
            Err(error) if error.is::<EngineError>() => {
                self.messages.pop();
                let hint = match error.downcast_ref() {
                    Some(EngineError::PromptTooLong { .. }) => "; /reset begins a new conversation",
                    _ => "",
                };
                output::print_line(&format!("error: {error}{hint}"))
            }
            Err(error) => Err(error),
        }
    }

    fn answer(&mut self, model: &mut Model, cancel: &AtomicBool) -> Result<Generation> {
        let system = self.system.iter().map(|text| ChatRequest::message("system", text));
        let messages = system.chain(self.messages.iter().cloned()).collect();
        let prompt = model.encode_chat(&ChatRequest::new(messages))?;
        let request = run::request(model, &self.settings.sampling, prompt);
        run::stream(model, &mut self.generator, &request, cancel)
    }
}

impl Settings {
    /// Changes a flag; what was said about it either way.
    fn set(&mut self, flag: &str, value: &str) -> Result<String, String> {
        let flag = flag.trim_start_matches('-').replace('_', "-");
        if flag.is_empty() || value.is_empty() {
            return Err("/set FLAG VALUE, such as /set temperature 0.5".to_owned());
        }
        let mut changed = Settings { sampling: self.sampling.clone() };
        changed
            .try_update_from([format!("--{flag}={value}")])
            .map_err(|error| failure::clap_message(&error))?;
        run::check(&changed.sampling).map_err(|error| error.to_string())?;
        *self = changed;
        Ok(format!("{flag} is {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        for (line, wanted) in [
            ("  ", Line::Nothing),
            (" hello there ", Line::Message("hello there")),
            ("//etc is a folder", Line::Message("/etc is a folder")),
            ("/help", Line::Help),
            ("/system  be brief ", Line::System("be brief")),
            ("/system", Line::System("")),
            ("/set temperature  0.5", Line::Set("temperature", "0.5")),
            ("/set", Line::Set("", "")),
            ("/etc", Line::Unknown("etc")),
            ("/quit", Line::Quit),
        ] {
            assert_eq!(Line::parse(line), wanted, "{line}");
        }
    }

    #[test]
    fn settings_are_the_flags_of_run() {
        let mut settings = Settings { sampling: SamplingArguments::default() };
        assert_eq!(settings.set("temperature", "0.5"), Ok("temperature is 0.5".to_owned()));
        assert_eq!(settings.set("top_k", "40"), Ok("top-k is 40".to_owned()));
        assert_eq!(settings.sampling.temperature, Some(0.5));
        assert_eq!(settings.sampling.top_k, Some(40));
        for (flag, value) in [("temperature", "hot"), ("temperature", "-1"), ("colour", "red"), ("seed", "")]
        {
            assert!(settings.set(flag, value).is_err(), "{flag} {value}");
        }
        assert_eq!(settings.sampling.temperature, Some(0.5));
    }
}
