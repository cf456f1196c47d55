//! A device of one model whose logits are a hash of the path: every mistake in a path shows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use fiddlehead_engine::{Defaults, LoadTimings, Model, ModelParts};
use fiddlehead_forest::{Accepted, Class, Forest, SessionId};
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::{Compute, Element, Expr, Graph, Input, ModelGraph, Origin, Param, Permissions, Range};
use fiddlehead_plan::{DeviceError, Executor, MemoryReport, OutputRows, PlanReport, Snapshot, Values};
use fiddlehead_text::{ChatTemplate, Tokenizer};

/// As many tokens as the stories tokenizer, so that text can be made of any of them.
pub const VOCABULARY: usize = 1537;

/// A run that was asked for: base, tokens, class, whether logits were wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub base: usize,
    pub tokens: usize,
    pub class: Class,
    pub wanted: bool,
}

pub type Log = Arc<Mutex<Vec<Run>>>;

pub struct PathHash {
    graph: ModelGraph,
    sessions: HashMap<SessionId, Vec<u32>>,
    pending: HashMap<SessionId, Vec<u32>>,
    log: Log,
    /// A path of this length gives a NaN.
    broken_at: Option<usize>,
}

/// The logits of a path.
pub fn logits(path: &[u32]) -> Vec<f32> {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for &token in path {
        hash = (hash ^ u64::from(token)).wrapping_mul(0x0100_0000_01b3);
    }
    let value = |token: u64| {
        let mixed = (hash ^ token.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed >> 40) as f32) / ((1u32 << 22) as f32)
    };
    let mut row: Vec<f32> = (0..VOCABULARY as u64).map(value).collect();
    // Special tokens come only where a test wants them to.
    row[..3].fill(-1.0);
    row
}

pub fn model(context: usize, broken_at: Option<usize>) -> (Model, Log) {
    model_that_ends_at(2, context, broken_at)
}

pub fn model_that_ends_at(end: u32, context: usize, broken_at: Option<usize>) -> (Model, Log) {
    let log = Log::default();
    let executor = PathHash {
        graph: ModelGraph { name: "hash".into(), steps: vec![graph()] },
        sessions: HashMap::new(),
        pending: HashMap::new(),
        log: log.clone(),
        broken_at,
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories-11m");
    let read = |name: &str| std::fs::read(format!("{folder}/{name}")).expect("the stories model is here");
    let config = serde_json::from_slice(&read("tokenizer_config.json")).expect("json");
    let parts = ModelParts {
        executor: Box::new(executor),
        tokenizer: Tokenizer::from_json(&read("tokenizer.json")).expect("a tokenizer"),
        template: ChatTemplate::from_config(&config, None).expect("a template"),
        ends: vec![end],
        defaults: Defaults::default(),
        context,
        trained_context: context,
        timings: LoadTimings::default(),
    };
    (Model::from_parts(parts).expect("the interface is right"), log)
}

fn graph() -> Graph {
    let mut builder = GraphBuilder::new("main");
    let scalar = |name: &str, element| Input { name: name.into(), shape: vec![], element, per_node: true };
    let token = builder.input(scalar("token", Element::Id));
    builder.input(scalar("at", Element::I32));
    let embed = builder.param(Param {
        name: "embed".into(),
        shape: vec![VOCABULARY, VOCABULARY],
        element: Element::F32,
    });
    let row = Expr::Load { node: token, indices: vec![] };
    let logits = builder.compute(
        Compute {
            axes: vec![Range::Fixed(VOCABULARY)],
            fold: None,
            guard: None,
            body: Expr::Load { node: embed, indices: vec![row, Expr::Axis(0)] },
            permissions: Permissions::default(),
        },
        Element::F32,
        Origin::default(),
    );
    builder.output("logits", logits);
    builder.seal().expect("a valid graph")
}

fn unknown(session: SessionId) -> DeviceError {
    DeviceError::Session { session: session.0, why: "it is not open".into() }
}

impl Executor for PathHash {
    fn model(&self) -> &ModelGraph {
        &self.graph
    }
    fn open(&mut self, session: SessionId) -> Result<(), DeviceError> {
        match self.sessions.insert(session, Vec::new()) {
            None => Ok(()),
            Some(_) => Err(DeviceError::Session { session: session.0, why: "it is open already".into() }),
        }
    }
    fn close(&mut self, session: SessionId) -> Result<(), DeviceError> {
        self.pending.remove(&session);
        self.sessions.remove(&session).map(drop).ok_or(unknown(session))
    }
    fn position(&self, session: SessionId, _: usize) -> Result<usize, DeviceError> {
        self.sessions.get(&session).map(Vec::len).ok_or(unknown(session))
    }
    fn run(&mut self, _: usize, forest: &Forest, inputs: &[Values]) -> Result<Vec<OutputRows>, DeviceError> {
        let [Values::Id(tokens), Values::I32(positions)] = inputs else {
            return Err(DeviceError::Input { name: "token".into(), why: "unexpected inputs".into() });
        };
        assert_eq!(positions, forest.depths());
        let segment = forest.segments()[0];
        let committed = self.sessions.get(&segment.session()).ok_or(unknown(segment.session()))?;
        assert_eq!(segment.base(), committed.len());
        let wanted: Vec<u32> =
            (0..forest.len() as u32).filter(|&node| forest.wanted()[node as usize].contains(0)).collect();
        self.log.lock().expect("one thread").push(Run {
            base: segment.base(),
            tokens: tokens.len(),
            class: forest.classes()[0],
            wanted: !wanted.is_empty(),
        });
        let mut values = Vec::new();
        for &node in &wanted {
            let mut path = committed.clone();
            path.extend(forest.path_rows(node).iter().map(|&row| tokens[row as usize]));
            let mut row = logits(&path);
            if Some(path.len()) == self.broken_at {
                row[7] = f32::NAN;
            }
            values.extend(row);
        }
        self.pending.insert(segment.session(), tokens.clone());
        Ok(vec![OutputRows { nodes: wanted, values: Values::F32(values) }])
    }
    fn commit(&mut self, _: usize, accepted: &Accepted) -> Result<(), DeviceError> {
        let tokens = self.pending.remove(&accepted.session()).ok_or(unknown(accepted.session()))?;
        let path = self.sessions.get_mut(&accepted.session()).ok_or(unknown(accepted.session()))?;
        path.extend(accepted.nodes().iter().map(|&node| tokens[node as usize]));
        Ok(())
    }
    fn discard(&mut self, _: usize, session: SessionId) -> Result<(), DeviceError> {
        self.pending.remove(&session);
        Ok(())
    }
    fn snapshot(&mut self, session: SessionId) -> Result<Snapshot, DeviceError> {
        let path = self.sessions.get(&session).ok_or(unknown(session))?.clone();
        Ok(Snapshot { positions: vec![path.len()], bytes: 4 * path.len(), content: Arc::new(path) })
    }
    fn restore(&mut self, session: SessionId, snapshot: &Snapshot) -> Result<(), DeviceError> {
        let path = snapshot.content.downcast_ref::<Vec<u32>>().expect("its own snapshot").clone();
        self.sessions.insert(session, path);
        Ok(())
    }
    fn memory(&self) -> MemoryReport {
        MemoryReport::default()
    }
    fn explain(&self, _: usize) -> Result<PlanReport, DeviceError> {
        Ok(PlanReport::default())
    }
}
