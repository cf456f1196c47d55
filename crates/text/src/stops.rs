//! Finding stop strings in text that comes piece by piece.

/// Holds back only what may be the beginning of a stop string. What it finds does not depend on how the text is cut
/// into pieces: the stop that is complete first wins, and of those that end together the longest.
///
/// Each byte moves every stop's own automaton (Knuth, Morris and Pratt's) by one, so long stops cost no more than short
/// ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopFinder {
    stops: Vec<Stop>,
    /// Text of which the first `shown` bytes went out already; they are let go once they are the larger part.
    text: String,
    shown: usize,
}

#[derive(Debug, Clone)]
struct Stop {
    text: Vec<u8>,
    /// By a number of bytes, less one, that begin the stop: how many fewer both end those bytes and begin the stop, at most.
    falls: Vec<usize>,
    /// How many bytes of the stop the text so far ends with.
    matched: usize,
}

impl Stop {
    fn new(text: String) -> Stop {
        let text = text.into_bytes();
        let mut stop = Stop { falls: vec![0; text.len()], text, matched: 0 };
        for at in 1..stop.text.len() {
            let byte = stop.text[at];
            stop.push(byte);
            stop.falls[at] = stop.matched;
        }
        stop.matched = 0;
        stop
    }

    /// Whether the text ends with the stop once `byte` is added.
    fn push(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.text.get(self.matched) != Some(&byte) {
            self.matched = self.falls[self.matched - 1];
        }
        if self.text.get(self.matched) == Some(&byte) {
            self.matched += 1;
        }
        self.matched == self.text.len()
    }
}

impl StopFinder {
    /// `stops` has no empty string.
    pub(crate) fn new(stops: Vec<String>) -> StopFinder {
        let stops = stops.into_iter().map(Stop::new).collect();
        StopFinder { stops, text: String::new(), shown: 0 }
    }

    /// Adds text; gives what can be shown now, and the stop that was found.
    pub(crate) fn push(&mut self, text: &str) -> (String, Option<usize>) {
        let before = self.text.len();
        self.text.push_str(text);
        for (at, byte) in text.bytes().enumerate() {
            let mut found: Option<usize> = None;
            for index in 0..self.stops.len() {
                let length = |index: usize| self.stops[index].text.len();
                let best = found.is_none_or(|found| length(index) > length(found));
                if self.stops[index].push(byte) && best {
                    found = Some(index);
                }
            }
            if let Some(index) = found {
                let shown = self.show(before + at + 1 - self.stops[index].text.len());
                self.finish();
                return (shown, Some(index));
            }
        }
        let open = self.stops.iter().map(|stop| stop.matched).max().unwrap_or(0);
        (self.show(self.text.len() - open), None)
    }

    /// The text up to `end`, as far as it was not shown before.
    fn show(&mut self, end: usize) -> String {
        let text = self.text[self.shown..end].to_owned();
        self.shown = end;
        if self.shown > self.text.len() / 2 {
            self.text.drain(..self.shown);
            self.shown = 0;
        }
        text
    }

    /// What is still held back: no stop will come of it.
    pub(crate) fn finish(&mut self) -> String {
        let rest = self.text.split_off(self.shown);
        self.text.clear();
        self.shown = 0;
        rest
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
