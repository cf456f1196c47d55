//! The formats that weights are stored in: one arm here and one file in `format/` each.

mod bfloat16;
mod f8_e4m3_128;
mod float16;
mod float32;
mod iq4_nl;
mod iq4_xs;
mod nibbles;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;

use std::fmt;

use crate::StorageError;

/// What a format says about its blocks.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The format's name, in lower case as files and flags spell it (`q8_0`).
    pub name: &'static str,
    /// Elements a block holds, along a row.
    pub block_elements: usize,
    /// Bytes a block takes.
    pub block_bytes: usize,
    /// Writes the values of whole blocks: `out.len() / block_elements == bytes.len() / block_bytes`, both exact.
    dequantise: fn(bytes: &[u8], out: &mut [f32]),
    /// Writes values as whole blocks, lengths as for `dequantise`; `None` for a format that is only read.
    pub(crate) quantise: Option<Quantise>,
}

/// Writes values as whole blocks.
type Quantise = fn(values: &[f32], out: &mut [u8]);

macro_rules! formats {
    ($($(#[$documentation:meta])* $name:ident => $module:ident,)*) => {
        /// How the elements of a weight are stored. A row is a whole number of blocks.
        ///
        /// A weight means its dequantised value: see [`dequantise`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[allow(non_camel_case_types, reason = "the names that files and people use")]
        pub enum Format {
            $($(#[$documentation])* $name,)*
        }

        impl Format {
            /// Every format, in the order of the enum.
            pub const ALL: &[Format] = &[$(Format::$name,)*];

            /// The format's name and block sizes.
            pub const fn layout(self) -> &'static Layout {
                match self {
                    $(Format::$name => &$module::LAYOUT,)*
                }
            }
        }
    };
}

formats! {
    /// IEEE 754 binary32, little-endian.
    F32 => float32,
    /// IEEE 754 binary16, little-endian.
    F16 => float16,
    /// The upper half of a binary32, little-endian.
    BF16 => bfloat16,
    /// Bytes under a scale for each 32.
    Q8_0 => q8_0,
    /// Nibbles under a scale for each 32.
    Q4_0 => q4_0,
    /// Nibbles under a scale and a minimum for each 32.
    Q4_1 => q4_1,
    /// Five bits under a scale for each 32.
    Q5_0 => q5_0,
    /// Five bits under a scale and a minimum for each 32.
    Q5_1 => q5_1,
    /// Two bits under scales and minima for each 16, themselves scaled for each 256.
    Q2_K => q2_k,
    /// Three bits under scales for each 16, themselves scaled for each 256.
    Q3_K => q3_k,
    /// Nibbles under scales and minima for each 32, themselves scaled for each 256.
    Q4_K => q4_k,
    /// Five bits under scales and minima for each 32, themselves scaled for each 256.
    Q5_K => q5_k,
    /// Six bits under scales for each 16, themselves scaled for each 256.
    Q6_K => q6_k,
    /// Nibbles that index uneven values, under a scale for each 32.
    IQ4_NL => iq4_nl,
    /// Nibbles that index uneven values, under scales for each 32, themselves scaled for each 256.
    IQ4_XS => iq4_xs,
    /// Eight-bit floats under a scale for each 128.
    F8_E4M3_128 => f8_e4m3_128,
}

impl Format {
    /// The name in lower case: `f32`, `bf16`, `q8_0`.
    pub const fn name(self) -> &'static str {
        self.layout().name
    }

    /// The format of a name, in any case; `None` when there is none.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.iter().copied().find(|format| format.name().eq_ignore_ascii_case(name))
    }

    /// Elements that one block holds.
    pub const fn block_elements(self) -> usize {
        self.layout().block_elements
    }

    /// Bytes that one block takes.
    pub const fn block_bytes(self) -> usize {
        self.layout().block_bytes
    }

    /// Bytes that a run of elements takes.
    ///
    /// # Errors
    /// [`StorageError::PartialBlock`] when the elements end inside a block, [`StorageError::TooLarge`] when the
    /// bytes overflow.
    pub fn bytes_for(self, elements: usize) -> Result<usize, StorageError> {
        let block = self.block_elements();
        if !elements.is_multiple_of(block) {
            return Err(StorageError::PartialBlock { format: self, elements, block });
        }
        (elements / block)
            .checked_mul(self.block_bytes())
            .ok_or_else(|| StorageError::TooLarge { shape: vec![elements], format: self })
    }

    /// Bytes that a tensor takes: its last dimension is a whole number of blocks.
    ///
    /// # Errors
    /// As [`Format::bytes_for`]; also when the product of the dimensions overflows.
    pub fn bytes_for_shape(self, shape: &[usize]) -> Result<usize, StorageError> {
        let too_large = || StorageError::TooLarge { shape: shape.to_vec(), format: self };
        let (last, outer) = shape.split_last().map_or((1, shape), |(last, outer)| (*last, outer));
        let row = self.bytes_for(last).map_err(|error| match error {
            StorageError::TooLarge { .. } => too_large(),
            other => other,
        })?;
        // A zero anywhere must not hide an overflow elsewhere, so the elements are multiplied too.
        shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size)).ok_or_else(too_large)?;
        outer.iter().try_fold(row, |product, &size| product.checked_mul(size)).ok_or_else(too_large)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Writes the values that `bytes` store in `format`; the meaning of the format, plainly.
///
/// `out` holds as many elements as the whole blocks in `bytes`.
///
/// # Errors
/// When the lengths do not fit each other, or end inside a block.
pub fn dequantise(format: Format, bytes: &[u8], out: &mut [f32]) -> Result<(), StorageError> {
    let expected = format.bytes_for(out.len())?;
    if bytes.len() != expected {
        return Err(StorageError::WrongLength {
            shape: vec![out.len()],
            format,
            expected,
            found: bytes.len(),
        });
    }
    (format.layout().dequantise)(bytes, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for &format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
            assert_eq!(Format::from_name(&format.name().to_uppercase()), Some(format));
        }
        assert_eq!(Format::from_name("f31"), None);
    }

    #[test]
    fn llama_cpp_18674_a_wrapping_size_is_refused() {
        let huge = (1usize << 62) + 1;
        assert!(matches!(Format::F32.bytes_for(huge), Err(StorageError::TooLarge { .. })));
        let shape = [4, huge, 4];
        let error = Format::F16.bytes_for_shape(&shape).expect_err("wraps");
        assert_eq!(error, StorageError::TooLarge { shape: shape.to_vec(), format: Format::F16 });
        assert!(Format::F16.bytes_for_shape(&[0, huge, 4]).is_ok());
        assert!(Format::F16.bytes_for_shape(&[huge, 4, 0]).is_err());
    }

    #[test]
    fn lengths_must_fit() {
        let mut out = [0.0; 2];
        assert!(matches!(
            dequantise(Format::F32, &[0; 7], &mut out),
            Err(StorageError::WrongLength { expected: 8, found: 7, .. })
        ));
        assert_eq!(Format::F32.bytes_for_shape(&[]), Ok(4));
        assert_eq!(Format::BF16.bytes_for_shape(&[3, 5]), Ok(30));
    }
}
