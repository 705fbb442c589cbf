//! Text that comes in: what people write is kept as it is or refused ([`written`]); what programs print is made
//! fit to be kept ([`lossy`]).

/// Why a text that somebody wrote can't be kept as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// PostgreSQL holds no NUL.
    #[error("a NUL character is in it, at byte {at}; what can't be kept whole isn't taken")]
    Nul {
        /// The byte, from 1.
        at: usize,
    },
    /// The bytes are no text.
    #[error("it isn't UTF-8, from byte {at} on; what can't be kept whole isn't taken")]
    NotUtf8 {
        /// The byte, from 1.
        at: usize,
    },
}

/// Reads what somebody wrote, exactly. It was perhaps read up to `most` bytes only: a character that is cut there is
/// left out, whoever bounds the text sees that it is longer.
///
/// # Errors
/// Where it isn't UTF-8, and where it holds NUL.
pub fn written(bytes: &[u8], most: usize) -> Result<&str, Unkept> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let (whole, rest) = bytes.split_at(error.valid_up_to());
            if error.error_len().is_some() || bytes.len() < most || rest.is_empty() {
                return Err(Unkept::NotUtf8 { at: whole.len() + 1 });
            }
            std::str::from_utf8(whole).map_err(|_| Unkept::NotUtf8 { at: 1 })?
        }
    };
    text.find('\0').map_or(Ok(text), |index| Err(Unkept::Nul { at: index + 1 }))
}

/// Stands where a text was that has been erased.
pub const ERASED: &str = "[erased]";

/// Removes NUL characters, which PostgreSQL can't hold.
#[must_use]
pub fn without_nul(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').collect()
}

/// Reads bytes as UTF-8, replacing what isn't, and removes NUL characters.
#[must_use]
pub fn lossy(bytes: &[u8]) -> String {
    without_nul(&String::from_utf8_lossy(bytes))
}

/// The longest head of `text` that has at most `max` bytes and ends between characters.
#[must_use]
pub fn head(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The longest tail of `text` that has at most `max` bytes and begins between characters.
#[must_use]
pub fn tail(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut start = text.len() - max;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The last lines of a long text, at most `lines` of them with at most `bytes` each, blank ones left out; and
/// whether anything was left out that isn't blank.
#[must_use]
pub fn last_lines(text: &str, lines: usize, bytes: usize) -> (String, bool) {
    let all: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let from = all.len().saturating_sub(lines);
    let kept: Vec<&str> = all[from..].iter().map(|line| head(line, bytes)).collect();
    let short = from > 0 || kept != all[from..];
    (kept.join("\n"), short)
}

/// Whether a text has anything that can be seen.
#[must_use]
pub fn says_something(text: &str) -> bool {
    let unseen = |c: char| {
        c.is_whitespace()
            || is_steering(c)
            || matches!(c, '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
            || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}')
            || matches!(c, '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}')
            || matches!(c, '\u{e0000}'..='\u{e0fff}')
    };
    !text.chars().all(unseen)
}

/// Whether a character changes the order or the place of others where it is shown: control characters, and
/// those that turn the direction of writing around for what follows.
#[must_use]
pub fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_wrote_is_kept_as_it_is_or_refused_with_its_place() {
        let most = 8;
        assert_eq!(written("ä\r\n".as_bytes(), most), Ok("ä\r\n"));
        assert_eq!(written(b"a\0b", most), Err(Unkept::Nul { at: 2 }));
        assert_eq!(written(b"ab\xffc", most), Err(Unkept::NotUtf8 { at: 3 }));
        assert_eq!(written(b"ab\xc3", most), Err(Unkept::NotUtf8 { at: 3 }));
        // Cut while it was read, which is none of the writer's faults.
        assert_eq!(written(b"abcdefg\xc3", most), Ok("abcdefg"));
        assert_eq!(written(b"abcdef\xff\xc3", most), Err(Unkept::NotUtf8 { at: 7 }));
    }

    #[test]
    fn a_text_of_nothing_that_can_be_seen_says_nothing() {
        for empty in ["", "  \n", "\u{200b}\u{200d}", "\u{feff}\u{2060} \u{3164}", "\u{202e}\u{7}"] {
            assert!(!says_something(empty), "{empty:?}");
        }
        for full in ["a", "\u{200b}x", "日", "🧑\u{200d}🚀", "."] {
            assert!(says_something(full), "{full:?}");
        }
    }

    #[test]
    fn of_a_long_text_the_last_lines_are_kept_and_it_is_said_that_there_is_more() {
        let long: String = (1..=60).map(|n| format!("line {n}\n\n")).collect();
        assert_eq!(last_lines(&long, 3, 80), ("line 58\nline 59\nline 60".to_owned(), true));
        assert_eq!(last_lines("one\n\n  two  \n", 3, 80), ("one\n  two".to_owned(), false));
        assert_eq!(last_lines("exit code 7: aaaa", 3, 11), ("exit code 7".to_owned(), true));
        assert_eq!(last_lines("", 3, 80), (String::new(), false));
    }
}
