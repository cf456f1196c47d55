//! Sizes as text.

use std::fmt;

use super::{Factor, Size, SizeSymbol};

pub(super) struct DisplaySize<'a> {
    pub size: &'a Size,
    pub name: &'a dyn Fn(SizeSymbol) -> String,
}

impl fmt::Display for DisplaySize<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.size.terms.is_empty() {
            return write!(f, "0");
        }
        // Highest degree first, the constant last.
        let mut terms: Vec<_> = self.size.terms.iter().collect();
        terms.sort_by_key(|(monomial, _)| std::cmp::Reverse(monomial.len()));
        for (place, (monomial, coefficient)) in terms.into_iter().enumerate() {
            match (place, *coefficient < 0) {
                (0, true) => write!(f, "-")?,
                (0, false) => {}
                (_, true) => write!(f, " - ")?,
                (_, false) => write!(f, " + ")?,
            }
            let magnitude = coefficient.unsigned_abs();
            if magnitude != 1 || monomial.is_empty() {
                write!(f, "{magnitude}")?;
                if !monomial.is_empty() {
                    write!(f, " * ")?;
                }
            }
            let mut first = true;
            for (factor, power) in monomial {
                for _ in 0..*power {
                    if !std::mem::take(&mut first) {
                        write!(f, " * ")?;
                    }
                    match factor {
                        Factor::Symbol(symbol) => write!(f, "{}", (self.name)(*symbol))?,
                        Factor::Quotient(parts) => {
                            write!(f, "(")?;
                            write_part(f, &parts.0, self.name)?;
                            write!(f, " / ")?;
                            write_part(f, &parts.1, self.name)?;
                            write!(f, ")")?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn write_part(f: &mut fmt::Formatter<'_>, size: &Size, name: &dyn Fn(SizeSymbol) -> String) -> fmt::Result {
    if size.as_constant().is_some() || size.as_symbol().is_some() {
        write!(f, "{}", size.display(name))
    } else {
        write!(f, "({})", size.display(name))
    }
}
