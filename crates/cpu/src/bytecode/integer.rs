//! Integer arithmetic of the graph: floor division, and the ranges of results.

use fiddlehead_graph::Binary;

/// All of i32.
pub(super) const I32: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);

/// Integer division towards minus infinity; `b` is not zero.
pub(super) fn floor_divide(a: i32, b: i32) -> i32 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && ((a < 0) != (b < 0)) { quotient - 1 } else { quotient }
}

/// The remainder of the floor division; `b` is not zero.
pub(super) fn floor_remainder(a: i32, b: i32) -> i32 {
    let remainder = a.wrapping_rem(b);
    if remainder != 0 && ((remainder < 0) != (b < 0)) { remainder + b } else { remainder }
}

/// The range of an operation's result; all of i32 when it might wrap.
pub(super) fn integer_range(op: Binary, (a, b): (i64, i64), (c, d): (i64, i64)) -> (i64, i64) {
    let hull = |values: [i64; 4]| {
        (values.into_iter().min().unwrap_or(I32.0), values.into_iter().max().unwrap_or(I32.1))
    };
    let range = match op {
        Binary::Add => (a + c, b + d),
        Binary::Subtract => (a - d, b - c),
        Binary::Multiply => hull([a * c, a * d, b * c, b * d]),
        Binary::Min => (a.min(c), b.min(d)),
        Binary::Max => (a.max(c), b.max(d)),
        Binary::Divide if c > 0 => hull([a.div_euclid(c), a.div_euclid(d), b.div_euclid(c), b.div_euclid(d)]),
        Binary::Remainder if c > 0 => (0, if a >= 0 { b.min(d - 1) } else { d - 1 }),
        _ => I32,
    };
    if range.0 < I32.0 || range.1 > I32.1 { I32 } else { range }
}
