//! What can be asked of a webhook.

use jiff::Timestamp;

use super::event::{Created, DeadLettered, OffBecause, ReplayAsked, Tested, Updated};
use crate::kernel::ids::SecretId;

/// A command on one webhook's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookCommand {
    /// Bring it into being.
    Create(Created),
    /// Change something about it; what it is already is no change.
    Update(Updated),
    /// Deliver to it again.
    Enable,
    /// Deliver to it no more.
    Disable(OffBecause),
    /// Sign with another secret.
    Rotate {
        /// The new one.
        secret: SecretId,
        /// Until when the old one signs too.
        old_until: Timestamp,
    },
    /// A delivery was given up.
    RecordDead {
        /// Which, and why.
        dead: DeadLettered,
        /// So many deliveries that were given up switch it off.
        most: usize,
    },
    /// Try deliveries again that were given up.
    Retry {
        /// Those of these positions; none for all.
        positions: Option<Vec<i64>>,
    },
    /// Deliver again what happened.
    Replay(ReplayAsked),
    /// A test was sent.
    RecordTest(Tested),
    /// Forget it.
    Remove,
}
