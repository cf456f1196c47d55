//! Attentions with sinks, learned or of each node's own, are served and give what the oracle gives.

use std::collections::{BTreeMap, HashMap};

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::SessionId;
use fiddlehead_forest::shapes::{SplitMix, random_forest};
use fiddlehead_gate::case::{load, options, to_f64s, values};
use fiddlehead_graph::lower::{ModelBindings, lower_model};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_oracle::{Array, Oracle, OracleSessions, Weight};
use fiddlehead_plan::{Executor, Values, Weights};
use fiddlehead_storage::Tensor;

/// `SINK` stands for the sink of a head, `START` for where the path begins.
const PROGRAM: &str = "
step fn attend[A, B, K](q: f32[A, K], k: f32[B, K], v: f32[B, K], sink: f32[A]) -> f32[A, K] {
    history ks = k;
    history vs = v;
    let s = each[h in A, t in START] rsqrt(f32(K)) * (sum[i in K] q[h, i] * ks[t][h / (A / B), i]);
    let m = each[h in A] max(sink[h], max[t in START] s[h, t]);
    let p = each[h in A, t in START] exp(s[h, t] - m[h]);
    each[h in A, i in K]
        (sum[t in START] p[h, t] * vs[t][h / (A / B), i]) / ((sum[t in START] p[h, t]) + exp(sink[h] - m[h]))
}

model sinks {
    dims A, B, K;
    param learned: f32[A];
    step main(q: f32[A, K], k: f32[B, K], v: f32[B, K], own: f32[A]) -> (y: f32[A, K]) {
        attend(q, k, v, SINK)
    }
}";

fn check(sink: &str, start: &str) {
    let text = PROGRAM.replace("SINK", sink).replace("START", start);
    let program = fiddlehead_lang::compile("sinks.fh", &text).unwrap_or_else(|errors| {
        panic!("{}", errors.items.iter().map(|item| item.message.clone()).collect::<String>())
    });
    let dims = [("A", 6), ("B", 2), ("K", 8)].map(|(name, size)| (name.to_string(), size));
    let bound = ModelBindings {
        dims: BTreeMap::from(dims),
        params: ["learned".to_string()].into(),
        ..ModelBindings::default()
    };
    let graph = optimise(&lower_model(&program, "sinks", &bound).expect("lowers").steps[0]);
    let learned: Vec<f32> = vec![0.7, -1.0, 2.5, 0.0, -8.0, 40.0];
    let (mut stored, mut plain) = (Weights::new(), HashMap::new());
    for param in graph.params() {
        stored.insert(param.name.clone(), Tensor::from_f32(vec![6], learned.clone()).expect("fits"));
        plain.insert(param.name.clone(), Weight::Float(learned.clone().into()));
    }
    let oracle = Oracle::<f64>::new(&graph, &plain).expect("resolves");
    let mut executor: Box<dyn Executor> =
        load(&CpuDevice::new(2), &graph, stored, options(&[])).expect("loads");
    let report = executor.explain(0).expect("a step");
    let served = report.steps.iter().any(|step| step.detail.contains("a sink a head"));
    assert!(served, "{sink}, {start}: {:?}", report.refusals);
    let mut random = SplitMix::new(21);
    let mut sessions = OracleSessions::new();
    let mut bases = Vec::new();
    for name in 0..2 {
        executor.open(SessionId(name)).expect("a new session");
        sessions.insert(SessionId(name), oracle.session());
        bases.push((SessionId(name), 0));
    }
    for round in 0..6 {
        let forest = random_forest(&mut random, &bases, 40).expect("a forest");
        let mut given = Vec::new();
        for input in graph.inputs() {
            let mut shape = vec![forest.len()];
            shape.extend(&input.shape);
            let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| 3.0 * random.signed_unit()).collect();
            given.push(Array::<f32>::floats(&numbers).reshaped(&shape).expect("as many elements"));
        }
        let wide: Vec<Array<f64>> = given.iter().map(Array::converted).collect();
        let wanted = oracle.run(&forest, &wide, &sessions).expect("runs");
        let given: Vec<Values> = given.iter().map(values).collect();
        let found = executor.run(0, &forest, &given).expect("runs");
        let found_rows = to_f64s(&found[0].values);
        let wanted_rows: Vec<f64> = found[0]
            .nodes
            .iter()
            .flat_map(|&node| wanted.output(node as usize, 0).expect("wanted").to_f64s())
            .collect();
        assert_eq!(found_rows.len(), wanted_rows.len());
        for (place, (found, wanted)) in found_rows.iter().zip(&wanted_rows).enumerate() {
            let error = (found - wanted).abs() / (1.0 + wanted.abs());
            assert!(error <= 1e-5, "{sink}, {start}, round {round}, {place}: {found} instead of {wanted}");
        }
        for segment in forest.segments() {
            let accepted = forest.accept_to(segment.range().end as u32 - 1).expect("a node");
            let session = segment.session();
            wanted.commit(&accepted, sessions.get_mut(&session).expect("open")).expect("continues");
            executor.commit(0, &accepted).expect("continues");
            bases.iter_mut().find(|base| base.0 == session).expect("known").1 = accepted.position();
        }
    }
}

#[test]
fn learned_sinks() {
    check("learned", "path");
    check("learned", "max(0, here - 12) ..= here");
}

/// Rows whose sinks differ must not share a call that has one set of sinks.
#[test]
fn sinks_of_each_node() {
    check("own", "path");
    check("each[h in A] own[h] * learned[h] / 10.0", "max(0, here - 12) ..= here");
}
