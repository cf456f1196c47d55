//! Rules that need all bodies: no recursion, and no scan where only one turn's worth of values exists.

use super::Checker;
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::FunctionId;
use crate::source::Span;

/// What is remembered of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Its signature could not be understood.
    pub broken: bool,
    /// A scan stands in its body.
    pub has_scan: bool,
    pub calls: Vec<CallFact>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CallFact {
    pub function: FunctionId,
    pub span: Span,
    /// Outside `each`, folds and run-time `if`s.
    pub is_singular: bool,
}

impl Checker<'_> {
    pub(super) fn check_program_rules(&mut self) {
        let facts = std::mem::take(&mut self.facts);
        let order = self.check_recursion(&facts);
        // Callees come before callers in `order`.
        let mut scans = vec![false; facts.len()];
        for function in order {
            let own = &facts[function];
            scans[function] = own.has_scan || own.calls.iter().any(|call| scans[call.function.index()]);
        }
        for call in facts.iter().flat_map(|facts| &facts.calls) {
            if !call.is_singular && scans[call.function.index()] {
                let name = &self.functions[call.function.index()].name;
                let message =
                    format!("`{name}` holds a scan and is called inside `each`, a fold or a run-time `if`");
                let hint = "a scan runs once: call it outside and use its result";
                self.report(Diagnostic::new(Rule::Scan, call.span, message).hint(hint));
            }
        }
    }

    /// Reports functions that call themselves; gives all functions, callees first. Depth-first without recursion: chains
    /// of calls may be as long as the text.
    fn check_recursion(&mut self, facts: &[Facts]) -> Vec<usize> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; facts.len()];
        let mut order = Vec::with_capacity(facts.len());
        for root in 0..facts.len() {
            if marks[root] != Mark::New {
                continue;
            }
            marks[root] = Mark::Open;
            let mut stack = vec![(root, 0)];
            while let Some((function, next)) = stack.pop() {
                let Some(call) = facts[function].calls.get(next) else {
                    marks[function] = Mark::Done;
                    order.push(function);
                    continue;
                };
                stack.push((function, next + 1));
                let callee = call.function.index();
                match marks[callee] {
                    Mark::New => {
                        marks[callee] = Mark::Open;
                        stack.push((callee, 0));
                    }
                    Mark::Open => {
                        let name = &self.functions[callee].name;
                        let message = format!("`{name}` calls itself, here or through others");
                        let hint = "repeat with `fold`, `scan` or a loop over layers";
                        self.report(Diagnostic::new(Rule::Recursion, call.span, message).hint(hint));
                    }
                    Mark::Done => {}
                }
            }
        }
        order
    }
}
