//! What can be recorded of the installation.

use super::event::{
    Erased, EventSkipped, ExportMade, ReadModelRebuilt, Sealed, Started, TranscriptsRemoved, Verified,
};

/// A command on the installation's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationCommand {
    /// A server starts on this log.
    Start(Started),
    /// A read model was rebuilt.
    RecordRebuild(ReadModelRebuilt),
    /// A follower is to pass over an event.
    RecordSkip(EventSkipped),
    /// The log was verified.
    RecordVerified(Verified),
    /// The log was sealed.
    RecordSealed(Sealed),
    /// A part of the audit trail is to be given out.
    RecordExport(ExportMade),
    /// Texts are to be erased.
    Erase(Erased),
    /// Old transcripts are to be removed.
    RemoveTranscripts(TranscriptsRemoved),
}
