//! Contractions of two activations with any strides, against float64.

mod support;

use fiddlehead_cpu::kernels::strided::{StridedMatrix, StridedScratch, contract_strided};
use fiddlehead_cpu::kernels::views::OutputRows;
use support::{Random, bits, families};

#[test]
fn equals_the_float64_sum_for_all_strides() {
    let mut random = Random::new(11);
    for isa in families() {
        for (m, n, k) in
            [(1, 1, 1), (3, 70, 5), (7, 33, 129), (13, 16, 300), (20, 131, 64), (30, 131, 140), (2, 3, 0)]
        {
            let a_values = random.normals(m * k * 3 + 3, 1.0);
            let b_values = random.normals(n * k * 3 + 3, 1.0);
            for a_strides in [[k, 1], [k + 2, 1], [1, m], [2, 2 * m], [0, 1]] {
                for b_strides in [[n, 1], [n + 1, 1], [1, k], [1, k + 2], [2, 2 * k], [0, 1]] {
                    let a = StridedMatrix::new(&a_values, [m, k], a_strides).unwrap();
                    let b = StridedMatrix::new(&b_values, [k, n], b_strides).unwrap();
                    let mut got = vec![f32::NAN; m * n];
                    let mut output = OutputRows::new(&mut got, m, n, n).unwrap();
                    let mut scratch = StridedScratch::default();
                    contract_strided(isa, &a, &b, &mut output, &mut scratch);
                    let (mut expected, mut magnitudes) = (Vec::new(), Vec::new());
                    for row in 0..m {
                        for column in 0..n {
                            let product = |i: usize| {
                                a_values[row * a_strides[0] + i * a_strides[1]] as f64
                                    * b_values[i * b_strides[0] + column * b_strides[1]] as f64
                            };
                            expected.push((0..k).map(product).sum::<f64>());
                            magnitudes.push((0..k).map(|i| product(i).abs()).sum::<f64>());
                        }
                    }
                    // Against the sum of magnitudes: the sums themselves may cancel.
                    for (index, (got, expected)) in got.iter().zip(&expected).enumerate() {
                        let error = (*got as f64 - expected).abs();
                        let bound = 1e-6 * magnitudes[index];
                        assert!(error <= bound, "{isa:?} {m} {n} {k} {a_strides:?} {b_strides:?}: {error:e}");
                    }
                    // Any one row alone.
                    let row = random.below(m);
                    let mut alone = vec![f32::NAN; n];
                    let one = StridedMatrix::new(&a_values[row * a_strides[0]..], [1, k], a_strides).unwrap();
                    let mut output = OutputRows::new(&mut alone, 1, n, n).unwrap();
                    contract_strided(isa, &one, &b, &mut output, &mut scratch);
                    assert_eq!(bits(&alone), bits(&got[row * n..][..n]));
                }
            }
        }
    }
}

#[test]
fn a_matrix_beyond_its_storage_is_refused() {
    assert!(StridedMatrix::new(&[0.0; 10], [3, 3], [3, 1]).is_ok());
    assert!(StridedMatrix::new(&[0.0; 10], [3, 3], [4, 1]).is_err());
    assert!(StridedMatrix::new(&[0.0; 10], [3, usize::MAX], [4, usize::MAX]).is_err());
    assert!(StridedMatrix::new(&[], [0, 5], [4, 1]).is_ok());
}
