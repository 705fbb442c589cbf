//! Folds a workspace's events.

use std::collections::BTreeMap;

use super::event::WorkspaceEvent;
use super::state::{Member, Token, Workspace};
use crate::domain::folding::fold_stream;
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::WorkspaceId;

/// The stream of a workspace.
#[must_use]
pub fn stream(id: WorkspaceId) -> StreamKey {
    StreamKey::new(Family::Workspace, id)
}

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Workspace>, Impossible> {
    fold_stream(
        events,
        |event| match event {
            Event::Workspace(event) => Some(event),
            _ => None,
        },
        |state, event, envelope| evolve(WorkspaceId(envelope.stream.id), state, event),
    )
}

/// Applies one event; none when it can't follow.
#[must_use]
pub fn evolve(id: WorkspaceId, workspace: Option<Workspace>, event: &WorkspaceEvent) -> Option<Workspace> {
    let Some(mut workspace) = workspace else {
        let WorkspaceEvent::Created(e) = event else { return None };
        return Some(Workspace {
            id,
            slug: e.slug.clone(),
            name: e.name.clone(),
            issue_prefix: e.issue_prefix.clone(),
            repos: Vec::new(),
            members: BTreeMap::new(),
            tokens: BTreeMap::new(),
        });
    };
    match event {
        WorkspaceEvent::Created(_) => return None,
        WorkspaceEvent::ReposReplaced(e) => workspace.repos.clone_from(&e.repos),
        WorkspaceEvent::MemberAdded(e) => {
            let member = Member { name: e.name.clone(), email: e.email.clone(), role: e.role };
            workspace.members.insert(e.user, member);
        }
        WorkspaceEvent::TokenIssued(e) => {
            let token = Token {
                holder: e.holder.clone(),
                name: e.name.clone(),
                sha256: e.sha256.clone(),
                expires_at: e.expires_at,
                revoked: false,
            };
            workspace.tokens.insert(e.token, token);
        }
        WorkspaceEvent::TokenRevoked(e) => workspace.tokens.get_mut(&e.token)?.revoked = true,
    }
    Some(workspace)
}
