//! Exact tiles: a run of rows cut into tiles whose number of rows is a constant, so that their sums stay in registers.

/// Runs `$body` for tiles of rows from `$row` on until `$rows` are done, with their number as the constant `$count`: the last
/// of the listed sizes as long as that many are left (and `$most` allows), then what remains.
macro_rules! exact_tiles {
    ($row:ident in $rows:expr, most $most:expr, $count:ident of [$($size:literal)* .. $last:literal] => $body:block) => {{
        let rows: usize = $rows;
        let mut $row = 0;
        while $row < rows {
            match (rows - $row).min($most) {
                $($size => {
                    const $count: usize = $size;
                    $body
                    $row += $count;
                })*
                _ => {
                    const $count: usize = $last;
                    $body
                    $row += $count;
                }
            }
        }
    }};
}
pub(super) use exact_tiles;
