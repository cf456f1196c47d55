//! A node's program: compiled windows, and running them over rows.

use std::ops::Range as Rows;

use fiddlehead_graph::{Graph, NodeId, NodeKind, Range};

use super::MAX_AXES;
use super::build::{check_layout, reach};
use super::code::{Code, Coefficient};
use super::compile::{BoxAxis, compile_box, compile_windows};
use super::frame::{Frame, LocalBox, LocalRow, Memory, Read, Slot, Trap, TrapKind};
use super::layout::{CompileError, Format, SourceLayout, Strides};
use super::machine::{Machine, interpreter};
use super::scratch::{Base, Found, Scratch};
use super::top::Top;
use super::value::{HERE_LIMIT, Type};

/// A computed tensor's or a top-k's program. Compiled once for a graph and its layouts, run for any rows.
#[derive(Debug)]
pub struct BlockProgram {
    node: NodeId,
    work: Work,
    output: SourceLayout,
    /// Words that a row of the output takes, when that is fixed.
    reach: usize,
    box_axes: Vec<BoxAxis>,
    outer: Option<Outer>,
    cost: f64,
}

#[derive(Debug)]
enum Work {
    Windows(Vec<Code>),
    Top(Top),
}

/// The outermost axis, when a run may be restricted to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// How many values it has.
    pub extent: usize,
    /// Parts must begin and end at multiples of this, or at the end of the axis.
    pub multiple: usize,
}

impl BlockProgram {
    /// Compiles a node. `layouts` says where each tensor that it reads lies, and where its own elements go.
    ///
    /// # Errors
    /// When the node has no program or a layout does not fit.
    pub fn compile(
        graph: &Graph,
        node: NodeId,
        layouts: &dyn Fn(NodeId) -> SourceLayout,
    ) -> Result<BlockProgram, CompileError> {
        let output = layouts(node);
        let axes = graph.axes(node);
        check_layout(node, node, Type::of(graph.node(node).element), &axes, &output)?;
        if output.format != Format::Words {
            return Err(CompileError::Layout { reader: node, node, problem: "is no words, and is written" });
        }
        let reach = reach(&axes, &output);
        match &graph.node(node).kind {
            NodeKind::Compute(compute) => {
                let (codes, multiple) = compile_windows(graph, node, compute, layouts, &output)?;
                let outer = match axes.first() {
                    Some(Range::Fixed(extent)) => Some(Outer { extent: *extent, multiple }),
                    _ => None,
                };
                let box_axes = match output.strides {
                    Strides::Local => compile_box(graph, node, &axes, layouts)?,
                    Strides::Fixed(_) => Vec::new(),
                };
                let cost = codes.iter().map(|code| code.cost).sum();
                Ok(BlockProgram { node, work: Work::Windows(codes), output, reach, box_axes, outer, cost })
            }
            NodeKind::Top { operand, k, part } => {
                let top = Top::compile(graph, node, *operand, *k, *part, layouts(*operand), &output)?;
                let outer = top.outer();
                let cost = top.cost();
                let work = Work::Top(top);
                Ok(BlockProgram { node, work, output, reach, box_axes: Vec::new(), outer, cost })
            }
            _ => Err(CompileError::NotComputed(node)),
        }
    }

    /// The node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The outermost axis, when a run may take a part of it.
    pub fn outer(&self) -> Option<Outer> {
        self.outer
    }

    /// A rough guess at the time that one row takes on one thread, in nanoseconds.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// Whether the tensor is local, so that each row's memory is as large as [`BlockProgram::local_box`] says.
    pub fn is_local(&self) -> bool {
        self.output.strides == Strides::Local
    }

    /// The box of a local tensor for one row; the tensors that its ranges read must hold their values.
    ///
    /// # Errors
    /// When an index inside a range is out of range.
    pub fn local_box(&self, frame: &Frame<'_>, row: usize, scratch: &mut Scratch) -> Result<LocalBox, Trap> {
        let mut shape = LocalBox { rank: self.box_axes.len(), ..LocalBox::default() };
        for (place, axis) in self.box_axes.iter().enumerate() {
            (shape.origin[place], shape.extent[place]) = match axis {
                BoxAxis::Fixed(extent) => (0, *extent as u32),
                BoxAxis::Between { low, high, inclusive } => {
                    let low = self.bound(low, frame, row, scratch)?;
                    let high = self.bound(high, frame, row, scratch)?;
                    let count = high as i64 + i64::from(*inclusive) - low as i64;
                    (low, count.clamp(0, u32::MAX as i64) as u32)
                }
            };
        }
        Ok(shape)
    }

    fn bound(&self, code: &Code, frame: &Frame<'_>, row: usize, scratch: &mut Scratch) -> Result<i32, Trap> {
        let mut word = 0u32;
        let output = Base { data: std::ptr::from_mut(&mut word).cast(), elements: 1, shift: 0 };
        scratch.prepare(code);
        let result = run_row(code, frame, row, None, output, &LocalBox::default(), scratch);
        result.map_err(|kind| self.trap(row, kind))?;
        Ok(word as i32)
    }

    /// Computes `rows`, all of the tensor or the part `outer` of its outermost axis. The bits of a row depend neither on
    /// the other rows nor on the parts.
    ///
    /// # Errors
    /// A trap; what the output then holds is undefined.
    pub fn run(
        &self,
        frame: &Frame<'_>,
        rows: Rows<usize>,
        outer: Option<Rows<usize>>,
        scratch: &mut Scratch,
    ) -> Result<(), Trap> {
        let outer = outer.map(|part| (part.start, part.end));
        let codes = match &self.work {
            Work::Windows(codes) => codes,
            Work::Top(top) => {
                for row in rows {
                    let output = self.output_row(frame, row).map_err(|kind| self.trap(row, kind))?;
                    top.run(frame, row, outer, output.0, scratch).map_err(|kind| self.trap(row, kind))?;
                }
                return Ok(());
            }
        };
        for code in codes {
            scratch.prepare(code);
            for row in rows.clone() {
                let result = self
                    .output_row(frame, row)
                    .and_then(|(output, shape)| run_row(code, frame, row, outer, output, &shape, scratch));
                result.map_err(|kind| self.trap(row, kind))?;
            }
        }
        Ok(())
    }

    fn trap(&self, row: usize, kind: TrapKind) -> Trap {
        let kind = match kind {
            TrapKind::Slot(usize::MAX) => TrapKind::Slot(self.output.slot),
            kind => kind,
        };
        Trap { node: self.node, row, kind }
    }

    fn output_row(&self, frame: &Frame<'_>, row: usize) -> Result<(Base, LocalBox), TrapKind> {
        base(frame, &self.output, self.reach, row)
    }
}

/// Where a tensor's row lies, and its box when it is local.
pub(super) fn base(
    frame: &Frame<'_>,
    layout: &SourceLayout,
    reach: usize,
    row: usize,
) -> Result<(Base, LocalBox), TrapKind> {
    let wrong = TrapKind::Slot(layout.slot);
    let row = if layout.per_node { row } else { 0 };
    let mut shape = LocalBox::default();
    let local = layout.strides == Strides::Local;
    let base = match (frame.slots.get(layout.slot).map(|slot: &Slot<'_>| slot.0), layout.format) {
        (Some(Memory::Words { words, length, row_stride }), Format::Words) if !local => {
            let first = row.checked_mul(row_stride).ok_or(wrong)?;
            if first.checked_add(reach).is_none_or(|last| last > length) {
                return Err(wrong);
            }
            Base { data: words.wrapping_add(first).cast(), elements: reach, shift: 0 }
        }
        (Some(Memory::Rows { rows, length }), Format::Words) if !local => {
            if reach > length {
                return Err(wrong);
            }
            Base { data: rows.get(row).ok_or(wrong)?.cast(), elements: reach, shift: 0 }
        }
        (Some(Memory::Local { rows }), Format::Words) if local => {
            let LocalRow { words, shape: held } = rows.get(row).ok_or(wrong)?;
            shape = *held;
            let strides = box_strides(held);
            let shift = (0..held.rank).map(|axis| held.origin[axis] as i64 * strides[axis]).sum::<i64>();
            Base { data: words.cast(), elements: held.elements(), shift: -shift }
        }
        (Some(Memory::Bytes { bytes }), Format::Bf16 | Format::F16) if bytes.len() / 2 >= reach => {
            Base { data: bytes.as_ptr(), elements: reach, shift: 0 }
        }
        (Some(Memory::Blocks { decode }), Format::Blocks) if decode.elements() >= reach => {
            Base { data: std::ptr::null(), elements: reach, shift: 0 }
        }
        _ => return Err(wrong),
    };
    Ok((base, shape))
}

fn box_strides(shape: &LocalBox) -> [i64; MAX_AXES] {
    let mut strides = [1; MAX_AXES];
    for axis in (1..shape.rank).rev() {
        strides[axis - 1] = strides[axis] * shape.extent[axis] as i64;
    }
    strides
}

/// Runs one window for one row; `scratch` is prepared for the code.
fn run_row(
    code: &Code,
    frame: &Frame<'_>,
    row: usize,
    outer: Option<(usize, usize)>,
    output: Base,
    output_box: &LocalBox,
    scratch: &mut Scratch,
) -> Result<(), TrapKind> {
    let here = frame.here.get(row).copied().unwrap_or(0);
    if !(0..HERE_LIMIT).contains(&here) {
        return Err(TrapKind::Here(here));
    }
    for (place, source) in code.sources.iter().enumerate() {
        scratch.bases[place] = match source.read {
            Read::History(_) => Base::NOTHING,
            Read::Node(_) => base(frame, &source.layout, source.reach(), row)?.0,
        };
    }
    scratch.bases[code.sources.len()] = output;
    scratch.found.fill(Found::NOTHING);
    for (place, coefficient) in code.coefficients.iter().enumerate() {
        scratch.coefficients[place] = match *coefficient {
            Coefficient::Known(elements) => elements,
            Coefficient::Local { source, axis, factor } => {
                let shape = match source {
                    None => *output_box,
                    Some(source) => {
                        let source = &code.sources[source];
                        base(frame, &source.layout, source.reach(), row)?.1
                    }
                };
                box_strides(&shape)[axis] * factor
            }
            Coefficient::Sum { first, count } => {
                let first = first as usize;
                scratch.coefficients[first..first + count as usize].iter().sum()
            }
        };
    }
    if let Some(slot) = code.here {
        // SAFETY: the depth's slot is a scalar in storage.
        unsafe { *scratch.pointers[slot as usize] = here as u32 };
    }
    let mut machine = Machine {
        code,
        frame,
        pointers: &mut scratch.pointers,
        coefficients: &mut scratch.coefficients,
        bases: &mut scratch.bases,
        found: &mut scratch.found,
        isa: scratch.isa,
        interpret: interpreter(scratch.isa),
        row,
        here,
        lanes: 1,
        lane: 0,
        outer,
    };
    // SAFETY: the interpreter's family is enabled; slots, bases and coefficients are set up for the code, and each base
    // was checked to reach as far as the code's indices can.
    unsafe { machine.run(0) }
}
