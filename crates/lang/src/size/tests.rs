//! Normal forms, division, evaluation, bounds.

use super::*;

fn symbols() -> (Size, Size, Size) {
    (Size::from(SizeSymbol(0)), Size::from(SizeSymbol(1)), Size::from(SizeSymbol(2)))
}

fn show(size: &Size) -> String {
    size.display(&|symbol| ["H", "G", "K"][symbol.0 as usize].to_string()).to_string()
}

#[test]
fn polynomials_have_one_form() {
    let (h, g, k) = symbols();
    let left = h.add(&g).unwrap().multiply(&k).unwrap();
    let right = g.multiply(&k).unwrap().add(&k.multiply(&h).unwrap()).unwrap();
    assert_eq!(left, right);
    assert_eq!(left.subtract(&right).unwrap(), Size::from(0));
}

#[test]
fn division_is_exact_where_it_can_be() {
    let (h, g, k) = symbols();
    let hk = h.multiply(&k).unwrap();
    assert_eq!(hk.divide(&k).unwrap(), h);
    let square = h.add(&g).unwrap().multiply(&h.add(&g).unwrap()).unwrap();
    assert_eq!(square.divide(&h.add(&g).unwrap()).unwrap(), h.add(&g).unwrap());
    assert_eq!(hk.divide(&g.multiply(&k).unwrap()).unwrap(), h.divide(&g).unwrap());
    assert_eq!(show(&h.divide(&g).unwrap()), "(H / G)");
    let two = Size::from(2);
    let odd = two.multiply(&h).unwrap().add(&Size::from(3)).unwrap();
    assert_eq!(odd.divide(&two).unwrap(), h.add(&Size::from(1)).unwrap());
    assert_eq!(Size::from(-1).divide(&two).unwrap(), Size::from(-1));
    assert_eq!(h.divide(&Size::from(0)), Err(SizeError::DivisionByZero));
}

#[test]
fn evaluation_agrees_with_arithmetic() {
    let (h, g, k) = symbols();
    let size = h.multiply(&k).unwrap().add(&Size::from(5)).unwrap().divide(&g).unwrap();
    let value = size.evaluate(&|symbol| Some([7, 4, 3][symbol.0 as usize]));
    assert_eq!(value, Ok((7 * 3 + 5) / 4));
    let huge = h.multiply(&h).unwrap();
    assert_eq!(huge.evaluate(&|_| Some(i64::MAX)), Err(SizeError::Overflow));
    assert_eq!(huge.evaluate(&|_| None), Err(SizeError::Unbound(SizeSymbol(0))));
}

#[test]
fn bounds_are_proven_from_symbols_of_at_least_one() {
    let (h, g, _) = symbols();
    assert!(h.subtract(&Size::from(1)).unwrap().is_at_least(0));
    assert!(!h.subtract(&Size::from(2)).unwrap().is_at_least(0));
    assert!(h.add(&g).unwrap().is_at_least(2));
    assert!(!h.subtract(&g).unwrap().is_at_least(0));
    assert!(h.divide(&g).unwrap().is_at_least(0));
    assert!(!h.divide(&g).unwrap().is_at_least(1));
}

#[test]
fn growth_is_bounded() {
    let mut size = Size::from(SizeSymbol(0));
    for i in 1..40 {
        size = size.add(&Size::from(SizeSymbol(i))).unwrap();
    }
    assert_eq!(size.multiply(&size), Err(SizeError::TooLarge));

    // Nested quotients double at every level of this.
    let (h, g, _) = symbols();
    let sum = h.add(&g).unwrap();
    let mut nested = h.clone();
    let grown = (0..64).try_for_each(|_| {
        nested = nested.divide(&Size::from(2))?.add(&h)?.multiply(&sum)?;
        Ok(())
    });
    assert_eq!(grown, Err(SizeError::TooLarge));
}
