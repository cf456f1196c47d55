//! `fiddlehead run`: one answer, or a chat.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow};
use fiddlehead_engine::{FinishReason, Generation, Generator, Model, Request, SamplingError};
use fiddlehead_text::ChatRequest;
use serde_json::json;

use crate::arguments::{RunArguments, SamplingArguments};
use crate::failure::{INTERRUPTED, usage};
use crate::{chat, device, files, interrupt, output, statistics};

/// Answers the prompt, or chats when there is none and somebody sits at the terminal.
///
/// # Errors
/// Whatever keeps the model from answering.
pub fn run(arguments: &RunArguments) -> Result<ExitCode> {
    check(&arguments.sampling)?;
    let terminal = std::io::stdin().is_terminal();
    let prompt = match &arguments.prompt {
        Some(prompt) => Some(prompt.clone()),
        None if terminal => None,
        None => Some(standard_input()?),
    };
    match prompt {
        Some(prompt) if prompt.trim().is_empty() => {
            Err(usage("the prompt is empty; write one after `run`, or pipe one in"))
        }
        Some(prompt) => answer(arguments, &prompt),
        None if arguments.json || arguments.raw => {
            Err(usage("--json and --raw answer one prompt; write it after `run`, or pipe it in"))
        }
        None => chat::chat(arguments),
    }
}

/// Refuses senseless parameters before anything is loaded.
///
/// # Errors
/// The first parameter out of its range.
pub fn check(sampling: &SamplingArguments) -> Result<()> {
    match sampling.over(&Default::default()).check() {
        Err(SamplingError::Parameter { name, value, allowed }) => {
            Err(usage(format!("--{} is {value}; it must be {allowed}", name.replace('_', "-"))))
        }
        Err(other) => Err(other.into()),
        Ok(()) => Ok(()),
    }
}

/// A request for an answer to a prompt.
pub fn request(model: &Model, sampling: &SamplingArguments, prompt: Vec<u32>) -> Request {
    Request {
        prompt,
        sampling: sampling.over(model.defaults()),
        seed: sampling.seed,
        max_tokens: sampling.max_tokens,
        stops: sampling.stop.clone(),
    }
}

/// Generates an answer and shows it as it comes.
///
/// # Errors
/// What the engine refuses, and what standard output does.
pub fn stream(
    model: &mut Model,
    generator: &mut Generator,
    request: &Request,
    cancel: &AtomicBool,
) -> Result<Generation> {
    let mut written = Ok(());
    let generation = generator.generate(model, request, cancel, &mut |text| {
        written = output::print(text);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    Ok(generation)
}

fn standard_input() -> Result<String> {
    let unread = "the prompt cannot be read from standard input";
    let bytes = files::text_of(std::io::stdin().lock()).context(unread)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        anyhow!("{unread}: byte {valid} is no UTF-8 text")
    })?;
    let without_end = text.strip_suffix('\n').unwrap_or(&text);
    Ok(without_end.strip_suffix('\r').unwrap_or(without_end).to_owned())
}

fn answer(arguments: &RunArguments, prompt: &str) -> Result<ExitCode> {
    let cancel = interrupt::catch()?;
    let load = if arguments.json { device::load_quietly } else { device::load };
    let mut model = load(&arguments.model, &arguments.device)?;
    let prompt = encode(arguments, &model, prompt)?;
    let request = request(&model, &arguments.sampling, prompt);
    let mut generator = Generator::new(&mut model, 0)?;
    let generation = if arguments.json {
        generator.generate(&mut model, &request, &cancel, &mut |_| ControlFlow::Continue(()))?
    } else {
        let generation = stream(&mut model, &mut generator, &request, &cancel)?;
        output::print_line("")?;
        generation
    };
    if arguments.json {
        let object = json!({
            "prompt_tokens": request.prompt,
            "tokens": generation.tokens,
            "text": generation.text,
            "finish_reason": generation.finish_reason.name(),
            "seed": generation.seed,
            "timings": statistics::timings(model.timings(), generation.timings),
        });
        output::print_line(&object.to_string())?;
    }
    if arguments.stats {
        let line = statistics::line(Some(model.timings()), &generation);
        output::remark(&line);
    }
    Ok(match generation.finish_reason {
        FinishReason::Cancelled => ExitCode::from(INTERRUPTED),
        FinishReason::Stop | FinishReason::Length => ExitCode::SUCCESS,
    })
}

/// The tokens of the prompt. A model without a chat template was made to go on from a text, so it does.
fn encode(arguments: &RunArguments, model: &Model, prompt: &str) -> Result<Vec<u32>> {
    if arguments.raw || (!model.has_chat_template() && arguments.system.is_none()) {
        return Ok(model.encode_raw(prompt)?);
    }
    let system = arguments.system.iter().map(|text| ChatRequest::message("system", text));
    let messages = system.chain([ChatRequest::message("user", prompt)]).collect();
    Ok(model.encode_chat(&ChatRequest::new(messages))?)
}
