//! Tokens to syntax tree. Never fails: a mistake is reported, the parser skips to the next statement or item, and goes
//! on. One token of lookahead decides everything but two places (an assignment, a call with sizes), so the time is
//! linear; nesting is bounded, so the stack is.

mod expressions;
mod items;
mod statements;

use crate::ast;
use crate::diagnostic::{Diagnostic, MOST_DIAGNOSTICS, Rule};
use crate::lexer::{self, Token, TokenKind};
use crate::source::Span;

/// A mistake that was already reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

type Parsed<T> = Result<T, Reported>;

/// Expressions and blocks nest at most this deep.
pub(crate) const DEPTH_LIMIT: u16 = 128;

/// Words that can name nothing.
pub(crate) const RESERVED: &[&str] = &[
    "fn", "step", "model", "let", "if", "else", "each", "fold", "scan", "in", "emit", "emit_if", "next",
    "state", "history", "here", "path", "for", "match", "compute", "true", "false", "static", "sum", "max",
    "min", "prod", "any", "all", "argmax", "top", "_",
];

/// The tree of a text and what was wrong with it. Functions with mistakes have the body [`ast::ExprKind::Error`].
pub(crate) fn parse(text: &str) -> (ast::File, Vec<Diagnostic>) {
    let (tokens, diagnostics) = lexer::tokens(text);
    let mut parser = Parser { text, tokens, at: 0, depth: 0, diagnostics, deep: false, broken: Vec::new() };
    let mut file = parser.file();
    file.broken = std::mem::take(&mut parser.broken);
    (file, parser.diagnostics)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: u16,
    diagnostics: Vec<Diagnostic>,
    /// The nesting limit was passed and reported.
    deep: bool,
    /// Names of items that could not be parsed.
    broken: Vec<ast::Name>,
}

impl<'a> Parser<'a> {
    fn token(&self) -> Token {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn ahead(&self, count: usize) -> Token {
        self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    fn text_of(&self, token: Token) -> &'a str {
        &self.text[token.span.start as usize..token.span.end as usize]
    }

    fn at_end(&self) -> bool {
        self.token().kind == TokenKind::End
    }

    fn advance(&mut self) -> Token {
        let token = self.token();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    /// The end of the token before this one.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1).min(self.tokens.len() - 1)].span
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.token().kind, TokenKind::Sign(text) if text == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        self.token().kind == TokenKind::Word && self.text_of(self.token()) == word
    }

    fn eat_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.advance();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        if self.diagnostics.len() < MOST_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
        Reported
    }

    /// What stands here, for messages.
    fn found(&self) -> String {
        let token = self.token();
        match token.kind {
            TokenKind::End => "the end of the text".to_string(),
            _ => format!("`{}`", self.text_of(token)),
        }
    }

    fn expected(&mut self, what: &str) -> Reported {
        let message = format!("expected {what}, found {}", self.found());
        self.report(Diagnostic::new(Rule::Syntax, self.token().span, message))
    }

    fn expect_sign(&mut self, sign: &str, place: &str) -> Parsed<Span> {
        if self.is_sign(sign) {
            return Ok(self.advance().span);
        }
        let message = format!("expected `{sign}` {place}, found {}", self.found());
        // A missing sign is felt after the last token, not at the next one, which may be lines away.
        let last = self.last_span();
        let span =
            if self.at == 0 { self.token().span } else { Span::new(last.end.saturating_sub(1), last.end) };
        let span = if self.found_on_same_line(last) { self.token().span } else { span };
        Err(self.report(Diagnostic::new(Rule::Syntax, span, message)))
    }

    fn found_on_same_line(&self, last: Span) -> bool {
        let between = self.text.get(last.end as usize..self.token().span.start as usize);
        between.is_some_and(|between| !between.contains('\n'))
    }

    fn name(&mut self, what: &str) -> Parsed<ast::Name> {
        let token = self.token();
        if token.kind != TokenKind::Word {
            return Err(self.expected(what));
        }
        let text = self.text_of(token);
        if RESERVED.contains(&text) {
            let message = format!("`{text}` is a word of the language and cannot name {what}");
            return Err(self.report(Diagnostic::new(Rule::DuplicateName, token.span, message)));
        }
        self.advance();
        Ok(ast::Name { text: text.to_string(), span: token.span })
    }

    /// Runs `parse` one level deeper, or reports that the text is too deep.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_LIMIT {
            return Err(self.too_deep(self.token().span));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn too_deep(&mut self, span: Span) -> Reported {
        if !std::mem::replace(&mut self.deep, true) {
            let message = format!("nested more than {DEPTH_LIMIT} levels deep");
            self.report(
                Diagnostic::new(Rule::Depth, span, message)
                    .hint("name parts of it with `let`, or use a fold"),
            );
        }
        Reported
    }

    /// `item, item, ...` up to the closing sign, a last comma allowed.
    fn list<T>(
        &mut self,
        close: &'static str,
        what: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        loop {
            if self.eat_sign(close) {
                return Ok(items);
            }
            items.push(item(self)?);
            if !self.is_sign(close) && !self.eat_sign(",") {
                return Err(self.expected(&format!("`,` or `{close}` after {what}")));
            }
        }
    }

    /// Whether an item starts at the margin here: then an unclosed brace before it is the mistake.
    fn at_item_margin(&self) -> bool {
        let start = self.token().span.start as usize;
        let margin = start == 0 || self.text.as_bytes()[start - 1] == b'\n';
        margin && (self.is_word("fn") || self.is_word("step") || self.is_word("model"))
    }

    /// Skips to the end of a broken statement: past a `;`, or up to the `}` that closes the block.
    fn skip_statement(&mut self) {
        let mut open = 0usize;
        while !self.at_end() && !self.at_item_margin() {
            match self.token().kind {
                TokenKind::Sign("(" | "[" | "{") => open += 1,
                TokenKind::Sign("}") if open == 0 => return,
                TokenKind::Sign(")" | "]" | "}") => open = open.saturating_sub(1),
                TokenKind::Sign(";") if open == 0 => {
                    self.advance();
                    return;
                }
                _ => {}
            }
            self.advance();
        }
    }
}
