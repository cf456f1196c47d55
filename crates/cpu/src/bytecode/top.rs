//! The `k` greatest elements of a row.

use fiddlehead_graph::{Graph, NodeId, Range, TopPart};

use super::MAX_AXES;
use super::build::{check_layout, reach};
use super::frame::{Frame, Memory, Slot, TrapKind};
use super::layout::{CompileError, Format, SourceLayout, Strides};
use super::program::{Outer, base};
use super::scratch::{Base, Scratch};
use super::value::Type;

/// A compiled top-k.
#[derive(Debug)]
pub(super) struct Top {
    operand: SourceLayout,
    reach: usize,
    /// Extents of the operand, and its strides and the output's, in elements.
    shape: Vec<usize>,
    from: Vec<usize>,
    to: Vec<usize>,
    k: usize,
    part: TopPart,
}

impl Top {
    pub fn compile(
        graph: &Graph,
        node: NodeId,
        operand_node: NodeId,
        k: usize,
        part: TopPart,
        operand: SourceLayout,
        output: &SourceLayout,
    ) -> Result<Top, CompileError> {
        let ranges: Vec<Range> = graph.axes(operand_node);
        check_layout(node, operand_node, Type::Float, &ranges, &operand)?;
        let shape = graph.shape(operand_node).filter(|shape| shape.last().is_some_and(|&last| k <= last));
        if ranges.len() > MAX_AXES {
            return Err(CompileError::TooManyAxes(node));
        }
        let problem = "it takes more elements than its operand's last axis has";
        let shape = shape.ok_or(CompileError::Invalid { node, problem })?;
        let (Strides::Fixed(from), Strides::Fixed(to)) = (&operand.strides, &output.strides) else {
            return Err(CompileError::Invalid { node, problem: "its operand is local" });
        };
        let (from, to) = (from.clone(), to.clone());
        let reach = reach(&ranges, &operand);
        Ok(Top { operand, reach, shape, from, to, k, part })
    }

    /// The outermost axis, unless it is the one searched.
    pub fn outer(&self) -> Option<Outer> {
        (self.shape.len() > 1).then(|| Outer { extent: self.shape[0], multiple: 1 })
    }

    pub fn cost(&self) -> f64 {
        self.shape.iter().product::<usize>() as f64 + 100.0
    }

    pub fn run(
        &self,
        frame: &Frame<'_>,
        row: usize,
        outer: Option<(usize, usize)>,
        output: Base,
        scratch: &mut Scratch,
    ) -> Result<(), TrapKind> {
        let source = base(frame, &self.operand, self.reach, row)?.0;
        let last = self.shape.len() - 1;
        if self.k == 0 || self.shape.contains(&0) {
            return Ok(());
        }
        let mut point = [0; MAX_AXES];
        let point = &mut point[..last];
        if let (Some((first, end)), Some(place)) = (outer, point.first_mut()) {
            if first >= end.min(self.shape[0]) {
                return Ok(());
            }
            *place = first;
        }
        let end = outer.map_or(self.shape[0], |part| part.1.min(self.shape[0]));
        loop {
            let from: usize = point.iter().zip(&self.from).map(|(at, stride)| at * stride).sum();
            let to: usize = point.iter().zip(&self.to).map(|(at, stride)| at * stride).sum();
            self.search(frame, source, from, scratch);
            for (place, &(value, index)) in scratch.best.iter().enumerate() {
                let offset = to + place * self.to[last];
                if offset >= output.elements {
                    return Err(TrapKind::Slot(usize::MAX));
                }
                let word = match self.part {
                    TopPart::Values => value.to_bits(),
                    TopPart::Indices => index,
                };
                // SAFETY: the output's row has `elements` words, which the maker of the slot vouched for.
                unsafe { *output.data.cast::<u32>().cast_mut().add(offset) = word };
            }
            let mut axis = last;
            loop {
                if axis == 0 {
                    return Ok(());
                }
                axis -= 1;
                point[axis] += 1;
                if point[axis] < if axis == 0 { end } else { self.shape[axis] } {
                    break;
                }
                if axis > 0 {
                    point[axis] = 0;
                }
            }
        }
    }

    /// Leaves the greatest elements in `scratch.best`, greatest first. NaN comes after everything.
    fn search(&self, frame: &Frame<'_>, source: Base, from: usize, scratch: &mut Scratch) {
        let last = self.shape.len() - 1;
        let best = &mut scratch.best;
        best.clear();
        best.reserve(self.k + 1);
        for index in 0..self.shape[last] {
            let value = self.element(frame, source, from + index * self.from[last]);
            if best.len() == self.k {
                let least = best[self.k - 1].0;
                if !before(value, least) {
                    continue;
                }
                best.pop();
            }
            // Behind its equals: they have lower indices.
            let place = best.partition_point(|held| !before(value, held.0));
            best.insert(place, (value, index as u32));
        }
    }

    fn element(&self, frame: &Frame<'_>, source: Base, offset: usize) -> f32 {
        let narrow = || {
            // SAFETY: `base` checked that the bytes reach as far as the shape.
            unsafe { source.data.add(offset * 2).cast::<u16>().read_unaligned() }
        };
        match self.operand.format {
            // SAFETY: as above, of words.
            Format::Words => unsafe { *source.data.cast::<f32>().add(offset) },
            Format::Bf16 => half::bf16::from_bits(narrow()).to_f32(),
            Format::F16 => half::f16::from_bits(narrow()).to_f32(),
            Format::Blocks => {
                let mut value = [0.0];
                if let Some(Slot(Memory::Blocks { decode })) = frame.slots.get(self.operand.slot) {
                    decode.decode(offset, &mut value);
                }
                value[0]
            }
        }
    }
}

/// Whether `a` comes before `b` whatever their indices.
fn before(a: f32, b: f32) -> bool {
    a > b || (b.is_nan() && !a.is_nan())
}
