//! What a workspace allows.

use super::command::WorkspaceCommand;
use super::event::{
    Created, MemberAdded, Repo, ReposReplaced, Role, TokenHolder, TokenIssued, TokenRevoked, WorkspaceEvent,
};
use super::state::Workspace;
use crate::domain::{Refusal, RefusalKind};
use crate::kernel::ids::{TokenId, UserId};

/// What is refused, or what happens: no events when nothing does.
pub type Decision = Result<Vec<WorkspaceEvent>, Refusal>;

/// Decides one command on one workspace; `None` is one that doesn't exist yet.
///
/// # Errors
/// `not_found`, `workspace_exists`, `bad_slug`, `bad_issue_prefix`, `bad_repo_url`, `role_too_low`,
/// `already_member`, `token_id_taken`.
pub fn decide(workspace: Option<&Workspace>, command: WorkspaceCommand) -> Decision {
    let Some(workspace) = workspace else {
        return match command {
            WorkspaceCommand::Create { slug, name, issue_prefix, owner } => {
                let created = Created { issue_prefix: prefix(&slug, issue_prefix)?, slug, name };
                let owner = MemberAdded { role: Role::Owner, ..owner };
                Ok(vec![WorkspaceEvent::Created(created), WorkspaceEvent::MemberAdded(owner)])
            }
            WorkspaceCommand::AddMember { .. }
            | WorkspaceCommand::ReplaceRepos { .. }
            | WorkspaceCommand::IssueToken { .. }
            | WorkspaceCommand::RevokeToken { .. } => Err(Refusal::not_found("workspace")),
        };
    };
    match command {
        WorkspaceCommand::Create { slug, owner, .. } => create_again(workspace, &slug, &owner),
        WorkspaceCommand::AddMember { by, member } => add_member(workspace, by, member),
        WorkspaceCommand::ReplaceRepos { by, repos } => replace_repos(workspace, by, repos),
        WorkspaceCommand::IssueToken { by, token, holder, name, sha256, expires_at } => {
            issue(workspace, by, TokenIssued { token, holder, name, sha256, expires_at })
        }
        WorkspaceCommand::RevokeToken { by, token, reason } => revoke(workspace, by, token, reason),
    }
}

fn create_again(workspace: &Workspace, slug: &str, owner: &MemberAdded) -> Decision {
    if workspace.slug == slug && workspace.role(owner.user) == Some(Role::Owner) {
        return Ok(Vec::new());
    }
    Err(Refusal::conflict(
        "workspace_exists",
        "a workspace with this id exists already",
        "Create another one with a fresh id.",
    ))
}

fn prefix(slug: &str, given: Option<String>) -> Result<String, Refusal> {
    let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if slug.is_empty()
        || slug.len() > 64
        || !slug.chars().all(kebab)
        || slug.starts_with('-')
        || slug.ends_with('-')
    {
        return Err(Refusal::invalid(
            "bad_slug",
            "a workspace's slug has lower-case letters, digits and single dashes between them",
            "Choose a slug like `my-team`.",
        ));
    }
    let prefix = given.unwrap_or_else(|| {
        slug.chars().filter(char::is_ascii_alphanumeric).take(4).collect::<String>().to_ascii_uppercase()
    });
    let fits = (1..=10).contains(&prefix.len())
        && prefix.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    if fits {
        return Ok(prefix);
    }
    Err(Refusal::invalid(
        "bad_issue_prefix",
        "an issue prefix has one to ten upper-case letters or digits",
        "Choose a prefix like `GAME`.",
    ))
}

fn add_member(workspace: &Workspace, by: Option<UserId>, member: MemberAdded) -> Decision {
    must_be(workspace, by, Role::Admin, "add members")?;
    match workspace.members.get(&member.user) {
        Some(there) if there.role == member.role => Ok(Vec::new()),
        Some(_) => Err(Refusal::conflict(
            "already_member",
            "this person is a member already, with another role",
            "Change the role instead.",
        )),
        None => Ok(vec![WorkspaceEvent::MemberAdded(member)]),
    }
}

fn replace_repos(workspace: &Workspace, by: Option<UserId>, repos: Vec<Repo>) -> Decision {
    must_be(workspace, by, Role::Admin, "replace the repositories")?;
    let mut kept: Vec<Repo> = Vec::with_capacity(repos.len());
    for repo in repos {
        let url = crate::domain::resource::github_repo::repo_url(&repo.url)?;
        if !kept.iter().any(|other| other.url == url) {
            kept.push(Repo { url });
        }
    }
    if kept == workspace.repos {
        return Ok(Vec::new());
    }
    Ok(vec![WorkspaceEvent::ReposReplaced(ReposReplaced { repos: kept })])
}

fn issue(workspace: &Workspace, by: Option<UserId>, token: TokenIssued) -> Decision {
    let (TokenHolder::Member { user } | TokenHolder::Daemon { user, .. }) = &token.holder;
    if by.is_some_and(|by| by != *user) {
        return Err(forbidden("a token is made by the member it is for"));
    }
    if workspace.role(*user).is_none() {
        return Err(Refusal::not_found("member"));
    }
    match workspace.tokens.get(&token.token) {
        None => Ok(vec![WorkspaceEvent::TokenIssued(token)]),
        Some(there) if there.sha256 == token.sha256 => Ok(Vec::new()),
        Some(_) => {
            Err(Refusal::conflict("token_id_taken", "another token has this id", "Ask for a token again."))
        }
    }
}

fn revoke(workspace: &Workspace, by: Option<UserId>, id: TokenId, reason: String) -> Decision {
    let Some(token) = workspace.tokens.get(&id) else { return Err(Refusal::not_found("token")) };
    let (TokenHolder::Member { user } | TokenHolder::Daemon { user, .. }) = &token.holder;
    if by != Some(*user) {
        must_be(workspace, by, Role::Admin, "revoke another member's token")?;
    }
    if token.revoked {
        return Ok(Vec::new());
    }
    let sha256 = token.sha256.clone();
    Ok(vec![WorkspaceEvent::TokenRevoked(TokenRevoked { token: id, sha256, reason })])
}

fn must_be(workspace: &Workspace, by: Option<UserId>, least: Role, what: &str) -> Result<(), Refusal> {
    let Some(by) = by else { return Ok(()) };
    match workspace.role(by) {
        None => Err(Refusal::not_found("workspace")),
        Some(role) if role >= least => Ok(()),
        Some(_) => Err(forbidden(&format!("a member may not {what}"))),
    }
}

fn forbidden(sentence: &str) -> Refusal {
    Refusal::new(
        RefusalKind::Forbidden,
        "role_too_low",
        sentence,
        "Ask an admin or the owner of the workspace.",
    )
}
