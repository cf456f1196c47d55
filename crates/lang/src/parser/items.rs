//! Functions, types and models.

use super::{Parsed, Parser};
use crate::ast::{self, Name};
use crate::diagnostic::{Diagnostic, Rule};
use crate::hir::FieldRole;

impl Parser<'_> {
    pub(super) fn file(&mut self) -> ast::File {
        let mut file = ast::File::default();
        while !self.at_end() {
            let start = self.at;
            let parsed = if self.is_word("model") {
                self.model().map(|model| file.models.push(model))
            } else if self.is_word("fn") || self.is_word("step") {
                self.function(false).map(|function| file.functions.push(function))
            } else {
                Err(self.expected("`fn`, `step fn` or `model`"))
            };
            if parsed.is_err() {
                self.skip_item(start);
            }
        }
        file
    }

    /// Skips at least one token, up to what looks like an item.
    fn skip_item(&mut self, start: usize) {
        if self.at == start {
            self.advance();
        }
        while !self.at_end() && !self.at_item_margin() {
            self.advance();
        }
    }

    /// `fn`, `step fn`, or in a model `step`.
    fn function(&mut self, in_model: bool) -> Parsed<ast::Function> {
        let before = self.diagnostics.len();
        let is_step = self.eat_word("step");
        let role = match (is_step, self.is_word("fn")) {
            (true, false) => ast::FunctionRole::ModelStep,
            (true, true) => ast::FunctionRole::StepFunction,
            (false, _) => ast::FunctionRole::Plain,
        };
        if role == ast::FunctionRole::ModelStep {
            if !in_model {
                let hint = "outside a model, write `step fn`";
                let diagnostic = Diagnostic::new(
                    Rule::Model,
                    self.last_span(),
                    "a model's `step` stands inside a `model`",
                );
                self.report(diagnostic.hint(hint));
            }
        } else {
            self.advance();
        }
        let name = self.name("a function")?;
        self.rest_of_function(name.clone(), role, before).inspect_err(|_| self.broken.push(name))
    }

    fn rest_of_function(
        &mut self,
        name: Name,
        role: ast::FunctionRole,
        before: usize,
    ) -> Parsed<ast::Function> {
        let sizes = if self.eat_sign("[") {
            self.list("]", "a size parameter", |p| p.name("a size parameter"))?
        } else {
            Vec::new()
        };
        self.expect_sign("(", "before the parameters")?;
        let parameters = self.list(")", "a parameter", Self::parameter)?;
        self.expect_sign("->", "and the result's type after the parameters")?;
        let (result, result_names) = self.result_type(role)?;
        let body = if self.eat_sign("=") {
            let body = self.expression()?;
            self.expect_sign(";", "after the function's expression")?;
            body
        } else if self.is_sign("{") {
            self.block_expression()?
        } else {
            return Err(self.expected("`{` or `=` before the function's body"));
        };
        let body = if self.diagnostics.len() > before {
            ast::Expr { kind: ast::ExprKind::Error, span: body.span, height: 1 }
        } else {
            body
        };
        Ok(ast::Function { name, role, sizes, parameters, result, result_names, body })
    }

    fn parameter(&mut self) -> Parsed<ast::Parameter> {
        let is_static = self.eat_word("static");
        let name = self.name("a parameter")?;
        self.expect_sign(":", "and a type after the parameter's name")?;
        Ok(ast::Parameter { name, is_static, ty: self.type_expression()? })
    }

    /// A type, or in a model's step also `(name: type, ...)`.
    fn result_type(&mut self, role: ast::FunctionRole) -> Parsed<(ast::TypeExpr, Vec<Name>)> {
        let named = role == ast::FunctionRole::ModelStep && self.is_sign("(");
        if !named {
            return Ok((self.type_expression()?, Vec::new()));
        }
        let start = self.advance().span;
        let results = self.list(")", "a result", |p| {
            let name = p.name("a result")?;
            p.expect_sign(":", "and a type after the result's name")?;
            Ok((name, p.type_expression()?))
        })?;
        let span = start.to(self.last_span());
        let (names, mut types): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        let result = match types.len() {
            1 => types.remove(0),
            _ => ast::TypeExpr { kind: ast::TypeKind::Tuple(types), span },
        };
        Ok((result, names))
    }

    pub(super) fn type_expression(&mut self) -> Parsed<ast::TypeExpr> {
        let start = self.token().span;
        if self.eat_sign("(") {
            let parts = self.deeper(|p| p.list(")", "a type", Self::type_expression))?;
            let span = start.to(self.last_span());
            return Ok(ast::TypeExpr { kind: ast::TypeKind::Tuple(parts), span });
        }
        let word = self.name("a type")?;
        let dims =
            if self.eat_sign("[") { self.list("]", "a dimension", Self::expression)? } else { Vec::new() };
        let span = start.to(self.last_span());
        Ok(ast::TypeExpr { kind: ast::TypeKind::Named { word, dims }, span })
    }

    fn model(&mut self) -> Parsed<ast::Model> {
        self.advance();
        let name = self.name("a model")?;
        self.expect_sign("{", "after the model's name")?;
        let mut model = ast::Model {
            name,
            dims: Vec::new(),
            fields: Vec::new(),
            layers: Vec::new(),
            single_layers: Vec::new(),
            functions: Vec::new(),
        };
        loop {
            if self.eat_sign("}") {
                return Ok(model);
            }
            if self.at_end() || self.at_item_margin() {
                return Err(self.expected("`}` at the end of the model"));
            }
            let start = self.at;
            if self.model_item(&mut model).is_err() {
                self.skip_model_item(start);
            }
        }
    }

    fn model_item(&mut self, model: &mut ast::Model) -> Parsed<()> {
        if self.eat_word("dims") {
            loop {
                let name = self.name("a dimension")?;
                model.dims.push(name);
                if self.eat_sign(";") {
                    return Ok(());
                }
                if !self.eat_sign(",") {
                    return Err(self.expected("`,` or `;` after a dimension"));
                }
            }
        }
        if let Some(role) = self.field_role() {
            model.fields.push(self.field(role)?);
        } else if self.is_word("layers") {
            let start = self.advance().span;
            self.expect_sign("[", "and the number of layers after `layers`")?;
            let count = self.expression()?;
            self.expect_sign("]", "after the number of layers")?;
            let span = start.to(self.last_span());
            let mut layers = ast::Layers { span, count, common: Vec::new(), kinds: Vec::new() };
            self.expect_sign("{", "before the layers' fields")?;
            self.layer_items(&mut layers)?;
            model.layers.push(layers);
        } else if self.eat_word("layer") {
            let name = self.name("a layer")?;
            self.expect_sign(":", "and a kind after the layer's name")?;
            let kind = self.name("a kind")?;
            self.expect_sign(";", "after the layer's kind")?;
            model.single_layers.push((name, kind));
        } else if self.is_word("fn") || self.is_word("step") {
            model.functions.push(self.function(true)?);
        } else {
            return Err(self.expected(
                "`dims`, `static`, `param`, `const`, `layers`, `layer`, `fn`, `step` or `}` in a model",
            ));
        }
        Ok(())
    }

    /// What stands in `layers`, with its closing brace. Goes on after a broken declaration.
    fn layer_items(&mut self, layers: &mut ast::Layers) -> Parsed<()> {
        while !self.eat_sign("}") {
            if self.at_end() || self.at_item_margin() {
                return Err(self.expected("`}` at the end of `layers`"));
            }
            let start = self.at;
            if self.layer_item(layers).is_err() {
                self.skip_field(start);
            }
        }
        Ok(())
    }

    fn layer_item(&mut self, layers: &mut ast::Layers) -> Parsed<()> {
        if self.eat_word("kind") {
            let name = self.name("a kind")?;
            self.expect_sign("{", "before the kind's fields")?;
            layers.kinds.push((name, self.fields()?));
        } else if let Some(role) = self.field_role() {
            layers.common.push(self.field(role)?);
        } else {
            return Err(self.expected("`param`, `const`, `static`, `kind` or `}` in `layers`"));
        }
        Ok(())
    }

    fn fields(&mut self) -> Parsed<Vec<ast::Field>> {
        let mut fields = Vec::new();
        while !self.eat_sign("}") {
            if self.at_end() || self.at_item_margin() {
                return Err(self.expected("`}` at the end of the kind"));
            }
            let start = self.at;
            let field = match self.field_role() {
                Some(role) => self.field(role),
                None => Err(self.expected("`param`, `const`, `static` or `}`")),
            };
            match field {
                Ok(field) => fields.push(field),
                Err(_) => self.skip_field(start),
            }
        }
        Ok(fields)
    }

    fn skip_field(&mut self, start: usize) {
        if self.at == start && !self.is_sign("}") {
            self.advance();
        }
        self.skip_statement();
    }

    fn field_role(&self) -> Option<FieldRole> {
        [("param", FieldRole::Param), ("const", FieldRole::Const), ("static", FieldRole::Static)]
            .into_iter()
            .find_map(|(word, role)| self.is_word(word).then_some(role))
    }

    fn field(&mut self, role: FieldRole) -> Parsed<ast::Field> {
        self.advance();
        let name = self.name("a field")?;
        self.expect_sign(":", "and a type after the name")?;
        let ty = self.type_expression()?;
        let default = if self.eat_word("else") { Some(self.name("the param that stands in")?) } else { None };
        self.expect_sign(";", "after the declaration")?;
        Ok(ast::Field { role, name, ty, default })
    }

    /// Skips at least one token, past a `;` at this level, past a group `{ }`, or up to the model's `}`.
    fn skip_model_item(&mut self, start: usize) {
        if self.at == start && !self.is_sign("}") {
            self.advance();
        }
        let mut open = 0usize;
        while !self.at_end() && !self.at_item_margin() {
            if self.is_sign("{") {
                open += 1;
            } else if self.is_sign("}") {
                if open == 0 {
                    return;
                }
                open -= 1;
                if open == 0 {
                    self.advance();
                    return;
                }
            } else if self.is_sign(";") && open == 0 {
                self.advance();
                return;
            }
            self.advance();
        }
    }
}
