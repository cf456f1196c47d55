//! `fiddlehead perplexity`: how surprised a model is by a text.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use fiddlehead_engine::{Document, Likelihood, Model, Windows, perplexity as measure};
use fiddlehead_text::Specials;
use serde_json::{Value, json};

use crate::arguments::{ModelArguments, PerplexityArguments};
use crate::documents::{Layout, documents};
use crate::failure::{INTERRUPTED, usage};
use crate::{device, files, interrupt, memory, output, statistics};

/// The tokens of a window when nothing is said: those of llama-perplexity, so that figures can be compared.
const USUAL_CONTEXT: usize = 512;

/// How often the progress is shown anew.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Measures the perplexity of a text.
///
/// # Errors
/// A file that cannot be read or holds nothing to score, and whatever keeps the model from loading or running.
pub fn perplexity(arguments: &PerplexityArguments) -> Result<ExitCode> {
    let asked = arguments.context.map(|context| context as usize);
    let stride = arguments.stride.map(|stride| stride as usize);
    if let (Some(context), Some(stride)) = (asked, stride) {
        windows(context, Some(stride))?;
    }
    let name = arguments.file.display();
    let text = read(arguments)?;
    let texts = documents(&text, layout(arguments)).with_context(|| name.to_string())?;
    if texts.is_empty() {
        return Err(anyhow!("{name}: it is empty; a perplexity needs a text"));
    }
    let cancel = interrupt::catch()?;
    let model = ModelArguments {
        model: arguments.model.clone(),
        context: arguments.context,
        memory: arguments.memory,
    };
    let load = if arguments.json { device::load_quietly } else { device::load };
    let mut model = load(&model, &arguments.device)?;
    let context = asked.unwrap_or(USUAL_CONTEXT.min(model.context()));
    let windows = windows(context, stride)?;
    let specials = if arguments.literal { Specials::Literal } else { Specials::Parse };
    let tokens: Vec<Document> =
        texts.iter().map(|text| Document::new(&model, text, specials)).collect::<Result<_, _>>()?;
    let scored: usize = tokens.iter().map(Document::scored).sum();
    if scored == 0 {
        return Err(anyhow!("{name}: no token of it follows another one; a perplexity needs a longer text"));
    }
    let mut progress = Progress::new(scored);
    let started = Instant::now();
    let found = measure(&mut model, &tokens, windows, &mut |so_far| {
        progress.show(so_far);
        !cancel.load(Ordering::Relaxed)
    });
    progress.clear();
    let Some(likelihood) = found? else { return Ok(ExitCode::from(INTERRUPTED)) };
    let report = Report {
        arguments,
        documents: tokens.len(),
        bytes: texts.iter().map(|text| text.len()).sum(),
        context,
        stride: stride.unwrap_or(context / 2),
        likelihood,
        seconds: started.elapsed().as_secs_f64(),
    };
    match arguments.json {
        true => output::print_line(&report.json().to_string())?,
        false => output::print(&report.words())?,
    }
    if arguments.stats {
        output::remark(&report.timings(&model));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(arguments: &PerplexityArguments) -> Result<String> {
    let name = arguments.file.display();
    let bytes = files::read_text(&arguments.file).with_context(|| name.to_string())?;
    String::from_utf8(bytes)
        .map_err(|error| anyhow!("{name}: byte {} is no UTF-8 text", error.utf8_error().valid_up_to()))
}

fn layout(arguments: &PerplexityArguments) -> Layout<'_> {
    match (&arguments.separator, &arguments.json_lines) {
        (Some(separator), _) => Layout::Separated(separator),
        (None, Some(key)) => Layout::JsonLines(key),
        (None, None) => Layout::Whole,
    }
}

fn windows(context: usize, stride: Option<usize>) -> Result<Windows> {
    let stride = stride.unwrap_or(context / 2);
    Windows::new(context, stride).map_err(|error| usage(format!("--stride: {error}")))
}

/// How far it is, on a terminal.
struct Progress {
    tokens: usize,
    shown: Option<Instant>,
    terminal: bool,
}

impl Progress {
    fn new(tokens: usize) -> Progress {
        Progress { tokens, shown: None, terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, so_far: &Likelihood) {
        if !self.terminal || self.shown.is_some_and(|shown| shown.elapsed() < SHOWN_EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        let percent = 100 * so_far.tokens() / self.tokens.max(1);
        let perplexity = match so_far.tokens() {
            0 => String::new(),
            _ => format!(", perplexity {:.4} so far", so_far.perplexity()),
        };
        let tokens = self.tokens;
        // A terminal that is gone misses nothing.
        drop(write!(anstream::stderr(), "\r\x1b[K{percent}% of {tokens} tokens{perplexity}"));
    }

    fn clear(&self) {
        if self.shown.is_some() {
            drop(write!(anstream::stderr(), "\r\x1b[K"));
        }
    }
}

/// What is told at the end.
struct Report<'a> {
    arguments: &'a PerplexityArguments,
    documents: usize,
    bytes: usize,
    context: usize,
    stride: usize,
    likelihood: Likelihood,
    seconds: f64,
}

impl Report<'_> {
    /// Bits of surprise for each byte of the documents, which models with different tokenizers have in common.
    fn bits_per_byte(&self) -> f64 {
        self.likelihood.mean() * self.likelihood.tokens() as f64 / std::f64::consts::LN_2 / self.bytes as f64
    }

    fn json(&self) -> Value {
        json!({
            "model": device::name(self.arguments.model.as_deref()),
            "file": self.arguments.file.display().to_string(),
            "numerics": self.arguments.device.numerics.to_string(),
            "documents": self.documents,
            "bytes": self.bytes,
            "scored_tokens": self.likelihood.tokens(),
            "context": self.context,
            "stride": self.stride,
            "mean_negative_log_likelihood": self.likelihood.mean(),
            "mean_standard_error": self.likelihood.standard_error(),
            "perplexity": self.likelihood.perplexity(),
            "perplexity_standard_error": self.likelihood.perplexity_error(),
            "bits_per_byte": self.bits_per_byte(),
            "seconds": self.seconds,
            "tokens_per_second": statistics::rate(self.likelihood.tokens(), self.seconds),
        })
    }

    fn words(&self) -> String {
        let likelihood = &self.likelihood;
        format!(
            "{} | numerics {} | {} tokens of {} scored | windows of {} every {}\n\n\
             negative log-likelihood  {:.5} ± {:.5} nats a token\n\
             perplexity               {:.4} ± {:.4}\n\
             bits a byte              {:.4}\n",
            device::name(self.arguments.model.as_deref()),
            self.arguments.device.numerics,
            likelihood.tokens(),
            counted(self.documents, "document"),
            self.context,
            self.stride,
            likelihood.mean(),
            likelihood.standard_error(),
            likelihood.perplexity(),
            likelihood.perplexity_error(),
            self.bits_per_byte(),
        )
    }

    fn timings(&self, model: &Model) -> String {
        let tokens = self.likelihood.tokens();
        let rate = statistics::rate(tokens, self.seconds).unwrap_or(0.0);
        let peak = memory::peak_bytes().map(|bytes| format!(" | peak memory {} MiB", bytes >> 20));
        format!(
            "load {:.2} s | {tokens} tokens in {:.2} s ({rate:.0} tok/s){}",
            model.timings().load_seconds,
            self.seconds,
            peak.unwrap_or_default()
        )
    }
}

/// A number of things.
fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}
