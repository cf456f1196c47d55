//! Which elementwise chains ride on which site.

use super::liveness::liveness;
use super::row::reads_at_own_axes;
use super::sites::{Site, SiteIndex, Sites};
use crate::ir::{Graph, NodeId};

/// Elementwise work that can ride with a site's kernel instead of passing through memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Fusion {
    /// The node that the site computes.
    pub site: NodeId,
    /// Elementwise nodes that only this site reads, as its activation; in graph order, the last is the operand.
    pub prologue: Vec<NodeId>,
    /// Elementwise nodes over the site's result space that read its result at the same point, each read by the next
    /// alone but for the last; in graph order. They may also load other, earlier tensors (bias, residual, gate).
    pub epilogue: Vec<NodeId>,
}

/// The chains that can ride on the sites of a cover, in the order of the sites; a site without any is left out. An
/// elementwise node rides on one site alone: as an epilogue of the last site whose result it reads at its own point, else
/// as a prologue of its only reader.
pub fn fusions(graph: &Graph, sites: &Sites) -> Vec<Fusion> {
    let liveness = liveness(graph);
    let mut taken = vec![false; graph.nodes().len()];
    let rides = |node: NodeId| matches!(sites.owner[node.index()], Some(SiteIndex(place)) if matches!(sites.sites[place], Site::Chain(_)));
    // The place in the order of the sites at which each node is there.
    let place = |node: NodeId| sites.owner[node.index()].map(|owner| owner.0);
    let mut fusions: Vec<Fusion> = Vec::new();
    for (at, site) in sites.sites.iter().enumerate() {
        let anchor = match site {
            Site::Attention(site) if site.epilogues.is_empty() => site.node,
            Site::Window(site) => site.node,
            Site::Contraction(site) => site.node,
            Site::Reduction(site) => site.node,
            _ => continue,
        };
        let mut epilogue = Vec::new();
        let mut result = anchor;
        while let [reader] = liveness.users[result.index()][..] {
            let Some(shape) = graph.shape(result) else { break };
            let fits = rides(reader)
                && !liveness.escapes[result.index()]
                && !taken[reader.index()]
                && graph.shape(reader).as_ref() == Some(&shape)
                && reads_at_own_axes(graph, reader, result, shape.len());
            if !fits {
                break;
            }
            // All else that the reader loads must be there when this site runs.
            let mut ready = true;
            graph.node(reader).kind.for_each_read(
                &mut |read| {
                    let before = place(read).is_none_or(|source| source < at);
                    ready &= read == result || before || epilogue.contains(&read);
                },
                &mut |_| {},
            );
            if !ready {
                break;
            }
            taken[reader.index()] = true;
            epilogue.push(reader);
            result = reader;
        }
        fusions.push(Fusion { site: anchor, prologue: Vec::new(), epilogue });
    }
    for (fusion, site) in fusions.iter_mut().zip(sites.sites.iter().filter(|site| is_anchor(site))) {
        let Site::Contraction(contraction) = site else { continue };
        let Some(activation) = contraction.operands[0].node() else { continue };
        let mut at = activation;
        loop {
            let fits = rides(at)
                && !taken[at.index()]
                && !liveness.escapes[at.index()]
                && liveness.users[at.index()].len() == 1
                && graph.shape(at).is_some();
            if !fits {
                break;
            }
            taken[at.index()] = true;
            fusion.prologue.push(at);
            let mut sources = Vec::new();
            graph.node(at).kind.for_each_read(&mut |read| sources.push(read), &mut |_| {});
            sources.retain(|&source| {
                rides(source)
                    && graph.shape(source) == graph.shape(at)
                    && reads_at_own_axes(graph, at, source, graph.shape(at).map_or(0, |shape| shape.len()))
            });
            sources.dedup();
            match sources[..] {
                [only] => at = only,
                _ => break,
            }
        }
        fusion.prologue.reverse();
    }
    fusions.retain(|fusion| !fusion.prologue.is_empty() || !fusion.epilogue.is_empty());
    fusions
}

fn is_anchor(site: &Site) -> bool {
    match site {
        Site::Attention(site) => site.epilogues.is_empty(),
        Site::Window(_) | Site::Contraction(_) | Site::Reduction(_) => true,
        _ => false,
    }
}
