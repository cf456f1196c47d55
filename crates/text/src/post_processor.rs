//! What a tokenizer's post-processor puts around a text.
//!
//! A template names tokens that it describes elsewhere, and sequences. The library looks both up when a text is encoded,
//! and takes them to be there.

use serde_json::Value;

use crate::TextError;

/// Refuses a post-processor, as a `tokenizer.json` describes it, that would fail over any text, or put in a token that is
/// none of the vocabulary's `size`.
pub(crate) fn check(step: &Value, size: usize) -> Result<(), TextError> {
    let bad = |reason: String| Err(TextError::BadTokenizer { reason });
    match step["type"].as_str() {
        Some("Sequence") => {
            step["processors"].as_array().into_iter().flatten().try_for_each(|inner| check(inner, size))
        }
        Some("TemplateProcessing") => {
            for piece in step["single"].as_array().into_iter().flatten() {
                if let Some(name) = piece["SpecialToken"]["id"].as_str()
                    && step["special_tokens"].get(name).is_none()
                {
                    let name: String = name.chars().take(100).collect();
                    return bad(format!("its post-processor puts in {name:?}, which it does not describe"));
                }
                if piece["Sequence"]["id"].as_str().is_some_and(|id| id != "A") {
                    return bad("its post-processor wants a second text where there is one".to_owned());
                }
            }
            let tokens = step["special_tokens"].as_object().into_iter().flat_map(|tokens| tokens.values());
            let mut ids = tokens.flat_map(|token| token["ids"].as_array().into_iter().flatten());
            in_vocabulary(&mut ids, size)
        }
        Some("RobertaProcessing" | "BertProcessing") => {
            in_vocabulary(&mut [&step["sep"][1], &step["cls"][1]].into_iter(), size)
        }
        _ => Ok(()),
    }
}

fn in_vocabulary(ids: &mut dyn Iterator<Item = &Value>, size: usize) -> Result<(), TextError> {
    match ids.filter_map(Value::as_u64).find(|&id| id >= size as u64) {
        None => Ok(()),
        Some(id) => {
            let reason = format!("its post-processor puts in the token {id}, and there are {size}");
            Err(TextError::BadTokenizer { reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_name_what_there_is() {
        let template = |piece: Value, id: u32| {
            json!({"type": "TemplateProcessing", "single": [piece], "pair": [],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [id], "tokens": ["<s>"]}}})
        };
        let token = |name: &str| json!({"SpecialToken": {"id": name, "type_id": 0}});
        let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        for (step, words) in [
            (template(token("</s>"), 1), "puts in \"</s>\""),
            (template(sequence("B"), 1), "a second text"),
            (template(token("<s>"), 4), "the token 4, and there are 4"),
            (json!({"type": "BertProcessing", "sep": ["a", 9], "cls": ["b", 0]}), "the token 9"),
        ] {
            let nested = json!({"type": "Sequence", "processors": [{"type": "ByteLevel"}, &step]});
            for step in [step, nested] {
                let error = check(&step, 4).expect_err("refused").to_string();
                assert!(error.contains(words), "{error}");
            }
        }
        for step in [template(token("<s>"), 3), template(sequence("A"), 0), Value::Null] {
            check(&step, 4).expect("accepted");
        }
    }
}
