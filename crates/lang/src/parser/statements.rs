//! Blocks and what stands in them.

use super::{Parsed, Parser, Reported};
use crate::ast;
use crate::diagnostic::{Diagnostic, Rule};

impl Parser<'_> {
    pub(super) fn block_expression(&mut self) -> Parsed<ast::Expr> {
        let block = self.block()?;
        let (span, height) = (block.span, block_height(&block));
        self.node(ast::ExprKind::Block(block), span, height)
    }

    /// `{ statement; ... result }`. Goes on after a broken statement, so that every mistake is reported.
    pub(super) fn block(&mut self) -> Parsed<ast::Block> {
        self.deeper(|p| {
            let start = p.expect_sign("{", "before a block")?;
            let mut block = ast::Block { statements: Vec::new(), result: None, span: start };
            let mut broken = false;
            loop {
                if p.is_sign("}") {
                    block.span = start.to(p.advance().span);
                    return if broken { Err(Reported) } else { Ok(block) };
                }
                if p.at_end() || p.at_item_margin() {
                    let message = format!("expected `}}` at the end of a block, found {}", p.found());
                    let diagnostic = Diagnostic::new(Rule::Syntax, p.token().span, message);
                    return Err(p.report(diagnostic.related(start, "the block starts here")));
                }
                if p.statement(&mut block).is_err() {
                    broken = true;
                    p.skip_statement();
                }
            }
        })
    }

    fn statement(&mut self, block: &mut ast::Block) -> Parsed<()> {
        let start = self.token().span;
        if let Some(result) = &block.result {
            // An expression came before this: only `}` may follow it.
            let (span, message) = (result.span, "a value in the middle of a block is not used");
            let diagnostic = Diagnostic::new(Rule::Syntax, span, message);
            block.result = None;
            return Err(self.report(diagnostic.hint("bind it with `let`, or remove it")));
        }
        let kind = if self.eat_word("let") {
            let pattern = self.pattern()?;
            self.expect_sign("=", "after the name that `let` binds")?;
            let value = self.expression()?;
            self.expect_sign(";", "at the end of `let`")?;
            ast::StatementKind::Let { pattern, value }
        } else if self.eat_word("state") {
            let name = self.name("a state")?;
            self.expect_sign(":", "and a type after the state's name")?;
            let ty = self.type_expression()?;
            self.expect_sign("=", "and the initial value after the state's type")?;
            let init = self.expression()?;
            self.expect_sign(";", "at the end of `state`")?;
            ast::StatementKind::State { name, ty, init }
        } else if self.eat_word("history") {
            let name = self.name("a history")?;
            self.expect_sign("=", "and the node's row after the history's name")?;
            let row = self.expression()?;
            self.expect_sign(";", "at the end of `history`")?;
            ast::StatementKind::History { name, row }
        } else if self.is_word("emit") || self.is_word("emit_if") {
            let is_conditional = self.is_word("emit_if");
            self.advance();
            self.emission(is_conditional)?
        } else if self.eat_word("next") {
            let value = self.expression()?;
            self.end_of_turn_part("next")?;
            ast::StatementKind::Next(value)
        } else if self.is_assignment() {
            let name = self.name("a state")?;
            self.advance();
            self.advance();
            let value = self.expression()?;
            self.expect_sign(";", "at the end of an assignment")?;
            ast::StatementKind::Assign { name, value }
        } else {
            let value = self.expression()?;
            if self.is_sign("=") {
                let message = "only a state's outgoing value is assigned";
                let diagnostic = Diagnostic::new(Rule::Syntax, self.token().span, message);
                return Err(
                    self.report(diagnostic.hint("bind a new name with `let`, or assign `name' = ...;`"))
                );
            }
            if self.is_sign(";") {
                let diagnostic = Diagnostic::new(Rule::Syntax, value.span, "this value is not used");
                let hint =
                    "the last expression of a block, without `;`, is its value; bind others with `let`";
                return Err(self.report(diagnostic.hint(hint)));
            }
            let goes_on =
                self.is_sign("}") || self.starts_statement() || self.at_end() || self.at_item_margin();
            if !goes_on {
                return Err(self.expected("an operator, `;` or `}` after an expression"));
            }
            block.result = Some(Box::new(value));
            return Ok(());
        };
        block.statements.push(ast::Statement { kind, span: start.to(self.last_span()) });
        Ok(())
    }

    fn emission(&mut self, is_conditional: bool) -> Parsed<ast::StatementKind> {
        if !is_conditional {
            let value = self.expression()?;
            self.end_of_turn_part("emit")?;
            return Ok(ast::StatementKind::Emit { bound: None, condition: None, value });
        }
        let bound = if self.eat_sign("[") {
            let bound = self.expression()?;
            self.expect_sign("]", "after the bound of `emit_if`")?;
            Some(bound)
        } else {
            None
        };
        self.expect_sign("(", "and a condition after `emit_if`")?;
        let condition = self.expression()?;
        self.expect_sign(",", "and a value after the condition of `emit_if`")?;
        let value = self.expression()?;
        self.eat_sign(",");
        self.expect_sign(")", "at the end of `emit_if`")?;
        self.end_of_turn_part("emit_if")?;
        Ok(ast::StatementKind::Emit { bound, condition: Some(condition), value })
    }

    /// `;`, which may be left out before the closing brace.
    fn end_of_turn_part(&mut self, word: &str) -> Parsed<()> {
        if !self.is_sign("}") {
            self.expect_sign(";", &format!("at the end of `{word}`"))?;
        }
        Ok(())
    }

    fn starts_statement(&self) -> bool {
        ["let", "state", "history", "emit", "emit_if", "next"].iter().any(|word| self.is_word(word))
    }

    /// `name' =`, and not `name' ==`.
    fn is_assignment(&self) -> bool {
        use crate::lexer::TokenKind::{Sign, Word};
        self.token().kind == Word && self.ahead(1).kind == Sign("'") && self.ahead(2).kind == Sign("=")
    }

    fn pattern(&mut self) -> Parsed<ast::Pattern> {
        let start = self.token().span;
        if self.eat_sign("(") {
            let parts = self.deeper(|p| p.list(")", "a name", Self::pattern))?;
            return Ok(ast::Pattern::Tuple(parts, start.to(self.last_span())));
        }
        if self.eat_word("_") {
            return Ok(ast::Pattern::Name(ast::Name { text: "_".to_string(), span: start }));
        }
        Ok(ast::Pattern::Name(self.name("a value")?))
    }
}

pub(super) fn block_height(block: &ast::Block) -> u16 {
    let statements = block.statements.iter().map(|statement| match &statement.kind {
        ast::StatementKind::Let { value, .. }
        | ast::StatementKind::Assign { value, .. }
        | ast::StatementKind::Next(value) => value.height,
        ast::StatementKind::State { init, .. } => init.height,
        ast::StatementKind::History { row, .. } => row.height,
        ast::StatementKind::Emit { condition, value, .. } => {
            condition.as_ref().map_or(0, |condition| condition.height).max(value.height)
        }
    });
    statements.chain(block.result.iter().map(|result| result.height)).max().unwrap_or(0)
}
