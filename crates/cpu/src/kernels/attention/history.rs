//! Where the key and value rows of one path lie: stored pages, then the batch's own rows.

use std::ops::Range;

/// Which rows of a piece's storage belong to the path, in rising depth.
#[derive(Clone, Copy, Debug)]
pub enum PieceRows<'a> {
    /// `count` rows from `first` on.
    Run {
        /// The first row.
        first: usize,
        /// How many.
        count: usize,
    },
    /// These rows, in this order: the ancestors of a node in a batch.
    Listed(&'a [u32]),
}

/// Rows of one head's history in one storage. The slices begin at the head's first value of row 0.
#[derive(Clone, Copy, Debug)]
pub struct HistoryPiece<'a> {
    /// Row `r`'s key begins at `r * key_stride`.
    pub keys: &'a [f32],
    /// Distance between keys, in values.
    pub key_stride: usize,
    /// Row `r`'s value begins at `r * value_stride`.
    pub values: &'a [f32],
    /// Distance between values, in values.
    pub value_stride: usize,
    /// The rows of the path.
    pub rows: PieceRows<'a>,
}

impl HistoryPiece<'_> {
    /// How many rows of the path it holds.
    pub fn count(&self) -> usize {
        match self.rows {
            PieceRows::Run { count, .. } => count,
            PieceRows::Listed(rows) => rows.len(),
        }
    }

    /// The storage row of the path's `index`th row in this piece.
    #[inline(always)]
    fn row(&self, index: usize) -> usize {
        match self.rows {
            PieceRows::Run { first, .. } => first + index,
            PieceRows::Listed(rows) => rows[index] as usize,
        }
    }

    pub(super) fn assert_inside(&self, key_dim: usize, value_dim: usize) {
        let greatest = match self.rows {
            PieceRows::Run { count: 0, .. } => return,
            PieceRows::Run { first, count } => first + count - 1,
            PieceRows::Listed(rows) => match rows.iter().max() {
                Some(row) => *row as usize,
                None => return,
            },
        };
        assert!(greatest * self.key_stride + key_dim <= self.keys.len(), "key row {greatest} is not stored");
        assert!(
            greatest * self.value_stride + value_dim <= self.values.len(),
            "value row {greatest} is not stored"
        );
    }
}

/// Walks a path's rows in rising depth.
pub(super) struct Walk<'a> {
    pieces: &'a [HistoryPiece<'a>],
    piece: usize,
    /// Depth of the piece's first row.
    start: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(pieces: &'a [HistoryPiece<'a>], first_depth: usize) -> Self {
        Self { pieces, piece: 0, start: first_depth }
    }

    /// Calls `visit(depth, key, value)` for every depth. Depths must not fall between calls and must be in the history.
    #[inline(always)]
    pub(super) fn visit(
        &mut self,
        depths: Range<usize>,
        mut visit: impl FnMut(usize, *const f32, *const f32),
    ) {
        for depth in depths {
            while depth >= self.start + self.pieces[self.piece].count() {
                self.start += self.pieces[self.piece].count();
                self.piece += 1;
            }
            let piece = &self.pieces[self.piece];
            let row = piece.row(depth - self.start);
            visit(
                depth,
                piece.keys.as_ptr().wrapping_add(row * piece.key_stride),
                piece.values.as_ptr().wrapping_add(row * piece.value_stride),
            );
        }
    }
}
