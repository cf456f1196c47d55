//! `fiddlehead gate`: a device against the oracle, and against other implementations' outputs.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use fiddlehead_cuda::CudaDevice;
use fiddlehead_engine::{ModelSource, Prepared};
use fiddlehead_forest::{Class, Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_gate::{forests, formats, fused, language, recurrence, sampling};
use fiddlehead_graph::Element;
use fiddlehead_oracle::random::Motif;
use fiddlehead_plan::sampling::greatest;
use fiddlehead_plan::{Device, Executor, LoadOptions, Numerics, OutputRows, Values};
use fiddlehead_storage::Format;
use serde_json::{Value, json};
use zip::ZipArchive;

use crate::arguments::{DeviceName, GateArguments};
use crate::{device, kernels, npy, output};

/// How far logits may be from another implementation's, relative to the greatest magnitude of a row.
const BOUND: f32 = 1e-3;

/// Vocabularies from which tokens are chosen: the least, an odd one, and those of models.
const VOCABULARIES: [usize; 6] = [1, 33, 1537, 50_257, 151_936, 262_144];

/// How one check ended.
enum Outcome {
    Passed(String),
    Failed(String),
    Skipped(String),
}

struct Check {
    name: String,
    outcome: Outcome,
    seconds: f64,
}

/// Runs every gate and prints a table.
///
/// # Errors
/// A device that cannot be used, a file that cannot be written. A gate that fails gives exit code 1.
pub fn gate(arguments: &GateArguments) -> Result<ExitCode> {
    let device = device::device(&arguments.device)?;
    output::print_line(&device.describe())?;
    let mut checks = Vec::new();
    let mut run = |name: String, check: &mut dyn FnMut() -> Result<Outcome>| -> Result<()> {
        let started = Instant::now();
        let outcome = check().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        let check = Check { name, outcome, seconds: started.elapsed().as_secs_f64() };
        output::print_line(&line(&check))?;
        checks.push(check);
        Ok(())
    };
    let passed = |what: &str| Ok(Outcome::Passed(what.to_string()));
    run("language page".into(), &mut || {
        let ran = language::run_page(device.as_ref(), kernels::LANGUAGE).map_err(anyhow::Error::msg)?;
        let failures: Vec<String> = ran
            .iter()
            .filter_map(|ran| ran.result.as_ref().err().map(|why| format!("line {}: {why}", ran.line)))
            .collect();
        match failures.is_empty() {
            true => passed(&format!("{} programs as in the oracle", ran.len())),
            false => Err(anyhow!(failures.join("; "))),
        }
    })?;
    for &motif in Motif::ALL {
        run(format!("random programs, {motif:?}"), &mut || {
            for seed in 0..arguments.programs {
                forests::check(device.as_ref(), seed, &[motif], 1, &[])
                    .and_then(|()| forests::check(device.as_ref(), seed, &[motif], 1, &[("all", "off")]))
                    .map_err(|why| anyhow!("seed {seed}: {why}"))?;
            }
            passed("kernels and general path as in the oracle")
        })?;
    }
    run("random programs, mixed".into(), &mut || {
        for seed in 100..100 + arguments.programs * 2 {
            forests::check(device.as_ref(), seed, Motif::ALL, 5, &[])
                .map_err(|why| anyhow!("seed {seed}: {why}"))?;
        }
        passed("as in the oracle")
    })?;
    for &format in Format::ALL {
        run(format!("weights in {format}"), &mut || {
            for nodes in [2, 8, 9, 70] {
                formats::check(device.as_ref(), format, nodes, &[]).map_err(anyhow::Error::msg)?;
            }
            formats::check(device.as_ref(), format, 9, &[("all", "off")]).map_err(anyhow::Error::msg)?;
            passed("looked up and multiplied as their values say")
        })?;
    }
    run("fused and grouped".into(), &mut || {
        for program in fused::PROGRAMS {
            fused::check(device.as_ref(), program).map_err(|why| anyhow!("{}: {why}", program.name))?;
        }
        passed("the same bits as work done apart and row by row")
    })?;
    run("chunks and batches".into(), &mut || {
        for seed in 300..300 + arguments.programs {
            forests::invariance(device.as_ref(), seed, Motif::ALL, 4)
                .map_err(|why| anyhow!("seed {seed}: {why}"))?;
        }
        passed("the same bits cut anywhere, together and alone")
    })?;
    for form in ["serial", "block"] {
        run(format!("delta rule, {form}"), &mut || delta_rule(device.as_ref(), form))?;
    }
    run("recorded launches".into(), &mut || {
        let DeviceName::Cuda(index) = arguments.device.device else {
            return Ok(Outcome::Skipped("only --device cuda records launches".into()));
        };
        let eager = CudaDevice::new(Arc::new(device::gpu(&arguments.device, index)?)).eager();
        for seed in 400..400 + arguments.programs {
            forests::same_bits(device.as_ref(), &eager, seed, Motif::ALL, 4)
                .map_err(|why| anyhow!("seed {seed}: {why}"))?;
        }
        passed("the same bits as launches one by one")
    })?;
    run("chosen tokens".into(), &mut || {
        let parameters = sampling::parameters();
        for (seed, &vocabulary) in VOCABULARIES.iter().enumerate() {
            sampling::check(device.as_ref(), seed as u64, vocabulary, &parameters)
                .map_err(anyhow::Error::msg)?;
        }
        passed(&format!("{} sets of parameters, {VOCABULARIES:?} tokens: the host's", parameters.len()))
    })?;
    let folder = arguments.models.as_deref();
    run("stories-11m".into(), &mut || match folder {
        Some(folder) => stories(device.as_ref(), &folder.join("stories-11m")),
        None => Ok(Outcome::Skipped("--models was not given".into())),
    })?;
    let tiny = folder.map(|folder| folder.join("tiny"));
    let mut names = Vec::new();
    if let Some(tiny) = &tiny {
        for entry in std::fs::read_dir(tiny).with_context(|| tiny.display().to_string())? {
            let entry = entry?;
            if entry.path().join("golden.npz").is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
    }
    for name in names {
        let Some(tiny) = &tiny else { continue };
        run(format!("tiny {name}"), &mut || tiny_logits(device.as_ref(), &tiny.join(&name)))?;
    }
    let failed = checks.iter().filter(|check| matches!(check.outcome, Outcome::Failed(_))).count();
    output::print_line(&format!("{} of {} passed or were skipped", checks.len() - failed, checks.len()))?;
    if let Some(path) = &arguments.output {
        let text = report(device.as_ref(), &checks).to_string();
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How far a form of the delta rule may be from the float64 run, relative to the greatest magnitude.
const DELTA_BOUND: f64 = 1e-6;

/// A form of the delta rule at odd and at real sizes: near the float64 run, and the same bits cut anywhere; the serial one
/// also after commits of every kind.
fn delta_rule(device: &dyn Device, form: &str) -> Result<Outcome> {
    let dispatch = [("recurrence", form)];
    let (mut count, mut worst) = (0, recurrence::Errors::default());
    for rule in &recurrence::RULES {
        if !recurrence::served(device, rule, &dispatch).map_err(anyhow::Error::msg)? {
            continue;
        }
        let told = |why: String| anyhow!("{rule:?}: {why}");
        let found = recurrence::errors(device, rule, &dispatch).map_err(told)?;
        if found.relative > DELTA_BOUND {
            return Err(anyhow!("{rule:?}: {:.1e} ({:.1e}) off", found.absolute, found.relative));
        }
        recurrence::cuts(device, rule, &dispatch).map_err(told)?;
        if form == "serial" {
            recurrence::commits(device, rule, &dispatch, 3, 6).map_err(told)?;
        }
        worst.absolute = worst.absolute.max(found.absolute);
        worst.relative = worst.relative.max(found.relative);
        count += 1;
    }
    Ok(match count {
        0 => Outcome::Skipped("no kernel of this form serves the rules".into()),
        _ => Outcome::Passed(format!(
            "{count} rules at most {:.1e} ({:.1e} of the greatest magnitude) off the float64 run",
            worst.absolute, worst.relative
        )),
    })
}

fn line(check: &Check) -> String {
    let (word, detail) = match &check.outcome {
        Outcome::Passed(detail) => ("passed", detail),
        Outcome::Failed(detail) => ("FAILED", detail),
        Outcome::Skipped(detail) => ("skipped", detail),
    };
    let mut text = String::new();
    let _ = write!(text, "{word:<8}{:<34}{:>8.2} s  {detail}", check.name, check.seconds);
    text
}

fn report(device: &dyn Device, checks: &[Check]) -> Value {
    let check = |check: &Check| {
        let (outcome, detail) = match &check.outcome {
            Outcome::Passed(detail) => ("passed", detail),
            Outcome::Failed(detail) => ("failed", detail),
            Outcome::Skipped(detail) => ("skipped", detail),
        };
        json!({ "name": check.name, "outcome": outcome, "detail": detail, "seconds": check.seconds })
    };
    json!({ "device": device.describe(), "checks": checks.iter().map(check).collect::<Vec<_>>() })
}

fn executor(device: &dyn Device, folder: &Path) -> Result<Box<dyn Executor>> {
    let Prepared { graphs, weights, .. } = Prepared::open(ModelSource::Path(folder))?;
    let options = LoadOptions { numerics: Numerics::F32, ..LoadOptions::default() };
    Ok(device.load(Arc::new(graphs), weights, options)?)
}

/// Runs tokens in a session, every output wanted, and commits them.
fn feed(
    executor: &mut dyn Executor,
    session: SessionId,
    tokens: &[u32],
    class: Class,
) -> Result<Vec<OutputRows>> {
    let base = executor.position(session, 0)?;
    let mut builder = ForestBuilder::new();
    builder.segment(session, base)?.chain(tokens.len(), class, Wanted::ALL, Wanted::ALL)?;
    let forest: Forest = builder.build()?;
    let inputs = [Values::Id(tokens.to_vec()), Values::I32(forest.depths().to_vec())];
    let outputs = executor.run(0, &forest, &inputs)?;
    executor.commit(0, &forest.accept_all(0)?)?;
    Ok(outputs)
}

/// An array of an `.npz` file, and its shape.
fn array(path: &Path, name: &str, element: Element) -> Result<(Values, Vec<usize>)> {
    let read = || -> Result<(Values, Vec<usize>)> {
        let mut archive = ZipArchive::new(File::open(path)?)?;
        let mut bytes = Vec::new();
        archive.by_name(&format!("{name}.npy"))?.read_to_end(&mut bytes)?;
        let array = npy::Array::read(&bytes).map_err(|why| anyhow!(why))?;
        Ok((array.values(element).map_err(|why| anyhow!(why))?, array.shape))
    };
    read().with_context(|| format!("`{name}` of {}", path.display()))
}

fn float_array(path: &Path, name: &str) -> Result<(Vec<f32>, Vec<usize>)> {
    let (values, shape) = array(path, name, Element::F32)?;
    Ok((values.as_f32().unwrap_or_default().to_vec(), shape))
}

fn id_array(path: &Path, name: &str) -> Result<(Vec<u32>, Vec<usize>)> {
    match array(path, name, Element::Id)? {
        (Values::Id(ids), shape) => Ok((ids, shape)),
        _ => Ok((Vec::new(), Vec::new())),
    }
}

/// The worst error of rows relative to each one's greatest wanted magnitude.
fn error(found: &[f32], wanted: &[f32]) -> f32 {
    let scale = wanted.iter().fold(0.0f32, |scale, value| scale.max(value.abs()));
    let worst = found.iter().zip(wanted).fold(0.0f32, |error, (a, b)| error.max((a - b).abs()));
    if worst.is_nan() || found.iter().any(|value| value.is_nan()) { f32::INFINITY } else { worst / scale }
}

fn floats(output: &OutputRows) -> &[f32] {
    output.values.as_f32().unwrap_or_default()
}

/// Greedy tokens and logits of the stories model.
fn stories(device: &dyn Device, folder: &Path) -> Result<Outcome> {
    let mut executor = executor(device, folder)?;
    let text = std::fs::read(folder.join("golden.json")).context("golden.json")?;
    let golden: Value = serde_json::from_slice(&text)?;
    let tokens = |value: &Value| -> Vec<u32> {
        value.as_array().into_iter().flatten().filter_map(Value::as_u64).map(|token| token as u32).collect()
    };
    let (mut worst, mut equal) = (0.0f32, 0);
    for (place, prompt) in golden.as_array().into_iter().flatten().enumerate() {
        let (given, greedy) = (tokens(&prompt["prompt_tokens"]), tokens(&prompt["greedy_tokens"]));
        let session = SessionId(place as u64);
        executor.open(session)?;
        let mut outputs = feed(executor.as_mut(), session, &given, Class::Prompt)?;
        for (at, &wanted) in greedy.iter().enumerate() {
            let rows = outputs[0].nodes.len();
            let logits = floats(&outputs[0]);
            let (token, _) = greatest(&logits[logits.len() / rows * (rows - 1)..], given.len() + at)?;
            if token != wanted {
                return Err(anyhow!("prompt {place}, token {at} is {token}, not {wanted}"));
            }
            outputs = feed(executor.as_mut(), session, &[token], Class::Generated)?;
            equal += 1;
        }
        let (logits, shape) =
            float_array(&folder.join("golden_logits.npz"), &format!("logits_{}", place + 1))?;
        let all: Vec<u32> = given.into_iter().chain(greedy).collect();
        let session = SessionId(100 + place as u64);
        executor.open(session)?;
        let outputs = feed(executor.as_mut(), session, &all[..shape[0]], Class::Prompt)?;
        for (found, wanted) in floats(&outputs[0]).chunks(shape[1]).zip(logits.chunks(shape[1])) {
            worst = worst.max(error(found, wanted));
        }
    }
    match worst <= BOUND {
        true => Ok(Outcome::Passed(format!("{equal} greedy tokens equal, logits within {worst:.1e}"))),
        false => Err(anyhow!("logits differ by {worst:.1e} of the greatest magnitude")),
    }
}

/// Logits of a tiny checkpoint, as a prompt and one by one.
fn tiny_logits(device: &dyn Device, folder: &Path) -> Result<Outcome> {
    let mut executor = executor(device, folder)?;
    let golden = folder.join("golden.npz");
    let (tokens, shape) = id_array(&golden, "tokens")?;
    let (positions, _) = id_array(&golden, "positions")?;
    let (logits, _) = float_array(&golden, "logits")?;
    let (rows, length) = (shape[0], shape[1]);
    let vocabulary = logits.len() / rows / positions.len();
    let mut worst = [0.0f32; 2];
    for row in 0..rows {
        let tokens = &tokens[row * length..][..length];
        let (whole, single) = (SessionId(row as u64), SessionId((rows + row) as u64));
        executor.open(whole)?;
        executor.open(single)?;
        let outputs = feed(executor.as_mut(), whole, tokens, Class::Prompt)?;
        let mut one_by_one = Vec::new();
        for token in tokens {
            one_by_one.push(feed(executor.as_mut(), single, &[*token], Class::Generated)?);
        }
        for (place, &position) in positions.iter().enumerate() {
            let wanted = &logits[(row * positions.len() + place) * vocabulary..][..vocabulary];
            let found = &floats(&outputs[0])[position as usize * vocabulary..][..vocabulary];
            worst[0] = worst[0].max(error(found, wanted));
            worst[1] = worst[1].max(error(floats(&one_by_one[position as usize][0]), wanted));
        }
    }
    match worst.iter().all(|&worst| worst <= BOUND) {
        true => Ok(Outcome::Passed(format!(
            "logits within {:.1e} at once, {:.1e} one by one",
            worst[0], worst[1]
        ))),
        false => Err(anyhow!("logits differ by {:.1e} at once, {:.1e} one by one", worst[0], worst[1])),
    }
}
