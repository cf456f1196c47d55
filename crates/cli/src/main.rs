//! The `fiddlehead` command: flags, files, terminals, and nothing that a library could own.
//!
//! Start reading at `arguments.rs`, which defines every flag once (parser, help, configuration file, completions and
//! the reference page all come from it), then at the file of a command.

mod arguments;
mod bench;
mod bus;
mod chat;
mod configuration;
mod device;
mod devices;
mod documents;
mod embedded;
mod exec;
mod explain;
mod failure;
mod files;
mod gate;
mod inspect;
mod interrupt;
mod kernels;
mod memory;
mod npy;
mod output;
mod perplexity;
mod progress;
mod quantize;
mod random;
mod reference;
mod run;
mod score;
mod statistics;
mod token_files;

use std::process::ExitCode;

use arguments::Command;

fn main() -> ExitCode {
    bus::explain();
    let arguments = match configuration::arguments(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(error) => return failure::report(&error),
    };
    let result = match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Exec(arguments) => exec::exec(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Inspect(arguments) => inspect::inspect(&arguments),
        Command::Quantize(arguments) => quantize::quantize(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Perplexity(arguments) => perplexity::perplexity(&arguments),
        Command::Score(arguments) => score::score(&arguments),
        Command::Devices => devices::devices(),
        Command::Kernels(arguments::KernelsCommand::Build(arguments)) => kernels::build(&arguments),
        Command::Gate(arguments) => gate::gate(&arguments),
        Command::Completions { shell } => reference::completions(shell),
        Command::Reference => reference::print(),
    };
    match result {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}
