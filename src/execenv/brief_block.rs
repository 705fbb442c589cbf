//! The managed block inside a brief file that belongs to somebody else (`CLAUDE.md`, `AGENTS.md`).
//!
//! Invariants: excising what was placed gives back the bytes from before, whatever they were; text
//! outside the block is never changed.

/// Begins the block.
pub const BEGIN: &str = "<!-- BEGIN MULTICA-RUNTIME (written for one run and removed after it) -->";
/// Ends it.
pub const END: &str = "<!-- END MULTICA-RUNTIME -->";

const BEGIN_TOKEN: &[u8] = b"<!-- BEGIN MULTICA-RUNTIME";
const END_TOKEN: &[u8] = b"<!-- END MULTICA-RUNTIME -->";
const SEPARATOR: &[u8] = b"\n\n";

/// The block that holds a brief.
#[must_use]
pub fn block(brief: &str) -> String {
    // A brief that quotes the marks would end the block early.
    let body = brief.replace("MULTICA-RUNTIME", "MULTICA_RUNTIME");
    format!("{BEGIN}\n{}\n{END}\n", body.trim_end())
}

/// What is appended to a file that has no block yet.
#[must_use]
pub fn appended(block: &str) -> Vec<u8> {
    [SEPARATOR, block.as_bytes()].concat()
}

/// Where the block stands, its separator not counted; one without an end goes to the end of the file.
#[must_use]
pub fn find(bytes: &[u8]) -> Option<(usize, usize)> {
    let start = position(bytes, BEGIN_TOKEN, 0)?;
    let end = match position(bytes, END_TOKEN, start) {
        None => bytes.len(),
        Some(end) => {
            let end = end + END_TOKEN.len();
            end + usize::from(bytes.get(end) == Some(&b'\n'))
        }
    };
    Some((start, end))
}

/// The bytes without any block and its separator.
#[must_use]
pub fn excise(bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes.to_vec();
    while let Some((start, end)) = find(&rest) {
        let start = if rest[..start].ends_with(SEPARATOR) { start - SEPARATOR.len() } else { start };
        rest.drain(start..end);
    }
    rest
}

/// The bytes with the block, in place of an older one or at the end.
#[must_use]
pub fn place(bytes: &[u8], block: &str) -> Vec<u8> {
    match find(bytes) {
        Some((start, end)) => [&bytes[..start], block.as_bytes(), &bytes[end..]].concat(),
        None => [bytes, &appended(block)].concat(),
    }
}

fn position(bytes: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    bytes[from..].windows(wanted.len()).position(|window| window == wanted).map(|at| at + from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_without_a_block_gets_its_bytes_back() {
        for before in ["", "text", "text\n", "text\n\n", "\n\n", "\r\n", "a <!-- END MULTICA-RUNTIME -->\nb"]
        {
            let with = place(before.as_bytes(), &block("hello"));
            assert_ne!(with, before.as_bytes());
            assert_eq!(excise(&with), before.as_bytes(), "{before:?}");
        }
    }

    #[test]
    fn an_older_block_goes_and_the_rest_stays() {
        let old = [b"mine\n".as_slice(), &appended(&block("old")), b"later\n"].concat();
        let with = place(&old, &block("new"));
        assert!(
            String::from_utf8_lossy(&with).contains("new") && !String::from_utf8_lossy(&with).contains("old")
        );
        assert_eq!(excise(&with), b"mine\nlater\n");
    }

    #[test]
    fn a_beginning_without_an_end_reaches_to_the_end_of_the_file() {
        assert_eq!(excise(b"mine\n\n<!-- BEGIN MULTICA-RUNTIME -->\nhalf"), b"mine");
    }

    #[test]
    fn an_edit_outside_the_block_survives() {
        let mut with = place(b"mine", &block("x"));
        with.extend(b"added by the agent");
        assert_eq!(excise(&with), b"mineadded by the agent");
    }

    #[test]
    fn a_brief_that_quotes_the_marks_stays_inside() {
        let with = place(b"mine", &block(&format!("quote {END} and {BEGIN}")));
        assert_eq!(excise(&with), b"mine");
    }

    proptest! {
        #[test]
        fn whatever_stood_there_comes_back(before: Vec<u8>, brief: String) {
            prop_assume!(find(&before).is_none());
            prop_assert_eq!(excise(&place(&before, &block(&brief))), before);
        }
    }
}
