//! Replaces secrets in text before it is stored or shown.
//!
//! Covers what the product itself hands out (`mul_`, `mdt_`, `mat_` tokens) and the credentials that
//! providers' keys look like. A secret is replaced whole: a part of one is a secret too.

/// What stands where a secret stood.
pub const MARK: &str = "[redacted]";

const PREFIXES: [&str; 9] = ["mul_", "mdt_", "mat_", "sk-", "ghp_", "gho_", "github_pat_", "xoxb-", "AKIA"];

/// The shortest run of token characters after a prefix that counts as a secret.
const MIN_SECRET: usize = 16;

/// Returns `text` with every known kind of secret replaced by [`MARK`].
#[must_use]
pub fn secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, end)) = next_secret(rest) {
        out.push_str(&rest[..start]);
        out.push_str(MARK);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

fn next_secret(text: &str) -> Option<(usize, usize)> {
    PREFIXES.iter().filter_map(|prefix| find_secret(text, prefix)).min()
}

fn find_secret(text: &str, prefix: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find(prefix) {
        let start = from + found;
        let body = start + prefix.len();
        let length = text[body..].bytes().take_while(|b| is_token_byte(*b)).count();
        let fresh = start == 0 || !is_token_byte(text.as_bytes()[start - 1]);
        if fresh && length >= MIN_SECRET {
            return Some((start, body + length));
        }
        from = body;
    }
    None
}

const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_replaced_whole_and_its_surroundings_stay() {
        let text = "key=mul_AbCdEfGhIjKlMnOpQrStUv; next sk-1234567890abcdefghij.";
        assert_eq!(secrets(text), format!("key={MARK}; next {MARK}."));
    }

    #[test]
    fn words_that_only_look_alike_stay() {
        for text in ["simul_taneously_long_words_here", "sk-short", "risk-averse people"] {
            assert_eq!(secrets(text), text);
        }
    }
}
