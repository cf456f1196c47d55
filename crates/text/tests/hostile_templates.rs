//! Templates made to do harm: each ends soon, with one clear error, and within a bounded amount of memory.
//!
//! The memory is what the process asks its allocator for at most, which an allocator of this test's own counts; so all
//! of it is one test, and one rendering at a time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fiddlehead_text::{ChatRequest, ChatTemplate, TextError};
use serde_json::json;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller's promise is the one that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer came from `alloc`, so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// More than any rendering of a short request may hold at once.
const MOST_BYTES: usize = 256 << 20;
/// Loose: most end within a fraction of a second.
const LONGEST: Duration = Duration::from_secs(30);

/// Renders within the bounds, whatever comes of it.
fn render(source: &str) -> Result<String, TextError> {
    let request = ChatRequest::new(vec![ChatRequest::message("user", "hi")]);
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let start = Instant::now();
    let rendered = ChatTemplate::new(source, None, None).and_then(|template| template.render(&request));
    let held = MOST.load(Relaxed).saturating_sub(before);
    let shown: String = source.chars().take(120).collect();
    assert!(held < MOST_BYTES, "{held} bytes for {shown}");
    assert!(start.elapsed() < LONGEST, "{:?} for {shown}", start.elapsed());
    rendered
}

/// Builds `ns.x` by sixty times doing `step`, then `end`.
fn grown(first: &str, step: &str, end: &str) -> String {
    format!(
        "{{% set ns = namespace(x={first}, y={first}) %}}{{% for i in range(60) %}}{{% set ns.x = {step} %}}{{% endfor %}}{{% for i in range(60) %}}{{% set ns.y = {} %}}{{% endfor %}}{end}",
        step.replace("ns.x", "ns.y"),
    )
}

fn exhausting() -> Vec<String> {
    let mut all: Vec<String> = [
        // What V52025 is.
        "{% for a in range(100000) %}{% for b in range(100000) %}{{ a }}{% endfor %}{% endfor %}",
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% for a in range(9000000000000000000) %}{% endfor %}",
        "{{ range(1, 99999999999, 2)|list|length }}",
        "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(x) %}{% set y = [x, x] %}{{ f(y) }}{% endmacro %}{{ f(1) }}",
        "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{{ loop([[1]]) }}{% endfor %}",
        "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}",
        // Operators that repeat.
        "{{ 'x' * 9000000000 }}",
        "{{ [1] * 9000000000 }}",
        "{{ ([[1] * 5000] * 5000) == ([[1] * 5000 + [2]] * 5000) }}{{ [0] * 900000000 }}",
        "{{ 'a' * 10000000 * 10000000 }}",
        // Filters and methods whose result is a product.
        "{{ ('a' * 100000)|replace('a', 'b' * 100000) }}",
        "{{ ('a' * 100000).replace('', 'b' * 100000) }}",
        "{{ (['x'] * 100000)|join('y' * 100000) }}",
        "{{ ('y' * 100000).join(['x'] * 100000) }}",
        "{{ ('\n' * 1000000)|indent(64, true, true)|indent(64, true, true)|indent('x' * 1000, true, true) }}",
        "{{ 'a'|center(99999999999) }}",
        "{{ [1]|batch(99999999999, 0) }}",
        "{{ [1]|slice(99999999999) }}",
        "{{ (range(20000)|list)|unique|list|length }}{{ (range(200000)|list)|unique|list|length }}",
        "{{ ('ab' * 1000000).strip('cdefghijklmnopqrstuvwxyz' * 100000 + 'ab') }}",
        "{{ (['%s'] * 100000)|join|format(*(['x' * 100000] * 100000)) }}",
        "{{ messages|tojson(indent='x' * 40000000) }}",
        "{{ ([1] * 100000)|tojson(separators=('x' * 100000, 'y')) }}",
        "{{ ([1] * 100000)|map('string')|map('replace', '1', 'x' * 100000)|list }}",
        "{{ ([[1] * 1000] * 1000)|sum(start=[]) }}{{ (['x' * 1000] * 100000)|sum(start='') }}",
        "{{ range(1000000)|sort|reverse|sort(reverse=true)|list|tojson|length }}{% for i in range(99) %}{{ range(999999)|sort|first }}{% endfor %}",
        "{% for i in range(10000000) %}{% set x = strftime_now('%c' * 1000000) %}{% endfor %}",
        "{% set ns = namespace(x='') %}{% for i in range(1000000) %}{% set ns.x = ns.x + 'abcdefgh' %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(1000000) %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(1000000) %}{% set x %}{{ 'a' * 100000 }}{% endset %}{% endfor %}",
        "{% for i in range(1000000) %}{% set x = namespace(a='a' * 1000) %}{% endfor %}",
        "{% for i in range(10000000) %}{% macro m() %}{% endmacro %}{% endfor %}",
    ]
    .map(str::to_owned)
    .to_vec();
    // Values that double: lists joined, lists nested (2^60 when written out, though small), strings, maps, blocks.
    for step in [
        "ns.x + ns.x",
        "ns.x * 2",
        "(ns.x + ns.x)|list",
        "ns.x[:] + ns.x[::-1]",
        "ns.x|map('string')|list + ns.x",
    ] {
        all.push(grown("[1]", step, ""));
    }
    for end in [
        "{{ ns.x }}",
        "{{ ns.x|tojson }}",
        "{{ ns.x|string }}",
        "{{ ns.x ~ '' }}",
        "{{ ns.x == ns.y }}",
        "{{ ns.x != ns.y }}",
        "{{ ns.x < ns.y }}",
        "{{ 0 < 1 and ns.x <= ns.y <= ns.x }}",
        "{{ ns.x in [ns.y] }}",
        "{{ [ns.x].count(ns.y) }}",
        "{{ [ns.x].index(ns.y) }}",
        "{{ [ns.x, ns.y]|unique|list }}",
        "{{ [ns.x, ns.y]|sort }}",
        "{{ [ns.x, ns.y]|min }}",
        "{{ [ns.x]|join }}",
        "{{ ''.join([ns.x]) }}",
        "{{ ns.x|replace('a', 'b') }}",
        "{{ ns.x|upper }}",
        "{{ '%s' % [ns.x] }}",
        "{{ '%r'|format(ns.x) }}",
        "{{ '{}'.format(ns.x) }}",
        "{{ 'x'.replace('x', ns.x|string) }}",
        "{{ ns.x is eq ns.y }}",
        "{{ ns.x is in [ns.y] }}",
        "{{ ns.x is sameas ns.y }}",
        "{{ [ns.x]|select('eq', ns.y)|list }}",
        "{{ [{'a': ns.x}, {'a': ns.y}]|groupby('a')|list }}",
        "{{ {'a': ns.x, 'b': ns.y}|dictsort(by='value') }}",
        "{{ raise_exception(ns.x) }}",
        "{% for i in range(9) %}{{ loop.changed(ns.x) }}{{ loop.changed(ns.y) }}{% endfor %}",
    ] {
        all.push(grown("[1]", "[ns.x, ns.x]", end));
    }
    all.push(grown("{'a': 1}", "{'a': ns.x, 'b': ns.x}", "{{ ns.x }}"));
    all.push(grown("{'a': 1}", "{'a': ns.x, 'b': ns.x}", "{{ ns.x|tojson }}"));
    all.push(grown("{'a': 1}", "{'a': ns.x, 'b': ns.x}", "{{ ns.x == ns.y }}"));
    for step in [
        "ns.x ~ ns.x",
        "ns.x + ns.x",
        "ns.x * 2",
        "ns.x|replace('a', 'aa')",
        "ns.x.replace('a', 'aa')",
        "[ns.x, ns.x]|join",
        "ns.x.join([ns.x, ns.x])",
        "'%s%s' % (ns.x, ns.x)",
        "'{0}{0}'.format(ns.x)",
        "ns.x|tojson",
        "ns.x|tojson|tojson",
        "(ns.x, ns.x)|string",
        "ns.x|escape ~ ns.x",
        "ns.x|center(ns.x|length * 2)",
        "ns.x|list + ns.x|list",
        "(ns.x ~ ns.x)|upper",
    ] {
        all.push(grown("'a\"'", step, ""));
    }
    all
}

#[test]
fn vllm_52025_templates_that_run_on_are_stopped() {
    for source in exhausting() {
        let error = match render(&source) {
            Err(error) => error,
            Ok(text) => panic!("{source} gives {} bytes", text.len()),
        };
        let stopped = matches!(error, TextError::TemplateExhausted)
            // Sixty levels of `tuple` in `tuple` are refused for being lists that are no strings, and the like.
            || matches!(&error, TextError::TemplateFailed { reason } if reason.contains("default:"));
        assert!(stopped, "{error} for {source}");
    }

    nesting();
    cycles();
    long_sources();
    large_requests();
}

/// Values and sources that nest without end.
fn nesting() {
    for source in [
        "{% set ns = namespace(x=[1]) %}{% for a in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}".to_owned(),
        "{% set ns = namespace(x=[1]) %}{% for a in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x }}".to_owned(),
        "{% set ns = namespace(x=[1]) %}{% for a in range(99999) %}{% set ns.x = (ns.x,) %}{% endfor %}".to_owned(),
        "{% set ns = namespace(x=[1]) %}{% for a in range(99999) %}{% set ns.x = [ns.x]|batch(1)|list %}{% endfor %}".to_owned(),
        "{% set ns = namespace(x=[1]) %}{% for a in range(300) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}".to_owned(),
        "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}".to_owned(),
    ] {
        assert!(render(&source).is_err(), "{source}");
    }
}

/// What refers to itself is written, compared and forgotten all the same.
fn cycles() {
    for (source, expected) in [
        ("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}", "[<Namespace>]"),
        (
            "{% set a = namespace() %}{% set b = namespace() %}{% set a.x = b %}{% set b.x = a %}{{ a == b }}{{ a.x.x == a }}",
            "FalseTrue",
        ),
        (
            "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns.x.x.x }}{{ 'a' ~ ns }}",
            "<Namespace>a<Namespace>",
        ),
        ("{% macro f(x) %}{% set g = f %}{{ x }}{% endmacro %}{{ f(f) }}", "<Macro>"),
        (
            "{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index is defined }}",
            "False",
        ),
    ] {
        assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
    }
}

/// Sources as long as they may be, of one sort each; and longer ones.
fn long_sources() {
    let (open, close) = ("{{ ", " }}");
    for (part, count) in [
        ("-", 250_000),
        ("not ", 60_000),
        ("1+", 120_000),
        ("1~", 120_000),
        ("(", 250_000),
        ("[", 250_000),
        ("{1:", 80_000),
        ("a.", 120_000),
        ("a|", 120_000),
        ("a[", 120_000),
        ("f(", 120_000),
        ("1 if ", 50_000),
        ("a is ", 50_000),
        ("1<", 120_000),
        ("2**", 80_000),
        ("a and ", 40_000),
        ("\"", 250_000),
        ("{", 250_000),
        ("1,", 120_000),
    ] {
        let _ = render(&format!("{open}{}1{close}", part.repeat(count)));
    }
    for (before, part, count) in [
        ("", "{% if a %}", 25_000),
        ("{% if a %}", "{% elif a %}", 20_000),
        ("", "{% for a in b %}", 15_000),
        ("", "{% macro a() %}", 15_000),
        ("", "{% set a %}", 20_000),
        ("", "{% filter a %}", 15_000),
        ("", "{% with %}", 20_000),
        ("", "{#", 120_000),
        ("", "{% raw %}", 25_000),
        ("", "{%", 120_000),
        ("", "{{", 120_000),
        ("", "{% generation %}", 16_000),
        ("{{ 1 ", "|upper", 40_000),
        ("{{ 1 ", ".a", 120_000),
        ("{{ 1 ", "+1", 120_000),
        ("{{ 1 ", " if 1 else 1", 20_000),
        ("{{ 1 ", " is defined", 20_000),
        ("{{ 1 ", "[0]", 80_000),
        ("{{ f", "()", 120_000),
    ] {
        let _ = render(&format!("{before}{}", part.repeat(count)));
        let closed = format!("{before}{} }}}}", part.repeat(count));
        let _ = render(&closed);
    }
    let error = render(&"a".repeat(1 << 20)).expect_err("too long").to_string();
    assert!(error.contains("1048576 bytes"), "{error}");
}

/// A long conversation pays its own way.
fn large_requests() {
    let source = "{% for m in messages %}{% set c = m.content|trim %}{{ '<' + m.role + '>' + c.split('@')[-1].strip('x') + '|' }}{% if loop.index0 + 1 < messages|length and messages[loop.index0 + 1].role == 'user' %}!{% endif %}{% endfor %}{{ messages|tojson|length }}";
    let template = ChatTemplate::new(source, None, None).expect("a template");
    let message = json!({"role": "user", "content": "A word or two, and three. ".repeat(400)});
    let rendered = template.render(&ChatRequest::new(vec![message; 2000])).expect("renders");
    assert!(rendered.len() > 2000 * 400 * 26);
}
