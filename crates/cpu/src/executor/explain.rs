//! A program told to people: its steps, what each computes, and what it is guessed to cost.

use fiddlehead_graph::NodeId;
use fiddlehead_plan::{DeviceFacts, PlanReport, Regime, StepReport};

use super::machine::Machine;
use super::program::{Group, NodeProgram, Program, RowOp, Step};
use fiddlehead_plan::order::SetIndex;

/// The plan for a batch of `rows` rows, each wanting everything.
pub(super) fn report(machine: &Machine, rows: usize, facts: &DeviceFacts) -> PlanReport {
    let program = &machine.program;
    let regime = Regime::of(program.sets.iter().map(|_| rows));
    let plan = machine.plan_of(&regime);
    let mut steps = Vec::new();
    program.steps.iter().for_each(|step| describe(program, step, rows, facts, &mut steps));
    PlanReport {
        regime: regime.to_string(),
        steps,
        refusals: program.refusals.clone(),
        planned_bytes: plan.bytes,
        unshared_bytes: plan.unshared,
    }
}

fn name(program: &Program, node: NodeId) -> String {
    program.graph.node(node).origin.name.clone()
}

fn microseconds(nanoseconds: usize) -> f64 {
    nanoseconds as f64 / 1000.0
}

fn describe(program: &Program, step: &Step, rows: usize, facts: &DeviceFacts, out: &mut Vec<StepReport>) {
    match step {
        Step::Uniform(programs) => out.extend(programs.iter().map(|node: &NodeProgram| StepReport {
            family: "once".into(),
            nodes: vec![name(program, node.node)],
            candidate: "bytecode".into(),
            detail: "the same for every row".into(),
            microseconds: microseconds(node.cost),
        })),
        Step::Rows(group) => out.push(rows_report(program, group, rows)),
        Step::Gather(gathers) => out.push(StepReport {
            family: "gather".into(),
            nodes: gathers.iter().map(|gather| name(program, program.buffers[gather.to].node)).collect(),
            candidate: "copy".into(),
            detail: gathers.first().map_or(String::new(), |gather| set_name(program, gather.set)),
            microseconds: 0.0,
        }),
        Step::Contract(step) => out.extend(step.reports(program, rows, facts)),
        Step::Gathered(step) => out.extend(step.reports(program, rows, facts)),
        Step::Strided(step) => out.push(step.report(program, rows, facts)),
        Step::Attend(step) => out.push(step.report(program, rows, facts)),
        Step::Delta(step) => out.push(step.report(program, rows, facts)),
        Step::Scan(scan) => out.push(scan.report()),
        Step::Serial(steps) => {
            let mut inner = Vec::new();
            steps.iter().for_each(|step| describe(program, step, 1, facts, &mut inner));
            for mut report in inner {
                report.detail = format!("row after row: {}", report.detail);
                report.microseconds *= rows as f64;
                out.push(report);
            }
        }
    }
}

fn set_name(program: &Program, set: SetIndex) -> String {
    super::lower::describe_set(program.sets[set.0])
}

fn rows_report(program: &Program, group: &Group, rows: usize) -> StepReport {
    let nodes = group.ops.iter().map(|operation| match operation {
        RowOp::Run(node) => name(program, node.node),
        RowOp::Append { history, .. } => {
            format!("append {}", program.graph.histories()[history.index()].key)
        }
        RowOp::Store { state, .. } => format!("keep {}", program.graph.states()[state.index()].key),
    });
    StepReport {
        family: "rows".into(),
        nodes: nodes.collect(),
        candidate: "bytecode".into(),
        detail: set_name(program, group.set),
        microseconds: microseconds(group.cost * rows),
    }
}
