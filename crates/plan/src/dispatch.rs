//! The dispatch policy: which family of kernels may serve, as the user says it (`--dispatch FAMILY=off|auto|NAME`).

use std::collections::BTreeMap;
use std::fmt;

use crate::device::DeviceError;

/// Families of sites that have kernels of their own beside the general one, and what joins several pieces of work in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Sums of products of two reads.
    Contraction,
    /// Softmax-weighted sums over a history.
    Attention,
    /// State updates.
    Recurrence,
    /// Work that shares a launch, or rides on a contraction without passing through memory. It leaves the bits alone.
    Fusion,
}

impl Family {
    /// All of them, in the order they are printed.
    pub const ALL: [Family; 4] = [Family::Contraction, Family::Attention, Family::Recurrence, Family::Fusion];
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Family::Contraction => "contraction",
            Family::Attention => "attention",
            Family::Recurrence => "recurrence",
            Family::Fusion => "fusion",
        }
    }
}

/// What the policy says of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The general kernel alone: the reference path of the device.
    Off,
    /// What sizing and receipts choose.
    #[default]
    Auto,
    /// That candidate where it can serve; a device that lacks it refuses to load.
    Named(String),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Off => f.write_str("off"),
            Choice::Auto => f.write_str("auto"),
            Choice::Named(name) => f.write_str(name),
        }
    }
}

/// The policy of a load: [`Choice::Auto`] for every family that is not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    choices: BTreeMap<Family, Choice>,
}

impl Policy {
    /// Reads overrides as the user gave them: `family → off | auto | candidate name`. `all` stands for every family that
    /// is not named itself. `known(family, name)` says whether the device has a candidate of that name.
    ///
    /// # Errors
    /// [`DeviceError::Option`] for an unknown family, or a candidate that the device does not know.
    pub fn parse(
        overrides: &BTreeMap<String, String>,
        known: impl Fn(Family, &str) -> bool,
    ) -> Result<Policy, DeviceError> {
        let mut policy = Policy::default();
        if let Some(text) = overrides.get("all") {
            for family in Family::ALL {
                policy.set(family, text, &known)?;
            }
        }
        for (name, text) in overrides.iter().filter(|(name, _)| *name != "all") {
            let family = Family::ALL.into_iter().find(|family| family.name() == name).ok_or_else(|| {
                let names = Family::ALL.map(Family::name).join(", ");
                DeviceError::Option(format!("`{name}` is no family of kernels: all, {names}"))
            })?;
            policy.set(family, text, &known)?;
        }
        Ok(policy)
    }

    fn set(
        &mut self,
        family: Family,
        text: &str,
        known: &impl Fn(Family, &str) -> bool,
    ) -> Result<(), DeviceError> {
        let choice = match text {
            "off" => Choice::Off,
            "auto" => Choice::Auto,
            name if known(family, name) => Choice::Named(name.to_string()),
            name => {
                return Err(DeviceError::Option(format!(
                    "this device has no candidate `{name}` for {}; `explain` lists those it has",
                    family.name()
                )));
            }
        };
        self.choices.insert(family, choice);
        Ok(())
    }

    /// What is said of a family.
    pub fn of(&self, family: Family) -> &Choice {
        self.choices.get(&family).unwrap_or(&Choice::Auto)
    }
    /// Whether kernels of the family may serve at all.
    pub fn serves(&self, family: Family) -> bool {
        *self.of(family) != Choice::Off
    }
    /// Whether that candidate may serve.
    pub fn allows(&self, family: Family, candidate: &str) -> bool {
        match self.of(family) {
            Choice::Off => false,
            Choice::Auto => true,
            Choice::Named(name) => name == candidate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Policy, DeviceError> {
        let overrides = pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        Policy::parse(&overrides, |family, name| family == Family::Recurrence && name == "serial")
    }

    #[test]
    fn families_are_chosen_apart_or_together() {
        let policy = parse(&[("all", "off"), ("recurrence", "serial")]).expect("both are known");
        assert!(!policy.serves(Family::Attention));
        assert!(policy.allows(Family::Recurrence, "serial") && !policy.allows(Family::Recurrence, "chunk"));
        assert!(parse(&[]).expect("empty").allows(Family::Contraction, "rows"));
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(parse(&[("convolution", "off")]).is_err());
        let error = parse(&[("attention", "fast")]).expect_err("no such candidate").to_string();
        assert!(error.contains("no candidate `fast` for attention"), "{error}");
    }
}
