//! Weights in narrow formats and in blocks, transposed layouts, rows by pointer, and slots that are too small.

use fiddlehead_cpu::bytecode::*;
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::*;

use super::harness::*;

struct Blocks(Vec<f32>);
impl Decode for Blocks {
    fn elements(&self) -> usize {
        self.0.len()
    }
    fn decode(&self, first: usize, out: &mut [f32]) {
        out.copy_from_slice(&self.0[first..first + out.len()]);
    }
}

/// `rows[id, i]`, `table[i, id]`, `sum_k w[n, k] x[k]` and a transposed copy, of a weight of shape `[n, k]`.
fn graph(n: usize, k: usize) -> Graph {
    let mut builder = GraphBuilder::new("formats");
    let w = builder.param(Param { name: "w".into(), shape: vec![n, k], element: Element::F32 });
    let x = input(&mut builder, &[k], Element::F32, true);
    let body = op(Binary::Multiply, load(w, &[axis(0), axis(1)]), load(x, &[axis(1)]));
    output(&mut builder, Element::F32, fixed(&[n]), Some((FoldKind::Max, fixed(&[k]))), body);
    output(&mut builder, Element::F32, fixed(&[k, n]), None, load(w, &[axis(1), axis(0)]));
    let index = op(Binary::Remainder, op(Binary::Multiply, axis(0), int(7)), int(k as i64));
    output(&mut builder, Element::F32, fixed(&[k]), None, load(w, &[int(0), index]));
    output(&mut builder, Element::F32, vec![], None, load(w, &[int(n as i64 - 1), int(1)]));
    builder.seal().expect("valid")
}

#[test]
fn weights_of_every_format_and_layout() {
    let (n, k, rows) = (9, 70, 2);
    let graph = graph(n, k);
    let mut numbers = Numbers(2);
    // Values that every format holds exactly.
    let values: Vec<f32> = numbers.floats(n * k).iter().map(|value| (value * 16.0).round() / 16.0).collect();
    let x = numbers.floats(rows * k);
    let transposed: Vec<f32> = (0..n * k).map(|at| values[at % n * k + at / n]).collect();
    let bf16: Vec<u8> = values.iter().flat_map(|&v| half::bf16::from_f32(v).to_le_bytes()).collect();
    let f16: Vec<u8> = values.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect();
    let odd: Vec<u8> = std::iter::once(0).chain(bf16).collect();
    let blocks = Blocks(values.clone());
    let row_major = Strides::Fixed(vec![k, 1]);
    let cases = [
        (Format::Words, row_major.clone(), Slot::shared(&values, 0)),
        (Format::Words, Strides::Fixed(vec![1, n]), Slot::shared(&transposed, 0)),
        (Format::Bf16, row_major.clone(), Slot::bytes(&odd[1..])),
        (Format::F16, row_major.clone(), Slot::bytes(&f16)),
        (Format::Blocks, row_major, Slot::blocks(&blocks)),
    ];
    for isa in fiddlehead_cpu::features::Features::detect().usable() {
        let mut scratch = Scratch::with_isa(isa);
        for (format, strides, weight) in &cases {
            for (place, output) in graph.outputs().iter().enumerate() {
                let shape = graph.shape(output.node).expect("fixed");
                let size: usize = shape.iter().product();
                let layout = |node: NodeId| match node.0 {
                    0 => SourceLayout { slot: 0, format: *format, strides: strides.clone(), per_node: false },
                    1 => SourceLayout::row_major(1, &[k], true),
                    _ => SourceLayout::row_major(2, &shape, true),
                };
                let program = BlockProgram::compile(&graph, output.node, &layout).expect("compiles");
                let mut found = vec![u32::MAX; rows * size];
                let mut pointers: Vec<*mut u32> =
                    (0..rows).map(|row| found[row * size..].as_mut_ptr()).collect();
                pointers.reverse();
                // SAFETY: `found` outlives the run.
                let out = unsafe { Slot::rows(&pointers, size) };
                let slots = [*weight, Slot::shared(&x, k), out];
                let frame = Frame { slots: &slots, here: &[4, 2], histories: &NoHistories };
                program.run(&frame, 0..rows, None, &mut scratch).expect("no trap");
                for row in 0..rows {
                    for at in 0..size {
                        let expected = match place {
                            0 => (0..k).map(|i| values[at * k + i] * x[row * k + i]).fold(f32::MIN, f32::max),
                            1 => values[at % n * k + at / n],
                            2 => values[at * 7 % k],
                            _ => values[(n - 1) * k + 1],
                        };
                        assert_eq!(f32::from_bits(found[(rows - 1 - row) * size + at]), expected);
                    }
                }
                let small = [*weight, Slot::shared(&x[..k], k), out];
                let frame = Frame { slots: &small, here: &[4, 2], histories: &NoHistories };
                if place == 0 {
                    let trap = program.run(&frame, 0..rows, None, &mut scratch).expect_err("too small");
                    assert_eq!((trap.row, trap.kind), (1, TrapKind::Slot(1)));
                }
            }
        }
    }
}

#[test]
fn wrong_layouts_are_refused() {
    let graph = graph(3, 4);
    let node = graph.outputs()[0].node;
    let compile = |weight: SourceLayout| {
        let layout = |id: NodeId| match id.0 {
            0 => weight.clone(),
            1 => SourceLayout::row_major(1, &[4], true),
            _ => SourceLayout::row_major(2, &[3], true),
        };
        BlockProgram::compile(&graph, node, &layout).map(|_| ())
    };
    let good = SourceLayout::row_major(0, &[3, 4], false);
    assert_eq!(compile(good.clone()), Ok(()));
    assert!(compile(SourceLayout::row_major(0, &[3], false)).is_err());
    assert!(compile(SourceLayout::local(0, false)).is_err());
    let transposed = Strides::Fixed(vec![1, 3]);
    assert!(compile(SourceLayout { format: Format::Blocks, strides: transposed, ..good }).is_err());
    let layout = |_| SourceLayout::row_major(0, &[3, 4], false);
    let input = BlockProgram::compile(&graph, NodeId(0), &layout).map(|_| ());
    assert_eq!(input, Err(CompileError::NotComputed(NodeId(0))));
}
