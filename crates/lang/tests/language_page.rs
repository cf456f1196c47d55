//! Every program of `docs/language.md` is right (or wrong by the rule that it shows), and names all that a run needs.

use std::collections::BTreeSet;

use fiddlehead_lang::compile;
use fiddlehead_lang::diagnostic::Diagnostics;
use fiddlehead_lang::examples::{Action, Example, ExampleError, examples};
use fiddlehead_lang::hir::{FunctionId, Program};
use fiddlehead_lang::size::SizeSymbol;

const PAGE: &str = include_str!("../../../docs/language.md");
const QWEN: &str = include_str!("../../models/programs/qwen3_5.fh");

fn compiled(example: &Example) -> Result<Program, Diagnostics> {
    compile(&format!("docs/language.md:{}", example.line), &example.text)
}

fn right(example: &Example) -> Program {
    compiled(example).unwrap_or_else(|messages| panic!("{}", messages.render(false)))
}

/// The example gives these sizes, no more and no less.
fn check_sizes(example: &Example, program: &Program, symbols: &[SizeSymbol]) {
    let wanted: BTreeSet<&str> = symbols.iter().map(|symbol| program.symbol_name(*symbol)).collect();
    let given: BTreeSet<&str> = example.sizes.keys().map(String::as_str).collect();
    assert_eq!(given, wanted, "sizes of the example on line {}", example.line);
}

fn function(example: &Example, program: &Program, name: &str) -> FunctionId {
    program.function(name).unwrap_or_else(|| panic!("no function `{name}` on line {}", example.line))
}

#[test]
fn every_example_is_as_it_says() {
    let examples = examples(PAGE).expect("info strings");
    assert!(examples.len() > 20, "{} examples", examples.len());
    for example in &examples {
        match &example.action {
            Action::Refused(rule) => {
                let messages = compiled(example).expect_err("a refused program");
                assert_eq!(messages.items[0].rule.name(), rule, "line {}: {messages}", example.line);
            }
            Action::Function(name) | Action::Step(name) => {
                let program = right(example);
                let function = &program.functions[function(example, &program, name).index()];
                let is_step = matches!(example.action, Action::Step(_));
                assert_eq!(function.is_step, is_step, "line {}", example.line);
                check_sizes(example, &program, &function.sizes);
            }
            Action::Model(name) => {
                let program = right(example);
                let model = program.models.iter().find(|model| model.name == *name).expect("the model");
                check_sizes(example, &program, &model.dims);
                let statics: Vec<&str> = model.statics.iter().map(|value| value.name.as_str()).collect();
                assert_eq!(statics, example.statics.keys().map(String::as_str).collect::<Vec<_>>());
                let layers = model.layers.as_ref().expect("layers");
                let count =
                    layers.count.evaluate(&|symbol| example.sizes.get(program.symbol_name(symbol)).copied());
                assert_eq!(count, Ok(example.kinds.len() as i64), "line {}", example.line);
                for kind in &example.kinds {
                    assert!(layers.kinds.iter().any(|declared| declared.name == *kind), "kind {kind}");
                }
            }
        }
    }
}

#[test]
fn the_page_holds_the_whole_of_qwen3_5() {
    let examples = examples(PAGE).expect("info strings");
    let last = examples.last().expect("examples");
    assert_eq!(last.action, Action::Model("qwen3_5".into()));
    assert!(last.text == QWEN, "docs/language.md and crates/models/programs/qwen3_5.fh differ");
}

#[test]
fn the_page_names_every_rule() {
    for rule in fiddlehead_lang::diagnostic::Rule::ALL {
        assert!(PAGE.contains(&format!("`{}`", rule.name())), "rule {} is not on the page", rule.name());
    }
}

#[test]
fn info_strings_are_read_whole() {
    let page = "text\n```fh run=main N=8 wide=true ids=5\nfn f\n```\n```text\nfn g\n```\n";
    let found = examples(page).expect("right");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].line, found[0].text.as_str(), found[0].ids), (3, "fn f\n", 5));
    assert_eq!(found[0].action, Action::Function("main".into()));
    assert_eq!((found[0].sizes.get("N"), found[0].statics.get("wide")), (Some(&8), Some(&true)));
    let wrong = |page: &str| examples(page).expect_err("wrong");
    let error = |problem: &str| ExampleError { line: 1, problem: problem.into() };
    assert_eq!(wrong("```fh\n```"), error("no `run=`, `step=`, `model=` or `error=`"));
    assert_eq!(wrong("```fh run=a step=b\n```"), error("several actions"));
    assert_eq!(wrong("```fh run=a N=x\n```"), error("`N=x` has no meaning"));
    assert_eq!(wrong("```fh run=a\nfn f"), error("the block does not end"));
}
