//! Reads lines from a pipe without trusting them: any bytes, bounded, never stuck on a line that doesn't end.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its bytes, whatever they are, without its end.
    pub bytes: Vec<u8>,
    /// Whether the rest of it was dropped.
    pub truncated: bool,
}

/// Reads lines of at most a number of bytes; the rest of a longer one is read and dropped.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    max: usize,
    held: Vec<u8>,
    truncated: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Reads from there, with that bound.
    pub const fn new(from: R, max: usize) -> Self {
        Self { from, max, held: Vec::new(), truncated: false }
    }

    /// The next line; none at the end. Cancel safe: what was read stays for the next call.
    ///
    /// # Errors
    /// When reading fails.
    pub async fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            let available = self.from.fill_buf().await?;
            if available.is_empty() {
                let rest = !self.held.is_empty() || self.truncated;
                return Ok(if rest { Some(self.take()) } else { None });
            }
            let end = available.iter().position(|b| *b == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let room = self.max - self.held.len();
            self.held.extend_from_slice(&part[..part.len().min(room)]);
            self.truncated |= part.len() > room;
            let used = part.len() + usize::from(end.is_some());
            self.from.consume(used);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Line {
        let mut bytes = std::mem::take(&mut self.held);
        let truncated = std::mem::take(&mut self.truncated);
        if !truncated && bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        Line { bytes, truncated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8], max: usize) -> Vec<(Vec<u8>, bool)> {
        let mut lines = Lines::new(bytes, max);
        let mut out = Vec::new();
        while let Some(line) = lines.next().await.expect("reads") {
            out.push((line.bytes, line.truncated));
        }
        out
    }

    #[tokio::test]
    async fn a_line_over_the_bound_loses_its_rest_and_the_next_one_is_whole() {
        let seen = all(b"abcdefgh\nxy\r\n\nlast", 4).await;
        let expected = [("abcd", true), ("xy", false), ("", false), ("last", false)];
        assert_eq!(seen, expected.map(|(text, cut)| (text.as_bytes().to_vec(), cut)));
    }
}
