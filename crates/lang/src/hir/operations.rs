//! Operations on scalars, ways to fold, and arithmetic permissions.

/// A change of type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// i32 to the nearest f32.
    IntToFloat,
    /// f32 to i32, towards zero, saturating; NaN gives 0.
    FloatToInt,
    /// id to i32.
    IdToInt,
    /// i32 to id; a negative value traps.
    IntToId,
}

/// Operations of one operand: f32 where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// `-x`, f32 or i32.
    Negate,
    /// `!x`, bool.
    Not,
    /// Absolute value, f32 or i32.
    Absolute,
    /// e^x.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// `1 / sqrt(x)`.
    Rsqrt,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `x * sigmoid(x)`.
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
    Gelu,
    /// `ln(1 + e^x)`.
    Softplus,
    /// The greatest whole number not above x, as f32.
    Floor,
}

/// Operations of two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// f32 or i32 (wraps).
    Add,
    /// f32 or i32 (wraps).
    Subtract,
    /// f32 or i32 (wraps).
    Multiply,
    /// f32, or i32 rounding towards minus infinity (zero traps).
    Divide,
    /// i32, with the divisor's sign: `a - (a / b) * b` (zero traps).
    Remainder,
    /// The lesser, f32 or i32; with one NaN, the other.
    Min,
    /// The greater, f32 or i32; with one NaN, the other.
    Max,
    /// Any scalar type; gives bool, as do the five after it.
    Equal,
    /// Any scalar type.
    NotEqual,
    /// f32 or i32.
    Less,
    /// f32 or i32.
    LessEqual,
    /// f32 or i32.
    Greater,
    /// f32 or i32.
    GreaterEqual,
    /// bool.
    And,
    /// bool.
    Or,
}

/// How a fold in any order combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoldKind {
    /// f32 or i32; 0 when empty.
    Sum,
    /// f32 or i32; 1 when empty.
    Product,
    /// f32 or i32; minus infinity or the least integer when empty.
    Max,
    /// f32 or i32; infinity or the greatest integer when empty.
    Min,
    /// bool; false when empty.
    Any,
    /// bool; true when empty.
    All,
    /// The value of the one axis where an f32 body is greatest, the lowest on ties, as an id; 0 when empty.
    /// `argmax(x)` is written out as this.
    ArgMax,
}

/// A type that a fold's operands may round to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arithmetic {
    /// bfloat16.
    Bf16,
    /// IEEE half.
    F16,
    /// 19-bit tensor float.
    Tf32,
    /// 8-bit float.
    Fp8,
    /// Activations as 8-bit integers with a scale a block.
    Q8,
}
