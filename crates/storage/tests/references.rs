//! Every format against values that another implementation made of the same bytes (`models/formats/README.md`).

use std::fs;
use std::path::{Path, PathBuf};

use fiddlehead_storage::{Format, Tensor};
use npyz::NpyFile;
use zip::ZipArchive;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/formats")
}

fn array(name: &str) -> Option<Vec<f32>> {
    let file = fs::File::open(folder().join("dequantised.npz")).expect("there");
    let mut archive = ZipArchive::new(file).expect("an archive");
    let array = archive.by_name(&format!("{name}.npy")).ok()?;
    Some(NpyFile::new(array).expect("an array").into_vec().expect("f32"))
}

/// Mean squared error of the values against the source, as the README lists it.
fn listed_error(name: &str) -> f64 {
    let readme = fs::read_to_string(folder().join("README.md")).expect("there");
    let text = readme.split_once(&format!("{name} ")).expect("listed").1;
    let number: String = text.chars().take_while(|character| "0123456789.e-".contains(*character)).collect();
    number.trim_end_matches('.').parse().expect("a number")
}

#[test]
fn every_format_equals_its_reference() {
    let source = array("source").expect("there");
    let mut seen = 0;
    for &format in Format::ALL {
        let Some(expected) = array(format.name()) else {
            assert!(matches!(format, Format::F32 | Format::F8_E4M3_128), "{format} has no reference");
            continue;
        };
        let bytes = fs::read(folder().join(format!("{format}.bin"))).expect("there");
        let tensor = Tensor::new(format, vec![256, 256], bytes.into()).expect("whole blocks");
        let values = tensor.to_f32().expect("values");
        for (at, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert_eq!(value.to_bits(), expected.to_bits(), "{format} at {at}: {value} and {expected}");
        }
        let squares = values.iter().zip(&source).map(|(value, source)| f64::from(value - source).powi(2));
        let error = squares.sum::<f64>() / source.len() as f64;
        assert!((error / listed_error(format.name()) - 1.0).abs() < 0.01, "{format}: {error:e}");

        let mut row = vec![0.0; 256];
        tensor.dequantise_row(200, &mut row).expect("a row");
        assert_eq!(row, values[200 * 256..201 * 256]);
        seen += 1;
    }
    assert_eq!(seen, 14);
}
