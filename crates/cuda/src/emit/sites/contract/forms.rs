//! The narrow form and the tiled form, over the functions that `places` defined.

use fiddlehead_graph::Graph;
use fiddlehead_graph::queries::{Operand, Role};

use super::super::super::kernel::Kernel;
use super::{CHUNK, ContractSite, TILE, WARPS};

/// What a tile's rows or columns are: the code of an element at `at` and `k0 + k`, and of whether there is one at `at`.
struct Side<'a> {
    element: String,
    within: &'a str,
    operand: &'a Operand,
}

impl ContractSite {
    /// The numbers of the terms.
    fn numbers(&self) -> std::ops::Range<usize> {
        0..self.terms.len()
    }

    /// The activation's function of a term.
    pub(super) fn activation(&self, term: usize) -> usize {
        if self.same_activation() { 0 } else { term }
    }

    /// A warp for each column, and up to `most` rows of it: one, or as many as `M` says.
    pub(super) fn narrow(&self, kernel: &mut Kernel, most: usize) {
        let depth = self.extent(&[Role::Folded, Role::FoldedOnce]);
        let chunks = depth.div_ceil(CHUNK);
        let each_row = match most {
            1 => "for (int m = 0; m < 1; m++) {".to_string(),
            most => format!("for (int m = 0; m < {most}; m++) if (m < M) {{"),
        };
        let every = |text: &dyn Fn(usize) -> String| self.numbers().map(text).collect::<Vec<_>>();
        let arrays = |name: &str| every(&|term| format!("{name}{term}[{most}] = {{}}")).join(", ");
        kernel.line(format!("items = ((long long)BATCH * N + {}) / {WARPS};", WARPS - 1));
        kernel.line("for (long long item = first; item < items; item += gridDim.x) {");
        kernel.line(format!("const long long i = item * {WARPS} + warp;"));
        kernel.line("if (i >= (long long)BATCH * N) continue;");
        kernel.line("const int batch = (int)(i / N), n = (int)(i % N);");
        kernel.line(format!("float {};", arrays("total")));
        kernel.line(format!("for (int round = 0; round < {chunks}; round += 32) {{"));
        kernel.line(format!("float {};", arrays("part")));
        kernel.line(format!("const int last = min_int((round + lane + 1) * {CHUNK}, K);"));
        // Several loads under way at once: their latency is most of a small contraction's time.
        kernel.line(if most == 1 { "#pragma unroll 8" } else { "#pragma unroll 4" });
        kernel.line(format!("for (int k = (round + lane) * {CHUNK}; k < last; k++) {{"));
        every(&|term| format!("const float w{term} = W{term}(batch, n, k);"))
            .iter()
            .for_each(|w| kernel.line(w));
        kernel.line("#pragma unroll");
        kernel.line(&each_row);
        for term in self.numbers() {
            let activation = self.activation(term);
            if activation == term {
                kernel.line(format!("const float a{term} = A{term}(batch, m, k);"));
            }
            kernel.line(format!("part{term}[m] = fmaf(a{activation}, w{term}, part{term}[m]);"));
        }
        kernel.line("}");
        kernel.line("}");
        kernel.line(format!("const int many = min_int(32, {chunks} - round);"));
        kernel.line("for (int j = 0; j < many; j++) {");
        kernel.line("#pragma unroll");
        kernel.line(&each_row);
        every(&|term| format!("total{term}[m] += __shfl_sync(WARP_MASK, part{term}[m], j);"))
            .iter()
            .for_each(|sum| kernel.line(sum));
        kernel.line("}");
        kernel.line("}");
        kernel.line("}");
        // Lane m takes row m on: what follows is written once.
        every(&|term| format!("float own{term} = total{term}[0];")).iter().for_each(|own| kernel.line(own));
        if most > 1 {
            kernel.line("#pragma unroll");
            let pick = every(&|term| format!("if (lane == m) own{term} = total{term}[m];"));
            kernel.line(format!("for (int m = 1; m < {most}; m++) {{ {} }}", pick.join(" ")));
        }
        let own = every(&|term| format!("own{term}")).join(", ");
        kernel.line(format!("if (lane < {}) put(batch, lane, n, {own});", if most == 1 { "1" } else { "M" }));
        kernel.line("}");
    }

    /// A block for each tile of [`TILE`] rows and columns.
    pub(super) fn tiles(&self, kernel: &mut Kernel, graph: &Graph) {
        kernel.line(format!(
            "const int tiles_m = (M + {TILE} - 1) / {TILE}, tiles_n = (N + {TILE} - 1) / {TILE};"
        ));
        kernel.line("items = (long long)BATCH * tiles_m * tiles_n;");
        kernel.line("for (long long item = first; item < items; item += gridDim.x) {");
        kernel.line("const int batch = (int)(item / ((long long)tiles_m * tiles_n));");
        kernel.line(format!(
            "const int m0 = (int)(item / tiles_n % tiles_m) * {TILE}, n0 = (int)(item % tiles_n) * {TILE};"
        ));
        self.products(kernel, graph, &|term, operand| match operand {
            0 => (format!("A{}(batch, m0 + at, k0 + k)", self.activation(term)), "m0 + at < M"),
            _ => (format!("W{term}(batch, n0 + at, k0 + k)"), "n0 + at < N"),
        });
        self.each_result(
            kernel,
            "m0 + x / TILE < M && n0 + x % TILE < N",
            "batch, m0 + x / TILE, n0 + x % TILE",
        );
        kernel.line("}");
    }

    /// Runs `put` for the results of a tile, which lie in shared memory: neighbouring threads write neighbouring words.
    pub(super) fn each_result(&self, kernel: &mut Kernel, within: &str, point: &str) {
        let tile = |text: &str| text.replace("TILE", &TILE.to_string());
        kernel.line(format!("for (int x = threadIdx.x; x < {}; x += {}) {{", TILE * TILE, WARPS * 32));
        let sums: Vec<&str> = ["tile[x]", "tile1[x]"].into_iter().take(self.terms.len()).collect();
        kernel.line(format!("if ({}) put({}, {});", tile(within), tile(point), sums.join(", ")));
        kernel.line("}");
    }

    /// The sums of a tile, left in `tile` and `tile1` for the terms; a barrier stands behind it. `side` gives the code of
    /// an operand's element, (term, operand), and of whether there is one.
    pub(super) fn products(
        &self,
        kernel: &mut Kernel,
        graph: &Graph,
        side: &dyn Fn(usize, usize) -> (String, &'static str),
    ) {
        kernel.line("const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;");
        // The term that comes last leaves its sums where operands were; the one before it has a place of its own.
        for term in self.numbers().rev() {
            kernel.line("{");
            let sides = [0, 1].map(|operand| {
                let (element, within) = side(term, operand);
                Side { element, within, operand: &self.terms[term].operands[operand] }
            });
            self.product(kernel, graph, &sides);
            kernel.line("__syncthreads();");
            let to = if term == 0 { "tile" } else { "tile1" };
            kernel.line("#pragma unroll");
            kernel.line("for (int i = 0; i < 8; i++)");
            kernel.line("#pragma unroll");
            kernel.line(format!(
                "for (int j = 0; j < 4; j++) {to}[(ty + i * 8) * {TILE} + tx + j * 16] = total[i][j];"
            ));
            kernel.line("}");
        }
        kernel.line("__syncthreads();");
    }

    /// The sums of one term over a tile, in `total`.
    fn product(&self, kernel: &mut Kernel, graph: &Graph, sides: &[Side<'_>; 2]) {
        let stride = TILE + 1;
        kernel.line("float total[8][4];");
        kernel.line("for (int i = 0; i < 8; i++) for (int j = 0; j < 4; j++) total[i][j] = 0.0f;");
        kernel.line(format!("for (int k0 = 0; k0 < K; k0 += {CHUNK}) {{"));
        kernel.line("__syncthreads();");
        kernel.line(format!("for (int x = threadIdx.x; x < {}; x += {}) {{", TILE * CHUNK, WARPS * 32));
        for (place, side) in sides.iter().enumerate() {
            // Neighbouring threads read neighbouring words.
            let (k, at) = match self.along_k(graph, side.operand) {
                true => (format!("x % {CHUNK}"), format!("x / {CHUNK}")),
                false => (format!("x / {TILE}"), format!("x % {TILE}")),
            };
            kernel.line(format!("{{ const int k = {k}, at = {at};"));
            kernel.line(format!(
                "tile[{} + k * {stride} + at] = {} && k0 + k < K ? {} : 0.0f;",
                place * CHUNK * stride,
                side.within,
                side.element
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
        kernel.line(format!("for (int i = 0; i < 8; i++) x[i] = tile[k * {stride} + ty + i * 8];"));
        kernel.line("#pragma unroll");
        kernel.line(format!(
            "for (int j = 0; j < 4; j++) y[j] = tile[{} + k * {stride} + tx + j * 16];",
            CHUNK * stride
        ));
        kernel.line("#pragma unroll");
        kernel.line("for (int i = 0; i < 8; i++)");
        kernel.line("#pragma unroll");
        kernel.line("for (int j = 0; j < 4; j++) part[i][j] = fmaf(x[i], y[j], part[i][j]);");
        kernel.line("}");
        kernel.line("for (int i = 0; i < 8; i++) for (int j = 0; j < 4; j++) total[i][j] += part[i][j];");
        kernel.line("}");
    }

    /// Whether an operand's words lie one after another along the innermost folded axis.
    fn along_k(&self, graph: &Graph, operand: &Operand) -> bool {
        let axes = &self.terms[0].axes;
        let Some(strides) = operand.flat(graph).and_then(|flat| flat.as_strides()) else { return true };
        let of = |roles: &[Role]| {
            strides.iter().any(|&(axis, stride)| stride == 1 && roles.contains(&axes[axis].role))
        };
        of(&[Role::Folded, Role::FoldedOnce]) || !of(&[Role::Left, Role::Right])
    }
}
