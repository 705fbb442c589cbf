//! What can be wrong with the log, each with a code, a place and a next step.

use uuid::Uuid;

const TAMPERED: &str = "Nothing of the program changes what is written: ask who has the database's password. Take the \
                        event from a backup of before, and check the backup with `multica verify --seals`.";
const LOST: &str = "Restore the database from a backup, and check it with `multica verify --seals`.";
const DERIVED: &str =
    "The events themselves are whole: restore this table from a backup, and ask who changed it.";

/// Something that isn't as it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// A position is missing.
    #[error("position {position} is missing")]
    Hole {
        /// The position.
        position: i64,
    },
    /// A block's events or its row were changed.
    #[error("block {first} to {last} does not have the hash of its events")]
    BlockHash {
        /// Its first position.
        first: i64,
        /// Its last position.
        last: i64,
    },
    /// A block doesn't follow the one before.
    #[error("block from position {first} does not follow the block before it")]
    Chain {
        /// Its first position.
        first: i64,
    },
    /// No block covers a position.
    #[error("no block covers position {position}")]
    NoBlock {
        /// The position.
        position: i64,
    },
    /// An event has another time of recording than its block.
    #[error("event at position {position} has another time of recording than its block")]
    RecordedAt {
        /// Its position.
        position: i64,
    },
    /// A stream's versions aren't dense.
    #[error("event at position {position} has version {found} where {expected} is next")]
    Version {
        /// Its position.
        position: i64,
        /// The version next in its stream.
        expected: i32,
        /// The version it has.
        found: i32,
    },
    /// The head's row isn't the last block's.
    #[error("the head says {head} and the last block ends at {last}, or their hashes or times differ")]
    Head {
        /// What the head says.
        head: i64,
        /// Where the last block ends.
        last: i64,
    },
    /// A text isn't the one that the event at that position refers to.
    #[error("content {content} differs from its digest in the event at position {position}")]
    Content {
        /// The event's position.
        position: i64,
        /// The content.
        content: Uuid,
    },
    /// A text is gone that nobody erased.
    #[error("content {content} of the event at position {position} is missing and was not erased")]
    ContentMissing {
        /// The event's position.
        position: i64,
        /// The content.
        content: Uuid,
    },
    /// A text is there that was erased.
    #[error("content {content}, erased by the event at position {position}, is there again")]
    ContentBack {
        /// The position of the event that erased it.
        position: i64,
        /// The content.
        content: Uuid,
    },
    /// An event can't be read.
    #[error("event at position {position} cannot be read")]
    Unreadable {
        /// Its position.
        position: i64,
    },
    /// A reservation isn't what the events give.
    #[error("reservation {key} is not what the events give")]
    Reservation {
        /// Its key.
        key: String,
    },
    /// A stream's row isn't what its events give.
    #[error("the row of stream {stream} is not what its events give (its last is at position {position})")]
    Stream {
        /// The stream.
        stream: Uuid,
        /// Its last event, or what the row says of it.
        position: i64,
    },
    /// A command's stored result isn't what its events give.
    #[error("the row of command {command} is not what its events give (its last is at position {position})")]
    Command {
        /// The command.
        command: Uuid,
        /// Its last event, or what the row says of it.
        position: i64,
    },
    /// The table of event types isn't this build's.
    #[error("the table of event types has no {event_type} version {version}, or another schema of it")]
    EventType {
        /// The type.
        event_type: String,
        /// Its schema's version.
        version: i16,
    },
    /// A block isn't the one that was sealed.
    #[error("the block that ends at position {position} is not the one that was sealed")]
    Seal {
        /// The sealed position.
        position: i64,
    },
    /// The log ends before a position that was sealed.
    #[error("a seal was taken at position {position} and the log ends at {head}: its end was cut off")]
    CutOff {
        /// The sealed position.
        position: i64,
        /// Where the log ends.
        head: i64,
    },
}

impl Finding {
    /// Its stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Hole { .. } => "event_missing",
            Self::BlockHash { .. } => "block_changed",
            Self::Chain { .. } => "chain_broken",
            Self::NoBlock { .. } => "block_missing",
            Self::RecordedAt { .. } => "recorded_at_changed",
            Self::Version { .. } => "version_not_next",
            Self::Head { .. } => "head_differs",
            Self::Content { .. } => "content_changed",
            Self::ContentMissing { .. } => "content_missing",
            Self::ContentBack { .. } => "content_back",
            Self::Unreadable { .. } => "event_unreadable",
            Self::Reservation { .. } => "reservation_differs",
            Self::Stream { .. } => "stream_differs",
            Self::Command { .. } => "command_differs",
            Self::EventType { .. } => "event_type_differs",
            Self::Seal { .. } => "seal_broken",
            Self::CutOff { .. } => "log_cut_off",
        }
    }

    /// Where in the log, for what has a place there.
    #[must_use]
    pub const fn position(&self) -> Option<i64> {
        match self {
            Self::Hole { position }
            | Self::NoBlock { position }
            | Self::RecordedAt { position }
            | Self::Version { position, .. }
            | Self::Content { position, .. }
            | Self::ContentMissing { position, .. }
            | Self::ContentBack { position, .. }
            | Self::Unreadable { position }
            | Self::Stream { position, .. }
            | Self::Command { position, .. }
            | Self::Seal { position }
            | Self::CutOff { position, .. } => Some(*position),
            Self::BlockHash { first, .. } | Self::Chain { first } => Some(*first),
            Self::Head { last, .. } => Some(*last),
            Self::Reservation { .. } | Self::EventType { .. } => None,
        }
    }

    /// What an operator does now.
    #[must_use]
    pub const fn next_step(&self) -> &'static str {
        match self {
            Self::BlockHash { .. }
            | Self::Chain { .. }
            | Self::RecordedAt { .. }
            | Self::Version { .. }
            | Self::Seal { .. } => TAMPERED,
            Self::Hole { .. } | Self::NoBlock { .. } | Self::Head { .. } | Self::CutOff { .. } => LOST,
            Self::Content { .. } | Self::ContentMissing { .. } => {
                "Take the text from a backup of before: the event's digest says whether it is the one."
            }
            Self::ContentBack { .. } => {
                "A backup of texts was put back: delete it from es.contents as the owner, and in that backup too."
            }
            Self::Unreadable { .. } => {
                "Start the newest build; where that can't read it either, take the event from a backup."
            }
            Self::EventType { .. } => "Start the newest build once: each start writes this table.",
            Self::Reservation { .. } | Self::Stream { .. } | Self::Command { .. } => DERIVED,
        }
    }
}
