//! What a model declares, as text: its sizes, weights, layers and steps without their bodies.

use std::fmt::Write;

use crate::check::scalar_name;
use crate::hir::{Field, FieldRole, Function, Model, Program, Type};

/// A model's declarations, one a line, in the words of its source.
pub fn outline(program: &Program, model: &Model) -> String {
    let outline = Outline { program };
    let mut lines = vec![format!("model {}", model.name)];
    if !model.dims.is_empty() {
        let dims: Vec<&str> = model.dims.iter().map(|&dim| program.symbol_name(dim)).collect();
        lines.push(format!("    dims {}", dims.join(", ")));
    }
    lines.extend(
        model.statics.iter().map(|value| format!("    static {}: {}", value.name, scalar_name(value.ty))),
    );
    lines.extend(
        model.consts.iter().map(|value| format!("    const {}: {}", value.name, outline.ty(&value.ty))),
    );
    for param in &model.params {
        let other = param.default.and_then(|id| model.params.get(id.index()));
        let other = other.map_or_else(String::new, |other| format!(" else {}", other.name));
        lines.push(format!("    param {}: {}{other}", param.name, outline.ty(&param.ty)));
    }
    if let Some(layers) = &model.layers {
        lines.push(format!("    layers[{}]", program.size_text(&layers.count)));
        lines.extend(layers.common.iter().map(|field| outline.field(8, field)));
        for kind in &layers.kinds {
            lines.push(format!("        kind {}", kind.name));
            lines.extend(kind.fields.iter().map(|field| outline.field(12, field)));
        }
        for layer in &model.single_layers {
            let kind = layer.kind.and_then(|kind| layers.kinds.get(kind.index()));
            lines.push(format!("    layer {}: {}", layer.name, kind.map_or("layers", |kind| &kind.name)));
        }
    }
    let steps = model.steps.iter().filter_map(|id| program.functions.get(id.index()));
    lines.extend(steps.map(|step| outline.step(step)));
    lines.join("\n")
}

struct Outline<'p> {
    program: &'p Program,
}

impl Outline<'_> {
    fn field(&self, indent: usize, field: &Field) -> String {
        let role = match field.role {
            FieldRole::Param => "param",
            FieldRole::Const => "const",
            FieldRole::Static => "static",
        };
        format!("{:indent$}{role} {}: {}", "", field.name, self.ty(&field.ty))
    }

    fn step(&self, step: &Function) -> String {
        let mut text = format!("    step {}(", step.name);
        for (place, parameter) in step.parameters.iter().enumerate() {
            let local = step.local(parameter.local);
            let separator = if place > 0 { ", " } else { "" };
            let _ = write!(text, "{separator}{}: {}", local.name, self.ty(&local.ty));
        }
        text.push_str(") -> ");
        let types = match &step.result {
            Type::Tuple(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        if step.result_names.len() == types.len() {
            let named =
                step.result_names.iter().zip(types).map(|(name, ty)| format!("{name}: {}", self.ty(ty)));
            let _ = write!(text, "({})", named.collect::<Vec<_>>().join(", "));
        } else {
            text.push_str(&self.ty(&step.result));
        }
        text
    }

    fn ty(&self, ty: &Type) -> String {
        match ty {
            Type::Scalar(scalar) => scalar_name(*scalar).to_owned(),
            Type::Array(scalar, dims) => {
                let dims: Vec<String> = dims.iter().map(|dim| self.program.size_text(dim)).collect();
                format!("{}[{}]", scalar_name(*scalar), dims.join(", "))
            }
            Type::Tuple(parts) => {
                format!("({})", parts.iter().map(|part| self.ty(part)).collect::<Vec<_>>().join(", "))
            }
            // Neither is declared by a field or a step of a model.
            Type::Ragged(scalar, _) => format!("ragged {}", scalar_name(*scalar)),
            Type::Layer { .. } => "layers".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::outline;

    #[test]
    fn a_model_is_told_in_the_words_of_its_source() {
        let text = "
            model tiny {
                dims V, D, L;
                static wide: bool;
                const eps: f32;
                param embed: f32[V, D];
                param head: f32[V, D] else embed;
                layers[L] {
                    param norm: f32[D];
                    kind mix { param w: f32[2 * D, D]; const taps: f32[D]; }
                }
                layer draft: mix;
                step main(token: id, at: i32) -> (logits: f32[V], hidden: f32[D]) {
                    let x = embed[token];
                    (each[v in V] sum[d in D] head[v, d] * x[d] + eps, x)
                }
            }";
        let program = crate::compile("tiny.fh", text).expect("a right program");
        let wanted = "model tiny
    dims V, D, L
    static wide: bool
    const eps: f32
    param embed: f32[V, D]
    param head: f32[V, D] else embed
    layers[L]
        param norm: f32[D]
        kind mix
            param w: f32[2 * D, D]
            const taps: f32[D]
    layer draft: mix
    step main(token: id, at: i32) -> (logits: f32[V], hidden: f32[D])";
        assert_eq!(outline(&program, &program.models[0]), wanted);
    }
}
