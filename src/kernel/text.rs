//! Inbound text made safe to store: no NUL, no invalid UTF-8, a bounded length.

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

/// Whether a character changes the order or the place of others where it is shown: control characters, and
/// those that turn the direction of writing around for what follows.
#[must_use]
pub fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
