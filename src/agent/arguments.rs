//! Takes out of custom arguments what would change the protocol between an agent's CLI and us.

use super::launch::LaunchRequest;

/// What follows a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Nothing.
    Nothing,
    /// One value.
    One,
    /// A value, unless the next word is a flag.
    Maybe,
}

/// A flag that is ours to choose, with all its names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reserved(pub &'static [&'static str], pub Takes);

/// Custom arguments, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sorted {
    /// Those that may be passed on.
    pub kept: Vec<String>,
    /// Those that may not, values included.
    pub removed: Vec<String>,
}

/// The flag that is ours once the agent names a model: given twice, it stops some CLIs.
const MODEL: Reserved = Reserved(&["-m", "--model"], Takes::One);

/// Sorts a request's custom arguments.
pub(super) fn sort(request: &LaunchRequest<'_>, reserved: &[Reserved]) -> Sorted {
    let mut reserved = reserved.to_vec();
    reserved.extend(request.model.map(|_| MODEL));
    sorted(request.custom_arguments, &reserved)
}

/// From a bare `--` on nothing is kept: what follows it would be a prompt.
fn sorted(custom: &[String], reserved: &[Reserved]) -> Sorted {
    let mut sorted = Sorted::default();
    let mut words = custom.iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            sorted.removed.push(word.clone());
            sorted.removed.extend(words.cloned());
            break;
        }
        let Some((takes, holds_value)) = find(word, reserved) else {
            sorted.kept.push(word.clone());
            continue;
        };
        sorted.removed.push(word.clone());
        let wanted = match takes {
            Takes::Nothing => false,
            Takes::One => !holds_value,
            Takes::Maybe => !holds_value && words.peek().is_some_and(|next| !next.starts_with('-')),
        };
        if wanted {
            sorted.removed.extend(words.next().cloned());
        }
    }
    sorted
}

/// The reserved flag that `word` is, and whether it holds its value itself.
fn find(word: &str, reserved: &[Reserved]) -> Option<(Takes, bool)> {
    reserved.iter().find_map(|Reserved(names, takes)| {
        names.iter().find_map(|name| {
            let rest = word.strip_prefix(name)?;
            let short = name.len() == 2;
            (rest.is_empty() || rest.starts_with('=') || (short && !word.starts_with("--")))
                .then_some((*takes, !rest.is_empty()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVED: &[Reserved] = &[
        Reserved(&["-p", "--print"], Takes::Nothing),
        Reserved(&["--format"], Takes::One),
        Reserved(&["-r", "--resume"], Takes::Maybe),
    ];

    fn sorted(words: &[&str]) -> (Vec<String>, Vec<String>) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let sorted = super::sorted(&words, RESERVED);
        (sorted.kept, sorted.removed)
    }

    #[test]
    fn other_flags_stay_in_order_with_their_values() {
        let (kept, removed) = sorted(&["--effort", "high", "--formatter", "x", "--max-turns=3"]);
        assert_eq!(kept, ["--effort", "high", "--formatter", "x", "--max-turns=3"]);
        assert!(removed.is_empty());
    }

    #[test]
    fn a_reserved_flag_goes_with_its_value_in_every_spelling() {
        for words in [&["--format", "text"][..], &["--format=text"], &["-rabc"], &["-r", "abc"], &["-p"]] {
            let (kept, removed) = sorted(&[words, &["--keep"]].concat());
            assert_eq!(kept, ["--keep"], "{words:?}");
            assert_eq!(removed, words, "{words:?}");
        }
    }

    #[test]
    fn an_optional_value_that_is_a_flag_stays() {
        let (kept, removed) = sorted(&["--resume", "--keep"]);
        assert_eq!((kept, removed), (vec!["--keep".to_owned()], vec!["--resume".to_owned()]));
    }

    #[test]
    fn nothing_after_a_bare_double_dash_can_become_a_prompt() {
        let (kept, removed) = sorted(&["--keep", "--", "do", "evil"]);
        assert_eq!(kept, ["--keep"]);
        assert_eq!(removed, ["--", "do", "evil"]);
    }
}
