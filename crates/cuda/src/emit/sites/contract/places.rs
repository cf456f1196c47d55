//! How a form's numbers (`batch`, `m`, `n`, `k`) become places in tensors: functions for the elements of operands, and
//! one that takes a result on through its epilogue into memory.

use fiddlehead_graph::Element;
use fiddlehead_graph::queries::Role;

use super::super::super::element::{assign, chain, decode};
use super::super::super::expression::{Writer, flat};
use super::super::super::kernel::Kernel;
use super::super::super::scope::Scope;
use super::super::super::traps::Traps;
use super::{ContractSite, Shape};

/// A point of a site's space as the code knows it.
pub(super) struct Point {
    /// The parameters that it is given by.
    pub parameters: String,
    /// The row among those of the set.
    pub row: String,
    /// Site axes, row-major, with the number that counts through them. All others are zero.
    pub axes: Vec<(Vec<usize>, String)>,
}

impl ContractSite {
    /// Defines `A0 …` and `W0 …`, the elements of the terms' operands.
    pub(super) fn readers(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps, shape: &Shape) {
        let folded = (self.axes(&[Role::Folded, Role::FoldedOnce]), "k".to_string());
        let own = |place: &str, roles: &[Role]| Point {
            parameters: format!("int batch, int {place}, int k"),
            row: self.row(shape, place),
            axes: vec![
                (self.axes(roles), self.own(shape, place)),
                (self.axes(&[Role::Batch]), self.own(shape, "batch")),
                folded.clone(),
            ],
        };
        let activation = own("m", &[Role::Left]);
        let weight = own("n", &[Role::Right, Role::Repeat]);
        let different = if self.same_activation() { 1 } else { self.terms.len() };
        for term in 0..different {
            self.reader(kernel, scope, traps, (term, 0), &format!("A{term}"), &activation);
        }
        for term in 0..self.terms.len() {
            self.reader(kernel, scope, traps, (term, 1), &format!("W{term}"), &weight);
        }
    }

    /// Defines `put`, which takes the sums at a point on into memory.
    pub(super) fn store(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps, shape: &Shape) {
        let point = Point {
            parameters: "int batch, int m, int n".into(),
            row: self.row(shape, "m"),
            axes: vec![
                (self.axes(&[Role::Left]), self.own(shape, "m")),
                (self.axes(&[Role::Right, Role::Repeat]), "n".into()),
                (self.axes(&[Role::Batch]), self.own(shape, "batch")),
            ],
        };
        self.put(kernel, scope, traps, &point);
    }

    /// The row of the set at which the code stands, given `m` or not.
    fn row(&self, shape: &Shape, known: &str) -> String {
        match (shape.per_row, shape.batched) {
            (false, _) => "0".into(),
            (true, true) => format!("batch / {}", shape.batch),
            (true, false) if known == "m" => format!("m / {}", shape.left),
            // What does not depend on the row is read for the first.
            (true, false) => "0".into(),
        }
    }

    /// The site's own part of a number that counts through rows too.
    fn own(&self, shape: &Shape, place: &str) -> String {
        match place {
            "m" if shape.per_row && !shape.batched => format!("(m % {})", shape.left),
            "batch" if shape.batched => format!("(batch % {})", shape.batch),
            place => place.to_string(),
        }
    }

    /// Defines `row`, `node` and `here`, and names the site's axes.
    pub(super) fn enter(&self, kernel: &mut Kernel, scope: &Scope<'_>, point: &Point) -> Vec<String> {
        kernel.line(format!("const int row = {};", point.row));
        match scope.set {
            Some(set) => {
                kernel.line(format!("const int node = set_node(b, {}, row), here = b->depth[node];", set.0));
            }
            None => kernel.line("const int node = 0, here = 0;"),
        }
        kernel.line("(void)node; (void)here;");
        let axes = &self.terms[0].axes;
        let mut names = vec!["0".to_string(); axes.len()];
        for (of, place) in &point.axes {
            let extents: Vec<usize> = of.iter().map(|&axis| axes[axis].extent).collect();
            for (&axis, name) in of.iter().zip(decode(kernel, place, &extents)) {
                names[axis] = name;
            }
        }
        names
    }

    /// Defines a function for the element of an operand, given as (term, operand).
    pub(super) fn reader(
        &self,
        kernel: &mut Kernel,
        scope: &Scope<'_>,
        traps: &mut Traps,
        (term, operand): (usize, usize),
        name: &str,
        point: &Point,
    ) {
        let site = &self.terms[term];
        let prologue: &[_] = if (term, operand) == (0, 0) { &self.prologue } else { &[] };
        let operand = &site.operands[operand];
        let Some(source) = operand.node() else { return };
        kernel.line(format!("auto {name} = [&]({}) -> float {{", point.parameters));
        let axes = self.enter(kernel, scope, point);
        let extents: Vec<usize> = site.axes.iter().map(|axis| axis.extent).collect();
        let mut writer = Writer::new(kernel, scope, traps, site.node).with_axes(axes);
        let place = writer.place(operand, source, &extents);
        let value = match prologue {
            [] => writer.element_of(source, &place),
            prologue => {
                writer.kernel.line(format!("const long long e = {place};"));
                chain(&mut writer, prologue, "e").unwrap_or_default()
            }
        };
        kernel.line(format!("return {value};"));
        kernel.line("};");
    }

    /// Defines `put(parameters, sum0, …)`.
    pub(super) fn put(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps, point: &Point) {
        let graph = scope.graph;
        let sums: Vec<String> = (0..self.terms.len()).map(|term| format!("float sum{term}")).collect();
        kernel.line(format!("auto put = [&]({}, {}) {{", point.parameters, sums.join(", ")));
        let axes = self.enter(kernel, scope, point);
        let result = graph.shape(self.terms[0].node).unwrap_or_default();
        kernel.line(format!("const long long e = {};", flat(&axes, &result)));
        let mut known = Vec::new();
        for (place, site) in self.terms.iter().enumerate() {
            let mut writer = Writer::new(kernel, scope, traps, site.node).with_axes(axes.clone());
            let scale = site.scale.as_ref().map(|scale| writer.expr(scale).text);
            let guard = site.guard.as_ref().map(|guard| writer.expr(guard).text);
            let value = scale.map_or(format!("sum{place}"), |scale| format!("sum{place} * {scale}"));
            let value = guard.map_or(value.clone(), |guard| format!("({guard}) ? {value} : 0.0f"));
            let name = kernel.fresh("v");
            kernel.line(format!("const float {name} = {value};"));
            known.push((site.node, name));
        }
        let own = known[0].1.clone();
        let mut writer = Writer::new(kernel, scope, traps, self.node());
        writer.known = known;
        let value = match &self.epilogue[..] {
            [] => own,
            epilogue => chain(&mut writer, epilogue, "e").unwrap_or_default(),
        };
        writer.known.clear();
        let element: Element = graph.node(self.node()).element;
        let to = writer.element_of(self.node(), "e");
        kernel.line(assign(&to, element, &value));
        kernel.line("};");
    }
}
