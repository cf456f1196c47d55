//! Expressions, by precedence: `||`, `&&`, comparison, `+ -`, `* / %`, prefixes, suffixes.

use super::statements::block_height;
use super::{DEPTH_LIMIT, Parsed, Parser};
use crate::ast::{self, BinarySign, Expr, ExprKind, Name, UnarySign};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::{Arithmetic, FoldKind};
use crate::lexer::TokenKind;
use crate::source::Span;

/// The lowest level of an operand of `*`: a fold's body is one term of this level.
const TERM: u8 = 5;

impl Parser<'_> {
    /// A node above children of at most that height.
    pub(super) fn node(&mut self, kind: ExprKind, span: Span, below: u16) -> Parsed<Expr> {
        if below >= DEPTH_LIMIT {
            return Err(self.too_deep(span));
        }
        Ok(Expr { kind, span, height: below + 1 })
    }

    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.binary(1)
    }

    fn operator(&self) -> Option<(BinarySign, u8)> {
        let TokenKind::Sign(sign) = self.token().kind else { return None };
        Some(match sign {
            "||" => (BinarySign::Or, 1),
            "&&" => (BinarySign::And, 2),
            "==" => (BinarySign::Equal, 3),
            "!=" => (BinarySign::NotEqual, 3),
            "<" => (BinarySign::Less, 3),
            "<=" => (BinarySign::LessEqual, 3),
            ">" => (BinarySign::Greater, 3),
            ">=" => (BinarySign::GreaterEqual, 3),
            "+" => (BinarySign::Add, 4),
            "-" => (BinarySign::Subtract, 4),
            "*" => (BinarySign::Multiply, TERM),
            "/" => (BinarySign::Divide, TERM),
            "%" => (BinarySign::Remainder, TERM),
            _ => return None,
        })
    }

    /// Operators of at least that level, joined to the left.
    fn binary(&mut self, least: u8) -> Parsed<Expr> {
        self.deeper(|p| {
            let mut left = p.prefix()?;
            let mut compared = false;
            while let Some((sign, level)) = p.operator() {
                if level < least {
                    break;
                }
                if level == 3 && compared {
                    let message = "comparisons do not chain";
                    let hint = "join two comparisons with `&&`";
                    let span = p.token().span;
                    return Err(p.report(Diagnostic::new(Rule::Syntax, span, message).hint(hint)));
                }
                compared |= level == 3;
                p.advance();
                let right = p.binary(level + 1)?;
                let (span, below) = (left.span.to(right.span), left.height.max(right.height));
                left = p.node(ExprKind::Binary(sign, Box::new(left), Box::new(right)), span, below)?;
            }
            Ok(left)
        })
    }

    fn prefix(&mut self) -> Parsed<Expr> {
        let start = self.token().span;
        let sign = match self.token().kind {
            TokenKind::Sign("-") => Some(UnarySign::Minus),
            TokenKind::Sign("!") => Some(UnarySign::Not),
            _ => None,
        };
        if let Some(sign) = sign {
            self.advance();
            let operand = self.deeper(Self::prefix)?;
            let (span, below) = (start.to(operand.span), operand.height);
            return self.node(ExprKind::Unary(sign, Box::new(operand)), span, below);
        }
        if self.token().kind == TokenKind::Word {
            let word = self.text_of(self.token());
            match word {
                "each" => return self.each(start),
                "fold" => return self.ordered_fold(start),
                "scan" => return self.scan(start),
                _ => {}
            }
            if let Some(kind) = fold_kind(word)
                && (self.ahead(1).kind == TokenKind::Sign("[") || kind_is_only_a_fold(kind))
            {
                return self.fold(kind, start);
            }
        }
        self.suffixed()
    }

    fn axes(&mut self, word: &str) -> Parsed<Vec<ast::Axis>> {
        self.advance();
        self.expect_sign("[", &format!("and `name in range` after `{word}`"))?;
        let open = self.last_span();
        let axes = self.list("]", "a range", Self::axis)?;
        if axes.is_empty() {
            let diagnostic = Diagnostic::new(Rule::Syntax, open, format!("`{word}` needs a range"));
            return Err(self.report(diagnostic.hint(format!("write `{word}[i in N] ...`"))));
        }
        Ok(axes)
    }

    fn axis(&mut self) -> Parsed<ast::Axis> {
        let name = self.name("a variable")?;
        if !self.eat_word("in") {
            return Err(self.expected("`in` and a range after the variable"));
        }
        if self.is_word("path") {
            let span = self.advance().span;
            return Ok(ast::Axis { name, range: ast::AxisRange::Path(span) });
        }
        let start = self.expression()?;
        let inclusive = self.is_sign("..=");
        let range = if inclusive || self.is_sign("..") {
            self.advance();
            ast::AxisRange::Between { start, end: self.expression()?, inclusive }
        } else {
            ast::AxisRange::Count(start)
        };
        Ok(ast::Axis { name, range })
    }

    /// The body runs to the end of the expression.
    fn each(&mut self, start: Span) -> Parsed<Expr> {
        let axes = self.axes("each")?;
        let body = self.expression()?;
        let (span, below) = (start.to(body.span), body.height);
        self.node(ExprKind::Each { axes, body: Box::new(body) }, span, below)
    }

    /// The body is one multiplicative term.
    fn fold(&mut self, kind: FoldKind, start: Span) -> Parsed<Expr> {
        let word = self.text_of(self.token());
        let axes = self.axes(word)?;
        let body = self.binary(TERM)?;
        let (span, below) = (start.to(body.span), body.height);
        self.node(ExprKind::Fold { kind, axes, body: Box::new(body) }, span, below)
    }

    /// The body runs to the end of the expression.
    fn ordered_fold(&mut self, start: Span) -> Parsed<Expr> {
        let axes = self.axes("fold")?;
        let carries = self.carries("fold")?;
        let body = self.expression()?;
        let below = carries.iter().map(|(_, init)| init.height).max().unwrap_or(0).max(body.height);
        let span = start.to(body.span);
        self.node(ExprKind::OrderedFold { axes, carries, body: Box::new(body) }, span, below)
    }

    fn scan(&mut self, start: Span) -> Parsed<Expr> {
        let axes = self.axes("scan")?;
        let carries = if self.is_sign("(") { self.carries("scan")? } else { Vec::new() };
        let body = self.block()?;
        let below = carries.iter().map(|(_, init)| init.height).max().unwrap_or(0).max(block_height(&body));
        let span = start.to(body.span);
        self.node(ExprKind::Scan { axes, carries, body }, span, below)
    }

    /// `(name = init, ...)`.
    fn carries(&mut self, word: &str) -> Parsed<Vec<(Name, Expr)>> {
        self.expect_sign("(", &format!("and `name = init` after the range of `{word}`"))?;
        self.list(")", "a carried value", |p| {
            let name = p.name("a carried value")?;
            p.expect_sign("=", "and its first value after the carried name")?;
            Ok((name, p.expression()?))
        })
    }

    /// A primary expression with its indices, fields and arguments.
    fn suffixed(&mut self) -> Parsed<Expr> {
        let mut base = self.primary()?;
        loop {
            if self.eat_sign("[") {
                let indices = self.list("]", "an index", Self::expression)?;
                let below = indices.iter().map(|index| index.height).max().unwrap_or(0).max(base.height);
                let span = base.span.to(self.last_span());
                if indices.is_empty() {
                    let diagnostic = Diagnostic::new(Rule::Syntax, span, "an index is missing");
                    return Err(self.report(diagnostic));
                }
                base = self.node(ExprKind::Index(Box::new(base), indices), span, below)?;
            } else if self.is_sign("(") && callable(&base) {
                base = self.call(base)?;
            } else if self.eat_sign(".") {
                let field = self.field_name()?;
                let (span, below) = (base.span.to(field.span), base.height);
                base = self.node(ExprKind::Field(Box::new(base), field), span, below)?;
            } else if self.is_sign("'") && matches!(base.kind, ExprKind::Name(_)) {
                let span = base.span.to(self.advance().span);
                let ExprKind::Name(text) = base.kind else { continue };
                base = self.node(ExprKind::Prime(Name { text, span: base.span }), span, 0)?;
            } else {
                return Ok(base);
            }
        }
    }

    /// A field may have any word for its name.
    fn field_name(&mut self) -> Parsed<Name> {
        if self.token().kind != TokenKind::Word {
            return Err(self.expected("a field's name after `.`"));
        }
        let token = self.advance();
        Ok(Name { text: self.text_of(token).to_string(), span: token.span })
    }

    fn call(&mut self, base: Expr) -> Parsed<Expr> {
        self.advance();
        let arguments = self.list(")", "an argument", Self::expression)?;
        let span = base.span.to(self.last_span());
        let (callee, sizes) = match base.kind {
            ExprKind::Name(text) => (Name { text, span: base.span }, None),
            ExprKind::Index(inner, sizes) => match inner.kind {
                ExprKind::Name(text) => (Name { text, span: inner.span }, Some(sizes)),
                _ => return Err(self.expected("an operator")),
            },
            _ => return Err(self.expected("an operator")),
        };
        let parts = arguments.iter().chain(sizes.iter().flatten());
        let below = parts.map(|part| part.height).max().unwrap_or(0);
        self.node(ExprKind::Call { callee, sizes, arguments }, span, below)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token();
        match token.kind {
            TokenKind::Int(value) => {
                self.advance();
                self.node(ExprKind::Int(value), token.span, 0)
            }
            TokenKind::Float(value) => {
                self.advance();
                self.node(ExprKind::Float(value), token.span, 0)
            }
            TokenKind::Sign("(") => self.parenthesised(),
            TokenKind::Sign("{") => self.block_expression(),
            TokenKind::Word => match self.text_of(token) {
                "true" | "false" => {
                    let value = self.is_word("true");
                    self.advance();
                    self.node(ExprKind::Bool(value), token.span, 0)
                }
                "if" => self.deeper(Self::conditional),
                "match" => self.deeper(Self::match_kind),
                "for" => self.deeper(Self::for_layers),
                "compute" => self.deeper(Self::compute),
                word @ ("here" | "argmax" | "max" | "min" | "top") => {
                    self.advance();
                    self.node(ExprKind::Name(word.to_string()), token.span, 0)
                }
                _ => {
                    let name = self.name("an expression")?;
                    self.node(ExprKind::Name(name.text), token.span, 0)
                }
            },
            _ => Err(self.expected("an expression")),
        }
    }

    /// `(a)` is `a`, `(a, b)` a tuple.
    fn parenthesised(&mut self) -> Parsed<Expr> {
        let start = self.advance().span;
        let first = self.expression()?;
        if self.eat_sign(")") {
            // The height stays; the span grows so that messages show the parentheses.
            return Ok(Expr { span: start.to(self.last_span()), ..first });
        }
        if !self.eat_sign(",") {
            return Err(self.expected("`,` or `)` after an expression"));
        }
        let mut parts = vec![first];
        parts.extend(self.list(")", "an expression", Self::expression)?);
        let span = start.to(self.last_span());
        let below = parts.iter().map(|part| part.height).max().unwrap_or(0);
        self.node(ExprKind::Tuple(parts), span, below)
    }

    fn conditional(&mut self) -> Parsed<Expr> {
        let start = self.advance().span;
        let condition = self.expression()?;
        let then = self.block_expression()?;
        if !self.eat_word("else") {
            let span = start.to(then.span);
            let diagnostic = Diagnostic::new(Rule::Syntax, span, "this `if` has no `else`");
            return Err(self.report(diagnostic.hint("every `if` gives a value: write `else { ... }`")));
        }
        let otherwise =
            if self.is_word("if") { self.deeper(Self::conditional)? } else { self.block_expression()? };
        let span = start.to(otherwise.span);
        let below = condition.height.max(then.height).max(otherwise.height);
        let (condition, then, otherwise) = (Box::new(condition), Box::new(then), Box::new(otherwise));
        self.node(ExprKind::If { condition, then, otherwise }, span, below)
    }

    fn match_kind(&mut self) -> Parsed<Expr> {
        let start = self.advance().span;
        let subject = self.expression()?;
        self.expect_sign("{", "before the arms of `match`")?;
        let arms = self.list("}", "an arm of `match`", |p| {
            let kind = p.name("a kind")?;
            p.expect_sign("=>", "after the kind")?;
            Ok((kind, p.expression()?))
        })?;
        let span = start.to(self.last_span());
        let below = arms.iter().map(|(_, arm)| arm.height).max().unwrap_or(0).max(subject.height);
        self.node(ExprKind::Match { subject: Box::new(subject), arms }, span, below)
    }

    fn for_layers(&mut self) -> Parsed<Expr> {
        let start = self.advance().span;
        let layer = self.name("a layer")?;
        if !self.eat_word("in") || !self.eat_word("layers") {
            return Err(self.expected("`in layers(name = init)` after the layer's name"));
        }
        let carries = self.carries("layers")?;
        let body = self.block()?;
        let below = carries.iter().map(|(_, init)| init.height).max().unwrap_or(0).max(block_height(&body));
        let span = start.to(body.span);
        self.node(ExprKind::For { layer, carries, body }, span, below)
    }

    fn compute(&mut self) -> Parsed<Expr> {
        let start = self.advance().span;
        let mut arithmetic = Vec::new();
        loop {
            let token = self.token();
            let listed = match (token.kind, self.text_of(token)) {
                (TokenKind::Word, "f32") => None,
                (TokenKind::Word, "bf16") => Some(Arithmetic::Bf16),
                (TokenKind::Word, "f16") => Some(Arithmetic::F16),
                (TokenKind::Word, "tf32") => Some(Arithmetic::Tf32),
                (TokenKind::Word, "fp8") => Some(Arithmetic::Fp8),
                (TokenKind::Word, "q8") => Some(Arithmetic::Q8),
                _ => return Err(self.expected("`f32`, `bf16`, `f16`, `tf32`, `fp8` or `q8`")),
            };
            self.advance();
            arithmetic.extend(listed);
            if !self.eat_sign("|") {
                break;
            }
        }
        arithmetic.sort();
        arithmetic.dedup();
        let body = self.block_expression()?;
        let (span, below) = (start.to(body.span), body.height);
        self.node(ExprKind::Compute { arithmetic, body: Box::new(body) }, span, below)
    }
}

fn fold_kind(word: &str) -> Option<FoldKind> {
    Some(match word {
        "sum" => FoldKind::Sum,
        "prod" => FoldKind::Product,
        "max" => FoldKind::Max,
        "min" => FoldKind::Min,
        "any" => FoldKind::Any,
        "all" => FoldKind::All,
        "argmax" => FoldKind::ArgMax,
        _ => return None,
    })
}

/// `max`, `min` and `argmax` are also calls.
fn kind_is_only_a_fold(kind: FoldKind) -> bool {
    !matches!(kind, FoldKind::Max | FoldKind::Min | FoldKind::ArgMax)
}

/// A name, or a name with sizes in brackets.
fn callable(base: &Expr) -> bool {
    match &base.kind {
        ExprKind::Name(_) => true,
        ExprKind::Index(inner, _) => matches!(inner.kind, ExprKind::Name(_)),
        _ => false,
    }
}
