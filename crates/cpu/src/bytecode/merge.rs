//! Two innermost loops become one where every access walks through memory as if they were one: `[heads, 64]` runs in
//! blocks of 256 instead of 64.

use super::choose::Nest;
use super::code::*;

/// Merges the innermost loops of an elementwise program as far as possible.
pub(super) fn merge(code: &mut Code, nest: &Nest) {
    let lanes_last = nest.order.windows(2).all(|pair| pair[0] < pair[1]);
    while lanes_last && merge_once(code) {}
}

fn merge_once(code: &mut Code) -> bool {
    let depth = code.levels.len() - 1;
    if depth < 2 || !code.levels[depth - 1].before.is_empty() || !code.levels[depth - 1].after.is_empty() {
        return false;
    }
    let (Some(outer), Some(inner)) = (&code.levels[depth - 2].next, &code.levels[depth - 1].next) else {
        return false;
    };
    let (Bound::Known(low), Bound::Known(high)) = (outer.low, outer.high) else { return false };
    let (Bound::Known(0), Bound::Known(length)) = (inner.low, inner.high) else { return false };
    let (outer_axis, inner_axis) = (outer.axis, inner.axis);
    let outermost = outer.outermost.map(|(times, by)| (times * length as usize, by));
    if inner.outermost.is_some() || (length == 0) {
        return false;
    }
    let by = |offset: &Offset, axis: Slot| {
        let term = offset.terms.iter().find(|term| term.1 == axis);
        term.map_or(Some(0), |term| match code.coefficients[term.0 as usize] {
            Coefficient::Known(elements) => Some(elements),
            _ => None,
        })
    };
    let walks = |offset: &Offset| matches!((by(offset, outer_axis), by(offset, inner_axis)), (Some(o), Some(i)) if o == i * length);
    let body = &code.levels[depth].before;
    let mut fits = true;
    for instruction in body {
        fits &= match instruction {
            Instruction::Load(place) => walks(&code.loads[*place as usize].offset),
            Instruction::Store(place) => walks(&code.stores[*place as usize].offset),
            _ => true,
        };
        for_each_operand(code, instruction, &mut |slot| fits &= slot != outer_axis && slot != inner_axis);
    }
    if !fits {
        return false;
    }
    for load in &mut code.loads {
        load.offset.terms.retain(|term| term.1 != outer_axis);
    }
    for store in &mut code.stores {
        store.offset.terms.retain(|term| term.1 != outer_axis);
    }
    let merged = Loop {
        low: Bound::Known(low * length),
        high: Bound::Known(high * length),
        axis: inner_axis,
        vector: true,
        outermost,
    };
    code.levels.remove(depth - 1);
    code.levels[depth - 2].next = Some(merged);
    true
}

/// Calls `f` on each slot that an instruction reads, those of a tail's instructions included.
pub(super) fn for_each_read(code: &Code, instruction: &Instruction, f: &mut dyn FnMut(Slot)) {
    match instruction {
        Instruction::Load(place) => {
            code.loads[*place as usize].offset.terms.iter().for_each(|term| f(term.1))
        }
        Instruction::Store(place) => {
            code.stores[*place as usize].offset.terms.iter().for_each(|term| f(term.1))
        }
        _ => {}
    }
    for_each_operand(code, instruction, f);
}

/// Those of them that are no parts of a scalar address.
fn for_each_operand(code: &Code, instruction: &Instruction, f: &mut dyn FnMut(Slot)) {
    match instruction {
        Instruction::Lane(lane) => [lane.a, lane.b, lane.c].into_iter().for_each(f),
        Instruction::Load(place) => {
            let load = &code.loads[*place as usize];
            load.vectors.iter().for_each(|vector| f(vector.1));
            load.depth.iter().for_each(|depth| f(depth.slot));
        }
        Instruction::Check(place) => {
            let check = &code.checks[*place as usize];
            f(check.value);
            check.mask.iter().for_each(|&mask| f(mask));
            if let CheckRule::Index { low, high, .. } = check.rule {
                f(low);
                f(high);
            }
        }
        Instruction::Store(place) => {
            f(code.stores[*place as usize].from);
        }
        Instruction::FoldBegin(_) => {}
        Instruction::FoldStep(place) => {
            let fold = &code.folds[*place as usize];
            f(fold.a);
            f(fold.b);
        }
        Instruction::FoldEnd(place) => f(code.folds[*place as usize].accumulator),
        Instruction::Tail(place) => {
            let tail = &code.tails[*place as usize];
            f(tail.addend);
            tail.instructions.iter().for_each(|inner| for_each_read(code, inner, f));
        }
        Instruction::Extract { from, .. } => f(*from),
    }
}

/// The slot that an instruction writes, if it is a value.
pub(super) fn written(code: &Code, instruction: &Instruction) -> Option<Slot> {
    match instruction {
        Instruction::Lane(lane) => Some(lane.to),
        Instruction::Load(place) => Some(code.loads[*place as usize].to),
        Instruction::Check(place) => Some(code.checks[*place as usize].to),
        Instruction::Extract { to, .. } => Some(*to),
        Instruction::FoldEnd(place) => Some(code.folds[*place as usize].to),
        Instruction::Store(_)
        | Instruction::FoldBegin(_)
        | Instruction::FoldStep(_)
        | Instruction::Tail(_) => None,
    }
}
