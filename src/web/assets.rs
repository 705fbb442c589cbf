//! The scripts and styles in the binary (in debug builds read from disk, for quick changes).

use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "src/web/assets"]
struct Files;

/// A file with its media type and a digest for its entity tag; none when there is none of that name.
#[must_use]
pub fn get(name: &str) -> Option<Asset> {
    let file = Files::get(name)?;
    Some(Asset {
        media_type: file.metadata.mimetype().to_owned(),
        etag: format!("\"{}\"", &crate::kernel::digest::hex(&file.metadata.sha256_hash())[..16]),
        bytes: file.data.into_owned(),
    })
}

/// One embedded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// Its media type.
    pub media_type: String,
    /// Its strong entity tag.
    pub etag: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}
