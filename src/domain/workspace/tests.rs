//! The workspace's rules, given / when / then.

use super::evolve::evolve;
use super::*;
use crate::domain::Refusal;
use crate::domain::spec::{Given, Rules, WORKSPACE, content, id};
use crate::kernel::ids::{TokenId, UserId};

struct Workspaces;

impl Rules for Workspaces {
    type State = Workspace;
    type Event = WorkspaceEvent;
    type Command = WorkspaceCommand;
    fn evolve(state: Option<Workspace>, event: &WorkspaceEvent) -> Option<Workspace> {
        evolve(WORKSPACE, state, event)
    }
    fn decide(state: Option<&Workspace>, command: WorkspaceCommand) -> Result<Vec<WorkspaceEvent>, Refusal> {
        decide::decide(state, command)
    }
}

fn given(events: impl IntoIterator<Item = WorkspaceEvent>) -> Given<Workspaces> {
    crate::domain::spec::given(events)
}

const OWNER: UserId = UserId(id(1));
const ANN: UserId = UserId(id(2));
const TOKEN: TokenId = TokenId(id(3));

fn member(user: UserId, role: Role) -> MemberAdded {
    MemberAdded { user, name: content(10), email: Some(content(11)), role }
}

fn created() -> WorkspaceEvent {
    WorkspaceEvent::Created(Created {
        slug: "my-game".to_owned(),
        name: content(9),
        issue_prefix: "MYGA".to_owned(),
    })
}

fn token(user: UserId) -> TokenIssued {
    TokenIssued {
        token: TOKEN,
        holder: TokenHolder::Member { user },
        name: "laptop".to_owned(),
        sha256: "ab".repeat(32),
        expires_at: Some(jiff::Timestamp::UNIX_EPOCH),
    }
}

fn revoked() -> TokenRevoked {
    TokenRevoked { token: TOKEN, sha256: "ab".repeat(32), reason: "by_member".to_owned() }
}

fn repos(urls: &[&str]) -> Vec<Repo> {
    urls.iter().map(|url| Repo { url: (*url).to_owned() }).collect()
}

/// One of each event; together they are a history.
pub(crate) fn samples() -> Vec<WorkspaceEvent> {
    vec![
        created(),
        WorkspaceEvent::MemberAdded(member(OWNER, Role::Owner)),
        WorkspaceEvent::ReposReplaced(ReposReplaced { repos: repos(&["https://github.com/o/n"]) }),
        WorkspaceEvent::TokenIssued(token(OWNER)),
        WorkspaceEvent::TokenRevoked(revoked()),
    ]
}

fn begun() -> Vec<WorkspaceEvent> {
    vec![
        created(),
        WorkspaceEvent::MemberAdded(member(OWNER, Role::Owner)),
        WorkspaceEvent::MemberAdded(member(ANN, Role::Member)),
    ]
}

fn create(slug: &str) -> WorkspaceCommand {
    WorkspaceCommand::Create {
        slug: slug.to_owned(),
        name: content(9),
        issue_prefix: None,
        owner: member(OWNER, Role::Member),
    }
}

#[test]
fn a_workspace_begins_with_its_owner_and_a_prefix_from_its_slug() {
    given([])
        .when(create("my-game"))
        .then([created(), WorkspaceEvent::MemberAdded(member(OWNER, Role::Owner))]);
    given(begun()).when(create("my-game")).then_nothing();
    given(begun()).when(create("other")).then_refused("workspace_exists");
    for bad in ["", "Game", "a b", "-a"] {
        given([]).when(create(bad)).then_refused("bad_slug");
    }
}

#[test]
fn members_and_repositories_are_an_admins_matter() {
    let bob = member(UserId(id(5)), Role::Member);
    let add = |by| WorkspaceCommand::AddMember { by, member: bob.clone() };
    given(begun()).when(add(Some(ANN))).then_refused("role_too_low");
    given(begun()).when(add(Some(UserId(id(77))))).then_refused("not_found");
    given(begun()).when(add(Some(OWNER))).then([WorkspaceEvent::MemberAdded(bob.clone())]);
    given(begun()).when(add(None)).then([WorkspaceEvent::MemberAdded(bob.clone())]);
    let again = WorkspaceCommand::AddMember { by: None, member: member(ANN, Role::Member) };
    given(begun()).when(again).then_nothing();
    let replace = |by, urls: &[&str]| WorkspaceCommand::ReplaceRepos { by, repos: repos(urls) };
    given(begun()).when(replace(Some(ANN), &["host:x/y"])).then_refused("role_too_low");
    given(begun()).when(replace(None, &["https://u:p@h/x"])).then_refused("repo_url_with_password");
    given(begun())
        .when(replace(None, &["git@host:x/y", " git@host:x/y "]))
        .then([WorkspaceEvent::ReposReplaced(ReposReplaced { repos: repos(&["git@host:x/y"]) })]);
}

#[test]
fn a_token_is_its_members_own_and_stays_revoked() {
    let issue = |by, user| {
        let token = token(user);
        WorkspaceCommand::IssueToken {
            by,
            token: token.token,
            holder: token.holder,
            name: token.name,
            sha256: token.sha256,
            expires_at: token.expires_at,
        }
    };
    let revoke = |by| WorkspaceCommand::RevokeToken { by, token: TOKEN, reason: "by_member".to_owned() };
    given(begun()).when(issue(Some(ANN), OWNER)).then_refused("role_too_low");
    given(begun()).when(issue(None, UserId(id(99)))).then_refused("not_found");
    let issued = WorkspaceEvent::TokenIssued(token(OWNER));
    given(begun()).when(issue(Some(OWNER), OWNER)).then([issued.clone()]);
    let with_token = || begun().into_iter().chain([issued.clone()]);
    given(with_token()).when(issue(Some(OWNER), OWNER)).then_nothing();
    given(with_token()).when(revoke(Some(ANN))).then_refused("role_too_low");
    given(with_token()).when(revoke(Some(OWNER))).then([WorkspaceEvent::TokenRevoked(revoked())]);
    given(with_token().chain([WorkspaceEvent::TokenRevoked(revoked())])).when(revoke(None)).then_nothing();
    given(begun()).when(revoke(None)).then_refused("not_found");
}
