//! NumPy's `.npy` files: reading and writing arrays.
//!
//! Source: the format's page in NumPy's manual (`numpy.lib.format`), versions 1.0 to 3.0.

use fiddlehead_graph::Element;
use fiddlehead_plan::Values;

/// What every `.npy` file begins with.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// An array of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Its extents.
    pub shape: Vec<usize>,
    kind: Kind,
    /// Its elements as the file holds them.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    F32,
    F64,
    I32,
    I64,
    U32,
    Bool,
}

impl Kind {
    fn of(description: &str) -> Option<Kind> {
        Some(match description {
            "<f4" => Kind::F32,
            "<f8" => Kind::F64,
            "<i4" => Kind::I32,
            "<i8" => Kind::I64,
            "<u4" => Kind::U32,
            "|b1" => Kind::Bool,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Kind::Bool => 1,
            Kind::F32 | Kind::I32 | Kind::U32 => 4,
            Kind::F64 | Kind::I64 => 8,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::F32 => "float32",
            Kind::F64 => "float64",
            Kind::I32 => "int32",
            Kind::I64 => "int64",
            Kind::U32 => "uint32",
            Kind::Bool => "bool",
        }
    }
}

impl Array {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// What is wrong with the file, and what to do.
    pub fn read(file: &[u8]) -> Result<Array, String> {
        let (text, data) = split(file)?;
        let header = Header::parse(text)?;
        let kind = Kind::of(&header.description).ok_or_else(|| {
            format!(
                "its elements are `{}`; float32, float64, int32, int64, uint32 and bool of this machine's byte order are read",
                header.description
            )
        })?;
        if header.fortran_order && header.shape.len() > 1 {
            return Err("it is in Fortran order; save np.ascontiguousarray(...) instead".to_owned());
        }
        let wanted = header.shape.iter().try_fold(kind.bytes(), |bytes, &extent| bytes.checked_mul(extent));
        if wanted != Some(data.len()) {
            return Err(format!(
                "its shape {:?} does not fit its {} bytes of {}; the file is damaged",
                header.shape,
                data.len(),
                kind.name()
            ));
        }
        Ok(Array { shape: header.shape, kind, bytes: data.to_vec() })
    }

    /// The elements as a program's type. NumPy's wider default types are taken where each value fits.
    ///
    /// # Errors
    /// When the types do not go together, or an integer does not fit.
    pub fn values(&self, element: Element) -> Result<Values, String> {
        let bytes = &self.bytes;
        Ok(match (element, self.kind) {
            (Element::F32, Kind::F32) => Values::F32(words(bytes).map(f32::from_le_bytes).collect()),
            (Element::F32, Kind::F64) => {
                Values::F32(words(bytes).map(|w| f64::from_le_bytes(w) as f32).collect())
            }
            (Element::I32, Kind::I32) => Values::I32(words(bytes).map(i32::from_le_bytes).collect()),
            (Element::Bool, Kind::Bool) => Values::Bool(bytes.iter().map(|&byte| byte != 0).collect()),
            (Element::Id, Kind::U32) => Values::Id(words(bytes).map(u32::from_le_bytes).collect()),
            (Element::I32, Kind::I64 | Kind::U32) => Values::I32(self.integers()?),
            (Element::Id, Kind::I32 | Kind::I64) => Values::Id(self.integers()?),
            (wanted, found) => {
                return Err(format!(
                    "its elements are {}, the program wants {}",
                    found.name(),
                    numpy_name(wanted)
                ));
            }
        })
    }

    fn integers<Integer: TryFrom<i64>>(&self) -> Result<Vec<Integer>, String> {
        let narrow = |value: i64| {
            Integer::try_from(value)
                .map_err(|_| format!("its element {value} does not fit the program's type"))
        };
        match self.kind {
            Kind::I32 => words(&self.bytes).map(|w| narrow(i32::from_le_bytes(w).into())).collect(),
            Kind::U32 => words(&self.bytes).map(|w| narrow(u32::from_le_bytes(w).into())).collect(),
            _ => words(&self.bytes).map(|w| narrow(i64::from_le_bytes(w))).collect(),
        }
    }
}

/// NumPy's name of what a program's type is read from best.
fn numpy_name(element: Element) -> &'static str {
    match element {
        Element::F32 => "float32",
        Element::I32 => "int32",
        Element::Bool => "bool",
        Element::Id => "uint32",
    }
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// The header's text and the elements.
fn split(file: &[u8]) -> Result<(&str, &[u8]), String> {
    let not_npy = || "it is no .npy file; numpy.save writes one".to_owned();
    let cut = || "it is cut short; write it again".to_owned();
    let rest = file.strip_prefix(MAGIC).ok_or_else(not_npy)?;
    let (length, rest) = match rest {
        [1, _, low, high, rest @ ..] => (usize::from(u16::from_le_bytes([*low, *high])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        [1..=3, ..] | [] => return Err(cut()),
        _ => return Err("it is of a version of the .npy format that is not known".to_owned()),
    };
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    Ok((std::str::from_utf8(header).map_err(|_| not_npy())?, data))
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`
struct Header {
    description: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &str) -> Result<Header, String> {
        let bad = || "its header is malformed; write it again with numpy.save".to_owned();
        let mut scanner = Scanner { rest: text };
        let (mut description, mut fortran_order, mut shape) = (None, None, None);
        scanner.take("{").ok_or_else(bad)?;
        while scanner.take("}").is_none() {
            let key = scanner.quoted().ok_or_else(bad)?;
            scanner.take(":").ok_or_else(bad)?;
            match key {
                "descr" => {
                    let structured = || "it holds records; save one plain array".to_owned();
                    description = Some(scanner.quoted().ok_or_else(structured)?.to_owned());
                }
                "fortran_order" => {
                    let yes = scanner.take("True").is_some();
                    if !yes {
                        scanner.take("False").ok_or_else(bad)?;
                    }
                    fortran_order = Some(yes);
                }
                "shape" => shape = Some(scanner.shape().ok_or_else(bad)?),
                _ => return Err(bad()),
            }
            if scanner.take(",").is_none() {
                scanner.take("}").ok_or_else(bad)?;
                break;
            }
        }
        match (description, fortran_order, shape) {
            (Some(description), Some(fortran_order), Some(shape)) => {
                Ok(Header { description, fortran_order, shape })
            }
            _ => Err(bad()),
        }
    }
}

struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn take(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(word)?;
        Some(())
    }

    fn quoted(&mut self) -> Option<&'a str> {
        let quote = if self.take("'").is_some() { '\'' } else { self.take("\"").map(|()| '"')? };
        let (text, rest) = self.rest.split_once(quote)?;
        self.rest = rest;
        Some(text)
    }

    fn number(&mut self) -> Option<usize> {
        let text = self.rest.trim_start();
        let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        self.rest = &text[end..];
        text[..end].parse().ok()
    }

    fn shape(&mut self) -> Option<Vec<usize>> {
        self.take("(")?;
        let mut shape = Vec::new();
        while self.take(")").is_none() {
            shape.push(self.number()?);
            if self.take(",").is_none() {
                self.take(")")?;
                break;
            }
        }
        Some(shape)
    }
}

/// The bytes of a `.npy` file (version 1.0) that holds an array, row-major.
pub fn write(shape: &[usize], values: &Values) -> Vec<u8> {
    let description = match values {
        Values::F32(_) => "<f4",
        Values::I32(_) => "<i4",
        Values::Bool(_) => "|b1",
        Values::Id(_) => "<u4",
    };
    // A tuple of one keeps its comma.
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let mut header = format!("{{'descr': '{description}', 'fortran_order': False, 'shape': ({extents}), }}");
    header = header.replace(", ), ", ",), ").replacen("(,)", "()", 1);
    // The elements begin at a multiple of 64 bytes.
    let padding = (64 - (MAGIC.len() + 4 + header.len() + 1) % 64) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend([1, 0]);
    // A shape long enough to overflow this cannot be: its product would not fit a program's sizes.
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    match values {
        Values::F32(values) => file.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Values::I32(values) => file.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Values::Id(values) => file.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Values::Bool(values) => file.extend(values.iter().map(|&value| u8::from(value))),
    }
    file
}

#[cfg(test)]
mod tests {
    use npyz::{NpyFile, WriterBuilder};

    use super::*;

    #[test]
    fn what_is_written_is_what_another_library_reads() {
        for shape in [vec![], vec![3], vec![2, 3], vec![1, 1, 6]] {
            let count = shape.iter().product::<usize>();
            let floats: Vec<f32> = (0..count).map(|at| at as f32 - 0.5).collect();
            let file = write(&shape, &Values::F32(floats.clone()));
            let read = NpyFile::new(&file[..]).expect("a valid file");
            let extents: Vec<u64> = shape.iter().map(|&extent| extent as u64).collect();
            assert_eq!(read.shape(), extents);
            assert_eq!(read.into_vec::<f32>().expect("floats"), floats);
        }
        let read = |values: Values| NpyFile::new(&write(&[2], &values)[..]).expect("valid").dtype().descr();
        assert_eq!(read(Values::I32(vec![-1, 2])), "'<i4'");
        assert_eq!(read(Values::Id(vec![1, 2])), "'<u4'");
        assert_eq!(read(Values::Bool(vec![true, false])), "'|b1'");
    }

    #[test]
    fn what_another_library_writes_is_read() {
        fn file<T: npyz::AutoSerialize + Copy>(shape: &[u64], values: &[T]) -> Vec<u8> {
            let mut file = Vec::new();
            let options = npyz::WriteOptions::new().default_dtype().shape(shape).writer(&mut file);
            let mut writer = options.begin_nd().expect("a vector takes it");
            writer.extend(values.iter().copied()).expect("a vector takes it");
            writer.finish().expect("a vector takes it");
            file
        }
        let read = |file: Vec<u8>, element| Array::read(&file).and_then(|array| array.values(element));
        let array = Array::read(&file(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])).expect("valid");
        assert_eq!(array.shape, [2, 2]);
        assert_eq!(array.values(Element::F32), Ok(Values::F32(vec![1.0, 2.0, 3.0, 4.0])));
        assert_eq!(read(file(&[2], &[1.5f64, -2.0]), Element::F32), Ok(Values::F32(vec![1.5, -2.0])));
        assert_eq!(read(file(&[2], &[7i64, -2]), Element::I32), Ok(Values::I32(vec![7, -2])));
        assert_eq!(read(file(&[1], &[7i32]), Element::Id), Ok(Values::Id(vec![7])));
        assert_eq!(read(file(&[2], &[true, false]), Element::Bool), Ok(Values::Bool(vec![true, false])));
        assert!(read(file(&[1], &[-7i64]), Element::Id).is_err());
        assert!(read(file(&[1], &[1i64 << 40]), Element::I32).is_err());
        assert!(read(file(&[1], &[1.0f32]), Element::I32).is_err());
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = write(&[2, 3], &Values::F32(vec![0.0; 6]));
        for length in 0..good.len() {
            assert!(Array::read(&good[..length]).is_err(), "cut at {length}");
        }
        let with = |header: &str| {
            let mut file = MAGIC.to_vec();
            file.extend([1, 0]);
            file.extend((header.len() as u16).to_le_bytes());
            file.extend(header.as_bytes());
            file.extend([0; 8]);
            Array::read(&file)
        };
        assert!(with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }").is_ok());
        for header in [
            "",
            "{",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "((((((((((((",
        ] {
            assert!(with(header).is_err(), "{header}");
        }
    }
}
