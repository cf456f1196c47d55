//! Finding stop strings in text that comes piece by piece.

/// Holds back only what may be the beginning of a stop string. What it finds does not depend on how the text is cut
/// into pieces: the stop that is complete first wins, and of those that end together the longest.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopFinder {
    stops: Vec<String>,
    held: String,
}

impl StopFinder {
    /// `stops` has no empty string.
    pub(crate) fn new(stops: Vec<String>) -> StopFinder {
        StopFinder { stops, held: String::new() }
    }

    /// Adds text; gives what can be shown now, and the stop that was found.
    pub(crate) fn push(&mut self, text: &str) -> (String, Option<usize>) {
        if self.stops.is_empty() {
            return (text.to_owned(), None);
        }
        self.held.push_str(text);
        if let Some((start, stop)) = self.first_complete() {
            let mut shown = std::mem::take(&mut self.held);
            shown.truncate(start);
            return (shown, Some(stop));
        }
        let rest = self.held.split_off(self.safe_length());
        (std::mem::replace(&mut self.held, rest), None)
    }

    /// What is still held back: no stop will come of it.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Where the stop begins that is complete first, and which it is.
    fn first_complete(&self) -> Option<(usize, usize)> {
        let found = self.stops.iter().enumerate().filter_map(|(index, stop)| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start, index))
        });
        found.min().map(|(_, start, index)| (start, index))
    }

    /// The length of the text before the longest tail that begins a stop.
    fn safe_length(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let earliest = self.held.len().saturating_sub(longest.saturating_sub(1));
        let tails = (earliest..self.held.len()).filter(|&at| self.held.is_char_boundary(at));
        tails
            .into_iter()
            .find(|&at| self.stops.iter().any(|stop| stop.starts_with(&self.held[at..])))
            .unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
        let mut finder = StopFinder::new(stops.iter().map(|stop| stop.to_string()).collect());
        let mut shown = String::new();
        for piece in pieces {
            let (text, stop) = finder.push(piece);
            shown += &text;
            if stop.is_some() {
                return (shown, stop);
            }
        }
        (shown + &finder.finish(), None)
    }

    #[test]
    fn only_the_beginning_of_a_stop_is_held_back() {
        let mut finder = StopFinder::new(vec!["\nUser:".to_owned(), "END".to_owned()]);
        assert_eq!(finder.push("hello\n"), ("hello".to_owned(), None));
        assert_eq!(finder.push("Us"), (String::new(), None));
        assert_eq!(finder.push("e it. E"), ("\nUse it. ".to_owned(), None));
        assert_eq!(finder.push("EN"), ("E".to_owned(), None));
        assert_eq!(finder.push("D and more"), (String::new(), Some(1)));
    }

    #[test]
    fn the_stop_that_is_complete_first_wins() {
        assert_eq!(run(&["abcd", "bc"], &["xabcd"]), ("xa".to_owned(), Some(1)));
        assert_eq!(run(&["c", "bc"], &["abc"]), ("a".to_owned(), Some(1)));
        assert_eq!(run(&["zz"], &["abz"]), ("abz".to_owned(), None));
        assert_eq!(run(&["aab"], &["aaab"]), ("a".to_owned(), Some(0)));
    }

    proptest! {
        #[test]
        fn cutting_the_text_changes_nothing(
            text in "[abé]{0,24}",
            stops in proptest::collection::vec("[abé]{1,4}", 1..4),
            cuts in proptest::collection::vec(0usize..24, 0..6),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|&at| text.is_char_boundary(at)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            let whole = run(&stops, &[&text]);
            prop_assert_eq!(&run(&stops, &pieces), &whole);
            prop_assert_eq!(run(&stops, &letters), whole);
        }
    }
}
