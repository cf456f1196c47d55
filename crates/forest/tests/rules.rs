//! Each rule of the forest, broken once.

use fiddlehead_forest::shapes;
use fiddlehead_forest::{
    Class, Forest, ForestBuilder, ForestError, MAX_DEPTH, MAX_NODES, NO_PARENT, Positions, SessionId, Shape,
    Wanted,
};

const GENERATED: Class = Class::Generated;

fn two_segments() -> ForestBuilder {
    let mut builder = ForestBuilder::new();
    for session in [3, 5] {
        builder.segment(SessionId(session), 10).expect("a new session");
        builder.chain(2, GENERATED, Wanted::NONE, Wanted::ALL).expect("a chain fits");
    }
    builder
}

#[test]
fn each_broken_rule_has_its_error() {
    let session = SessionId(5);
    let node = |parent| two_segments().node(parent, GENERATED, Wanted::ALL).expect_err("a rule is broken");
    assert_eq!(node(Some(4)), ForestError::ParentAfterChild { node: 4, parent: 4 });
    assert_eq!(node(Some(NO_PARENT)), ForestError::ParentAfterChild { node: 4, parent: NO_PARENT });
    assert_eq!(node(Some(1)), ForestError::ParentInAnotherSegment { node: 4, parent: 1 });
    let mut builder = two_segments();
    builder.node(Some(2), GENERATED, Wanted::ALL).expect("a second child");
    let error = builder.node(Some(3), GENERATED, Wanted::ALL).expect_err("node 3 is closed");
    assert_eq!(error, ForestError::NotDepthFirst { node: 5, parent: 3 });

    let error = two_segments().segment(session, 0).expect_err("named twice").to_string();
    assert_eq!(error, "session 5 already has a segment in this forest");
    let mut builder = ForestBuilder::new();
    assert_eq!(builder.node(None, GENERATED, Wanted::ALL), Err(ForestError::NodeWithoutSegment { node: 0 }));
    builder.segment(session, 0).expect("a new session");
    assert_eq!(builder.segment(SessionId(6), 0).err(), Some(ForestError::EmptySegment { session }));
    assert_eq!(builder.build(), Err(ForestError::EmptySegment { session }));
    assert_eq!(ForestBuilder::new().build(), Err(ForestError::EmptyForest));
    assert_eq!(Wanted::output(32), Err(ForestError::TooManyOutputs { index: 32 }));
    assert_eq!(Forest::single_chain(session, 0, MAX_NODES + 1), Err(ForestError::TooManyNodes));
    let depth = MAX_DEPTH + 1;
    assert_eq!(Forest::single_chain(session, MAX_DEPTH, 2), Err(ForestError::TooDeep { session, depth }));
    assert_eq!(Forest::single_chain(session, depth, 1), Err(ForestError::TooDeep { session, depth }));
}

#[test]
fn named_shapes_are_what_they_say() {
    assert_eq!(shapes::chain(3), [None, Some(0), Some(1)]);
    assert_eq!(shapes::star(4), [None, Some(0), Some(0), Some(0)]);
    assert_eq!(shapes::comb(6), [None, Some(0), Some(0), Some(2), Some(2), Some(4)]);
    let shape = |parents: &[Option<u32>]| {
        shapes::single_tree(SessionId(0), 0, parents).expect("a valid tree").segments()[0].shape()
    };
    assert_eq!(shape(&shapes::chain(1)), Shape::Node);
    assert_eq!(shape(&shapes::chain(9)), Shape::Chain);
    assert_eq!(shape(&shapes::star(2)), Shape::Chain);
    assert_eq!(shape(&shapes::star(3)), Shape::Tree);
    assert_eq!(shape(&shapes::comb(3)), Shape::Tree);
    assert_eq!(shape(&[None, None]), Shape::Tree);
    assert_eq!(shape(&[None, Some(0), None, Some(2)]), Shape::Tree);
}

#[test]
fn a_chain_is_a_run_of_intervals_to_its_end() {
    let forest = two_segments().build().expect("two segments");
    assert_eq!(forest.parents(), [NO_PARENT, 0, NO_PARENT, 2]);
    assert_eq!(forest.ends(), [1, 1, 3, 3]);
    assert_eq!(forest.depths(), [10, 11, 10, 11]);
    assert_eq!(forest.wanted_rows(Wanted::ALL), [1, 3]);
    assert_eq!(forest.segment_indices(), [0, 0, 1, 1]);
}

#[test]
fn positions_follow_accepted_paths_only_from_where_they_stand() {
    let forest = two_segments().build().expect("two segments");
    let mut positions = Positions::new(2);
    let nothing = forest.accept(1, &[]).expect("an empty path");
    assert_eq!(positions.advance(0, &nothing), Err(ForestError::WrongPosition { base: 10, position: 0 }));
    let ten = Forest::single_chain(SessionId(5), 0, 10).expect("ten").accept_all(0).expect("a chain");
    positions.advance(0, &ten).expect("from the start");
    positions.advance(0, &nothing).expect("nothing is accepted");
    assert_eq!((positions.get(0), positions.get(1)), (Ok(10), Ok(0)));
    positions.advance(0, &forest.accept_all(1).expect("a chain")).expect("from ten");
    assert_eq!(positions.get(0), Ok(12));
    assert_eq!(positions.get(2), Err(ForestError::NoSuchStep { step: 2, count: 2 }));
    assert_eq!(forest.accept_all(2), Err(ForestError::NoSuchSegment { segment: 2, count: 2 }));
    assert_eq!(forest.accept_to(4), Err(ForestError::NoSuchNode { node: 4, count: 4 }));
}
