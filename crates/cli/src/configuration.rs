//! The configuration file: flags by their names, read by the very parser of the command line.
//!
//! A key of the file becomes the flag of that name, unless the command line has that flag. So a flag needs no second
//! definition, and a wrong value gives the message that it would give on the command line.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use toml::{Table, Value};

use crate::arguments::Arguments;
use crate::failure::{self, usage};
use crate::files;

/// Flags that make no sense in a file.
const NOT_IN_A_FILE: [&str; 3] = ["config", "help", "version"];

/// Parses a command line, with the configuration file that it names. Ends the program for `--help` and wrong flags.
///
/// # Errors
/// A configuration file that cannot be read, or does not hold flags.
pub fn arguments(line: Vec<OsString>) -> Result<Arguments> {
    let matches = Arguments::command().get_matches_from(&line);
    let Some((name, of_command)) = matches.subcommand() else { return Ok(Arguments::parse_from(&line)) };
    let Ok(Some(path)) = of_command.try_get_one::<std::path::PathBuf>("config") else {
        return Ok(Arguments::from_arg_matches(&matches)?);
    };
    let more = flags_of_file(path, name, of_command)?;
    // The first two are the program and the command: there is no flag before a command but --help and --version.
    let line = line[..2].iter().cloned().chain(more).chain(line[2..].iter().cloned());
    match Arguments::try_parse_from(line) {
        Ok(arguments) => Ok(arguments),
        Err(error) => Err(usage(format!("{}: {}", path.display(), failure::clap_message(&error)))),
    }
}

fn flags_of_file(path: &Path, name: &str, given: &ArgMatches) -> Result<Vec<OsString>> {
    let bad = |why: String| usage(format!("{}: {why}", path.display()));
    let bytes = files::read_text(path).map_err(|error| bad(error.to_string()))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| bad(format!("byte {} is no UTF-8 text", error.utf8_error().valid_up_to())))?;
    let table: Table = toml::from_str(&text)
        .map_err(|error| usage(format!("{}: {}", path.display(), error.to_string().trim_end())))?;
    let everything = Arguments::command();
    let Some(command) = everything.find_subcommand(name) else { return Ok(Vec::new()) };
    let mut flags = Vec::new();
    for (key, value) in &table {
        let Some(id) = flag(command, key) else {
            // One file may serve several commands: a flag of another one says nothing here.
            if everything.get_subcommands().any(|other| flag(other, key).is_some()) {
                continue;
            }
            let known: BTreeSet<&str> =
                everything.get_subcommands().flat_map(flag_names).filter(|known| in_file(known)).collect();
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(usage(format!("{}: unknown key `{key}`; known are: {known}", path.display())));
        };
        if given.value_source(&id) != Some(ValueSource::CommandLine) {
            push(&mut flags, key, value).map_err(|wanted| {
                usage(format!("{}: `{key}` is {}; {wanted} is wanted", path.display(), described(value)))
            })?;
        }
    }
    Ok(flags)
}

fn in_file(name: &str) -> bool {
    !NOT_IN_A_FILE.contains(&name)
}

fn flag_names(command: &Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter_map(|argument| argument.get_long())
}

/// The id of a command's flag of that name.
fn flag(command: &Command, key: &str) -> Option<String> {
    let argument = command.get_arguments().find(|argument| argument.get_long() == Some(key))?;
    in_file(key).then(|| argument.get_id().to_string())
}

/// What a value that cannot be taken is.
fn described(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list of other things",
        Value::Table(_) => "a table of other things",
        Value::Datetime(_) => "a date or a time",
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => "a single value",
    }
}

/// The flag of a key, once for each of its values.
fn push(flags: &mut Vec<OsString>, key: &str, value: &Value) -> Result<(), &'static str> {
    let mut with = |text: &str| flags.push(format!("--{key}={text}").into());
    match value {
        Value::Boolean(false) => {}
        Value::Boolean(true) => flags.push(format!("--{key}").into()),
        Value::Integer(number) => with(&number.to_string()),
        Value::Float(number) => with(&number.to_string()),
        Value::String(text) => with(text),
        Value::Array(values) => {
            for value in values {
                match value {
                    Value::String(text) => with(text),
                    _ => return Err("a list of texts"),
                }
            }
        }
        // dispatch.contraction = "off"
        Value::Table(table) => {
            for (name, value) in table {
                match value {
                    Value::String(text) => with(&format!("{name}={text}")),
                    Value::Integer(number) => with(&format!("{name}={number}")),
                    _ => return Err("a table of texts"),
                }
            }
        }
        Value::Datetime(_) => return Err("a number, a text, true or false, or a list of texts"),
    }
    Ok(())
}
