//! `fiddlehead exec`: one call of a program's `fn main` on arrays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use fiddlehead_engine::{Function, NamedArray, compile};
use fiddlehead_graph::{Element, Graph, Input};
use fiddlehead_plan::Values;

use crate::arguments::ExecArguments;
use crate::failure::usage;
use crate::npy::{self, Array};
use crate::random::Random;
use crate::{device, files, kernels, output};

/// The function that runs.
const MAIN: &str = "main";
/// Made-up inputs have at most this many elements: a wrong size should not fill the machine's memory.
const MOST_RANDOM: usize = 1 << 28;
/// Random whole numbers are below this.
const RANDOM_LIMIT: u32 = 16;
/// How many values a summary shows.
const SHOWN: usize = 8;

/// What an input is given as.
enum Given {
    File(PathBuf, Array),
    Number(f64),
    Truth(bool),
    Random(u64),
}

/// Runs a program.
///
/// # Errors
/// Whatever is wrong with the program, its inputs, or the run.
pub fn exec(arguments: &ExecArguments) -> Result<ExitCode> {
    let program = compile(&arguments.program.display().to_string(), &read_program(&arguments.program)?)?;
    let sizes = unique("--dim", &arguments.dim)?;
    let given = unique("--input", &arguments.input)?
        .into_iter()
        .map(|(name, value)| Ok((name.clone(), read_input(&name, &value)?)))
        .collect::<Result<BTreeMap<_, _>>>()?;
    let shapes = given.iter().filter_map(|(name, given)| Some((name.clone(), shape(given)?))).collect();
    let function = Function::prepare(&program, MAIN, &shapes, &sizes)?;
    if is_step(function.graph()) {
        return Err(usage(format!(
            "`{MAIN}` of {} is a step: it runs at every token of a model, on what the tokens before it left; exec runs \
             a plain `fn {MAIN}`, such as one that calls the step in a `scan`",
            arguments.program.display()
        )));
    }
    let known: Vec<&str> = function.inputs().iter().map(|input| input.name.as_str()).collect();
    if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(usage(format!("the program has no input `{name}`; its inputs are: {known}")));
    }
    let inputs = function
        .inputs()
        .iter()
        .map(|input| values(input, given.get(&input.name)))
        .collect::<Result<Vec<_>>>()?;
    let options = device::load_options(&arguments.device);
    if arguments.profile {
        let device = device::cuda(&arguments.device)?;
        let times = device.time_call(function.graph(), &inputs, &options, 20)?;
        return kernels::print_profile(&device, &times, arguments.json).map(|()| ExitCode::SUCCESS);
    }
    let results = function.call(device::device(&arguments.device)?.as_ref(), &inputs, &options)?;
    match &arguments.output {
        Some(path) => write(path, &results)?,
        None => {
            for result in &results {
                output::print_line(&summary(result))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_step(graph: &Graph) -> bool {
    graph.inputs().iter().any(|input| input.per_node)
        || !graph.states().is_empty()
        || !graph.histories().is_empty()
}

/// The text of a program.
///
/// # Errors
/// When the file cannot be read, or is no text.
pub fn read_program(path: &Path) -> Result<String> {
    let text = files::read_text(path).with_context(|| path.display().to_string())?;
    String::from_utf8(text).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        anyhow!("{}: byte {valid} is no UTF-8 text; is it a program?", path.display())
    })
}

/// Values by name, each given once.
///
/// # Errors
/// A name that was given twice.
pub fn unique<T: Clone>(flag: &str, pairs: &[(String, T)]) -> Result<BTreeMap<String, T>> {
    let mut unique = BTreeMap::new();
    for (name, value) in pairs {
        if unique.insert(name.clone(), value.clone()).is_some() {
            return Err(usage(format!("{flag} {name} is given twice")));
        }
    }
    Ok(unique)
}

fn read_input(name: &str, value: &str) -> Result<Given> {
    if let Some(seed) = value.strip_prefix("random:") {
        let seed = seed.parse().map_err(|_| {
            usage(format!(
                "input `{name}`: `{value}` has no seed; random:1 is an example, any whole number will do"
            ))
        })?;
        return Ok(Given::Random(seed));
    }
    if let Ok(number) = value.parse::<f64>() {
        return Ok(Given::Number(number));
    }
    if let Ok(truth) = value.parse::<bool>() {
        return Ok(Given::Truth(truth));
    }
    let file = files::read_if_it_begins(Path::new(value), npy::MAGIC)
        .with_context(|| format!("input `{name}`: {value}"))?;
    let array = Array::read(&file).map_err(|why| anyhow!("input `{name}`: {value}: {why}"))?;
    Ok(Given::File(value.into(), array))
}

fn shape(given: &Given) -> Option<Vec<usize>> {
    match given {
        Given::File(_, array) => Some(array.shape.clone()),
        Given::Number(_) | Given::Truth(_) => Some(Vec::new()),
        Given::Random(_) => None,
    }
}

fn values(input: &Input, given: Option<&Given>) -> Result<Values> {
    let name = &input.name;
    match given {
        None => Err(usage(format!(
            "input `{name}` ({}) is not given; --input {name}=FILE.npy or --input {name}=random:1",
            type_text(input.element, &input.shape)
        ))),
        Some(Given::File(path, array)) => {
            array.values(input.element).map_err(|why| anyhow!("input `{name}`: {}: {why}", path.display()))
        }
        Some(Given::Number(number)) => scalar(input, *number),
        Some(Given::Truth(truth)) => match input.element {
            Element::Bool => Ok(Values::Bool(vec![*truth])),
            element => bail!("input `{name}`: {truth} is no {}", element_text(element)),
        },
        Some(Given::Random(seed)) => random(input, *seed),
    }
}

fn scalar(input: &Input, number: f64) -> Result<Values> {
    let whole = |least: f64, most: f64| number.fract() == 0.0 && (least..=most).contains(&number);
    match input.element {
        Element::F32 => Ok(Values::F32(vec![number as f32])),
        Element::I32 if whole(i32::MIN.into(), i32::MAX.into()) => Ok(Values::I32(vec![number as i32])),
        Element::Id if whole(0.0, u32::MAX.into()) => Ok(Values::Id(vec![number as u32])),
        element => bail!("input `{}`: {number} is no {}", input.name, element_text(element)),
    }
}

fn random(input: &Input, seed: u64) -> Result<Values> {
    let count = input.shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
    let Some(count) = count.filter(|&count| count <= MOST_RANDOM) else {
        bail!(
            "input `{}` would have the shape {:?}; at most {MOST_RANDOM} random elements are made, give a file",
            input.name,
            input.shape
        );
    };
    let mut random = Random::named(seed, &input.name);
    Ok(match input.element {
        Element::F32 => Values::F32((0..count).map(|_| random.normal()).collect()),
        Element::I32 => Values::I32((0..count).map(|_| random.below(RANDOM_LIMIT) as i32).collect()),
        Element::Id => Values::Id((0..count).map(|_| random.below(RANDOM_LIMIT)).collect()),
        Element::Bool => Values::Bool((0..count).map(|_| random.below(2) == 1).collect()),
    })
}

/// One result goes to the file itself; several go to the file's name with their numbers.
fn write(path: &Path, results: &[NamedArray]) -> Result<()> {
    for (place, result) in results.iter().enumerate() {
        let path = if results.len() == 1 { path.to_owned() } else { numbered(path, place) };
        let file = npy::write(&result.shape, &result.values);
        std::fs::write(&path, file).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn numbered(path: &Path, place: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{stem}{place}{}", extension.unwrap_or_default()))
}

fn summary(result: &NamedArray) -> String {
    let count = result.values.len();
    let mut shown: Vec<String> = match &result.values {
        Values::F32(values) => values.iter().take(SHOWN).map(f32::to_string).collect(),
        Values::I32(values) => values.iter().take(SHOWN).map(i32::to_string).collect(),
        Values::Id(values) => values.iter().take(SHOWN).map(u32::to_string).collect(),
        Values::Bool(values) => values.iter().take(SHOWN).map(bool::to_string).collect(),
    };
    if count > SHOWN {
        shown.push(format!("... ({count} in all)"));
    }
    let kind = type_text(result.values.element(), &result.shape);
    format!("{}: {kind} = {}", result.name, shown.join(", "))
}

fn type_text(element: Element, shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    let extents = if shape.is_empty() { String::new() } else { format!("[{}]", extents.join(", ")) };
    format!("{}{extents}", element_text(element))
}

fn element_text(element: Element) -> &'static str {
    match element {
        Element::F32 => "f32",
        Element::I32 => "i32",
        Element::Bool => "bool",
        Element::Id => "id",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_results_are_numbered() {
        assert_eq!(numbered(Path::new("out/y.npy"), 1), Path::new("out/y1.npy"));
        assert_eq!(numbered(Path::new("y"), 0), Path::new("y0"));
    }
}
