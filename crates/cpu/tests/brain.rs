//! Contractions with bf16 activations: against float64 sums of the rounded operands, and independence of the batch.

mod support;

use fiddlehead_cpu::features::{Features, Isa};
use fiddlehead_cpu::kernels::brain::{BrainBuffer, BrainError, contract_brain};
use fiddlehead_cpu::kernels::views::{ActivationRows, OutputRows, WeightView};
use fiddlehead_storage::Format;
use half::bf16;
use support::{Random, bits, errors};

fn run(weight: &WeightView<'_>, x: &[f32], rows: usize, columns: std::ops::Range<usize>) -> Vec<f32> {
    let width = columns.len();
    let mut output = vec![f32::NAN; rows * width];
    let mut buffer = BrainBuffer::default();
    let view = ActivationRows::new(x, rows, weight.columns(), weight.columns()).unwrap();
    let activations = buffer.round(Features::detect(), &view);
    let mut view = OutputRows::new(&mut output, rows, width, width).unwrap();
    contract_brain(Features::detect(), weight, &activations, columns, &mut view).unwrap();
    output
}

#[test]
fn equals_the_float64_sum_and_ignores_the_batch() {
    if !Features::detect().avx512_bf16 {
        eprintln!("skipped: AVX-512 BF16 is not enabled here");
        return;
    }
    let mut random = Random::new(41);
    for (rows, outputs, length) in
        [(1, 1, 1), (1, 19, 31), (3, 9, 33), (40, 50, 256), (7, 21, 301), (13, 8, 768)]
    {
        let round = |values: Vec<f32>| values.iter().map(|value| bf16::from_f32(*value)).collect::<Vec<_>>();
        let w = round(random.normals(outputs * length, 0.05));
        let mut bytes = vec![0u8];
        bytes.extend(w.iter().flat_map(|value| value.to_le_bytes()));
        let weight = WeightView::dense(Format::BF16, &bytes[1..], outputs, length).unwrap();
        let x = random.normals(rows * length, 1.0);
        let got = run(&weight, &x, rows, 0..outputs);
        let mut expected = Vec::new();
        for m in 0..rows {
            for n in 0..outputs {
                let product =
                    |k: usize| w[n * length + k].to_f64() * bf16::from_f32(x[m * length + k]).to_f64();
                expected.push((0..length).map(product).sum::<f64>());
            }
        }
        let (absolute, relative) = errors(&got, &expected);
        assert!(relative < 1e-6, "{rows}x{outputs}x{length}: {absolute:e} {relative:e}");
        for count in 1..=rows {
            let first = random.below(rows - count + 1);
            let start = random.below(outputs);
            let part = run(&weight, &x[first * length..], count, start..outputs);
            for m in 0..count {
                let width = outputs - start;
                let whole = &got[(first + m) * outputs + start..(first + m + 1) * outputs];
                assert_eq!(bits(&part[m * width..][..width]), bits(whole), "{count} rows from {first}");
            }
        }
    }
}

#[test]
fn every_machine_rounds_to_the_nearest_even_bf16() {
    let mut random = Random::new(42);
    let mut x = random.normals(1000, 1.0);
    x.extend([1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX]);
    let view = ActivationRows::new(&x, 1, x.len(), x.len()).unwrap();
    for features in [Features::detect(), Features::detect().at_most(Isa::Plain)] {
        let mut buffer = BrainBuffer::default();
        let rounded = buffer.round(features, &view);
        for (column, value) in x.iter().enumerate() {
            assert_eq!(rounded.value(0, column).to_bits(), bf16::from_f32(*value).to_bits(), "{value}");
        }
    }
    let mut buffer = BrainBuffer::default();
    let nothing = ActivationRows::new(&[f32::NAN; 20], 1, 20, 20).unwrap();
    let rounded = buffer.round(Features::detect(), &nothing);
    assert!((0..20).all(|column| rounded.value(0, column).is_nan()));
}

#[test]
fn what_it_cannot_serve_is_refused() {
    let weight = WeightView::dense(Format::F16, &[0; 8], 1, 4).unwrap();
    let mut buffer = BrainBuffer::default();
    let rows = buffer.round(Features::detect(), &ActivationRows::new(&[0.0; 4], 1, 4, 4).unwrap());
    let mut output = [0.0];
    let mut view = OutputRows::new(&mut output, 1, 1, 1).unwrap();
    let plain = Features::detect().at_most(Isa::Avx2);
    assert_eq!(contract_brain(plain, &weight, &rows, 0..1, &mut view), Err(BrainError::NotEnabled));
    if Features::detect().avx512_bf16 {
        assert_eq!(
            contract_brain(Features::detect(), &weight, &rows, 0..1, &mut view),
            Err(BrainError::WeightFormat(Format::F16))
        );
    }
}
