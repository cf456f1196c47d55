//! Sizes: integer expressions over size symbols, in a normal form that decides equality of polynomials.

mod display;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

/// A size symbol, by its place in [`crate::hir::Program::symbols`]. Every symbol stands for an integer of at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SizeSymbol(pub u32);

/// What a monomial is a product of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Factor {
    /// A symbol.
    Symbol(SizeSymbol),
    /// A floor division that is not exact for every value of the symbols: dividend, divisor.
    Quotient(Box<(Size, Size)>),
}

/// Factors with their powers, in ascending order, no power zero.
type Monomial = Vec<(Factor, u32)>;

/// An integer expression over size symbols: a sum of monomials with integer coefficients. Two sizes that are equal as
/// polynomials are equal values of this type; a floor division is opaque unless it is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Size {
    terms: BTreeMap<Monomial, i64>,
}

/// Why a size could not be formed or evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// A coefficient or value left 64 bits.
    #[error("a size leaves the range of 64-bit integers")]
    Overflow,
    /// The normal form grew past [`Size::MOST_TERMS`], [`Size::MOST_FACTORS`] or [`Size::HIGHEST_DEGREE`].
    #[error("a size expression has too many terms")]
    TooLarge,
    /// A division by zero.
    #[error("a size is divided by zero")]
    DivisionByZero,
    /// A symbol has no value.
    #[error("a size symbol has no value")]
    Unbound(SizeSymbol),
}

impl From<i64> for Size {
    fn from(value: i64) -> Size {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Vec::new(), value);
        }
        Size { terms }
    }
}

impl From<SizeSymbol> for Size {
    fn from(symbol: SizeSymbol) -> Size {
        Size { terms: BTreeMap::from([(vec![(Factor::Symbol(symbol), 1)], 1)]) }
    }
}

impl Size {
    /// A normal form with more terms is refused, so that no source text costs more than its length.
    pub const MOST_TERMS: usize = 64;
    /// More factors, counted through nested quotients, are refused.
    pub const MOST_FACTORS: usize = 1024;
    /// A monomial of a higher degree is refused.
    pub const HIGHEST_DEGREE: u32 = 16;

    /// The number, when no symbol is in it.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// The symbol, when this is one alone.
    pub fn as_symbol(&self) -> Option<SizeSymbol> {
        let (monomial, coefficient) = self.terms.first_key_value()?;
        match (self.terms.len(), *coefficient, monomial.as_slice()) {
            (1, 1, [(Factor::Symbol(symbol), 1)]) => Some(*symbol),
            _ => None,
        }
    }

    /// Whether it holds a floor division that is not known to be exact.
    pub fn has_quotient(&self) -> bool {
        self.terms.keys().flatten().any(|(factor, _)| matches!(factor, Factor::Quotient(_)))
    }

    /// Calls `f` for every symbol in it, also inside quotients; a symbol may come several times.
    pub fn for_each_symbol(&self, f: &mut dyn FnMut(SizeSymbol)) {
        for (factor, _) in self.terms.keys().flatten() {
            match factor {
                Factor::Symbol(symbol) => f(*symbol),
                Factor::Quotient(parts) => {
                    parts.0.for_each_symbol(f);
                    parts.1.for_each_symbol(f);
                }
            }
        }
    }

    /// Whether the symbol is in it.
    pub fn mentions(&self, symbol: SizeSymbol) -> bool {
        let mut found = false;
        self.for_each_symbol(&mut |s| found |= s == symbol);
        found
    }

    /// The sum.
    pub fn add(&self, other: &Size) -> Result<Size, SizeError> {
        let mut terms = self.terms.clone();
        for (monomial, coefficient) in &other.terms {
            accumulate(&mut terms, monomial.clone(), *coefficient)?;
        }
        Size { terms }.bounded()
    }

    /// The difference.
    pub fn subtract(&self, other: &Size) -> Result<Size, SizeError> {
        self.add(&other.multiply(&Size::from(-1))?)
    }

    /// The product.
    pub fn multiply(&self, other: &Size) -> Result<Size, SizeError> {
        let mut terms = BTreeMap::new();
        for (left, a) in &self.terms {
            for (right, b) in &other.terms {
                let coefficient = a.checked_mul(*b).ok_or(SizeError::Overflow)?;
                accumulate(&mut terms, multiply_monomials(left, right), coefficient)?;
            }
        }
        Size { terms }.bounded()
    }

    /// The quotient, rounded towards minus infinity: a polynomial where the division is exact, else opaque after
    /// common factors are cancelled (symbols are at least 1, so they can be).
    pub fn divide(&self, divisor: &Size) -> Result<Size, SizeError> {
        if divisor.terms.is_empty() {
            return Err(SizeError::DivisionByZero);
        }
        if let Some(quotient) = self.divide_exactly(divisor)? {
            return Ok(quotient);
        }
        if let (Some(a), Some(b)) = (self.as_constant(), divisor.as_constant()) {
            return floor_divide(a, b).map(Size::from);
        }
        let (dividend, divisor) = cancel(self, divisor);
        // floor((c·a + r) / c) = a + floor(r / c) for an integer a.
        let (mut whole, mut rest) = (Size::default(), dividend.clone());
        if let Some(c) = divisor.as_constant() {
            rest = Size::default();
            for (monomial, coefficient) in &dividend.terms {
                let quotient = floor_divide(*coefficient, c)?;
                let remainder = coefficient - quotient * c;
                accumulate(&mut whole.terms, monomial.clone(), quotient)?;
                accumulate(&mut rest.terms, monomial.clone(), remainder)?;
            }
            if let Some(r) = rest.as_constant() {
                return whole.add(&Size::from(floor_divide(r, c)?));
            }
        }
        let monomial = vec![(Factor::Quotient(Box::new((rest, divisor))), 1)];
        accumulate(&mut whole.terms, monomial, 1)?;
        whole.bounded()
    }

    /// The polynomial `q` with `q * divisor == self`, when there is one.
    pub fn divide_exactly(&self, divisor: &Size) -> Result<Option<Size>, SizeError> {
        let Some((lead, lead_coefficient)) = divisor.lead() else { return Err(SizeError::DivisionByZero) };
        let (mut rest, mut quotient) = (self.clone(), Size::default());
        // Each round cancels the greatest term of `rest`.
        for _ in 0..=Size::MOST_TERMS {
            let Some((monomial, coefficient)) = rest.lead() else { return Ok(Some(quotient)) };
            let Some(monomial) = divide_monomials(monomial, lead) else { return Ok(None) };
            if coefficient.checked_rem(lead_coefficient).ok_or(SizeError::Overflow)? != 0 {
                return Ok(None);
            }
            let coefficient = coefficient.checked_div(lead_coefficient).ok_or(SizeError::Overflow)?;
            let term = Size { terms: BTreeMap::from([(monomial, coefficient)]) };
            quotient = quotient.add(&term)?;
            rest = rest.subtract(&term.multiply(divisor)?)?;
        }
        Ok(None)
    }

    /// With every symbol replaced by what `value` gives for it; a symbol it gives nothing for stays.
    pub fn substitute(&self, value: &dyn Fn(SizeSymbol) -> Option<Size>) -> Result<Size, SizeError> {
        let mut sum = Size::default();
        for (monomial, coefficient) in &self.terms {
            let mut product = Size::from(*coefficient);
            for (factor, power) in monomial {
                let factor = match factor {
                    Factor::Symbol(symbol) => value(*symbol).unwrap_or_else(|| Size::from(*symbol)),
                    Factor::Quotient(parts) => {
                        parts.0.substitute(value)?.divide(&parts.1.substitute(value)?)?
                    }
                };
                for _ in 0..*power {
                    product = product.multiply(&factor)?;
                }
            }
            sum = sum.add(&product)?;
        }
        Ok(sum)
    }

    /// The number it is when symbols have the values that `value` gives. Every step is checked.
    pub fn evaluate(&self, value: &dyn Fn(SizeSymbol) -> Option<i64>) -> Result<i64, SizeError> {
        let mut sum = 0i64;
        for (monomial, coefficient) in &self.terms {
            let mut product = *coefficient;
            for (factor, power) in monomial {
                let factor = match factor {
                    Factor::Symbol(symbol) => value(*symbol).ok_or(SizeError::Unbound(*symbol))?,
                    Factor::Quotient(parts) => {
                        floor_divide(parts.0.evaluate(value)?, parts.1.evaluate(value)?)?
                    }
                };
                for _ in 0..*power {
                    product = product.checked_mul(factor).ok_or(SizeError::Overflow)?;
                }
            }
            sum = sum.checked_add(product).ok_or(SizeError::Overflow)?;
        }
        Ok(sum)
    }

    /// Whether it is at least `least` for all values of its symbols (each at least 1). `false` means not proven.
    pub fn is_at_least(&self, least: i64) -> bool {
        // With every symbol s written as 1 + s', a polynomial without negative coefficients is least at s' = 0.
        let shifted = self.substitute(&|symbol| Size::from(symbol).add(&Size::from(1)).ok());
        let Ok(shifted) = shifted else { return false };
        if shifted.terms.iter().any(|(monomial, c)| *c < 0 && !monomial.is_empty()) {
            return false;
        }
        // A quotient is opaque: at least zero when its parts are.
        let quotients_fine = self.terms.keys().flatten().all(|(factor, _)| match factor {
            Factor::Symbol(_) => true,
            Factor::Quotient(parts) => parts.0.is_at_least(0) && parts.1.is_at_least(1),
        });
        quotients_fine && shifted.terms.get(&Vec::new()).copied().unwrap_or(0) >= least
    }

    /// `(a, b)` with `self == a * symbol + b` and neither naming the symbol, when it is linear in it.
    pub fn as_linear_in(&self, symbol: SizeSymbol) -> Option<(Size, Size)> {
        let (mut a, mut b) = (Size::default(), Size::default());
        let target = Factor::Symbol(symbol);
        for (monomial, coefficient) in &self.terms {
            let mut rest = monomial.clone();
            let place = rest.iter().position(|(factor, _)| *factor == target);
            let part = match place.map(|place| rest.remove(place).1) {
                None => &mut b,
                Some(1) => &mut a,
                Some(_) => return None,
            };
            part.terms.insert(rest, *coefficient);
        }
        (!a.terms.is_empty() && !a.mentions(symbol) && !b.mentions(symbol)).then_some((a, b))
    }

    /// For printing, with symbols by the names that `name` gives.
    pub fn display<'a>(&'a self, name: &'a dyn Fn(SizeSymbol) -> String) -> impl fmt::Display + 'a {
        display::DisplaySize { size: self, name }
    }

    /// The greatest term in a lexicographic order of monomials, which products keep.
    fn lead(&self) -> Option<(&Monomial, i64)> {
        let (monomial, coefficient) = self.terms.iter().max_by(|a, b| compare_monomials(a.0, b.0))?;
        Some((monomial, *coefficient))
    }

    fn weight(&self) -> usize {
        let factors = self.terms.keys().flatten().map(|(factor, _)| match factor {
            Factor::Symbol(_) => 1,
            Factor::Quotient(parts) => 1 + parts.0.weight() + parts.1.weight(),
        });
        factors.fold(self.terms.len(), usize::saturating_add)
    }

    fn bounded(self) -> Result<Size, SizeError> {
        let degree = |monomial: &Monomial| monomial.iter().map(|(_, power)| *power).sum::<u32>();
        let fits = self.terms.len() <= Size::MOST_TERMS
            && self.weight() <= Size::MOST_FACTORS
            && self.terms.keys().all(|monomial| degree(monomial) <= Size::HIGHEST_DEGREE);
        if fits { Ok(self) } else { Err(SizeError::TooLarge) }
    }
}

/// The floor of `a / b`.
fn floor_divide(a: i64, b: i64) -> Result<i64, SizeError> {
    if b == 0 {
        return Err(SizeError::DivisionByZero);
    }
    let quotient = a.checked_div(b).ok_or(SizeError::Overflow)?;
    Ok(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

fn accumulate(
    terms: &mut BTreeMap<Monomial, i64>,
    monomial: Monomial,
    coefficient: i64,
) -> Result<(), SizeError> {
    let sum = terms.get(&monomial).copied().unwrap_or(0).checked_add(coefficient);
    let sum = sum.ok_or(SizeError::Overflow)?;
    if sum == 0 {
        terms.remove(&monomial);
    } else {
        terms.insert(monomial, sum);
    }
    Ok(())
}

fn compare_monomials(left: &Monomial, right: &Monomial) -> Ordering {
    for ((a, a_power), (b, b_power)) in left.iter().zip(right) {
        // A power of an earlier factor is greater than any power of a later one.
        let order = b.cmp(a).then(a_power.cmp(b_power));
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

fn multiply_monomials(left: &Monomial, right: &Monomial) -> Monomial {
    let mut powers: BTreeMap<&Factor, u32> = left.iter().map(|(factor, power)| (factor, *power)).collect();
    for (factor, power) in right {
        *powers.entry(factor).or_insert(0) += power;
    }
    powers.into_iter().map(|(factor, power)| (factor.clone(), power)).collect()
}

fn divide_monomials(dividend: &Monomial, divisor: &Monomial) -> Option<Monomial> {
    let mut powers: BTreeMap<&Factor, u32> =
        dividend.iter().map(|(factor, power)| (factor, *power)).collect();
    for (factor, power) in divisor {
        let left = powers.get_mut(factor)?;
        *left = left.checked_sub(*power)?;
    }
    Some(
        powers
            .into_iter()
            .filter(|(_, power)| *power > 0)
            .map(|(factor, power)| (factor.clone(), power))
            .collect(),
    )
}

/// Both sides without the greatest factor that every term of both has.
fn cancel(dividend: &Size, divisor: &Size) -> (Size, Size) {
    let coefficients = || dividend.terms.values().chain(divisor.terms.values());
    if coefficients().any(|c| *c == i64::MIN) {
        return (dividend.clone(), divisor.clone());
    }
    let divisible = coefficients().fold(0, |gcd, c| greatest_common_divisor(gcd, c.abs())).max(1);
    let mut common: Option<BTreeMap<Factor, u32>> = None;
    for monomial in dividend.terms.keys().chain(divisor.terms.keys()) {
        // Only symbols are known to be positive; a quotient may be zero.
        let powers: BTreeMap<Factor, u32> = monomial
            .iter()
            .filter(|(factor, _)| matches!(factor, Factor::Symbol(_)))
            .map(|(factor, power)| (factor.clone(), *power))
            .collect();
        common = Some(match common {
            None => powers,
            Some(common) => common
                .into_iter()
                .filter_map(|(factor, power)| powers.get(&factor).map(|other| (factor, power.min(*other))))
                .collect(),
        });
    }
    let common: Monomial = common.unwrap_or_default().into_iter().collect();
    let reduce = |size: &Size| Size {
        terms: size
            .terms
            .iter()
            .map(|(monomial, c)| {
                (divide_monomials(monomial, &common).unwrap_or_else(|| monomial.clone()), c / divisible)
            })
            .collect(),
    };
    (reduce(dividend), reduce(divisor))
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
