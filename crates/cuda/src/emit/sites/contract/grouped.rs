//! Rows that choose a part of the weight (experts), grouped by their choice: each part is read once for all its rows.
//!
//! A *pick* is a row and a point of the axes that its choice depends on. Every block counts the picks of each part by itself,
//! and lists those of a tile in ascending order: the choices are a few words a row, which is little beside a tile's products,
//! and few rows, which go pick by pick, pay for no launch and no memory.

use fiddlehead_graph::queries::{Contraction, Role, Variance};
use fiddlehead_graph::{Expr, Graph};

use super::super::super::expression::Writer;
use super::super::super::kernel::Kernel;
use super::super::super::scope::Scope;
use super::super::super::traps::{TrapKind, Traps};
use super::places::Point;
use super::{ContractSite, NARROW, TILE, WARPS, gathers};

/// The most parts that a block counts.
const MOST_PARTS: usize = 1024;

/// How rows choose a part of the weight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Groups {
    /// The axis of the weight that is chosen along, and the parts it has.
    axis: usize,
    parts: usize,
    /// The choice, over the site's axes.
    index: Expr,
    /// Site axes that it depends on, and how many points they have.
    axes: Vec<usize>,
    picks: usize,
}

impl Groups {
    /// The groups of contractions over the same axes, when one choice along one axis decides all that their weights have
    /// of a row.
    pub(super) fn new(graph: &Graph, terms: &[Contraction]) -> Option<Groups> {
        let mut found = terms.iter().map(|term| Groups::of(graph, term));
        let first = found.next()??;
        found.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }

    fn of(graph: &Graph, term: &Contraction) -> Option<Groups> {
        let weight = &term.operands[1];
        // What the program wrote inside the sum is no stored weight.
        let source = weight.node().filter(|node| node.index() < graph.nodes().len())?;
        let shape = graph.shape(source)?;
        let chosen = weight.indices.iter().enumerate();
        let mut chosen = chosen.filter_map(|(axis, form)| Some((axis, form.as_gathered()?.clone())));
        let (axis, index) = chosen.next()?;
        let all = 0..term.axes.len();
        let axes: Vec<usize> =
            all.filter(|&axis| fiddlehead_graph::queries::affine::expr_uses(&index, axis)).collect();
        let rest = weight.indices.iter().enumerate().filter(|(place, _)| *place != axis);
        let mut rest = rest.map(|(_, form)| form);
        let plain = rest.all(|form| {
            form.here == 0
                && !form.terms.iter().any(|(atom, _)| gathers(atom))
                && !axes.iter().any(|&axis| form.uses(axis))
        });
        let role = |axis: usize| term.axes[axis].role;
        let of_pick = axes.iter().all(|&axis| matches!(role(axis), Role::Right | Role::Batch));
        let no_other = (0..term.axes.len()).all(|axis| match role(axis) {
            Role::Left => term.axes[axis].extent == 1,
            Role::Batch => axes.contains(&axis),
            _ => true,
        });
        let history = index.any(&mut |part| matches!(part, Expr::History { .. }));
        let parts = shape[axis];
        let fits = (1..=MOST_PARTS).contains(&parts) && weight.variance != Variance::PerNode;
        let picks = axes.iter().map(|&axis| term.axes[axis].extent).product();
        (plain && of_pick && no_other && !history && fits).then_some(Groups {
            axis,
            parts,
            index,
            axes,
            picks,
        })
    }

    /// How many parts there are.
    pub(super) fn parts(&self) -> usize {
        self.parts
    }

    /// Whether rows are many enough: as many picks a part as the narrow form takes rows.
    pub(super) fn condition(&self) -> String {
        format!("(long long)rows * {} > {}", self.picks, NARROW * self.parts)
    }
}

impl ContractSite {
    /// A block for each tile of a part's picks and columns.
    pub(super) fn grouped(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps, groups: &Groups) {
        let columns: Vec<usize> = self.axes(&[Role::Right, Role::Repeat]);
        let columns: Vec<usize> = columns.into_iter().filter(|axis| !groups.axes.contains(axis)).collect();
        let count: usize = columns.iter().map(|&axis| self.terms[0].axes[axis].extent).product();
        let point = |parameters: &str, more: &[(Vec<usize>, String)]| Point {
            parameters: parameters.into(),
            row: format!("p / {}", groups.picks.max(1)),
            axes: [&[(groups.axes.clone(), format!("(p % {})", groups.picks.max(1)))], more].concat(),
        };
        let folded = (self.axes(&[Role::Folded, Role::FoldedOnce]), "k".to_string());
        let columns = (columns, "n".to_string());
        for term in (0..self.terms.len()).filter(|&term| self.activation(term) == term) {
            let at = point("int p, int k", std::slice::from_ref(&folded));
            self.reader(kernel, scope, traps, (term, 0), &format!("A{term}"), &at);
        }
        for term in 0..self.terms.len() {
            let at = point("int p, int n, int k", &[columns.clone(), folded.clone()]);
            self.reader(kernel, scope, traps, (term, 1), &format!("W{term}"), &at);
        }
        self.put(kernel, scope, traps, &point("int p, int n", &[columns]));
        self.choice(kernel, scope, traps, groups, &point("int p", &[]));
        kernel.line(format!("const int picks = rows * {}, columns = {count};", groups.picks));
        kernel.line(format!("const int tiles_n = (columns + {}) / {TILE};", TILE - 1));
        count_picks(kernel, groups.parts);
        kernel.line(format!("items = (long long)starts[{}] * tiles_n;", groups.parts));
        kernel.line("for (long long item = first; item < items; item += gridDim.x) {");
        kernel.line(format!("const int above = (int)(item / tiles_n), n0 = (int)(item % tiles_n) * {TILE};"));
        list_picks(kernel, groups.parts);
        self.products(kernel, scope.graph, &|term, operand| match operand {
            0 => (format!("A{}(listed[at], k0 + k)", self.activation(term)), "at < height"),
            _ => (format!("W{term}(listed[0], n0 + at, k0 + k)"), "n0 + at < columns"),
        });
        self.each_result(
            kernel,
            "x / TILE < height && n0 + x % TILE < columns",
            "listed[x / TILE], n0 + x % TILE",
        );
        kernel.line("}");
    }

    /// Defines `chosen`, the part that a pick is of.
    fn choice(
        &self,
        kernel: &mut Kernel,
        scope: &Scope<'_>,
        traps: &mut Traps,
        groups: &Groups,
        point: &Point,
    ) {
        let site = &self.terms[0];
        let Some(weight) = site.operands[1].node() else { return };
        kernel.line("auto chosen = [&](int p) -> int {");
        let axes = self.enter(kernel, scope, point);
        let mut writer = Writer::new(kernel, scope, traps, site.node).with_axes(axes);
        let index = writer.expr(&groups.index).text;
        let read = scope.graph.node(weight).origin.name.clone();
        let code = traps.add(scope.graph, site.node, TrapKind::Index { read, axis: groups.axis });
        kernel.line(format!(
            "return (int)checked(b, row, (u32)t + {code}, (long long){index}, 0, {});",
            groups.parts
        ));
        kernel.line("};");
    }
}

/// Leaves the number of each part's first tile in `starts`, and how many tiles there are behind them.
fn count_picks(kernel: &mut Kernel, parts: usize) {
    let threads = WARPS * 32;
    kernel.line("__syncthreads();");
    kernel
        .line(format!("for (int part = threadIdx.x; part <= {parts}; part += {threads}) starts[part] = 0;"));
    kernel.line("__syncthreads();");
    kernel.line(format!(
        "for (int p = threadIdx.x; p < picks; p += {threads}) atomicAdd(&starts[chosen(p)], 1);"
    ));
    kernel.line("__syncthreads();");
    kernel.line("if (warp == 0) {");
    kernel.line("int sum = 0;");
    kernel.line(format!("for (int start = 0; start < {parts}; start += 32) {{"));
    kernel.line("const int part = start + lane;");
    kernel.line(format!("const int own = part < {parts} ? (starts[part] + {}) / {TILE} : 0;", TILE - 1));
    kernel.line("int upto = own;");
    kernel.line("for (int step = 1; step < 32; step <<= 1) {");
    kernel.line("const int other = __shfl_up_sync(WARP_MASK, upto, step);");
    kernel.line("if (lane >= step) upto += other;");
    kernel.line("}");
    kernel.line(format!("if (part < {parts}) starts[part] = sum + upto - own;"));
    kernel.line("sum += __shfl_sync(WARP_MASK, upto, 31);");
    kernel.line("}");
    kernel.line(format!("if (lane == 0) starts[{parts}] = sum;"));
    kernel.line("}");
    kernel.line("__syncthreads();");
}

/// Lists the picks of the tile `above` in `listed`, `height` of them: each warp goes through a share of all picks, first to
/// count those of its part, then to put them where the shares before it end.
fn list_picks(kernel: &mut Kernel, parts: usize) {
    // The last part whose first tile is not beyond: parts without picks have the start of the one after.
    kernel.line(format!("int part = 0, highest = {};", parts - 1));
    kernel.line("while (part < highest) {");
    kernel.line("const int middle = (part + highest + 1) / 2;");
    kernel.line("if (starts[middle] <= above) part = middle;");
    kernel.line("else highest = middle - 1;");
    kernel.line("}");
    kernel.line(format!("const int skipped = (above - starts[part]) * {TILE};"));
    kernel.line(format!("const int share = (picks + {}) / {WARPS};", WARPS - 1));
    kernel.line("const int from = min_int(warp * share, picks), to = min_int(from + share, picks);");
    kernel.line("int own = 0;");
    kernel.line("for (int p = from + lane; p - lane < to; p += 32)");
    kernel.line("own += __popc(__ballot_sync(WARP_MASK, p < to && chosen(p) == part));");
    kernel.line("__syncthreads();");
    kernel.line("if (lane == 0) shares[warp] = own;");
    kernel.line("__syncthreads();");
    kernel.line("int rank = -skipped, height = -skipped;");
    kernel.line(format!("for (int other = 0; other < {WARPS}; other++) {{"));
    kernel.line("if (other < warp) rank += shares[other];");
    kernel.line("height += shares[other];");
    kernel.line("}");
    kernel.line(format!("height = min_int(height, {TILE});"));
    kernel.line("for (int p = from + lane; p - lane < to; p += 32) {");
    kernel.line("const bool is = p < to && chosen(p) == part;");
    kernel.line("const u32 found = __ballot_sync(WARP_MASK, is);");
    kernel.line("const int at = rank + __popc(found & ((1u << lane) - 1));");
    kernel.line(format!("if (is && at >= 0 && at < {TILE}) listed[at] = p;"));
    kernel.line("rank += __popc(found);");
    kernel.line("}");
    kernel.line("__syncthreads();");
}
