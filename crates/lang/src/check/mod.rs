//! Syntax tree to typed program: names, types, sizes, and the rules of steps.
//!
//! First every declaration is collected ([`declarations`], [`models`]), so that order in the text does not matter; then
//! each function's body is checked by itself ([`body`] and the modules after it); then the rules that need all bodies
//! ([`program_rules`]). A mistake in one expression does not hide mistakes beside it.

mod body;
mod bounds;
mod calls;
mod declarations;
mod elementwise;
mod expressions;
mod indexing;
mod iteration;
mod layers;
mod models;
mod operators;
mod program_rules;
mod scan;
mod sizes;
mod statements;
mod types;

use std::collections::HashMap;

use crate::ast;
use crate::diagnostic::{Diagnostic, MOST_DIAGNOSTICS};
use crate::hir::{ConstId, Function, FunctionId, Model, ParamId, Program, SingleLayerId, StaticId, Symbol};
use crate::parser::Reported;
use crate::size::SizeSymbol;
use crate::source::{Source, Span};

pub(crate) use types::scalar_name;

type Checked<T> = Result<T, Reported>;

/// What a name at the top level or of a model stands for.
#[derive(Clone, Copy, Debug)]
enum Global {
    Function(FunctionId),
    Size(SizeSymbol),
    Param(ParamId),
    Const(ConstId),
    Static(StaticId),
    SingleLayer(SingleLayerId),
    /// Declared, but wrongly; that was reported.
    Broken,
}

type Namespace = HashMap<String, (Global, Span)>;

/// The program as far as it is known.
struct Checker<'a> {
    diagnostics: Vec<Diagnostic>,
    symbols: Vec<Symbol>,
    functions: Vec<Function>,
    /// The syntax of each function, in the same order.
    sources: Vec<&'a ast::Function>,
    models: Vec<Model>,
    /// Functions of the top level.
    top: Namespace,
    /// Everything declared in each model.
    inside: Vec<Namespace>,
    /// What the rules over all bodies need, for each function.
    facts: Vec<program_rules::Facts>,
}

impl Checker<'_> {
    fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        if !self.is_full() {
            self.diagnostics.push(diagnostic);
        }
        Reported
    }

    /// So many messages that more are not worth finding: a cap well above what is shown, since messages are sorted
    /// before they are cut.
    fn is_full(&self) -> bool {
        self.diagnostics.len() >= 10 * MOST_DIAGNOSTICS
    }

    fn size_text(&self, size: &crate::Size) -> String {
        size.display(&|symbol| self.symbol_name(symbol)).to_string()
    }

    fn symbol_name(&self, symbol: SizeSymbol) -> String {
        self.symbols.get(symbol.0 as usize).map_or_else(|| "?".to_string(), |symbol| symbol.name.clone())
    }
}

/// Checks a file. The program is whole only when no message comes with it.
pub(crate) fn check(source: Source, file: &ast::File) -> (Program, Vec<Diagnostic>) {
    let mut checker = Checker {
        diagnostics: Vec::new(),
        symbols: Vec::new(),
        functions: Vec::new(),
        sources: Vec::new(),
        models: Vec::new(),
        top: Namespace::new(),
        inside: Vec::new(),
        facts: Vec::new(),
    };
    checker.collect(file);
    for place in 0..checker.functions.len() {
        if checker.is_full() {
            break;
        }
        body::check_body(&mut checker, FunctionId(place as u32));
    }
    checker.check_program_rules();
    let program =
        Program { source, symbols: checker.symbols, functions: checker.functions, models: checker.models };
    (program, checker.diagnostics)
}

/// The name among `candidates` that a misspelt `name` most likely meant.
fn similar<'n>(name: &str, candidates: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let allowed = (name.len() / 3).clamp(1, 3);
    candidates
        .filter(|candidate| !candidate.starts_with('$') && candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| (edit_distance(name.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

fn edit_distance(left: &[u8], right: &[u8]) -> usize {
    // Long names are compared by their beginnings: the cost stays small whatever the text holds.
    let (left, right) = (&left[..left.len().min(64)], &right[..right.len().min(64)]);
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}
