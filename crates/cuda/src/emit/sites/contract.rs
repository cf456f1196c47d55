//! Contractions: a warp for each result when rows are few, tiles through shared memory when they are many.
//!
//! Both add along k alike: chunks of [`CHUNK`] products from zero in order, and the chunks' sums in order. So a row has
//! the same bits in a batch of any size. Operands are read by their index forms, so batched, strided and gathered ones
//! are one kernel.

use fiddlehead_graph::queries::{Contraction, Operand, Role, Variance};
use fiddlehead_graph::{Element, Graph, NodeId};
use fiddlehead_plan::order::Extension;

use super::super::element::{assign, decode};
use super::super::expression::{Writer, flat};
use super::super::kernel::{Grid, Kernel, Rows};
use super::super::scope::Scope;
use super::super::traps::Traps;

/// Products that are added before their sum is added to the total.
const CHUNK: usize = 32;
/// Rows that the narrow form takes at a time.
const NARROW: usize = 8;
/// Rows and columns of a tile.
const TILE: usize = 64;

/// A contraction that the kernel serves.
#[derive(Clone, Debug)]
pub(in crate::emit) struct ContractSite {
    pub contraction: Contraction,
    pub reads: Vec<NodeId>,
}

impl ContractSite {
    pub(super) fn new(
        graph: &Graph,
        site: &Contraction,
        extension: &mut Extension,
    ) -> Result<ContractSite, String> {
        let mut contraction = site.clone();
        contraction.operands =
            site.operands.each_ref().map(|operand| super::as_node(graph, site.node, operand, extension));
        let mut reads = Vec::new();
        for operand in &contraction.operands {
            let Some(_) = operand.node() else { return Err("an operand is read from a history".into()) };
            super::operand_loads(operand, &mut reads);
        }
        if graph.node(site.node).element != Element::F32 || graph.shape(site.node).is_none() {
            return Err("the kernel takes floats in tensors of fixed shape".into());
        }
        site.scale.iter().chain(&site.guard).for_each(|expr| super::loads(expr, &mut reads));
        reads.sort();
        reads.dedup();
        Ok(ContractSite { contraction, reads })
    }

    fn extent(&self, roles: &[Role]) -> usize {
        let axes = self.contraction.axes.iter().filter(|axis| roles.contains(&axis.role));
        axes.map(|axis| axis.extent).product()
    }

    pub(super) fn grid(&self, rows: Rows) -> Grid {
        let columns = self.extent(&[Role::Right, Role::Repeat]) * self.extent(&[Role::Batch]);
        Grid { rows, per_row: columns, per_block: 4 }
    }

    pub(super) fn write(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps) {
        let site = &self.contraction;
        let per_row = scope.set.is_some();
        // A weight that differs from row to row, or is chosen there, makes a batch of rows; else the rows are rows of the one product.
        let weight = &site.operands[1];
        let chosen = weight.indices.iter().any(|form| form.terms.iter().any(|(atom, _)| gathers(atom)));
        let batched = per_row && (chosen || weight.variance == Variance::PerNode);
        let left = self.extent(&[Role::Left]);
        let batch = self.extent(&[Role::Batch]);
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
        let shape = Shape { batched, per_row, left, batch };
        self.reader(kernel, scope, traps, &shape, 0, "A");
        self.reader(kernel, scope, traps, &shape, 1, "W");
        self.store(kernel, scope, traps, &shape);
        let chunks = depth.div_ceil(CHUNK);
        kernel.line("const int lane = threadIdx.x % 32;");
        kernel.line(format!("if (M <= {NARROW}) {{"));
        kernel.line("const int warps = gridDim.x * (blockDim.x / 32);");
        kernel.line(
            "for (int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < BATCH * N; i += warps) {",
        );
        kernel.line("const int batch = i / N, n = i % N;");
        kernel.line(format!("float total[{NARROW}];"));
        kernel.line(format!("for (int m = 0; m < {NARROW}; m++) total[m] = 0.0f;"));
        kernel.line(format!("for (int round = 0; round < {chunks}; round += 32) {{"));
        kernel.line(format!("float part[{NARROW}];"));
        kernel.line(format!("for (int m = 0; m < {NARROW}; m++) part[m] = 0.0f;"));
        kernel.line(format!("const int last = min_int((round + lane + 1) * {CHUNK}, K);"));
        kernel.line(format!("for (int k = (round + lane) * {CHUNK}; k < last; k++) {{"));
        kernel.line("const float w = W(batch, n, k);");
        kernel.line("#pragma unroll");
        kernel.line(format!(
            "for (int m = 0; m < {NARROW}; m++) if (m < M) part[m] = fmaf(A(batch, m, k), w, part[m]);"
        ));
        kernel.line("}");
        kernel.line(format!("const int many = min_int(32, {chunks} - round);"));
        kernel.line("for (int j = 0; j < many; j++) {");
        kernel.line("#pragma unroll");
        kernel.line(format!(
            "for (int m = 0; m < {NARROW}; m++) if (m < M) total[m] += __shfl_sync(WARP_MASK, part[m], j);"
        ));
        kernel.line("}");
        kernel.line("}");
        kernel.line("#pragma unroll");
        kernel.line(format!(
            "for (int m = 0; m < {NARROW}; m++) if (m < M && lane == m) put(batch, m, n, total[m]);"
        ));
        kernel.line("}");
        kernel.line("} else {");
        self.tiles(kernel, scope.graph);
        kernel.line("}");
    }

    fn tiles(&self, kernel: &mut Kernel, graph: &Graph) {
        kernel.line(format!("__shared__ float as[{CHUNK}][{TILE} + 1], ws[{CHUNK}][{TILE} + 1];"));
        kernel.line(format!(
            "const int tiles_m = (M + {TILE} - 1) / {TILE}, tiles_n = (N + {TILE} - 1) / {TILE};"
        ));
        kernel.line("const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;");
        kernel.line("const long long tiles = (long long)BATCH * tiles_m * tiles_n;");
        kernel.line("for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {");
        kernel.line("const int batch = (int)(tile / ((long long)tiles_m * tiles_n));");
        kernel.line(format!(
            "const int m0 = (int)(tile / tiles_n % tiles_m) * {TILE}, n0 = (int)(tile % tiles_n) * {TILE};"
        ));
        kernel.line("float total[8][4];");
        kernel.line("for (int i = 0; i < 8; i++) for (int j = 0; j < 4; j++) total[i][j] = 0.0f;");
        kernel.line(format!("for (int k0 = 0; k0 < K; k0 += {CHUNK}) {{"));
        kernel.line("__syncthreads();");
        kernel.line(format!("for (int x = threadIdx.x; x < {}; x += 128) {{", TILE * CHUNK));
        for (operand, name, shared, origin, limit) in [(0, "A", "as", "m0", "M"), (1, "W", "ws", "n0", "N")] {
            // Neighbouring threads read neighbouring words.
            let along_k = self.along_k(graph, &self.contraction.operands[operand]);
            let (k, at) = match along_k {
                true => (format!("x % {CHUNK}"), format!("x / {CHUNK}")),
                false => (format!("x / {TILE}"), format!("x % {TILE}")),
            };
            kernel.line(format!("{{ const int k = {k}, at = {at};"));
            kernel.line(format!(
                "{shared}[k][at] = {origin} + at < {limit} && k0 + k < K ? {name}(batch, {origin} + at, k0 + k) : 0.0f;"
            ));
            kernel.line("}");
        }
        kernel.line("}");
        kernel.line("__syncthreads();");
        kernel.line("float part[8][4];");
        kernel.line("for (int i = 0; i < 8; i++) for (int j = 0; j < 4; j++) part[i][j] = 0.0f;");
        kernel.line(format!("const int many = min_int({CHUNK}, K - k0);"));
        kernel.line("for (int k = 0; k < many; k++) {");
        kernel.line("float x[8], y[4];");
        kernel.line("#pragma unroll");
        kernel.line("for (int i = 0; i < 8; i++) x[i] = as[k][ty + i * 8];");
        kernel.line("#pragma unroll");
        kernel.line("for (int j = 0; j < 4; j++) y[j] = ws[k][tx + j * 16];");
        kernel.line("#pragma unroll");
        kernel.line("for (int i = 0; i < 8; i++)");
        kernel.line("#pragma unroll");
        kernel.line("for (int j = 0; j < 4; j++) part[i][j] = fmaf(x[i], y[j], part[i][j]);");
        kernel.line("}");
        kernel.line("for (int i = 0; i < 8; i++) for (int j = 0; j < 4; j++) total[i][j] += part[i][j];");
        kernel.line("}");
        kernel.line("for (int i = 0; i < 8; i++) for (int j = 0; j < 4; j++) {");
        kernel.line("const int m = m0 + ty + i * 8, n = n0 + tx + j * 16;");
        kernel.line("if (m < M && n < N) put(batch, m, n, total[i][j]);");
        kernel.line("}");
        kernel.line("}");
    }

    /// Whether an operand's words lie one after another along the innermost folded axis.
    fn along_k(&self, graph: &Graph, operand: &Operand) -> bool {
        let axes = &self.contraction.axes;
        let Some(strides) = operand.flat(graph).and_then(|flat| flat.as_strides()) else { return true };
        let of = |roles: &[Role]| {
            strides.iter().any(|&(axis, stride)| stride == 1 && roles.contains(&axes[axis].role))
        };
        of(&[Role::Folded, Role::FoldedOnce]) || !of(&[Role::Left, Role::Right])
    }

    /// Defines `row`, `node` and `here`, and the axes of the site that a part of the code knows.
    fn place(
        &self,
        kernel: &mut Kernel,
        scope: &Scope<'_>,
        shape: &Shape,
        known: &[(&[Role], &str)],
    ) -> Vec<String> {
        let Shape { batched, per_row, left, batch } = *shape;
        match (per_row, batched) {
            (false, _) => kernel.line("const int row = 0;"),
            (true, true) => kernel.line(format!("const int row = batch / {};", batch.max(1))),
            (true, false) if known.iter().any(|(_, place)| *place == "m") => {
                kernel.line(format!("const int row = m / {};", left.max(1)));
            }
            // What does not depend on the row is read for the first.
            (true, false) => kernel.line("const int row = 0;"),
        }
        match scope.set {
            Some(set) => {
                kernel.line(format!("const int node = set_node(b, {}, row), here = b->depth[node];", set.0));
            }
            None => kernel.line("const int node = 0, here = 0;"),
        }
        kernel.line("(void)node; (void)here; (void)batch;");
        let mut names = vec!["0".to_string(); self.contraction.axes.len()];
        for (roles, place) in known {
            let of_role: Vec<usize> =
                (0..names.len()).filter(|&axis| roles.contains(&self.contraction.axes[axis].role)).collect();
            let extents: Vec<usize> =
                of_role.iter().map(|&axis| self.contraction.axes[axis].extent).collect();
            let place = match *place {
                "m" if per_row && !batched => format!("m % {}", left.max(1)),
                "batch" if batched => format!("batch % {}", batch.max(1)),
                place => place.to_string(),
            };
            let place = if place.contains('%') { format!("({place})") } else { place };
            for (axis, name) in of_role.iter().zip(decode(kernel, &place, &extents)) {
                names[*axis] = name;
            }
        }
        names
    }

    fn reader(
        &self,
        kernel: &mut Kernel,
        scope: &Scope<'_>,
        traps: &mut Traps,
        shape: &Shape,
        operand: usize,
        name: &str,
    ) {
        let (own, place): (&[Role], &str) = match operand {
            0 => (&[Role::Left], "m"),
            _ => (&[Role::Right, Role::Repeat], "n"),
        };
        kernel.line(format!("auto {name} = [&](int batch, int {place}, int k) -> float {{"));
        kernel.line(format!("(void){place}; (void)k;"));
        let known: [(&[Role], &str); 3] =
            [(own, place), (&[Role::Batch], "batch"), (&[Role::Folded, Role::FoldedOnce], "k")];
        let axes = self.place(kernel, scope, shape, &known);
        let operand = &self.contraction.operands[operand];
        let Some(source) = operand.node() else { return };
        let mut writer = Writer::new(kernel, scope, traps, self.contraction.node).with_axes(axes);
        let extents: Vec<usize> = self.contraction.axes.iter().map(|axis| axis.extent).collect();
        let place = writer.place(operand, source, &extents);
        let value = writer.element_of(source, &place);
        kernel.line(format!("return {value};"));
        kernel.line("};");
    }

    fn store(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps, shape: &Shape) {
        let site = &self.contraction;
        kernel.line("auto put = [&](int batch, int m, int n, float value) {");
        kernel.line("(void)m; (void)n;");
        let known: [(&[Role], &str); 3] =
            [(&[Role::Left], "m"), (&[Role::Right, Role::Repeat], "n"), (&[Role::Batch], "batch")];
        let axes = self.place(kernel, scope, shape, &known);
        let result = scope.graph.shape(site.node).unwrap_or_default();
        let place = flat(&axes, &result);
        let mut writer = Writer::new(kernel, scope, traps, site.node).with_axes(axes);
        let scale = site.scale.as_ref().map(|scale| writer.expr(scale).text);
        let guard = site.guard.as_ref().map(|guard| writer.expr(guard).text);
        let to = writer.element_of(site.node, &place);
        let value = scale.map_or("value".to_string(), |scale| format!("value * {scale}"));
        let value = guard.map_or(value.clone(), |guard| format!("({guard}) ? {value} : 0.0f"));
        kernel.line(assign(&to, Element::F32, &format!("({value})")));
        kernel.line("};");
    }
}

/// How the rows of a batch take part.
struct Shape {
    batched: bool,
    per_row: bool,
    left: usize,
    batch: usize,
}

fn gathers(atom: &fiddlehead_graph::queries::Atom) -> bool {
    use fiddlehead_graph::queries::Atom;
    match atom {
        Atom::Axis(_) => false,
        Atom::Quotient(inner, _) | Atom::Remainder(inner, _) => {
            inner.terms.iter().any(|(atom, _)| gathers(atom))
        }
        Atom::Gathered(_) => true,
    }
}
