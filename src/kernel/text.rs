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
