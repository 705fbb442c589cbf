//! The issue's rules, given / when / then.

use super::evolve::evolve;
use super::*;
use crate::domain::Refusal;
use crate::domain::spec::{Given, Rules, content, id};
use crate::kernel::ids::{AgentId, CommentId, IssueId, ProjectId, TaskId, UserId};

struct Issues;

impl Rules for Issues {
    type State = Issue;
    type Event = IssueEvent;
    type Command = IssueCommand;
    fn evolve(state: Option<Issue>, event: &IssueEvent) -> Option<Issue> {
        evolve(IssueId(id(1)), state, event)
    }
    fn decide(state: Option<&Issue>, command: IssueCommand) -> Result<Vec<IssueEvent>, Refusal> {
        decide::decide(state, command)
    }
}

fn given(events: impl IntoIterator<Item = IssueEvent>) -> Given<Issues> {
    crate::domain::spec::given(events)
}

fn facts() -> Created {
    Created {
        number: 12,
        key: "GAME-12".to_owned(),
        title: content(5),
        description: Some(content(6)),
        project: Some(ProjectId(id(7))),
        status: "todo".to_owned(),
        priority: "high".to_owned(),
        assignee: None,
    }
}

fn agent() -> Option<Assignee> {
    Some(Assignee::Agent(AgentId(id(8))))
}

fn comment(n: u128, parent: Option<u128>) -> Commented {
    Commented {
        comment: CommentId(id(n)),
        author: Author::Member(UserId(id(9))),
        kind: "comment".to_owned(),
        body: content(n),
        parent: parent.map(|parent| CommentId(id(parent))),
        task: None,
    }
}

fn moved(from: &str, to: &str) -> IssueEvent {
    let because_of = Some(TaskId(id(40)));
    IssueEvent::StatusChanged(StatusChanged { from: from.to_owned(), to: to.to_owned(), because_of })
}

/// One of each event; together they are a history.
pub(crate) fn samples() -> Vec<IssueEvent> {
    vec![
        IssueEvent::Created(facts()),
        IssueEvent::Updated(Updated {
            title: Some(content(15)),
            description: None,
            priority: Some("low".to_owned()),
            project: None,
        }),
        IssueEvent::Assigned(Assigned { assignee: agent() }),
        moved("todo", "in_progress"),
        IssueEvent::Commented(comment(30, None)),
    ]
}

#[test]
fn an_issue_has_known_status_and_priority() {
    given([]).when(IssueCommand::Create(facts())).then([IssueEvent::Created(facts())]);
    let odd = Created { status: "someday".to_owned(), ..facts() };
    given([]).when(IssueCommand::Create(odd)).then_refused("bad_status");
    let odd = Created { priority: "wow".to_owned(), ..facts() };
    given([]).when(IssueCommand::Create(odd)).then_refused("bad_priority");
    given(samples()).when(IssueCommand::Create(facts())).then_refused("issue_exists");
}

#[test]
fn the_same_word_twice_is_said_once() {
    let state = given(samples()).state();
    assert_eq!((state.status.as_str(), state.priority_number()), ("in_progress", 1));
    given(samples()).when(IssueCommand::Assign { assignee: agent() }).then_nothing();
    let same = IssueCommand::ChangeStatus { to: "in_progress".to_owned(), because_of: None };
    given(samples()).when(same).then_nothing();
    let back = IssueCommand::ChangeStatus { to: "todo".to_owned(), because_of: Some(TaskId(id(40))) };
    given(samples()).when(back).then([moved("in_progress", "todo")]);
    given(samples()).when(IssueCommand::Comment(comment(30, None))).then_nothing();
    given(samples())
        .when(IssueCommand::Assign { assignee: None })
        .then([IssueEvent::Assigned(Assigned { assignee: None })]);
}

#[test]
fn a_comment_answers_one_of_its_issue_and_says_something() {
    let answer = comment(31, Some(30));
    given(samples()).when(IssueCommand::Comment(answer.clone())).then([IssueEvent::Commented(answer)]);
    given(samples()).when(IssueCommand::Comment(comment(31, Some(99)))).then_refused("not_found");
    let mut empty = comment(31, None);
    empty.body.bytes = 0;
    given(samples()).when(IssueCommand::Comment(empty)).then_refused("empty_comment");
    let odd = Commented { kind: "shout".to_owned(), ..comment(31, None) };
    given(samples()).when(IssueCommand::Comment(odd)).then_refused("bad_comment_type");
    let other = Commented { body: content(77), ..comment(30, None) };
    given(samples()).when(IssueCommand::Comment(other)).then_refused("comment_id_taken");
}
