//! Contractions with bf16 activations: against float64 sums of the rounded operands, and independence of the batch.

mod support;

use fiddlehead_cpu::features::{Features, Isa};
use fiddlehead_cpu::kernels::brain::{BrainError, BrainRows, contract_brain};
use fiddlehead_cpu::kernels::views::{ActivationRows, OutputRows, WeightView};
use fiddlehead_storage::Format;
use half::bf16;
use support::{Random, bits, errors};

fn run(weight: &WeightView<'_>, x: &[bf16], rows: usize, columns: std::ops::Range<usize>) -> Vec<f32> {
    let width = columns.len();
    let mut output = vec![f32::NAN; rows * width];
    let activations = BrainRows::new(x, rows, weight.columns()).unwrap();
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
        let exact_x = random.normals(rows * length, 1.0);
        let mut x = Vec::new();
        let view = ActivationRows::new(&exact_x, rows, length, length).unwrap();
        assert_eq!(BrainRows::round(&view, &mut x).rows(), rows);
        let got = run(&weight, &x, rows, 0..outputs);
        let mut expected = Vec::new();
        for m in 0..rows {
            for n in 0..outputs {
                let product = |k: usize| w[n * length + k].to_f64() * x[m * length + k].to_f64();
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
fn what_it_cannot_serve_is_refused() {
    let weight = WeightView::dense(Format::F16, &[0; 8], 1, 4).unwrap();
    let x = [bf16::ZERO; 4];
    let rows = BrainRows::new(&x, 1, 4).unwrap();
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
    assert!(BrainRows::new(&x, 2, 4).is_err());
}
