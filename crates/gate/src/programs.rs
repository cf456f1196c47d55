//! Programs at hand everywhere: what a device's compiler can be tried on.

use fiddlehead_graph::Graph;
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_lang::examples::{Action, examples};
use fiddlehead_oracle::random::{Motif, RandomProgram};
use fiddlehead_plan::{Weights, placeholder_weights};
use fiddlehead_storage::Format;

use crate::recurrence::{Form, RULES, Rule};
use crate::{case, formats as stored, fused as riding};

/// A graph with weights.
#[derive(Clone, Debug)]
pub struct Named {
    /// What it is, for people.
    pub name: String,
    /// The graph.
    pub graph: Graph,
    /// Its weights.
    pub weights: Weights,
}

/// The functions and steps of a page of the language.
///
/// # Errors
/// A mark that cannot be read, a program that does not compile.
pub fn page(page: &str) -> Result<Vec<Named>, String> {
    let mut found = Vec::new();
    for example in examples(page).map_err(|error| format!("{error:?}"))? {
        if let Action::Function(function) | Action::Step(function) = &example.action {
            let name = format!("line {} of the language's page", example.line);
            let program = fiddlehead_lang::compile(&name, &example.text)
                .map_err(|errors| format!("{name}: {} errors", errors.items.len()))?;
            let graph = lower_function(&program, function, &example.sizes)
                .map_err(|error| format!("{name}: {error}"))?;
            let graph = optimise(&graph);
            let weights = placeholder_weights(&graph).map_err(|error| error.to_string())?;
            found.push(Named { name, graph, weights });
        }
    }
    Ok(found)
}

/// Random programs: so many of each motif.
///
/// # Errors
/// A program that is not valid: a mistake of their maker.
pub fn random(count: u64) -> Result<Vec<Named>, String> {
    let mut found = Vec::new();
    for &motif in Motif::ALL {
        for seed in 0..count {
            let program = RandomProgram::new(seed, &[motif], 1).map_err(|error| error.to_string())?;
            let (name, weights) = (format!("{motif:?}, seed {seed}"), case::stored(&program));
            found.push(Named { name, graph: program.graph, weights });
        }
    }
    Ok(found)
}

/// The program with weights of each storage format.
///
/// # Errors
/// Never for the formats there are.
pub fn formats() -> Result<Vec<Named>, String> {
    let named = |&format: &Format| {
        let (graph, weights) = stored::program(format)?;
        Ok(Named { name: format!("weights in {format}"), graph, weights })
    };
    Format::ALL.iter().map(named).collect()
}

/// Delta rules of a published model's sizes, and of odd ones.
///
/// # Errors
/// Never for the rules there are.
pub fn rules() -> Result<Vec<Named>, String> {
    let published = Rule { form: Form::Exponent, heads: 32, groups: 16, keys: 128, values: 128 };
    let named = |rule: &Rule| {
        let name = format!("delta rule, {:?}, {} keys, {} values", rule.form, rule.keys, rule.values);
        Ok(Named { name, graph: rule.graph()?, weights: Weights::new() })
    };
    [&published, &RULES[2]].into_iter().map(named).collect()
}

/// The programs of which parts ride on others.
///
/// # Errors
/// A program that does not compile.
pub fn fused() -> Result<Vec<Named>, String> {
    let named = |program: &riding::Program| {
        let graph = riding::graph(program)?;
        let weights = placeholder_weights(&graph).map_err(|error| error.to_string())?;
        Ok(Named { name: program.name.into(), graph, weights })
    };
    riding::PROGRAMS.iter().map(named).collect()
}
