//! The forest against its definition, read off the parents alone.

use fiddlehead_forest::shapes::{self, SplitMix};
use fiddlehead_forest::{Forest, SessionId, Shape, Wanted};
use proptest::prelude::*;

fn random_forest(seed: u64, sessions: usize, most: usize) -> Forest {
    let mut random = SplitMix::new(seed);
    let sessions: Vec<(SessionId, usize)> =
        (0..sessions).map(|index| (SessionId(100 - index as u64), random.below(3) * 17)).collect();
    shapes::random_forest(&mut random, &sessions, most).expect("generated forests are valid")
}

/// The path from the root to `node`, by climbing.
fn climb(forest: &Forest, node: u32) -> Vec<u32> {
    let mut path = vec![node];
    while let Some(parent) = forest.parent(*path.last().expect("not empty")) {
        path.push(parent);
    }
    path.reverse();
    path
}

proptest! {
    #[test]
    fn ancestry_is_climbing(seed: u64, sessions in 1usize..5, most in 1usize..40) {
        let forest = random_forest(seed, sessions, most);
        for node in 0..forest.len() as u32 {
            let path = climb(&forest, node);
            prop_assert_eq!(&forest.path_rows(node), &path);
            for other in 0..forest.len() as u32 {
                prop_assert_eq!(forest.is_ancestor(other, node), path.contains(&other));
            }
            let segment = forest.segment_of(node);
            prop_assert_eq!(forest.depths()[node as usize] as usize, segment.base() + path.len() - 1);
            prop_assert!(segment.range().contains(&(node as usize)));
        }
    }

    #[test]
    fn segments_tile_the_forest_and_name_their_shape(seed: u64, sessions in 1usize..5, most in 1usize..40) {
        let forest = random_forest(seed, sessions, most);
        let mut next = 0;
        for segment in forest.segments() {
            prop_assert_eq!(segment.first(), next);
            next = segment.range().end;
            let leaves = forest.leaves().filter(|&leaf| segment.range().contains(&(leaf as usize))).count();
            let expected = match (segment.count(), leaves) {
                (1, _) => Shape::Node,
                (_, 1) => Shape::Chain,
                _ => Shape::Tree,
            };
            prop_assert_eq!(segment.shape(), expected);
        }
        prop_assert_eq!(next, forest.len());
        prop_assert_eq!(forest.segments().len(), sessions);
    }

    #[test]
    fn wanted_rows_are_the_wanting_nodes(seed: u64, mask: u32) {
        let forest = random_forest(seed, 3, 20);
        let mask = Wanted::from_bits(mask & 3);
        let rows = forest.wanted_rows(mask);
        for node in 0..forest.len() as u32 {
            let wants = (0..2).any(|output| mask.contains(output) && forest.wanted()[node as usize].contains(output));
            prop_assert_eq!(rows.contains(&node), wants);
        }
        prop_assert!(rows.is_sorted());
    }

    #[test]
    fn exactly_the_paths_are_accepted(seed: u64, picks in proptest::collection::vec(0u32..12, 0..5)) {
        let forest = random_forest(seed, 2, 6);
        for segment in 0..2 {
            let is_path = match picks.last() {
                None => true,
                Some(&last) => {
                    (last as usize) < forest.len()
                        && forest.segments()[segment].range().contains(&(last as usize))
                        && climb(&forest, last) == picks
                }
            };
            prop_assert_eq!(forest.accept(segment, &picks).is_ok(), is_path);
        }
        for node in 0..forest.len() as u32 {
            let accepted = forest.accept_to(node).expect("a node's path is accepted");
            prop_assert_eq!(accepted.nodes(), climb(&forest, node));
            prop_assert_eq!(accepted.position(), forest.depths()[node as usize] as usize + 1);
            let moves = accepted.nodes().iter().enumerate()
                .any(|(index, &row)| row as usize != forest.segment_of(node).first() + index);
            prop_assert_eq!(accepted.is_prefix(), !moves);
        }
    }

    #[test]
    fn only_depth_first_trees_are_built(parents in proptest::collection::vec(proptest::option::of(0u32..8), 1..8)) {
        // A naive statement: parents precede, and every subtree is one run of nodes.
        let precedes = parents.iter().enumerate().all(|(node, parent)| parent.is_none_or(|parent| (parent as usize) < node));
        let contiguous = precedes && (0..parents.len()).all(|top| {
            let inside: Vec<usize> = (0..parents.len()).filter(|&node| {
                let mut at = node;
                while at != top {
                    match parents[at] { Some(parent) => at = parent as usize, None => return false }
                }
                true
            }).collect();
            inside.iter().enumerate().all(|(index, &node)| node == top + index)
        });
        prop_assert_eq!(shapes::single_tree(SessionId(1), 0, &parents).is_ok(), contiguous);
    }
}
