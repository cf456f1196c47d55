//! Chat templates: Jinja2's own renderings as the reference (`templates/make.py`), and what must not go wrong.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use fiddlehead_text::{ChatRequest, ChatTemplate, TextError};
use serde_json::{Value, json};

fn request(variables: &Value, now: u64) -> ChatRequest {
    let mut variables = variables.as_object().expect("an object").clone();
    let list = |value: Option<Value>| value.map(|list| list.as_array().expect("a list").clone());
    let mut request = ChatRequest::new(list(variables.remove("messages")).expect("there"));
    request.tools = list(variables.remove("tools"));
    if let Some(add) = variables.remove("add_generation_prompt") {
        request.add_generation_prompt = add == json!(true);
    }
    request.variables = variables;
    request.now = Some(UNIX_EPOCH + Duration::from_secs(now));
    request
}

fn render(source: &str) -> Result<String, TextError> {
    ChatTemplate::new(source, None, None)?.render(&ChatRequest::new(vec![ChatRequest::message("user", "hi")]))
}

#[test]
fn templates_render_as_jinja2_renders_them() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/templates/cases.json");
    let file: Value = serde_json::from_slice(&fs::read(file).expect("there")).expect("JSON");
    let now = file["now"].as_u64().expect("a time");
    let cases = file["cases"].as_array().expect("a list");
    assert!(cases.len() > 10);
    for case in cases {
        let source = case["template"].as_str().expect("text");
        let template = ChatTemplate::new(source, Some("<|begin|>"), Some("<|eot|>")).expect("a template");
        let rendered = template.render(&request(&case["request"], now));
        match case["raised"].as_str() {
            Some(message) => {
                assert_eq!(rendered, Err(TextError::TemplateRaised { message: message.to_owned() }))
            }
            None => assert_eq!(
                rendered.as_deref(),
                Ok(case["rendered"].as_str().expect("text")),
                "{}",
                case["name"]
            ),
        }
    }
}

#[test]
fn arguments_in_a_string_are_the_object_they_hold() {
    let source = "{% for c in messages[0].tool_calls %}{{ c.function.arguments | tojson }}{{ c.function.arguments is mapping }}{% endfor %}";
    let call = |arguments: Value| json!({"function": {"name": "f", "arguments": arguments}});
    let calls =
        [json!("{\"b\": 1, \"a\": []}"), json!({"b": 1}), json!("not json"), json!("[1]"), json!(null)];
    let message = json!({"role": "assistant", "tool_calls": calls.map(call)});
    let template = ChatTemplate::new(source, None, None).expect("a template");
    assert_eq!(
        template.render(&ChatRequest::new(vec![message])).expect("renders"),
        r#"{"b": 1, "a": []}True{"b": 1}True"not json"False"[1]"FalsenullFalse"#
    );
}

#[test]
fn llama_cpp_11402_a_template_that_raises_gives_its_message() {
    for source in [
        "{{ raise_exception('Only user and assistant roles are supported!') }}",
        "{% macro check() %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endmacro %}{{ check() }}",
        "{% if messages | map('upper') | list %}{% endif %}{{ raise_exception('Only user and assistant roles are supported!') }}",
    ] {
        assert_eq!(
            render(source),
            Err(TextError::TemplateRaised {
                message: "Only user and assistant roles are supported!".to_owned()
            })
        );
    }
}

#[test]
fn sglang_13722_hugging_faces_keywords_work() {
    let source = "{{ messages[0]|tojson(ensure_ascii=False) }}|{{ messages[0].content|tojson(ensure_ascii=True) }}|{{ messages[0].content|tojson(ensure_ascii=False, indent=2, separators=(',', ': '), sort_keys=True) }}|{{ strftime_now('%Y-%m-%d') }}|{% if strftime_now is defined and raise_exception is defined %}both{% endif %}";
    let mut request = ChatRequest::new(vec![ChatRequest::message("user", "é🦊")]);
    request.now = Some(UNIX_EPOCH + Duration::from_secs(951_826_395));
    let template = ChatTemplate::new(source, None, None).expect("a template");
    assert_eq!(
        template.render(&request).as_deref(),
        Ok(r#"{"role": "user", "content": "é🦊"}|"\u00e9\ud83e\udd8a"|"é🦊"|2000-02-29|both"#)
    );
    let raising =
        ChatTemplate::new("{{ raise_exception('no ' ~ messages|length) }}", None, None).expect("a template");
    assert_eq!(raising.render(&request), Err(TextError::TemplateRaised { message: "no 1".to_owned() }));
}

#[test]
fn errors_say_what_and_where() {
    let error = ChatTemplate::new("a\n{% if %}", None, None).expect_err("refused").to_string();
    assert!(error.contains("`default`") && error.contains(":2"), "{error}");
    for source in [
        "\n{{ messages[0].content | no_such_filter }}",
        "\n{{ no_such_function() }}",
        "\n{{ absent.field.deeper }}",
        "\n{{ messages[0].content.no_such_method() }}",
        "\n{{ absent | tojson }}",
        "\n{{ messages | tojson(separators=1) }}",
        "\n{{ messages | tojson(indent=100000) }}",
        "\n{{ messages | tojson(no_such_keyword=1) }}",
        "\n{% include 'other' %}",
    ] {
        let error = match render(source) {
            Err(error) => error.to_string(),
            Ok(text) => panic!("{source} gives {text:?}"),
        };
        assert!(error.contains("default:2") || error.contains("other"), "{error}");
    }
}

#[test]
fn a_model_may_have_several_templates() {
    let config = json!({
        "bos_token": {"content": "<s>", "lstrip": false},
        "chat_template": [
            {"name": "default", "template": "{{ bos_token }}plain {{ messages[0].content }}"},
            {"name": "tool_use", "template": "tools {{ tools|length }}"},
            {"name": "rag", "template": "documents {{ documents|length }}"},
        ]
    });
    let template = ChatTemplate::from_config(&config, None).expect("good").expect("there");
    assert_eq!(template.names().collect::<Vec<_>>(), ["default", "tool_use", "rag"]);
    let mut request = ChatRequest::new(vec![ChatRequest::message("user", "hi")]);
    assert_eq!(template.render(&request).as_deref(), Ok("<s>plain hi"));
    request.tools = Some(vec![json!({}), json!({})]);
    assert_eq!(template.render(&request).as_deref(), Ok("tools 2"));
    request.template = Some("rag".to_owned());
    request.documents = Some(vec![json!({})]);
    assert_eq!(template.render(&request).as_deref(), Ok("documents 1"));
    request.template = Some("other".to_owned());
    let error = template.render(&request).expect_err("none").to_string();
    assert!(error.contains("default, tool_use, rag"), "{error}");

    let file =
        ChatTemplate::from_config(&config, Some("file {{ bos_token }}")).expect("good").expect("there");
    request.template = None;
    request.tools = None;
    assert_eq!(file.render(&request).as_deref(), Ok("file <s>"));
    assert!(ChatTemplate::from_config(&json!({}), None).expect("good").is_none());
}

#[test]
fn a_request_replaces_none_of_the_templates_own_words() {
    let template = ChatTemplate::new("{{ bos_token }}{{ messages|length }}{{ extra }}", Some("<s>"), None)
        .expect("good");
    let mut request = ChatRequest::new(vec![ChatRequest::message("user", "hi")]);
    request.variables.insert("bos_token".to_owned(), json!("forged"));
    request.variables.insert("messages".to_owned(), json!([]));
    request.variables.insert("extra".to_owned(), json!("!"));
    assert_eq!(template.render(&request).as_deref(), Ok("<s>1!"));
}
