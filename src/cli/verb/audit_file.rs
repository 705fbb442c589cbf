//! A file that an export is written to, and gone on with.
//!
//! Invariants: only whole lines are kept; what comes after the last one is written again; a file that holds
//! something else is left as it is.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::audit::ExportFormat;
use crate::cli::error::CliError;

/// Read from the end of a file at once.
const STEP: u64 = 64 * 1_024;

/// A file that is being written.
pub struct ExportFile {
    file: File,
    path: PathBuf,
    /// The cursor of its last whole line; none when it has no entry yet.
    pub reached: Option<String>,
    /// Whether it has a line already.
    pub begun: bool,
}

impl ExportFile {
    /// Opens a file, or makes it; only its owner may read a new one.
    pub fn open(path: &Path, format: ExportFormat) -> Result<Self, CliError> {
        let at = |source| CliError::File { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(at)?;
        let (line, end) = last_line(&mut file).map_err(at)?;
        let length = file.metadata().map_err(at)?.len();
        let foreign = || CliError::NoExport { file: path.to_owned() };
        let reached = match &line {
            Some(line) => cursor(line, format).ok_or_else(foreign)?,
            // Half a first line may be anybody's.
            None if length > 0 && !begins_ours(&mut file, format).map_err(at)? => return Err(foreign()),
            None => None,
        };
        file.set_len(end).map_err(at)?;
        file.seek(SeekFrom::Start(end)).map_err(at)?;
        Ok(Self { file, path: path.to_owned(), reached, begun: line.is_some() })
    }

    /// Writes a piece.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.file.write_all(bytes).map_err(|source| CliError::File { path: self.path.clone(), source })
    }

    /// Makes sure that what was written survives.
    pub fn finish(self) -> Result<(), CliError> {
        self.file.sync_all().map_err(|source| CliError::File { path: self.path, source })
    }
}

/// The last whole line, and where it ends; 0 where there is none.
fn last_line(file: &mut File) -> std::io::Result<(Option<Vec<u8>>, u64)> {
    let length = file.metadata()?.len();
    let mut tail: Vec<u8> = Vec::new();
    let mut from = length;
    loop {
        let step = STEP.min(from);
        from -= step;
        let mut piece = vec![0; usize::try_from(step).unwrap_or_default()];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut piece)?;
        piece.extend_from_slice(&tail);
        tail = piece;
        let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else {
            if from == 0 {
                return Ok((None, 0));
            }
            continue;
        };
        let start = tail[..end].iter().rposition(|byte| *byte == b'\n');
        if start.is_some() || from == 0 {
            let line = tail[start.map_or(0, |at| at + 1)..end].to_vec();
            return Ok((Some(line), from + end as u64 + 1));
        }
    }
}

/// The head of the first line of a format.
fn head(format: ExportFormat) -> &'static [u8] {
    match format {
        ExportFormat::Jsonl => b"{\"cursor\":\"",
        ExportFormat::Csv => b"cursor,position,",
    }
}

fn begins_ours(file: &mut File, format: ExportFormat) -> std::io::Result<bool> {
    let wanted = head(format);
    let mut found = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(wanted.len() as u64).read_to_end(&mut found)?;
    Ok(wanted.starts_with(&found))
}

/// The cursor of a line; an inner none for the line of names, an outer one for a line that isn't ours.
pub fn cursor(line: &[u8], format: ExportFormat) -> Option<Option<String>> {
    let line = std::str::from_utf8(line).ok()?;
    if format == ExportFormat::Csv && line.as_bytes().starts_with(head(format)) {
        return Some(None);
    }
    let text = match format {
        ExportFormat::Jsonl => {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            value["cursor"].as_str()?.to_owned()
        }
        ExportFormat::Csv => line.split_once(',')?.0.to_owned(),
    };
    let ours = text.bytes().next()?.is_ascii_digit()
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    ours.then_some(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was found in a file, or the code of the error.
    type Opened = Result<(Option<String>, bool), String>;

    fn opened(format: ExportFormat, before: &[u8]) -> (Opened, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("export");
        std::fs::write(&path, before).expect("written");
        let opened = ExportFile::open(&path, format)
            .map(|file| (file.reached.clone(), file.begun))
            .map_err(|error| error.code());
        (opened, std::fs::read(&path).expect("read"))
    }

    #[test]
    fn a_file_is_gone_on_with_after_its_last_whole_line() {
        let (jsonl, csv) = (ExportFormat::Jsonl, ExportFormat::Csv);
        let line = b"{\"cursor\":\"7\",\"text\":\"x\"}\n".to_vec();
        let torn = [line.as_slice(), b"{\"cursor\":\"8\",\"te"].concat();
        assert_eq!(opened(jsonl, &torn), (Ok((Some("7".to_owned()), true)), line));
        assert_eq!(opened(jsonl, b""), (Ok((None, false)), Vec::new()));
        assert_eq!(opened(jsonl, b"{\"curs"), (Ok((None, false)), Vec::new()));
        let names = b"cursor,position,x\n".to_vec();
        assert_eq!(opened(csv, &names), (Ok((None, true)), names.clone()));
        let two = [names.as_slice(), b"7-12-00aa,7,x\n"].concat();
        assert_eq!(opened(csv, &two), (Ok((Some("7-12-00aa".to_owned()), true)), two));
    }

    #[test]
    fn a_line_longer_than_a_step_is_found_whole() {
        let long = format!("{{\"cursor\":\"9\",\"text\":\"{}\"}}\n", "x".repeat(200_000));
        let two = format!("{{\"cursor\":\"8\"}}\n{long}").into_bytes();
        assert_eq!(opened(ExportFormat::Jsonl, &two), (Ok((Some("9".to_owned()), true)), two));
    }

    #[test]
    fn a_file_of_somebody_else_is_left_as_it_is() {
        let foreign: [&[u8]; 4] = [b"my notes", b"my notes\n", b"{\"other\":1}\n", b"\xff\xfe\n"];
        for (bytes, format) in foreign
            .into_iter()
            .flat_map(|bytes| [ExportFormat::Jsonl, ExportFormat::Csv].map(|format| (bytes, format)))
        {
            assert_eq!(opened(format, bytes), (Err("no_export".to_owned()), bytes.to_vec()));
        }
    }
}
