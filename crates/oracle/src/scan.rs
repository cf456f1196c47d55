//! The sequential loop, turn by turn.

use crate::array::{Data, Level};
use crate::evaluate::Past;
use crate::program::{Evaluation, Incoming, Program};
use crate::weights::Weights;
use crate::{Array, OracleError, Real, Trap};
use fiddlehead_graph::{Element, Origin, Scan, ScanResult};
use std::sync::Arc;

/// A loop whose body is ready to run.
#[derive(Debug)]
pub(crate) struct Loop<R> {
    body: Program<R>,
    trips: usize,
    results: Vec<ScanResult>,
    /// Shape and type of each result.
    types: Vec<(Vec<usize>, Element)>,
    origin: Origin,
}

/// What one emission has gathered.
struct Emission<R> {
    rows: usize,
    data: Data<R>,
}

impl<R: Real> Loop<R> {
    pub fn new(scan: &Scan, origin: &Origin, weights: &Weights) -> Result<Loop<R>, OracleError> {
        let body = Program::new(&scan.body, weights)?;
        let result = |result: &ScanResult| match result {
            ScanResult::Emitted { output, capacity, .. } => {
                let output = scan.body.outputs()[*output].node;
                let mut shape = vec![*capacity];
                // A sealed graph's outputs have fixed extents.
                shape.extend(scan.body.shape(output).unwrap_or_default());
                (shape, scan.body.node(output).element)
            }
            ScanResult::Length { .. } => (Vec::new(), Element::I32),
            ScanResult::Carry(state) => {
                let state = &scan.body.states()[state.index()];
                (state.shape.clone(), state.element)
            }
        };
        let types = scan.results.iter().map(result).collect();
        Ok(Loop { body, trips: scan.trips, results: scan.results.clone(), types, origin: origin.clone() })
    }

    /// Runs the loop with the values it captures; gives its results in order.
    pub fn run(&self, captured: &[Arc<Array<R>>]) -> Result<Vec<Arc<Array<R>>>, OracleError> {
        let mut states: Vec<Option<Arc<Array<R>>>> = vec![None; self.body.states.len()];
        let mut histories: Vec<Vec<Arc<Array<R>>>> = vec![Vec::new(); self.body.histories.len()];
        let mut emissions: Vec<Emission<R>> =
            self.types.iter().map(|(_, element)| Emission { rows: 0, data: Data::empty(*element) }).collect();
        for turn in 0..self.trips {
            let mut evaluation = self.turn(turn, captured, &states, &histories);
            for (result, emission) in self.results.iter().zip(&mut emissions) {
                self.emit(result, &mut evaluation, emission)?;
            }
            let next = evaluation.states()?;
            let rows = evaluation.rows()?;
            states = next.into_iter().map(Some).collect();
            histories.iter_mut().zip(rows).for_each(|(history, row)| history.push(row));
        }
        let last = match states.into_iter().collect::<Option<Vec<_>>>() {
            Some(states) => states,
            None => {
                let fresh = vec![None; self.body.states.len()];
                self.turn(0, captured, &fresh, &histories).initial_states()?
            }
        };
        let result = |(index, result): (usize, &ScanResult)| match result {
            ScanResult::Carry(state) => last[state.index()].clone(),
            ScanResult::Length { emission } => {
                let rows = emissions[*emission].rows as i32;
                Arc::new(Array { levels: Vec::new(), data: Data::Int(vec![rows]) })
            }
            ScanResult::Emitted { .. } => {
                let shape = &self.types[index].0;
                let mut data = emissions[index].data.clone();
                data.push_zeros(shape.iter().product::<usize>() - data.len());
                Arc::new(Array { levels: shape.iter().map(|&extent| Level::Fixed(extent)).collect(), data })
            }
        };
        Ok(self.results.iter().enumerate().map(result).collect())
    }

    fn turn<'run>(
        &'run self,
        turn: usize,
        captured: &'run [Arc<Array<R>>],
        states: &'run [Option<Arc<Array<R>>>],
        stored: &'run [Vec<Arc<Array<R>>>],
    ) -> Evaluation<'run, R> {
        let past = Past { stored, ancestors: Vec::new(), base: turn };
        Evaluation::new(&self.body, Incoming { here: turn as i64, inputs: captured, states, past })
    }

    /// Takes what this turn emits. A value that is not emitted is not computed.
    fn emit(
        &self,
        result: &ScanResult,
        turn: &mut Evaluation<'_, R>,
        emission: &mut Emission<R>,
    ) -> Result<(), OracleError> {
        let ScanResult::Emitted { output, condition, capacity } = result else {
            return Ok(());
        };
        if let Some(condition) = condition
            && !turn.output(*condition)?.data.bool(0)
        {
            return Ok(());
        }
        if emission.rows == *capacity {
            let trap = Trap::TooManyEmissions { capacity: *capacity };
            return Err(OracleError::Trap { origin: self.origin.clone(), trap });
        }
        emission.rows += 1;
        emission.data.extend(turn.output(*output)?.data());
        Ok(())
    }
}
