//! The levels that a scale is multiplied with.

/// The levels of a format, all of them small whole numbers.
pub(crate) trait Levels {
    /// The lowest level, below zero.
    const LOW: f32;
    /// The highest level, above zero.
    const HIGH: f32;
    /// How far around the outermost levels the largest value of a block is tried, in levels.
    const REACH: f32;

    /// The level that is nearest to any number.
    fn nearest(number: f32) -> f32;
}

/// All whole numbers from `LOW` to `HIGH`.
pub(crate) struct Signed<const LOW: i32, const HIGH: i32>;

impl<const LOW: i32, const HIGH: i32> Levels for Signed<LOW, HIGH> {
    const LOW: f32 = LOW as f32;
    const HIGH: f32 = HIGH as f32;
    const REACH: f32 = 1.0 + 0.05 * HIGH as f32;

    #[inline(always)]
    fn nearest(number: f32) -> f32 {
        round(clamp(number, Self::LOW, Self::HIGH))
    }
}

/// The sixteen uneven levels of the `iq4` formats.
pub(crate) struct Uneven;

impl Uneven {
    /// The levels, ascending.
    pub(crate) const VALUES: [f32; 16] = [
        -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0,
        113.0,
    ];

    /// The place of a level.
    pub(crate) fn place(level: f32) -> u8 {
        Self::VALUES.iter().take_while(|&&value| value < level).count() as u8
    }
}

impl Levels for Uneven {
    const LOW: f32 = Self::VALUES[0];
    const HIGH: f32 = Self::VALUES[15];
    const REACH: f32 = 24.0;

    #[inline(always)]
    fn nearest(number: f32) -> f32 {
        let mut level = Self::VALUES[0];
        for pair in Self::VALUES.windows(2) {
            level = if number > 0.5 * (pair[0] + pair[1]) { pair[1] } else { level };
        }
        level
    }
}

/// The whole number nearest to a number below 2²² in magnitude. `f32::round` is a call where the processor has no
/// instruction for it.
#[inline(always)]
pub(super) fn round(number: f32) -> f32 {
    const SHIFT: f32 = (3 << 22) as f32;
    (number + SHIFT) - SHIFT
}

/// As `f32::clamp`, in two instructions.
#[inline(always)]
pub(super) fn clamp(number: f32, low: f32, high: f32) -> f32 {
    let number = if number < low { low } else { number };
    if number > high { high } else { number }
}
