//! The header's JSON, read as a stream: no tree is built, so a hostile header costs no more than itself.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::FileError;
use super::layout::shorten;

/// The most dimensions a tensor may have; no model needs more, and a bound keeps a hostile shape small.
pub(super) const MAXIMUM_DIMENSIONS: usize = 8;

/// The most tensors of one file: each takes more memory than its declaration takes in the file.
pub(super) const MAXIMUM_TENSORS: usize = 1 << 18;

/// A tensor as declared, nothing checked yet but the JSON's own shape.
pub(super) struct Declared {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<u64>,
    /// Counted from the end of the header.
    pub offsets: (u64, u64),
}

/// Reads the declarations, in the header's order.
pub(super) fn read(header: &[u8]) -> Result<Vec<Declared>, FileError> {
    serde_json::from_slice::<Header>(header)
        .map(|header| header.0)
        .map_err(|error| FileError::BadHeader { reason: error.to_string() })
}

struct Header(Vec<Declared>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut tensors = Vec::new();
        let mut metadata_seen = false;
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                if std::mem::replace(&mut metadata_seen, true) {
                    return Err(de::Error::custom("`__metadata__` occurs twice"));
                }
                map.next_value::<Option<Metadata>>()?;
                continue;
            }
            if tensors.len() == MAXIMUM_TENSORS {
                return Err(de::Error::custom(format_args!("more than {MAXIMUM_TENSORS} tensors")));
            }
            match map.next_value::<Body>() {
                Ok(body) => tensors.push(Declared {
                    name,
                    dtype: body.dtype,
                    shape: body.shape.0,
                    offsets: body.data_offsets,
                }),
                Err(error) => {
                    return Err(de::Error::custom(format_args!("tensor `{}`: {error}", shorten(&name))));
                }
            }
        }
        Ok(Header(tensors))
    }
}

#[derive(Deserialize)]
struct Body {
    dtype: String,
    shape: Shape,
    data_offsets: (u64, u64),
}

struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shape, D::Error> {
        deserializer.deserialize_seq(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MAXIMUM_DIMENSIONS} dimensions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
        let mut shape = Vec::new();
        while let Some(size) = list.next_element()? {
            if shape.len() == MAXIMUM_DIMENSIONS {
                return Err(de::Error::invalid_length(shape.len() + 1, &self));
            }
            shape.push(size);
        }
        Ok(Shape(shape))
    }
}

/// Free strings by name, which nothing here needs; read so that a malformed one is refused.
struct Metadata;

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
        deserializer.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value::<String>()?;
        }
        Ok(Metadata)
    }
}
