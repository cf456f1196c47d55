//! Quantising: how near the values come, and odd values.

use std::path::Path;

use fiddlehead_storage::{Format, StorageError, dequantise, quantise};
use npyz::NpyFile;
use zip::ZipArchive;

fn blocks() -> impl Iterator<Item = Format> {
    Format::ALL.iter().copied().filter(|&format| format.block_elements() > 1 && format != Format::F8_E4M3_128)
}

fn there_and_back(format: Format, values: &[f32]) -> Vec<f32> {
    // Every byte must be written, whatever was there before.
    let mut bytes = vec![0xa5; format.bytes_for(values.len()).expect("whole blocks")];
    quantise(format, values, &mut bytes).expect("storable");
    let mut again = vec![f32::NAN; values.len()];
    dequantise(format, &bytes, &mut again).expect("lengths fit");
    assert!(again.iter().all(|value| value.is_finite()), "{format}");
    again
}

fn mean_squared_error(values: &[f32], again: &[f32]) -> f64 {
    let squares = values.iter().zip(again).map(|(a, b)| f64::from(a - b).powi(2));
    squares.sum::<f64>() / values.len() as f64
}

/// Of blocks that another implementation made of the same values (`models/formats/README.md`).
#[test]
fn errors_stay_below_those_of_other_blocks_of_the_same_values() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/formats");
    let file = std::fs::File::open(folder.join("dequantised.npz")).expect("there");
    let mut archive = ZipArchive::new(file).expect("an archive");
    let mut array = |name: &str| -> Vec<f32> {
        let array = archive.by_name(&format!("{name}.npy")).expect("there");
        NpyFile::new(array).expect("an array").into_vec().expect("f32")
    };
    let source = array("source");
    for format in blocks() {
        let ours = mean_squared_error(&source, &there_and_back(format, &source));
        let theirs = mean_squared_error(&source, &array(format.name()));
        assert!(ours <= 1.0 * theirs, "{format}: {ours:e} and {theirs:e}");
    }
}

#[test]
fn plain_formats_round_to_nearest() {
    let values = [0.1f32, -65504.0, 1e-8, 0.0, -0.0];
    assert_eq!(there_and_back(Format::F32, &values), values);
    let half = there_and_back(Format::F16, &values);
    assert_eq!(half, values.map(|value| half::f16::from_f32(value).to_f32()));
    let brain = there_and_back(Format::BF16, &[1.0 + 1.0 / 256.0, 3.0e38, f32::MIN_POSITIVE / 2.0]);
    assert_eq!(brain, [1.0, half::bf16::from_f32(3.0e38).to_f32(), f32::MIN_POSITIVE / 2.0]);
}

#[test]
fn nothing_stays_nothing() {
    for format in blocks() {
        for nothing in [0.0, -0.0, 1e-30, f32::MIN_POSITIVE / 8.0] {
            let again = there_and_back(format, &[nothing; 512]);
            assert!(again.iter().all(|&value| value == 0.0), "{format} of {nothing:e}");
        }
    }
}

/// As near as scales of eleven bits can come; where a scale has fewer, as for one that is shared by sub-blocks of small
/// values, within a hundredth or so.
#[test]
fn constants_come_back() {
    for format in blocks() {
        for constant in [1.0f32, -1.0, 0.1, -3.7, 1000.0, -65504.0, 65504.0, 1e-3] {
            let again = there_and_back(format, &[constant; 256]);
            for value in again {
                let error = (value / constant - 1.0).abs();
                let bound = if constant.abs() > 2e-3 { 5e-3 } else { 0.015 };
                assert!(error < bound, "{format} of {constant}: {value}");
            }
        }
    }
}

/// Where a step of a binary16 scale is as large as the values, the error is hardly more than that step.
#[test]
fn values_near_the_smallest_scale() {
    let values: Vec<f32> = (0..256).map(|at| ((at * 37 % 256) as f32 - 128.0) * 1e-9).collect();
    for format in blocks() {
        for (value, again) in values.iter().zip(there_and_back(format, &values)) {
            // The iq4 formats have no level of zero.
            let bound = if format.name().starts_with("iq4") { 2e-7 } else { 8e-8 };
            assert!((value - again).abs() <= bound, "{format}: {value:e} became {again:e}");
        }
    }
}

#[test]
fn one_huge_value_does_not_cost_other_blocks() {
    let mut values: Vec<f32> = (0..512).map(|at| ((at as f32) * 0.37).sin()).collect();
    values[300] = 60_000.0;
    for format in blocks() {
        let again = there_and_back(format, &values);
        let error = (again[300] / values[300] - 1.0).abs();
        assert!(error < 0.07, "{format}: {}", again[300]);
        let other = mean_squared_error(&values[..256], &again[..256]);
        let alone = mean_squared_error(&values[..256], &there_and_back(format, &values[..256]));
        assert_eq!(other, alone, "{format}");
    }
}

#[test]
fn what_no_format_holds_is_refused_with_its_place() {
    for &format in Format::ALL.iter().filter(|&&format| format != Format::F8_E4M3_128) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = vec![0.5f32; 256];
            values[77] = bad;
            let mut bytes = vec![0; format.bytes_for(256).expect("whole blocks")];
            let error = quantise(format, &values, &mut bytes).expect_err("not finite");
            assert!(matches!(error, StorageError::Unstorable { at: 77, .. }), "{format}: {error}");
        }
        let mut bytes = vec![0; format.bytes_for(256).expect("whole blocks")];
        let huge = quantise(format, &[1e6; 256], &mut bytes);
        assert_eq!(huge.is_ok(), matches!(format, Format::F32 | Format::BF16), "{format}");
    }
    let mut bytes = vec![0; Format::BF16.bytes_for(1).expect("whole blocks")];
    assert!(quantise(Format::BF16, &[f32::MAX], &mut bytes).is_err(), "it would round to infinity");
}

#[test]
fn lengths_must_fit_and_some_formats_are_only_read() {
    assert!(matches!(
        quantise(Format::Q4_K, &[0.0; 100], &mut [0; 144]),
        Err(StorageError::PartialBlock { .. })
    ));
    assert!(matches!(
        quantise(Format::Q8_0, &[0.0; 32], &mut [0; 33]),
        Err(StorageError::WrongLength { .. })
    ));
    let format = Format::F8_E4M3_128;
    let mut bytes = vec![0; format.bytes_for(128).expect("whole blocks")];
    assert_eq!(quantise(format, &[0.0; 128], &mut bytes), Err(StorageError::OnlyRead { format }));
    assert_eq!(quantise(Format::Q6_K, &[], &mut []), Ok(()));
}
