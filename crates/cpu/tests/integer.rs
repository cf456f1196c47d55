//! Contractions with rounded activations and stored integers: against float64 sums of the rounded operands, and independence of the batch.

mod support;

use fiddlehead_cpu::features::{Features, Isa};
use fiddlehead_cpu::kernels::integer::{
    IntegerError, IntegerScratch, RoundedBuffer, check, contract_integer,
};
use fiddlehead_cpu::kernels::views::{ActivationRows, OutputRows, WeightView};
use fiddlehead_storage::{Format, dequantise};
use support::{Random, bits, block_formats, families, stored_blocks};

fn run(
    weight: &WeightView<'_>,
    x: &[f32],
    rows: usize,
    stride: usize,
    columns: std::ops::Range<usize>,
) -> Vec<f32> {
    let width = columns.len();
    let mut output = vec![f32::NAN; rows * (width + 2)];
    let activations = ActivationRows::new(x, rows, weight.columns(), stride).unwrap();
    let mut buffer = RoundedBuffer::default();
    let rounded = buffer.round(Isa::Avx512, &activations).unwrap();
    let mut view = OutputRows::new(&mut output, rows, width, width + 2).unwrap();
    let mut scratch = IntegerScratch::default();
    contract_integer(Features::detect(), weight, &rounded, columns, &mut view, &mut scratch).unwrap();
    // What lies between the rows stays as it was.
    let rows = output.chunks(width + 2);
    rows.flat_map(|row| {
        assert!(row[width..].iter().all(|value| value.is_nan()));
        row[..width].to_vec()
    })
    .collect()
}

#[test]
fn equals_the_float64_sum_and_ignores_the_batch() {
    if !Features::detect().avx512_vnni {
        eprintln!("skipped: AVX-512 VNNI is not enabled here");
        return;
    }
    let mut random = Random::new(51);
    let mut served = 0;
    for format in block_formats().into_iter().filter(|format| check(Features::detect(), *format).is_ok()) {
        served += 1;
        for (blocks, outputs) in [(1, 1), (3, 16), (5, 37)] {
            let (most, length) = (27, blocks * format.block_elements());
            let bytes = stored_blocks(format, outputs * blocks, &mut random);
            let weight = WeightView::dense(format, &bytes[1..], outputs, length).unwrap();
            let mut values = vec![0.0; outputs * length];
            dequantise(format, &bytes[1..], &mut values).unwrap();
            let stride = length + 5;
            let x = random.normals(most * stride, 1.0);
            let whole = run(&weight, &x, most, stride, 0..outputs);
            let activations = ActivationRows::new(&x, most, length, stride).unwrap();
            let mut buffer = RoundedBuffer::default();
            let rounded = buffer.round(Isa::Avx512, &activations).unwrap();
            for m in 0..most {
                for n in 0..outputs {
                    let terms: Vec<f64> = (0..length)
                        .map(|k| f64::from(values[n * length + k]) * f64::from(rounded.value(m, k)))
                        .collect();
                    let size: f64 = terms.iter().map(|term| term.abs()).sum();
                    let error = (f64::from(whole[m * outputs + n]) - terms.iter().sum::<f64>()).abs();
                    assert!(error <= 4e-6 * size, "{format} [{m}, {n}]: {error:e} of {size:e}");
                }
            }
            for rows in 1..=most {
                let first = random.below(most - rows + 1);
                let start = random.below(outputs);
                let end = start + 1 + random.below(outputs - start);
                let got = run(&weight, &x[first * stride..], rows, stride, start..end);
                for m in 0..rows {
                    let whole = &whole[(first + m) * outputs..][start..end];
                    let got = &got[m * (end - start)..][..end - start];
                    assert_eq!(bits(got), bits(whole), "{format} {rows} rows, {start}..{end}");
                }
            }
        }
    }
    // All but eight-bit floats.
    assert_eq!(served, block_formats().len() - 1);
}

#[test]
fn rounding_is_the_nearest_of_65025_steps_in_every_family() {
    let mut random = Random::new(52);
    let (rows, length) = (3, 96);
    let mut x = random.normals(rows * length, 1.0);
    x[32..64].fill(0.0);
    x[64..96].fill(1e-42);
    let view = ActivationRows::new(&x, rows, length, length).unwrap();
    for isa in families() {
        let mut buffer = RoundedBuffer::default();
        let rounded = buffer.round(isa, &view).unwrap();
        for (group, values) in x.chunks(32).enumerate() {
            let greatest = values.iter().fold(0f32, |most, value| most.max(value.abs()));
            for (at, value) in values.iter().enumerate() {
                let at = group * 32 + at;
                let error = (rounded.value(at / length, at % length) - value).abs();
                assert!(
                    error <= greatest / 32512.0 * 0.51 + 1e-41,
                    "{isa:?} {at}: {error:e} of {greatest:e}"
                );
            }
        }
    }
}

#[test]
fn what_is_not_finite_shows_in_every_output_that_reads_it() {
    if !Features::detect().avx512_vnni {
        return;
    }
    let mut random = Random::new(53);
    let (outputs, length) = (5, 256);
    for format in [Format::Q4_1, Format::Q5_0, Format::Q6_K] {
        let bytes = stored_blocks(format, outputs * length / format.block_elements(), &mut random);
        let weight = WeightView::dense(format, &bytes[1..], outputs, length).unwrap();
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = random.normals(3 * length, 1.0);
            x[length + 77] = wrong;
            let found = run(&weight, &x, 3, length, 0..outputs);
            let is_wrong = |row: usize| found[row * outputs..][..outputs].iter().all(|value| value.is_nan());
            assert!(is_wrong(1), "{format} {wrong}");
            assert!(found[..outputs].iter().chain(&found[2 * outputs..]).all(|value| value.is_finite()));
        }
    }
}

#[test]
fn what_it_cannot_serve_is_refused() {
    let x = [0.0; 40];
    let odd = ActivationRows::new(&x, 1, 40, 40).unwrap();
    let mut buffer = RoundedBuffer::default();
    assert!(matches!(buffer.round(Isa::Plain, &odd), Err(IntegerError::Columns(40))));
    let fine = ActivationRows::new(&x, 1, 32, 32).unwrap();
    let rounded = buffer.round(Isa::Plain, &fine).unwrap();
    let bytes = [0; 128];
    let weight = WeightView::dense(Format::F32, &bytes, 1, 32).unwrap();
    let mut output = [0.0];
    let mut view = OutputRows::new(&mut output, 1, 1, 1).unwrap();
    let mut scratch = IntegerScratch::default();
    let narrow = Features::detect().at_most(Isa::Avx2);
    let refused = contract_integer(narrow, &weight, &rounded, 0..1, &mut view, &mut scratch);
    assert_eq!(refused, Err(IntegerError::NotEnabled));
    if Features::detect().avx512_vnni {
        let refused = contract_integer(Features::detect(), &weight, &rounded, 0..1, &mut view, &mut scratch);
        assert_eq!(refused, Err(IntegerError::Format(Format::F32)));
    }
}
