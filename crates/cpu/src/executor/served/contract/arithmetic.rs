//! With which arithmetic a contraction runs: f32, or operands rounded where the program, the user and a checkpoint gate
//! allow it. The choice is made once, at loading, and holds for every number of rows.

use fiddlehead_graph::Permissions;
use fiddlehead_plan::{Choice, Family, Gate, Numerics, gate};
use fiddlehead_storage::Format;

use crate::executor::lower::Context;
use crate::kernels::{brain, integer};

/// The operands that products are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::executor) enum Arithmetic {
    /// f32 activations and dequantised weights.
    F32,
    /// Activations of sixteen bits and stored integers.
    Integer,
    /// Activations of bf16 and stored bf16.
    Brain,
}

impl Arithmetic {
    /// The candidate's name.
    pub(in crate::executor) fn name(self) -> &'static str {
        match self {
            Arithmetic::F32 => "rows",
            Arithmetic::Integer => "integer",
            Arithmetic::Brain => "bf16",
        }
    }
}

/// A choice with its reason.
#[derive(Clone, Debug)]
pub(in crate::executor) struct Chosen {
    pub arithmetic: Arithmetic,
    /// What let it through, when that was a gate.
    pub gate: Option<&'static Gate>,
    /// The candidate that would round, and why it does not serve.
    pub refused: Option<(Arithmetic, String)>,
}

/// Chooses for a weight stored as `format`.
pub(super) fn choose(permissions: Permissions, format: Format, context: Context<'_>) -> Chosen {
    let f32_with = |refused| Chosen { arithmetic: Arithmetic::F32, gate: None, refused };
    let candidate = match format {
        // Nothing is gained by rounding beside these.
        Format::F32 | Format::F16 | Format::F8_E4M3_128 => return f32_with(None),
        Format::BF16 => Arithmetic::Brain,
        _ => Arithmetic::Integer,
    };
    match allow(candidate, permissions, format, context) {
        Ok(gate) => Chosen { arithmetic: candidate, gate, refused: None },
        Err(why) => f32_with(Some((candidate, why))),
    }
}

/// The gate that lets the candidate through, none when the user names it.
fn allow(
    candidate: Arithmetic,
    permissions: Permissions,
    format: Format,
    context: Context<'_>,
) -> Result<Option<&'static Gate>, String> {
    let (permitted, rounding) = match candidate {
        Arithmetic::F32 => return Ok(None),
        Arithmetic::Integer => (permissions.q8, "q8"),
        Arithmetic::Brain => (permissions.bf16, "bf16"),
    };
    if !permitted {
        return Err(format!("the program does not allow `compute {rounding}` here"));
    }
    let named = match context.policy.of(Family::Contraction) {
        Choice::Named(name) if name == candidate.name() => true,
        Choice::Named(name) => return Err(format!("`--dispatch contraction={name}` names another")),
        Choice::Auto | Choice::Off => false,
    };
    if context.numerics != Numerics::Auto {
        return Err(format!("{} numerics round no operand", context.numerics));
    }
    match candidate {
        Arithmetic::F32 => {}
        Arithmetic::Integer => {
            integer::check(context.features, format).map_err(|error| error.to_string())?;
        }
        Arithmetic::Brain => {
            brain::check(context.features, format).map_err(|error| error.to_string())?;
        }
    }
    match named {
        true => Ok(None),
        false => gate(candidate.name(), context.architecture, format).map(Some),
    }
}
