//! Which of the fusions that the query proves a contraction's kernel takes.

use std::collections::{HashMap, HashSet};

use fiddlehead_graph::queries::{Contraction, Fusion, Site, Sites, Variance, fusions};
use fiddlehead_graph::{Binary, Compute, Expr, Graph, NodeId, NodeKind, Unary};

/// What a prologue may cost: reads and operations for an element that every column computes anew.
const CHEAP: usize = 6;

/// Fusions by their contraction, those that are part of another's kernel, and why others are not taken.
#[derive(Debug, Default)]
pub(in crate::emit::sites) struct Chosen {
    pub fusions: HashMap<NodeId, Fusion>,
    pub joined: HashSet<NodeId>,
    pub refusals: Vec<(NodeId, String)>,
}

impl Chosen {
    /// What rides on a contraction, if only nothing.
    pub fn of(&self, site: NodeId) -> Fusion {
        let nothing = Fusion { site, prologue: Vec::new(), epilogue: Vec::new(), joined: None };
        self.fusions.get(&site).cloned().unwrap_or(nothing)
    }
}

/// Chooses the fusions that kernels of contractions take. `in_loop` tells nodes that depend on themselves through a state.
pub(in crate::emit::sites) fn choose(
    graph: &Graph,
    sites: &Sites,
    in_loop: &dyn Fn(&[NodeId]) -> bool,
) -> Chosen {
    let contractions: HashMap<NodeId, &Contraction> = sites
        .sites
        .iter()
        .filter_map(|site| match site {
            Site::Contraction(site) => Some((site.node, &**site)),
            _ => None,
        })
        .collect();
    let (found, refusals) = fusions(graph, sites);
    let mut chosen = Chosen::default();
    chosen.refusals.extend(refusals.into_iter().map(|refusal| (refusal.node, refusal.to_string())));
    let mut open = found;
    while let Some(mut fusion) = open.pop() {
        // Other sites have no epilogues yet.
        let Some(site) = contractions.get(&fusion.site) else { continue };
        if let Some(joined) = fusion.joined.take_if(|joined| !joins(graph, joined, &contractions, in_loop)) {
            open.push(*joined);
        }
        let constant = site.operands.iter().all(|operand| operand.variance == Variance::Constant);
        if constant || super::refused(graph, site).is_err() || in_loop(&[fusion.site]) {
            open.extend(fusion.joined.map(|joined| *joined));
            continue;
        }
        if in_loop(&fusion.epilogue) {
            let why = "not fused with what reads it: that depends on itself through a state, row after row";
            chosen.refusals.push((fusion.site, why.into()));
            fusion.epilogue.clear();
            open.extend(fusion.joined.take().map(|joined| *joined));
        }
        if let Err(why) = prologue(graph, site, &fusion.prologue, in_loop) {
            chosen.refusals.push((fusion.site, why));
            fusion.prologue.clear();
        }
        chosen.joined.extend(fusion.joined.iter().map(|joined| joined.site));
        chosen.fusions.insert(fusion.site, fusion);
    }
    chosen.refusals.sort_by_key(|(node, _)| *node);
    chosen
}

/// Whether a joined contraction can be computed by the same kernel.
fn joins(
    graph: &Graph,
    joined: &Fusion,
    contractions: &HashMap<NodeId, &Contraction>,
    in_loop: &dyn Fn(&[NodeId]) -> bool,
) -> bool {
    let Some(site) = contractions.get(&joined.site) else { return false };
    super::refused(graph, site).is_ok()
        && joined.joined.is_none()
        && joined.prologue.is_empty()
        && !in_loop(&[joined.site])
        && !in_loop(&joined.epilogue)
}

/// Why a prologue is computed into memory first instead, if so.
fn prologue(
    graph: &Graph,
    site: &Contraction,
    nodes: &[NodeId],
    in_loop: &dyn Fn(&[NodeId]) -> bool,
) -> Result<(), String> {
    let Some(last) = nodes.last() else { return Ok(()) };
    let computes: Option<Vec<&Compute>> = nodes
        .iter()
        .map(|node| match &graph.node(*node).kind {
            NodeKind::Compute(compute) => Some(compute),
            _ => None,
        })
        .collect();
    let name = &graph.node(*last).origin.name;
    if site.operands[0].variance == Variance::Constant {
        return Err(format!("not fused with `{name}`: that is computed once, at loading"));
    }
    if in_loop(nodes) {
        return Err(format!(
            "not fused with `{name}`: that depends on itself through a state, row after row"
        ));
    }
    match computes.is_some_and(|computes| cheap(&computes, nodes)) {
        true => Ok(()),
        false => Err(format!(
            "not fused with `{name}`: computing that anew for each column costs more than memory"
        )),
    }
}

/// Whether an element costs little to compute anew; reads of `known` cost nothing.
pub(super) fn cheap(computes: &[&Compute], known: &[NodeId]) -> bool {
    let mut cost = 0usize;
    for compute in computes {
        if compute.fold.is_some() {
            return false;
        }
        compute.for_each_expr(&mut |expr| {
            expr.visit(&mut |part| {
                cost += match part {
                    Expr::Load { node, .. } if known.contains(node) => 0,
                    Expr::Binary(Binary::Divide | Binary::Remainder, ..) | Expr::History { .. } => CHEAP + 1,
                    Expr::Unary(op, _) => match op {
                        Unary::Negate | Unary::Absolute | Unary::Not | Unary::ToFloat | Unary::IdToInt => 1,
                        _ => CHEAP + 1,
                    },
                    Expr::Load { .. } | Expr::Binary(..) | Expr::Select(..) => 1,
                    _ => 0,
                };
            });
        });
    }
    cost <= CHEAP
}
