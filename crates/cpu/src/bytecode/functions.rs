//! The elementary functions over blocks.

/// One function over a block; both slices are of one length.
pub(super) type Function = fn(&[f32], &mut [f32]);

/// The functions of one family of instructions.
pub(super) struct Functions {
    pub exp: Function,
    pub log: Function,
    pub sin: Function,
    pub cos: Function,
    pub tanh: Function,
    pub sigmoid: Function,
    pub silu: Function,
    pub gelu: Function,
    pub softplus: Function,
}

macro_rules! each {
    ($f:expr) => {
        |from, to| {
            for (to, &x) in to.iter_mut().zip(from) {
                let f: fn(f64) -> f64 = $f;
                *to = f(f64::from(x)) as f32;
            }
        }
    };
}

/// The reference: f64 arithmetic, rounded once.
pub(super) static REFERENCE: Functions = Functions {
    exp: each!(f64::exp),
    log: each!(f64::ln),
    sin: each!(f64::sin),
    cos: each!(f64::cos),
    tanh: each!(f64::tanh),
    sigmoid: each!(|x| 1.0 / (1.0 + (-x).exp())),
    silu: each!(|x| if x == f64::NEG_INFINITY { -0.0 } else { x / (1.0 + (-x).exp()) }),
    gelu: each!(|x| {
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
    }),
    softplus: each!(|x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
};
