//! Compiles the kernels of every program of the language's page: `compile_page NVRTC_FOLDER ARCHITECTURE…`.

use std::path::Path;

use fiddlehead_cuda::build::{module_text, resources};
use fiddlehead_cuda::driver::Compiler;
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_lang::examples::{Action, examples};
use fiddlehead_oracle::random::{Motif, RandomProgram};
use fiddlehead_plan::{LoadOptions, placeholder_weights};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let compiler = Compiler::open(Some(Path::new(&arguments[0])), None).expect("a compiler");
    let mut graphs = Vec::new();
    for example in examples(include_str!("../../../docs/language.md")).expect("marks") {
        if let Action::Function(name) | Action::Step(name) = &example.action {
            let program = fiddlehead_lang::compile("page", &example.text).expect("a right program");
            let graph = lower_function(&program, name, &example.sizes).expect("lowers");
            graphs.push((format!("line {}", example.line), optimise(&graph)));
        }
    }
    for &motif in Motif::ALL {
        for seed in 0..2 {
            graphs.push((format!("{motif:?}"), RandomProgram::new(seed, &[motif], 1).expect("valid").graph));
        }
    }
    for (name, graph) in &graphs {
        let weights = placeholder_weights(graph).expect("small");
        let text = module_text(graph, &weights, &LoadOptions::default()).expect("lowers");
        for architecture in &arguments[1..] {
            match compiler.compile(&text, architecture) {
                Ok(compiled) => {
                    let found = resources(&compiled);
                    let spills: Vec<_> = found.iter().filter(|kernel| kernel.spills > 0).collect();
                    println!("{name} {architecture}: {} kernels, spills {spills:?}", found.len());
                }
                Err(error) => println!("{name} {architecture}: {error}"),
            }
        }
    }
}
