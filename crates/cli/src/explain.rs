//! `fiddlehead explain`: what the compiler sees and what the device would do.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use fiddlehead_engine::{Function, Model, ModelOptions, Program, compile, outline, stand_in};
use fiddlehead_graph::display::draw_svg;
use fiddlehead_graph::queries::sites::{Site, assign_sites};
use fiddlehead_graph::{Graph, NodeId};
use fiddlehead_plan::PlanReport;

use crate::arguments::ExplainArguments;
use crate::exec::{read_program, unique};
use crate::failure::usage;
use crate::{device, output};

/// Explains a program or a model.
///
/// # Errors
/// Whatever is wrong with it, and a drawing that cannot be written.
pub fn explain(arguments: &ExplainArguments) -> Result<ExitCode> {
    match &arguments.program {
        Some(program) => explain_program(arguments, program)?,
        None => explain_model(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn explain_program(arguments: &ExplainArguments, path: &Path) -> Result<()> {
    let program = compile(&path.display().to_string(), &read_program(path)?)?;
    let sizes = unique("--dim", &arguments.dim)?;
    if program.function("main").is_none() && !program.models.is_empty() {
        return explain_models(arguments, path, &program, &sizes);
    }
    if arguments.step.is_some() {
        return Err(usage(format!("{} has no model, so it has no steps to choose from", path.display())));
    }
    let function = Function::prepare(&program, "main", &BTreeMap::new(), &sizes)?;
    let options = device::load_options(&arguments.device);
    let report = device::device(&arguments.device)?.explain(function.graph(), &options)?;
    show(function.graph(), &report)?;
    draw(arguments, function.graph())
}

/// Models as their text declares them, and with sizes given also their graphs.
fn explain_models(
    arguments: &ExplainArguments,
    path: &Path,
    program: &Program,
    sizes: &BTreeMap<String, i64>,
) -> Result<()> {
    let mut text = format!("{} type-checks\n", path.display());
    for model in &program.models {
        let _ = writeln!(text, "\n{}", outline(program, model));
    }
    if sizes.is_empty() {
        if arguments.svg.is_some() || arguments.step.is_some() {
            return Err(usage(
                "a drawing or one step asks for the sizes of a model: give each with --dim NAME=NUMBER",
            ));
        }
        text += "\nA checkpoint tells the sizes: --model PATH shows graph, sites and plan, and so does --dim NAME=NUMBER \
                 for each of the dims.\n";
        return output::print(&text);
    }
    output::print(&text)?;
    let [model] = &program.models[..] else {
        return Err(usage(format!(
            "{} holds several models: --dim explains the one of a program",
            path.display()
        )));
    };
    let made = stand_in(program, model, sizes)?;
    let mut remark = "sizes as given; statics are false or 1, constants 1".to_owned();
    if !made.layer_kinds.is_empty() {
        let _ = write!(remark, "; layers take turns: {}", made.layer_kinds.join(", "));
    }
    output::print_line(&format!("\n{remark}\n"))?;
    let options = device::load_options(&arguments.device);
    let device = device::device(&arguments.device)?;
    each_step(arguments, &made.graphs.steps, |_, graph| Ok(device.explain(graph, &options)?))
}

fn explain_model(arguments: &ExplainArguments) -> Result<()> {
    let options = ModelOptions { load: device::load_options(&arguments.device), ..ModelOptions::default() };
    let source = device::source(arguments.model.as_deref());
    let model = Model::load(source, device::device(&arguments.device)?.as_ref(), &options)?;
    let steps = &model.executor().model().steps;
    each_step(arguments, steps, |place, _| Ok(model.executor().explain(place)?))
}

/// Shows every step that is asked for, and draws the first of them.
fn each_step(
    arguments: &ExplainArguments,
    steps: &[Graph],
    report: impl Fn(usize, &Graph) -> Result<PlanReport>,
) -> Result<()> {
    let wanted = |graph: &&Graph| arguments.step.as_ref().is_none_or(|name| graph.name() == name);
    let Some(first) = steps.iter().find(wanted) else {
        let names = steps.iter().map(Graph::name).collect::<Vec<_>>().join(", ");
        let name = arguments.step.as_deref().unwrap_or_default();
        return Err(usage(format!("the model has no step `{name}`; its steps are: {names}")));
    };
    for (place, graph) in steps.iter().enumerate().filter(|(_, graph)| wanted(graph)) {
        show(graph, &report(place, graph)?)?;
    }
    draw(arguments, first)
}

fn show(graph: &Graph, report: &PlanReport) -> Result<()> {
    let mut text = format!("{graph}\n");
    let known = describe_sites(&mut text, graph);
    describe_plan(&mut text, report, &known);
    output::print_line(&text)
}

/// Writes the sites and what was refused; gives the refusals as the plan tells them again.
fn describe_sites(out: &mut String, graph: &Graph) -> HashSet<String> {
    let sites = assign_sites(graph);
    let _ = writeln!(out, "sites of {}", graph.name());
    for site in &sites.sites {
        let results: Vec<String> = site.results().iter().map(|&node| label(graph, node)).collect();
        let absorbed = site.nodes().len().saturating_sub(results.len());
        let more = if absorbed > 0 { format!(" (and {absorbed} within)") } else { String::new() };
        let _ = writeln!(out, "  {:<12} {}{more}", family(site), results.join(", "));
    }
    let _ = writeln!(out, "\nrefusals of {}", graph.name());
    if sites.refusals.is_empty() {
        let _ = writeln!(out, "  none");
    }
    for refusal in &sites.refusals {
        let _ = writeln!(out, "  {}: not {}: {}", label(graph, refusal.node), refusal.rule, refusal.why);
    }
    sites.refusals.iter().map(ToString::to_string).collect()
}

fn describe_plan(out: &mut String, report: &PlanReport, known: &HashSet<String>) {
    let _ = writeln!(
        out,
        "\nplan for {}: {} bytes of buffers ({} without sharing)",
        report.regime, report.planned_bytes, report.unshared_bytes
    );
    for step in &report.steps {
        let _ = writeln!(
            out,
            "  {:<12} {:<16} {:>9.1} us  {}{}",
            step.family,
            step.candidate,
            step.microseconds,
            step.detail,
            named(&step.nodes)
        );
    }
    for (node, why) in report.refusals.iter().filter(|(_, why)| !known.contains(why)) {
        let node = if node.is_empty() { String::new() } else { format!("{node}: ") };
        let _ = writeln!(out, "  refused: {node}{why}");
    }
}

/// The nodes of a step that have a name: a result in one expression has none.
fn named(nodes: &[String]) -> String {
    let named: Vec<&str> = nodes.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    if named.is_empty() { String::new() } else { format!("  [{}]", named.join(", ")) }
}

fn label(graph: &Graph, node: NodeId) -> String {
    let name = &graph.node(node).origin.name;
    if name.is_empty() { node.to_string() } else { format!("{node} {name}") }
}

fn family(site: &Site) -> &'static str {
    match site {
        Site::Attention(_) => "attention",
        Site::Recurrence(_) => "recurrence",
        Site::Window(_) => "window",
        Site::Contraction(_) => "contraction",
        Site::Reduction(_) => "reduction",
        Site::Gather(_) => "gather",
        Site::Top(_) => "top",
        Site::Chain(_) => "chain",
        Site::Scan(_) => "scan",
        Site::General(_) => "general",
    }
}

fn draw(arguments: &ExplainArguments, graph: &Graph) -> Result<()> {
    let Some(path) = &arguments.svg else { return Ok(()) };
    let sites = assign_sites(graph);
    let labels = sites
        .sites
        .iter()
        .flat_map(|site| site.nodes().into_iter().map(|node| (node, family(site).to_owned())))
        .collect();
    std::fs::write(path, draw_svg(graph, &labels))
        .with_context(|| path.display().to_string())
        .map_err(|error| anyhow!("the drawing cannot be written: {error:#}"))
}
