//! The order of a program's units: what must run row after row, what can run for all rows at once, and what is done
//! together.
//!
//! Reading a state, or a history, reads other rows' results: such a read must come after all rows' results are there,
//! unless these depend on the read in turn. Units that so depend on each other across rows form a *serial* part, run for
//! one row after another, parents before children. Everything else runs for all rows, in the order of its dependence.

use fiddlehead_graph::Graph;

use super::unit::{Duty, SetIndex, Unit};

/// A unit, by its place.
pub type UnitIndex = usize;

/// One piece of the order.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Units done once, each after those before it.
    Uniform(Vec<UnitIndex>),
    /// Units of the same rows that read no other row's results of this piece: each row may run through all of them by
    /// itself.
    Rows(SetIndex, Vec<UnitIndex>),
    /// Kernels that read nothing of each other: one launch.
    Together(Vec<UnitIndex>),
    /// Units that run through for one row, then for the next.
    Serial(Vec<UnitIndex>),
}

/// How a unit may be joined with others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Uniform,
    Rows(SetIndex),
    /// Contractions, which share a launch.
    Shared,
    Alone,
}

fn kind(unit: &Unit, shared: &dyn Fn(&Unit) -> bool) -> Kind {
    match (unit.work, unit.set) {
        (Duty::Node(_), None) => Kind::Uniform,
        (Duty::Node(_), Some(set)) => Kind::Rows(set),
        (Duty::Append(_) | Duty::Store(_), _) => Kind::Rows(SetIndex::ALL),
        _ if shared(unit) => Kind::Shared,
        _ => Kind::Alone,
    }
}

/// What each unit needs before it.
struct Needs {
    /// Results of the same row.
    own: Vec<Vec<UnitIndex>>,
    /// Results of this row or others.
    across: Vec<Vec<UnitIndex>>,
}

fn needs(graph: &Graph, units: &[Unit]) -> Needs {
    let mut maker = vec![None; graph.nodes().len()];
    let mut append = vec![None; graph.histories().len()];
    let mut store = vec![None; graph.states().len()];
    for (index, unit) in units.iter().enumerate() {
        unit.makes.iter().for_each(|node| maker[node.index()] = Some(index));
        match unit.work {
            Duty::Append(history) => append[history.index()] = Some(index),
            Duty::Store(state) => store[state.index()] = Some(index),
            _ => {}
        }
    }
    let mut needs = Needs { own: Vec::new(), across: Vec::new() };
    for unit in units {
        let reads =
            unit.reads.iter().chain(unit.states.iter().map(|state| &graph.states()[state.index()].initial));
        needs.own.push(reads.filter_map(|node| maker[node.index()]).collect());
        let histories = unit.histories.iter().filter_map(|history| append[history.index()]);
        let states = unit.states.iter().filter_map(|state| store[state.index()]);
        needs.across.push(histories.chain(states).collect());
    }
    needs
}

/// Strongly connected components (Tarjan), each after those it needs. Iterative: graphs are deep.
fn components(units: usize, needs: &Needs) -> Vec<Vec<UnitIndex>> {
    const UNSEEN: usize = usize::MAX;
    let edge = |unit: usize, place: usize| {
        let own = &needs.own[unit];
        own.get(place).or_else(|| needs.across[unit].get(place - own.len())).copied()
    };
    let (mut number, mut low) = (vec![UNSEEN; units], vec![0; units]);
    let (mut on_stack, mut stack) = (vec![false; units], Vec::new());
    let (mut found, mut next) = (Vec::new(), 0);
    for root in 0..units {
        if number[root] != UNSEEN {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some(&mut (unit, ref mut place)) = calls.last_mut() {
            if *place == 0 && number[unit] == UNSEEN {
                (number[unit], low[unit]) = (next, next);
                next += 1;
                stack.push(unit);
                on_stack[unit] = true;
            }
            match edge(unit, *place) {
                Some(other) => {
                    *place += 1;
                    if number[other] == UNSEEN {
                        calls.push((other, 0));
                    } else if on_stack[other] {
                        low[unit] = low[unit].min(number[other]);
                    }
                }
                None => {
                    calls.pop();
                    if let Some(&(caller, _)) = calls.last() {
                        low[caller] = low[caller].min(low[unit]);
                    }
                    if low[unit] == number[unit] {
                        let mut component = Vec::new();
                        while let Some(member) = stack.pop() {
                            on_stack[member] = false;
                            component.push(member);
                            if member == unit {
                                break;
                            }
                        }
                        component.sort();
                        found.push(component);
                    }
                }
            }
        }
    }
    found
}

/// The members of a serial part in an order for one row: after what they need of the same row, and after the row's own
/// additions to the histories they read unless these depend on them.
fn serial_order(members: &[UnitIndex], needs: &Needs, units: &[Unit]) -> Vec<UnitIndex> {
    let inside = |unit: &UnitIndex| members.binary_search(unit).is_ok();
    let reaches = |from: UnitIndex, to: UnitIndex| {
        let (mut seen, mut open) = (vec![from], vec![from]);
        while let Some(unit) = open.pop() {
            if unit == to {
                return true;
            }
            for &next in needs.own[unit].iter().filter(|next| inside(next)) {
                if !seen.contains(&next) {
                    seen.push(next);
                    open.push(next);
                }
            }
        }
        false
    };
    let waits: Vec<Vec<UnitIndex>> = members
        .iter()
        .map(|&unit| {
            let mut waits: Vec<UnitIndex> = needs.own[unit].iter().copied().filter(inside).collect();
            waits.extend(needs.across[unit].iter().copied().filter(|&other| {
                inside(&other) && matches!(units[other].work, Duty::Append(_)) && !reaches(other, unit)
            }));
            waits
        })
        .collect();
    let mut order = Vec::with_capacity(members.len());
    while order.len() < members.len() {
        let ready = members
            .iter()
            .zip(&waits)
            .find(|(unit, waits)| !order.contains(*unit) && waits.iter().all(|other| order.contains(other)));
        match ready {
            Some((&unit, _)) => order.push(unit),
            // A sealed graph has no cycle within a row; were there one, the rest keeps the graph's order.
            None => {
                order.extend(members.iter().copied().filter(|unit| !order.contains(unit)).collect::<Vec<_>>())
            }
        }
    }
    order
}

/// Orders the units of a graph. `shared` says which kernels may share a launch.
pub fn schedule(graph: &Graph, units: &[Unit], shared: &dyn Fn(&Unit) -> bool) -> Vec<Piece> {
    let needs = needs(graph, units);
    let components = components(units.len(), &needs);
    let mut component_of = vec![0; units.len()];
    for (index, component) in components.iter().enumerate() {
        component.iter().for_each(|&unit| component_of[unit] = index);
    }
    let serial: Vec<bool> = components
        .iter()
        .map(|component| component.len() > 1 || needs.across[component[0]].contains(&component[0]))
        .collect();
    let mut done = vec![false; components.len()];
    // Components in the order of their first units, which follows the graph's.
    let mut waiting: Vec<usize> = (0..components.len()).collect();
    waiting.sort_by_key(|&component| components[component][0]);
    let is_ready = |component: usize, done: &[bool], piece: &[usize]| {
        let known = |other: usize| other == component || done[other];
        components[component].iter().all(|&unit| {
            needs.own[unit]
                .iter()
                .all(|&other| known(component_of[other]) || piece.contains(&component_of[other]))
                && needs.across[unit].iter().all(|&other| known(component_of[other]))
        })
    };
    let mut pieces = Vec::new();
    while !waiting.is_empty() {
        let ready: Vec<usize> = waiting.iter().copied().filter(|&c| is_ready(c, &done, &[])).collect();
        let kind_of = |component: usize| match serial[component] {
            true => Kind::Alone,
            false => kind(&units[components[component][0]], shared),
        };
        let first_of = |wanted: &dyn Fn(Kind) -> bool| ready.iter().copied().find(|&c| wanted(kind_of(c)));
        let chosen = first_of(&|kind| kind == Kind::Uniform)
            .or_else(|| first_of(&|kind| kind == Kind::Rows(SetIndex::ALL)))
            .or_else(|| first_of(&|kind| matches!(kind, Kind::Rows(_))))
            .or_else(|| first_of(&|kind| kind == Kind::Shared))
            .or_else(|| ready.first().copied());
        // A sealed graph always has a ready component; without one the rest would be dropped, which its users' missing
        // buffers would tell.
        let Some(chosen) = chosen else { break };
        let kind = kind_of(chosen);
        let mut taken = vec![chosen];
        match kind {
            Kind::Alone => {}
            Kind::Shared => taken = ready.iter().copied().filter(|&c| kind_of(c) == Kind::Shared).collect(),
            Kind::Uniform | Kind::Rows(_) => loop {
                let before = taken.len();
                for &component in &waiting {
                    if kind_of(component) == kind
                        && !taken.contains(&component)
                        && is_ready(component, &done, &taken)
                    {
                        taken.push(component);
                    }
                }
                if taken.len() == before {
                    break;
                }
            },
        }
        taken.iter().for_each(|&component| done[component] = true);
        waiting.retain(|&component| !done[component]);
        let members: Vec<UnitIndex> = taken.iter().map(|&component| components[component][0]).collect();
        pieces.push(match kind {
            _ if serial[chosen] => Piece::Serial(serial_order(&components[chosen], &needs, units)),
            Kind::Uniform => Piece::Uniform(members),
            Kind::Rows(set) => Piece::Rows(set, members),
            Kind::Shared | Kind::Alone => Piece::Together(members),
        });
    }
    pieces
}
