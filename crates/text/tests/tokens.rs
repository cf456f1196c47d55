//! The stories model's tokenizer: its golden prompts, and what holds for any text.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use fiddlehead_text::{
    ChatRequest, ChatTemplate, DetokenizerOptions, Specials, TextError, Tokenizer, end_tokens,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories-11m")
}

fn read_json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder().join(name)).expect("there")).expect("JSON")
}

fn tokenizer() -> Tokenizer {
    static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
        Tokenizer::from_json(&fs::read(folder().join("tokenizer.json")).expect("there")).expect("loads")
    });
    TOKENIZER.clone()
}

fn template() -> &'static ChatTemplate {
    static TEMPLATE: LazyLock<ChatTemplate> = LazyLock::new(|| {
        ChatTemplate::from_config(&read_json("tokenizer_config.json"), None)
            .expect("a template")
            .expect("there")
    });
    &TEMPLATE
}

/// The library itself, as a reference.
fn reference() -> &'static tokenizers::Tokenizer {
    static REFERENCE: LazyLock<tokenizers::Tokenizer> = LazyLock::new(|| {
        tokenizers::Tokenizer::from_str(&fs::read_to_string(folder().join("tokenizer.json")).expect("there"))
            .expect("loads")
    });
    &REFERENCE
}

fn user(content: &str) -> ChatRequest {
    ChatRequest::new(vec![ChatRequest::message("user", content)])
}

fn tokens_of(value: &Value) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

#[test]
fn golden_prompts_and_answers() {
    let (tokenizer, template) = (tokenizer(), template());
    let golden = read_json("golden.json");
    for story in golden.as_array().expect("a list") {
        let prompt = story["prompt"].as_str().expect("text");
        let tokens = tokenizer.encode_chat(template, &user(prompt)).expect("encodes");
        assert_eq!(tokens, tokens_of(&story["prompt_tokens"]));

        let answer = tokens_of(&story["greedy_tokens"]);
        let text = tokenizer.decode(&answer, true);
        assert_eq!(text, reference().decode(&answer, true).expect("decodes"));
        assert!(text.ends_with('.'), "{text}");
        let again = tokenizer.encode(&text, Specials::Literal).expect("encodes");
        assert_eq!(again, answer[..answer.len() - 1]);
    }
}

#[test]
fn the_vocabulary_is_described() {
    let tokenizer = tokenizer();
    assert_eq!(tokenizer.vocabulary(), 1537);
    let end = tokenizer.token_id("<|im_end|>").expect("there");
    assert!(tokenizer.is_special(end) && !tokenizer.is_special(end + 1));
    assert_eq!(tokenizer.token_bytes(end), Some(b"<|im_end|>".as_slice()));
    assert_eq!(tokenizer.token_bytes(tokenizer.token_id("Ġa").expect("there")), Some(b" a".as_slice()));
    assert_eq!(tokenizer.token_bytes(1537), None);
    let singles: Vec<_> =
        (0..1537).filter_map(|id| tokenizer.token_bytes(id)).filter(|token| token.len() == 1).collect();
    assert!((0..=255).all(|byte| singles.contains(&[byte].as_slice())), "every byte is a token");
}

#[test]
fn end_tokens_come_from_the_configurations() {
    let tokenizer = tokenizer();
    let config = json!({"eos_token_id": 0});
    let named = json!({"eos_token": {"content": "<|im_end|>"}});
    for (generation, own, expected) in [
        (Some(json!({"eos_token_id": 2})), Some(read_json("tokenizer_config.json")), vec![2]),
        (Some(json!({"eos_token_id": [1, 0, 1]})), Some(named.clone()), vec![0, 1, 2]),
        (None, Some(named), vec![2]),
        (None, None, vec![0]),
        (Some(json!({"eos_token_id": -1})), Some(json!({"eos_token": null})), vec![0]),
    ] {
        assert_eq!(end_tokens(&tokenizer, generation.as_ref(), own.as_ref(), &config), expected);
    }
}

/// Text of the sort that people write.
fn ordinary() -> impl Strategy<Value = String> {
    proptest::string::string_regex(
        r"([a-z]{1,7}|[0-9]{1,4}|[ \n\t]{1,4}|[.,!?<>|/_'\x22-]{1,3}|é|日本|🦊|ñ|\u{e000}|I'm){0,20}",
    )
    .expect("a pattern")
}

/// Text with special tokens, whole and in parts, among it.
fn forged() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("<|im_start|>".to_owned()),
        Just("<|im_end|>".to_owned()),
        Just("<|endoftext|>".to_owned()),
        Just("<|im_".to_owned()),
        Just("start|>".to_owned()),
        Just("<".to_owned()),
        Just("\u{100000}".to_owned()),
        "[a-z \n]{0,4}",
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_conversation_encodes_as_its_rendered_text(contents in proptest::collection::vec(ordinary(), 1..4)) {
        let (tokenizer, template) = (tokenizer(), template());
        let messages = contents.iter().map(|content| ChatRequest::message("user", content)).collect();
        let request = ChatRequest::new(messages);
        let rendered = template.render(&request).expect("renders");
        let plain = reference().encode(rendered.as_str(), false).expect("encodes");
        prop_assert_eq!(tokenizer.encode_chat(template, &request).expect("encodes"), plain.get_ids());
    }

    #[test]
    fn transformers_29279_message_text_forges_no_turn(contents in proptest::collection::vec(forged(), 1..4)) {
        let (tokenizer, template) = (tokenizer(), template());
        let messages = contents.iter().map(|content| ChatRequest::message("user", content)).collect();
        let request = ChatRequest::new(messages);
        let tokens = tokenizer.encode_chat(template, &request).expect("encodes");
        let special: Vec<u32> = tokens.iter().copied().filter(|&token| tokenizer.is_special(token)).collect();
        let turns = [1, 2].repeat(contents.len());
        prop_assert_eq!(special, [turns, vec![1]].concat());
        prop_assert_eq!(tokenizer.decode(&tokens, false), template.render(&request).expect("renders"));

        let mut pieces = Vec::new();
        for content in &contents {
            pieces.push(1);
            pieces.extend(tokenizer.encode(&format!("user\n{content}"), Specials::Literal).expect("encodes"));
            pieces.push(2);
            pieces.extend(tokenizer.encode("\n", Specials::Literal).expect("encodes"));
        }
        pieces.push(1);
        pieces.extend(tokenizer.encode("assistant\n", Specials::Literal).expect("encodes"));
        prop_assert_eq!(tokens, pieces);
    }

    #[test]
    fn literal_text_encodes_as_the_library_does_when_told_to(text in forged()) {
        static LITERAL: LazyLock<tokenizers::Tokenizer> = LazyLock::new(|| {
            let mut literal = reference().clone();
            literal.set_encode_special_tokens(true);
            literal
        });
        let literal = LITERAL.encode(text.as_str(), false).expect("encodes");
        let tokens = tokenizer().encode(&text, Specials::Literal).expect("encodes");
        prop_assert_eq!(tokenizer().decode(&tokens, true), text);
        prop_assert_eq!(tokens, literal.get_ids());
    }

    #[test]
    fn any_tokens_decode_as_the_library_does(tokens in proptest::collection::vec(0u32..1700, 0..24)) {
        let tokenizer = tokenizer();
        for skip in [false, true] {
            let text = reference().decode(&tokens, skip).expect("decodes");
            prop_assert_eq!(tokenizer.decode(&tokens, skip), text);
        }
    }
}

#[test]
fn a_special_token_split_over_the_parts_of_a_message_forges_no_turn() {
    let joining = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for part in m.content %}{{ part.text }}{% endfor %}<|im_end|>\n{% endfor %}";
    let template = ChatTemplate::new(joining, None, None).expect("a template");
    let parts = json!([{"type": "text", "text": "a <|im_"}, {"type": "text", "text": "end|>"}]);
    let request = ChatRequest::new(vec![json!({"role": "user", "content": parts})]);
    let tokens = tokenizer().encode_chat(&template, &request).expect("encodes");
    assert_eq!(tokens.iter().filter(|&&token| tokenizer().is_special(token)).count(), 2);
    assert!(tokenizer().decode(&tokens, false).contains("a <|im_end|><|im_end|>"));
}

#[test]
fn a_role_cannot_carry_a_turn() {
    for role in [json!("user<|im_end|>"), json!(""), json!(7), Value::Null] {
        let request = ChatRequest::new(vec![json!({"role": "user"}), json!({"role": role, "content": "x"})]);
        let error = tokenizer().encode_chat(template(), &request).expect_err("refused");
        assert!(matches!(error, TextError::BadMessage { index: 1, .. }), "{error}");
    }
}

#[test]
fn specials_in_tools_and_in_json_stay_literal() {
    let source = "<|im_start|>{{ tools | tojson(ensure_ascii=True) }}|{{ bos_token }}{{ extra }}";
    let template = ChatTemplate::new(source, Some("<|endoftext|>"), None).expect("a template");
    let mut request = user("hello");
    request.tools = Some(vec![json!({"<|im_end|>": "é <|im_start|>", "type": "<|im_end|>"})]);
    request.variables.insert("extra".to_owned(), json!("<|im_end|>"));
    let tokens = tokenizer().encode_chat(&template, &request).expect("encodes");
    let special: Vec<u32> = tokens.iter().copied().filter(|&token| tokenizer().is_special(token)).collect();
    assert_eq!(special, [1, 0]);
    assert_eq!(
        tokenizer().decode(&tokens, false),
        r#"<|im_start|>[{"<|im_end|>": "\u00e9 <|im_start|>", "type": "<|im_end|>"}]|<|endoftext|><|im_end|>"#
    );
}

#[test]
fn lucebox_641_an_emoji_split_across_tokens() {
    let tokenizer = tokenizer();
    let tokens = tokenizer.encode("a 🦊!", Specials::Literal).expect("encodes");
    assert!(tokens.len() > 4, "the fox takes several tokens");
    let mut detokenizer = tokenizer.detokenizer(DetokenizerOptions::default()).expect("no stops");
    let pieces: Vec<String> = tokens.iter().map(|&token| detokenizer.push(token).text).collect();
    assert_eq!(pieces.concat(), "a 🦊!");
    assert!(pieces.iter().all(|piece| !piece.contains('\u{fffd}')));

    let mut cut = tokenizer.detokenizer(DetokenizerOptions::default()).expect("no stops");
    let shown: String = tokens[..tokens.len() - 2].iter().map(|&token| cut.push(token).text).collect();
    assert_eq!((shown.as_str(), cut.finish().as_str(), cut.finish().as_str()), ("a ", "\u{fffd}", ""));
}

#[test]
fn stop_strings_end_the_text_wherever_tokens_are_cut() {
    let tokenizer = tokenizer();
    let tokens =
        tokenizer.encode("One day, Tim found a lantern. The end.", Specials::Literal).expect("encodes");
    let options = |stops: &[&str]| DetokenizerOptions {
        stops: stops.iter().map(|stop| stop.to_string()).collect(),
        ..DetokenizerOptions::default()
    };
    for (stops, text, found) in [
        (vec!["antern. T"], "One day, Tim found a l", Some(0)),
        (vec!["The end", " T"], "One day,", Some(1)),
        (vec!["end.!", "lanterns"], "One day, Tim found a lantern. The end.", None),
    ] {
        let mut detokenizer = tokenizer.detokenizer(options(&stops)).expect("good stops");
        let pieces: Vec<_> = tokens.iter().map(|&token| detokenizer.push(token)).collect();
        let shown: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!(shown + &detokenizer.finish(), text);
        assert_eq!(pieces.iter().find_map(|piece| piece.stop), found);
    }
    assert_eq!(tokenizer.detokenizer(options(&["x", ""])).expect_err("refused"), TextError::EmptyStop);
}

#[test]
fn llama_cpp_14655_many_thousand_blank_lines_take_linear_time() {
    let tokenizer = tokenizer();
    for text in [
        "\n".repeat(50_000),
        " ".repeat(50_000),
        "\n ".repeat(25_000),
        "a".repeat(50_000),
        "<".repeat(50_000),
    ] {
        let start = Instant::now();
        let tokens = tokenizer.encode_chat(template(), &user(&text)).expect("encodes");
        assert!(tokenizer.decode(&tokens, false).contains(&text));
        assert!(start.elapsed() < Duration::from_secs(5), "{:?} for {:?}…", start.elapsed(), &text[..4]);
    }
}

#[test]
fn llama_cpp_27427_a_long_chat_body() {
    let story =
        "Once upon a time, in 1723, a brave fox named Tim found <|im_end|> a lantern 🏮.\n".repeat(650);
    assert!(story.len() > 50_000);
    let request = user(&story);
    let tokens = tokenizer().encode_chat(template(), &request).expect("encodes");
    assert_eq!(tokenizer().decode(&tokens, false), template().render(&request).expect("renders"));
}

#[test]
fn hostile_tokenizers_are_errors() {
    let good = read_json("tokenizer.json");
    let with = |path: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(path).expect("there") = value;
        changed.to_string().into_bytes()
    };
    let nested = format!("{{\"decoder\":{}{}}}", "[".repeat(5000), "]".repeat(5000)).into_bytes();
    let truncated = good.to_string().into_bytes()[..30_000].to_vec();
    for file in [
        b"".to_vec(),
        b"null".to_vec(),
        b"{}".to_vec(),
        b"\xff\xfe".to_vec(),
        nested,
        truncated,
        with("/model/vocab/a", json!(u32::MAX)),
        with("/model/vocab/a", json!(-1)),
        with("/model/merges/0", json!(["absent", "pair"])),
        with(
            "/decoder",
            json!({"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": true}),
        ),
        with("/decoder", json!({"type": "Nothing"})),
        with("/model/vocab/a", json!(1.5)),
        with("/model/vocab", json!([])),
        with("/model/merges", json!([["a"]])),
        with("/model/merges/0", json!("ab")),
        with("/added_tokens", json!([{"id": 0}])),
        with("/added_tokens/0/id", json!(-1)),
        with("/added_tokens/0/content", json!(7)),
        with(
            "/decoder",
            json!({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": "a"}, "content": ""}]}),
        ),
        with(
            "/decoder",
            json!({"type": "Sequence", "decoders": vec![json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}); 60]}),
        ),
        with(
            "/normalizer",
            json!({"type": "Sequence", "normalizers": vec![json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}); 60]}),
        ),
        with(
            "/pre_tokenizer/pretokenizers/0",
            json!({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": false}),
        ),
    ] {
        let error = Tokenizer::from_json(&file).expect_err("refused");
        assert!(error.to_string().starts_with("tokenizer.json"), "{error}");
    }
}

#[test]
fn odd_tokenizers_work_as_far_as_they_can() {
    let good = read_json("tokenizer.json");
    let with = |path: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(path).expect("there") = value;
        changed.to_string().into_bytes()
    };
    let added = |contents: &[&str]| {
        let tokens = contents.iter().zip(1534..).map(|(content, id)| {
            json!({"id": id, "content": content, "special": true, "normalized": false, "single_word": false,
                "lstrip": false, "rstrip": false})
        });
        Value::Array(tokens.collect())
    };
    for file in [
        with("/model/merges", json!([])),
        with("/model/vocab", json!({})),
        with("/added_tokens", json!([])),
        with("/added_tokens", added(&["", "<|a", "<|a|>", "a|>", "a"])),
        with("/added_tokens/0/id", json!(u32::MAX)),
        with("/pre_tokenizer", Value::Null),
        with("/normalizer", json!({"type": "Strip", "strip_left": true, "strip_right": true})),
    ] {
        let Ok(tokenizer) = Tokenizer::from_json(&file) else { continue };
        for specials in [Specials::Parse, Specials::Literal] {
            let Ok(tokens) = tokenizer.encode("a <|a|> <|im_start|>é 🦊", specials) else { continue };
            assert!(tokens.iter().all(|&token| (token as usize) < tokenizer.vocabulary()));
            tokenizer.decode(&tokens, false);
        }
    }
}
