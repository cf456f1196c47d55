//! Contractions: a warp for each result when rows are few, tiles through shared memory when they are many.
//!
//! All forms add along k alike: chunks of [`CHUNK`] products from zero in order, and the chunks' sums in order. So a row has
//! the same bits in a batch of any size. Operands are read by their index forms, so batched, strided and gathered ones
//! are one kernel. What rides on a contraction ([`fuse`]) is computed where its result is at hand, and leaves the bits alone.
//!
//! Start reading at [`write`]: the contractions of one launch, one after another over the same blocks. Each has its narrow
//! and its tiled form ([`forms`]), and in place of tiles the grouped form ([`grouped`]) where rows choose a part of the
//! weight. How a form's numbers become places in tensors is [`places`].

mod forms;
mod fuse;
mod grouped;
mod places;

use fiddlehead_graph::queries::{Atom, Contraction, Fusion, Role, Variance};
use fiddlehead_graph::{Element, Graph, NodeId, NodeKind};
use fiddlehead_plan::order::Extension;

use super::super::kernel::{Grid, Kernel, Rows};
use super::super::scope::Scope;
use super::super::traps::Traps;
pub(super) use fuse::choose;
use grouped::Groups;

/// Products that are added before their sum is added to the total.
const CHUNK: usize = 32;
/// Rows that the narrow form takes at a time.
const NARROW: usize = 8;
/// Rows and columns of a tile.
const TILE: usize = 64;
/// Warps of a block: columns that it takes at a time in the narrow form.
const WARPS: usize = 4;

/// A contraction that the kernel serves, or two over the same axes whose results one epilogue reads.
#[derive(Clone, Debug)]
pub(in crate::emit) struct ContractSite {
    pub terms: Vec<Contraction>,
    /// Elementwise nodes computed where the first term's activation is read.
    prologue: Vec<NodeId>,
    /// Elementwise nodes computed where a result is at hand; the last one is stored in place of it.
    epilogue: Vec<NodeId>,
    pub covers: Vec<NodeId>,
    pub reads: Vec<NodeId>,
    groups: Option<Groups>,
}

/// Why the kernel does not serve a contraction, if it does not.
fn refused(graph: &Graph, site: &Contraction) -> Result<(), String> {
    let history = |operand: &fiddlehead_graph::queries::Operand| {
        matches!(operand.source, fiddlehead_graph::queries::Source::History(_))
    };
    if site.operands.iter().any(history) {
        return Err("an operand is read from a history".into());
    }
    if graph.node(site.node).element != Element::F32 || graph.shape(site.node).is_none() {
        return Err("the kernel takes floats in tensors of fixed shape".into());
    }
    Ok(())
}

impl ContractSite {
    /// The kernel of a contraction, with what rides on it. Without a fusion every operand is a tensor in memory.
    pub(super) fn new(
        graph: &Graph,
        sites: &[&Contraction],
        fusion: Option<&Fusion>,
        extension: &mut Extension,
    ) -> Result<ContractSite, String> {
        let (mut terms, mut reads, mut covers) = (Vec::new(), Vec::new(), Vec::new());
        let mut prologue = fusion.map_or(Vec::new(), |fusion| fusion.prologue.clone());
        let mut epilogue = Vec::new();
        for fusion in fusion.iter().flat_map(|fusion| fusion.joined.as_deref().into_iter().chain([*fusion])) {
            epilogue.extend(&fusion.epilogue);
        }
        let mut computed: Vec<NodeId> = prologue.iter().chain(&epilogue).copied().collect();
        covers.extend(&computed);
        for (place, &site) in sites.iter().enumerate() {
            refused(graph, site)?;
            let mut term = site.clone();
            term.operands =
                site.operands.each_ref().map(|operand| super::as_node(graph, site.node, operand, extension));
            // What the program wrote inside the sum is no node of the graph: a cheap one needs no memory.
            if let (0, Some(_), fiddlehead_graph::queries::Source::Chain(compute), Some(added)) =
                (place, fusion, &site.operands[0].source, term.operands[0].node())
                && site.operands[0].variance != Variance::Constant
                && fuse::cheap(&[compute.as_ref()], &[])
            {
                prologue.push(added);
                computed.push(added);
                compute.for_each_expr(&mut |expr| super::loads(expr, &mut reads));
            }
            term.operands.iter().for_each(|operand| super::operand_loads(operand, &mut reads));
            site.scale.iter().chain(&site.guard).for_each(|expr| super::loads(expr, &mut reads));
            covers.push(site.node);
            terms.push(term);
        }
        for &node in &covers {
            if let (NodeKind::Compute(compute), true) = (&graph.node(node).kind, computed.contains(&node)) {
                compute.for_each_expr(&mut |expr| super::loads(expr, &mut reads));
            }
        }
        reads.retain(|read| !covers.contains(read) && !computed.contains(read));
        reads.sort();
        reads.dedup();
        let given = |read: &&NodeId| read.index() < graph.nodes().len();
        if reads.iter().filter(given).any(|&read| graph.shape(read).is_none()) {
            return Err("it reads a tensor whose size is known in a run alone".into());
        }
        covers.sort();
        let groups = Groups::new(graph, &terms);
        Ok(ContractSite { terms, prologue, epilogue, covers, reads, groups })
    }

    /// The node whose tensor it leaves.
    pub(super) fn node(&self) -> NodeId {
        self.epilogue.last().copied().unwrap_or(self.terms[0].node)
    }

    /// The site axes of some roles; all terms have the same.
    fn axes(&self, roles: &[Role]) -> Vec<usize> {
        let axes = &self.terms[0].axes;
        (0..axes.len()).filter(|&axis| roles.contains(&axes[axis].role)).collect()
    }

    fn extent(&self, roles: &[Role]) -> usize {
        self.axes(roles).into_iter().map(|axis| self.terms[0].axes[axis].extent).product()
    }

    /// Results of a row for the grid of a launch.
    fn columns(&self) -> usize {
        self.extent(&[Role::Right, Role::Repeat]) * self.extent(&[Role::Batch])
    }

    /// How the rows of a batch take part.
    fn shape(&self, per_row: bool) -> Shape {
        // A weight that differs from row to row, or is chosen there, makes a batch of rows; else the rows are rows of the one
        // product.
        let own = |term: &Contraction| {
            let weight = &term.operands[1];
            let chosen = weight.indices.iter().any(|form| form.terms.iter().any(|(atom, _)| gathers(atom)));
            chosen || weight.variance == Variance::PerNode
        };
        Shape {
            per_row,
            batched: per_row && self.terms.iter().any(own),
            left: self.extent(&[Role::Left]).max(1),
            batch: self.extent(&[Role::Batch]).max(1),
        }
    }

    /// Writes one contraction of a launch: `before` items of the launch's blocks are others'.
    fn write(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps, before: bool) {
        let shape = self.shape(scope.set.is_some());
        let Shape { batched, left, batch, .. } = shape;
        let columns = self.extent(&[Role::Right, Role::Repeat]);
        let depth = self.extent(&[Role::Folded, Role::FoldedOnce]);
        match scope.set {
            Some(set) => kernel.line(format!("const int rows = b->set_count[{}];", set.0)),
            None => kernel.line("const int rows = 1;"),
        }
        let (m, batches) = match batched {
            true => (format!("{left}"), format!("rows * {batch}")),
            false => (format!("rows * {left}"), format!("{batch}")),
        };
        kernel.line(format!("const int M = {m}, BATCH = {batches}, N = {columns}, K = {depth};"));
        // Items of work go round the launch's blocks, on from where those of the contraction before ended.
        kernel.line(match before {
            true => {
                "const long long first = (blockIdx.x + gridDim.x - (u32)(before % gridDim.x)) % gridDim.x;"
            }
            false => "const long long first = blockIdx.x;",
        });
        kernel.line("long long items = 0;");
        let groups = self.groups.as_ref().filter(|_| batched && shape.per_row);
        self.readers(kernel, scope, traps, &shape);
        self.store(kernel, scope, traps, &shape);
        match (groups, batched || !shape.per_row) {
            (Some(groups), _) => {
                kernel.line(format!("if ({}) {{", groups.condition()));
                self.grouped(kernel, scope, traps, groups);
                kernel.line("} else {");
                self.narrow(kernel, 1);
                kernel.line("}");
            }
            // The rows of a product are known.
            (None, true) => match left {
                1 => self.narrow(kernel, 1),
                2..=NARROW => self.narrow(kernel, left),
                _ => self.tiles(kernel, scope.graph),
            },
            (None, false) => {
                if left == 1 {
                    kernel.line("if (M == 1) {");
                    self.narrow(kernel, 1);
                    kernel.line("} else");
                }
                kernel.line(format!("if (M <= {NARROW}) {{"));
                self.narrow(kernel, NARROW);
                kernel.line("} else {");
                self.tiles(kernel, scope.graph);
                kernel.line("}");
            }
        }
        kernel.line(if before { "before += items;" } else { "(void)items;" });
    }

    /// Whether two terms read the same activation.
    fn same_activation(&self) -> bool {
        self.terms.iter().all(|term| term.operands[0] == self.terms[0].operands[0])
    }
}

/// The grid of the contractions of one launch.
pub(super) fn grid(sites: &[&ContractSite], rows: Rows) -> Grid {
    Grid { rows, per_row: sites.iter().map(|site| site.columns()).sum(), per_block: WARPS }
}

/// Writes the kernel of contractions that read nothing of each other.
pub(super) fn write(sites: &[&ContractSite], kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps) {
    kernel.line(format!("__shared__ float tile[{}];", 2 * CHUNK * (TILE + 1)));
    if sites.iter().any(|site| site.terms.len() > 1) {
        kernel.line(format!("__shared__ float tile1[{}];", TILE * TILE));
    }
    let parts = sites.iter().filter_map(|site| site.groups.as_ref().map(Groups::parts)).max();
    if let Some(parts) = parts {
        kernel.line(format!("__shared__ int starts[{}], shares[{WARPS}], listed[{TILE}];", parts + 1));
    }
    kernel.line("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
    let several = sites.len() > 1;
    if several {
        kernel.line("long long before = 0;");
    }
    for site in sites {
        kernel.line("{");
        site.write(kernel, scope, traps, several);
        kernel.line("}");
    }
}

/// How the rows of a batch take part.
struct Shape {
    /// Whether each row has its own result.
    per_row: bool,
    /// Whether rows are a batch axis, or rows of one product.
    batched: bool,
    left: usize,
    batch: usize,
}

fn gathers(atom: &Atom) -> bool {
    match atom {
        Atom::Axis(_) => false,
        Atom::Quotient(inner, _) | Atom::Remainder(inner, _) => {
            inner.terms.iter().any(|(atom, _)| gathers(atom))
        }
        Atom::Gathered(_) => true,
    }
}
