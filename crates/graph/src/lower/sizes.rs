//! Solving a function's sizes from the shapes of its inputs.

use std::collections::BTreeMap;

use fiddlehead_lang::hir::Program;
use fiddlehead_lang::size::{Size, SizeSymbol};

use super::error::LowerError;
use super::positive;

/// The value of every size parameter of a function of the top level, solved from the shapes of its inputs (each
/// declared size may hold one unknown linearly, such as `H + 2`) and from sizes given by name. Everything is checked
/// against everything; inputs without a shape here tell nothing.
///
/// # Errors
/// When a size stays unknown, two places disagree, or a shape has the wrong number of axes.
pub fn infer_sizes(
    program: &Program,
    function: &str,
    shapes: &BTreeMap<String, Vec<usize>>,
    given: &BTreeMap<String, i64>,
) -> Result<BTreeMap<String, i64>, LowerError> {
    let id = program.function(function).ok_or_else(|| LowerError::NoFunction { name: function.into() })?;
    let declared = &program.functions[id.index()];
    let unknown =
        |name: &String, what| LowerError::Unknown { name: name.clone(), what, function: function.into() };
    let mut known: BTreeMap<SizeSymbol, (i64, String)> = BTreeMap::new();
    for (name, &value) in given {
        let symbol = declared.sizes.iter().find(|&&symbol| program.symbol_name(symbol) == name);
        let symbol = symbol.ok_or_else(|| unknown(name, "size"))?;
        known.insert(*symbol, (positive(name, value)?, "--dim".into()));
    }
    let mut equations = Vec::new();
    for (name, shape) in shapes {
        let mut locals = declared.parameters.iter().map(|parameter| declared.local(parameter.local));
        let local = locals.find(|local| local.name == *name).ok_or_else(|| unknown(name, "input"))?;
        let dims = local.ty.dims();
        if dims.len() != shape.len() {
            let (wanted, found) = (dims.len(), shape.len());
            return Err(LowerError::InputRank { input: name.clone(), wanted, found });
        }
        for (axis, (size, &extent)) in dims.iter().zip(shape).enumerate() {
            equations.push((format!("axis {axis} of input `{name}`"), size, extent as i64));
        }
    }
    // Each round settles the equations with no unknown and solves those with one; none left to solve ends it.
    loop {
        let before = known.len();
        let mut open = Vec::new();
        for (place, size, extent) in equations {
            match settle(program, &known, &place, size, extent)? {
                Settled::Agrees => {}
                Settled::Solved(symbol, value) => {
                    known.insert(symbol, (value, place));
                }
                Settled::Open => open.push((place, size, extent)),
            }
        }
        equations = open;
        if known.len() == before {
            break;
        }
    }
    declared
        .sizes
        .iter()
        .map(|&symbol| {
            let name = program.symbol_name(symbol).to_string();
            match known.get(&symbol) {
                Some((value, _)) => Ok((name, *value)),
                None => Err(LowerError::SizeMissing { name }),
            }
        })
        .collect()
}

enum Settled {
    Agrees,
    Solved(SizeSymbol, i64),
    Open,
}

fn settle(
    program: &Program,
    known: &BTreeMap<SizeSymbol, (i64, String)>,
    place: &str,
    size: &Size,
    extent: i64,
) -> Result<Settled, LowerError> {
    let mut unknowns = Vec::new();
    let mut places = Vec::new();
    size.for_each_symbol(&mut |symbol| match known.get(&symbol) {
        Some((_, place)) if !places.contains(place) => places.push(place.clone()),
        Some(_) => {}
        None if unknowns.contains(&symbol) => {}
        None => unknowns.push(symbol),
    });
    let text = || program.size_text(size);
    let unsolvable =
        |name: String| LowerError::SizeUnsolvable { place: place.into(), value: extent, name, size: text() };
    let reduced = size.substitute(&|symbol| known.get(&symbol).map(|(value, _)| Size::from(*value)));
    let Ok(reduced) = reduced else { return Err(unsolvable("size".into())) };
    if let Some(value) = reduced.as_constant() {
        if value == extent {
            return Ok(Settled::Agrees);
        }
        let first_place = if places.is_empty() { "the program".into() } else { places.join(" and ") };
        return Err(LowerError::SizeConflict {
            name: text(),
            first: value,
            first_place,
            second: extent,
            second_place: place.into(),
        });
    }
    let [symbol] = unknowns.as_slice() else { return Ok(Settled::Open) };
    let Some((factor, rest)) = reduced.as_linear_in(*symbol) else { return Ok(Settled::Open) };
    let (Some(factor), Some(rest)) = (factor.as_constant(), rest.as_constant()) else {
        return Ok(Settled::Open);
    };
    let name = program.symbol_name(*symbol).to_string();
    let difference = extent.checked_sub(rest).ok_or_else(|| unsolvable(name.clone()))?;
    if factor == 0 || difference % factor != 0 || difference / factor < 1 {
        return Err(unsolvable(name));
    }
    Ok(Settled::Solved(*symbol, positive(&name, difference / factor)?))
}
