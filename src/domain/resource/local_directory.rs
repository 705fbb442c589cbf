//! The lexical rules of a `local_directory` resource.
/// Why a path can't be used.
pub enum PathRefusal {}
