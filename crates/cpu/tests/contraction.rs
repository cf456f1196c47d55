//! Contractions against a float64 sum, and the rule that a row's bits depend on that row alone.

mod support;

use fiddlehead_cpu::features::Isa;
use fiddlehead_cpu::kernels::contraction::{ContractionScratch, contract, contract_parallel};
use fiddlehead_cpu::kernels::views::{ActivationRows, OutputRows, WeightView};
use fiddlehead_cpu::pool::Pool;
use fiddlehead_storage::Format;
use half::{bf16, f16};
use support::{Random, bits, errors, families};

/// Stored bytes at an odd address, and the values they mean.
fn stored(format: Format, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let mut bytes = vec![0xffu8];
    let mut meant = Vec::new();
    for value in values {
        match format {
            Format::F32 => {
                bytes.extend(value.to_le_bytes());
                meant.push(*value);
            }
            Format::F16 => {
                bytes.extend(f16::from_f32(*value).to_le_bytes());
                meant.push(f16::from_f32(*value).to_f32());
            }
            Format::BF16 => {
                bytes.extend(bf16::from_f32(*value).to_le_bytes());
                meant.push(bf16::from_f32(*value).to_f32());
            }
            other => unreachable!("{other} is tested with the blocks"),
        }
    }
    (bytes, meant)
}

fn run(
    isa: Isa,
    weight: &WeightView<'_>,
    x: &[f32],
    rows: usize,
    stride: usize,
    columns: std::ops::Range<usize>,
) -> Vec<f32> {
    let width = columns.len();
    let mut output = vec![f32::NAN; rows * width];
    let activations = ActivationRows::new(x, rows, weight.columns(), stride).unwrap();
    let mut view = OutputRows::new(&mut output, rows, width, width).unwrap();
    contract(isa, weight, &activations, columns, &mut view, &mut ContractionScratch::default());
    output
}

const FORMATS: [Format; 3] = [Format::F32, Format::F16, Format::BF16];

#[test]
fn equals_the_float64_sum_on_odd_sizes() {
    let mut random = Random::new(1);
    for isa in families() {
        for format in FORMATS {
            for (rows, outputs, length) in [
                (1, 1, 1),
                (1, 19, 5),
                (2, 7, 31),
                (3, 33, 100),
                (5, 4, 257),
                (8, 12, 768),
                (14, 21, 65),
                (37, 50, 127),
            ] {
                let values = random.normals(outputs * length, 0.05);
                let (bytes, meant) = stored(format, &values);
                let weight = WeightView::dense(format, &bytes[1..], outputs, length).unwrap();
                let stride = length + 3;
                let x = random.normals(rows * stride, 1.0);
                let got = run(isa, &weight, &x, rows, stride, 0..outputs);
                let mut expected = Vec::new();
                for m in 0..rows {
                    for n in 0..outputs {
                        expected.push(
                            (0..length)
                                .map(|k| meant[n * length + k] as f64 * x[m * stride + k] as f64)
                                .sum::<f64>(),
                        );
                    }
                }
                let (absolute, relative) = errors(&got, &expected);
                assert!(
                    relative < 1e-6,
                    "{isa:?} {format:?} {rows}x{outputs}x{length}: absolute {absolute:e}, relative {relative:e}"
                );
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_other_rows_or_blocking() {
    let mut random = Random::new(2);
    for isa in families() {
        for format in FORMATS {
            for length in [48, 256, 301] {
                let outputs = 70;
                let values = random.normals(outputs * length, 0.05);
                let (bytes, _) = stored(format, &values);
                let weight = WeightView::dense(format, &bytes[1..], outputs, length).unwrap();
                let most = 70;
                let x = random.normals(most * length, 1.0);
                let whole = run(isa, &weight, &x, most, length, 0..outputs);
                for rows in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 16, 31] {
                    let first = random.below(most - rows + 1);
                    let start = random.below(outputs);
                    let end = start + random.below(outputs - start) + 1;
                    let got = run(isa, &weight, &x[first * length..], rows, length, start..end);
                    for m in 0..rows {
                        assert_eq!(
                            bits(&got[m * (end - start)..][..end - start]),
                            bits(&whole[(first + m) * outputs + start..(first + m) * outputs + end]),
                            "{isa:?} {format:?} rows {rows} columns {start}..{end} length {length}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn threads_do_not_change_bits() {
    let mut random = Random::new(3);
    let (rows, outputs, length) = (9, 1003, 256);
    let (bytes, _) = stored(Format::BF16, &random.normals(outputs * length, 0.05));
    let weight = WeightView::dense(Format::BF16, &bytes[1..], outputs, length).unwrap();
    let x = random.normals(rows * length, 1.0);
    for isa in families() {
        let expected = run(isa, &weight, &x, rows, length, 0..outputs);
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads);
            let mut scratches: Vec<_> = (0..threads).map(|_| ContractionScratch::default()).collect();
            let mut output = vec![f32::NAN; rows * outputs];
            let activations = ActivationRows::new(&x, rows, length, length).unwrap();
            let mut view = OutputRows::new(&mut output, rows, outputs, outputs).unwrap();
            contract_parallel(&pool, isa, &weight, &activations, &mut view, &mut scratches);
            assert_eq!(bits(&output), bits(&expected), "{isa:?} {threads} threads");
        }
    }
}

#[test]
fn only_the_given_part_of_an_output_is_written() {
    let (rows, outputs, length) = (7, 13, 33);
    let mut random = Random::new(4);
    let values = random.normals(outputs * length, 0.05);
    let weight = WeightView::values(&values, outputs, length, length).unwrap();
    let x = random.normals(rows * length, 1.0);
    for isa in families() {
        let mut output = vec![7.5f32; rows * 40];
        let activations = ActivationRows::new(&x, rows, length, length).unwrap();
        let mut view = OutputRows::new(&mut output, rows, 40, 40).unwrap();
        let mut part = view.part(0..rows, 11..18);
        contract(isa, &weight, &activations, 3..10, &mut part, &mut ContractionScratch::default());
        for (index, value) in output.iter().enumerate() {
            assert_eq!(*value == 7.5, !(11..18).contains(&(index % 40)), "{isa:?} column {}", index % 40);
        }
    }
}
