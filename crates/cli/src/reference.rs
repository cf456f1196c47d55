//! What is made from the definitions of flags: completion scripts and the reference page.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Command, CommandFactory, ValueHint};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::output;

/// The reference's width in characters.
const WIDTH: usize = 100;

/// Prints a completion script.
///
/// # Errors
/// When it cannot be written.
pub fn completions(shell: Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(), "fiddlehead", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Fish {
        script += &fish_arguments();
    }
    output::print(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The commands without hidden ones, which scripts would offer.
fn visible() -> Command {
    let all = Arguments::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect::<Vec<_>>();
    Command::new("fiddlehead").version(env!("CARGO_PKG_VERSION")).subcommands(shown)
}

/// What the made script for fish leaves out: the values of arguments that are no flags, and that a text is no file.
fn fish_arguments() -> String {
    let mut lines = String::from("complete -c fiddlehead -n \"__fish_fiddlehead_needs_command\" -f\n");
    let all = visible();
    for command in all.get_subcommands() {
        let asked = format!("__fish_fiddlehead_using_subcommand {}", command.get_name());
        for argument in command.get_positionals() {
            let values: Vec<String> =
                argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            if !values.is_empty() {
                lines += &format!("complete -c fiddlehead -n \"{asked}\" -f -a \"{}\"\n", values.join(" "));
            } else if matches!(argument.get_value_hint(), ValueHint::Unknown | ValueHint::Other) {
                lines += &format!("complete -c fiddlehead -n \"{asked}\" -f\n");
            }
        }
    }
    lines
}

/// Prints `docs/commands.md`.
///
/// # Errors
/// When it cannot be written.
pub fn print() -> Result<ExitCode> {
    output::print(&page())?;
    Ok(ExitCode::SUCCESS)
}

/// The reference of all commands as Markdown.
fn page() -> String {
    let mut arguments = Arguments::command().term_width(WIDTH).version("");
    arguments.build();
    let mut page = String::from(
        "# Commands\n\nMade from the flags' definitions by `fiddlehead reference`; a test holds it to them.\n",
    );
    page += &format!("\n```text\n{}\n```\n", arguments.render_help().to_string().trim_end());
    let visible = arguments.get_subcommands_mut().filter(|command| !command.is_hide_set());
    for command in visible.filter(|command| command.get_name() != "help") {
        let help = command.clone().term_width(WIDTH).render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        page += &format!("\n## {}\n\n```text\n{}\n```\n", command.get_name(), lines.join("\n").trim_end());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_hold_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_reference_is_up_to_date() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
        let found = std::fs::read_to_string(file).unwrap_or_default();
        assert_eq!(found, page(), "docs/commands.md is stale: fiddlehead reference > docs/commands.md");
    }
}
