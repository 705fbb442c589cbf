//! Whether an assignment is one: looked at by everybody who is about to do something for it.

use crate::wire::daemon::Assignment;

/// What makes an assignment one that nothing may be done for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityFlaw {
    /// It names another agent than it holds.
    #[error("the assignment doesn't name its agent")]
    Agent,
    /// The token isn't a task's: with another one the agent could do what its task may not.
    #[error("the assignment holds no task token")]
    Token,
}

/// Looks at it.
///
/// # Errors
/// [`IdentityFlaw`].
pub fn check(assignment: &Assignment) -> Result<(), IdentityFlaw> {
    if assignment.agent.id != assignment.agent_id {
        return Err(IdentityFlaw::Agent);
    }
    if assignment.auth_token.starts_with("mat_") { Ok(()) } else { Err(IdentityFlaw::Token) }
}
