//! Weights in blocks: their values are those of the plain dequantising, and a contraction with them has the bits of one
//! with their values.

mod support;

use fiddlehead_cpu::bytecode::Decode;
use fiddlehead_cpu::features::Isa;
use fiddlehead_cpu::kernels::blocks::BlockReader;
use fiddlehead_cpu::kernels::contraction::{ContractionScratch, contract};
use fiddlehead_cpu::kernels::views::{ActivationRows, OutputRows, WeightView};
use fiddlehead_storage::{Format, dequantise};
use support::{Random, bits, block_formats, errors, families, stored_blocks};

#[test]
fn any_bytes_read_as_plain_dequantising_reads_them() {
    let mut random = Random::new(11);
    for format in block_formats() {
        let blocks = 9;
        let bytes: Vec<u8> = (0..blocks * format.block_bytes()).map(|_| random.bits() as u8).collect();
        let mut expected = vec![0.0; blocks * format.block_elements()];
        dequantise(format, &bytes, &mut expected).unwrap();
        for isa in families() {
            let reader = BlockReader::new(isa, format, &bytes);
            assert_eq!(reader.elements(), expected.len());
            for case in 0..40 {
                let first = random.below(expected.len());
                let count = if case == 0 { 1 } else { 1 + random.below(expected.len() - first) };
                let mut found = vec![7.0f32; count];
                reader.decode(first, &mut found);
                for (at, (found, expected)) in found.iter().zip(&expected[first..]).enumerate() {
                    assert!(
                        found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                        "{isa:?} {format} at {}: {found} instead of {expected}",
                        first + at
                    );
                }
            }
        }
    }
}

fn run(
    isa: Isa,
    weight: &WeightView<'_>,
    x: &[f32],
    (rows, stride): (usize, usize),
    columns: std::ops::Range<usize>,
) -> Vec<f32> {
    let width = columns.len();
    let mut output = vec![f32::NAN; rows * width];
    let activations = ActivationRows::new(x, rows, weight.columns(), stride).unwrap();
    let mut view = OutputRows::new(&mut output, rows, width, width).unwrap();
    contract(isa, weight, &activations, columns, &mut view, &mut ContractionScratch::default());
    output
}

#[test]
fn contracts_with_the_bits_of_its_values_for_every_number_of_rows() {
    let mut random = Random::new(12);
    for format in block_formats() {
        for blocks in [1, 3] {
            let (outputs, length) = (21, blocks * format.block_elements());
            let bytes = stored_blocks(format, outputs * blocks, &mut random);
            let weight = WeightView::dense(format, &bytes[1..], outputs, length).unwrap();
            let mut values = vec![0.0; outputs * length];
            dequantise(format, &bytes[1..], &mut values).unwrap();
            let plain = WeightView::values(&values, outputs, length, length).unwrap();
            let (most, stride) = (37, length + 3);
            let x = random.normals(most * stride, 1.0);
            let mut expected = Vec::new();
            for m in 0..most {
                for n in 0..outputs {
                    let product = |k: usize| f64::from(values[n * length + k]) * f64::from(x[m * stride + k]);
                    expected.push((0..length).map(product).sum::<f64>());
                }
            }
            for isa in families() {
                let whole = run(isa, &weight, &x, (most, stride), 0..outputs);
                assert_eq!(bits(&whole), bits(&run(isa, &plain, &x, (most, stride), 0..outputs)), "{format}");
                let (absolute, relative) = errors(&whole, &expected);
                assert!(relative < 1e-6, "{isa:?} {format}: {absolute:e}, {relative:e}");
                for rows in [1, 2, 3, 4, 5, 6, 7, 8, 13, 14] {
                    let first = random.below(most - rows + 1);
                    let start = random.below(outputs);
                    let end = start + 1 + random.below(outputs - start);
                    let got = run(isa, &weight, &x[first * stride..], (rows, stride), start..end);
                    for m in 0..rows {
                        let whole = &whole[(first + m) * outputs..][start..end];
                        let got = &got[m * (end - start)..][..end - start];
                        assert_eq!(bits(got), bits(whole), "{isa:?} {format} {rows} rows, {start}..{end}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_long_weight_met_by_many_rows_is_decoded_in_parts() {
    let mut random = Random::new(13);
    let (rows, outputs, length) = (50, 70, 1024);
    let bytes = stored_blocks(Format::Q6_K, outputs * 4, &mut random);
    let weight = WeightView::dense(Format::Q6_K, &bytes[1..], outputs, length).unwrap();
    let x = random.normals(rows * length, 1.0);
    for isa in families() {
        let whole = run(isa, &weight, &x, (rows, length), 0..outputs);
        for row in [0, 49] {
            let got = run(isa, &weight, &x[row * length..], (1, length), 0..outputs);
            assert_eq!(bits(&got), bits(&whole[row * outputs..][..outputs]), "{isa:?}");
        }
    }
}
