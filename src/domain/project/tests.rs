//! The project's rules, given / when / then.

use serde_json::{Map, Value, json};

use super::evolve::evolve;
use super::*;
use crate::domain::Refusal;
use crate::domain::resource::MachineFacts;
use crate::domain::spec::{Given, Rules, content, id};
use crate::domain::workspace::Role;
use crate::kernel::ids::{ProjectId, ResourceId};

struct Projects;

impl Rules for Projects {
    type State = Project;
    type Event = ProjectEvent;
    type Command = ProjectCommand;
    fn evolve(state: Option<Project>, event: &ProjectEvent) -> Option<Project> {
        evolve(ProjectId(id(1)), state, event)
    }
    fn decide(state: Option<&Project>, command: ProjectCommand) -> Result<Vec<ProjectEvent>, Refusal> {
        decide::decide(state, command)
    }
}

fn given(events: impl IntoIterator<Item = ProjectEvent>) -> Given<Projects> {
    crate::domain::spec::given(events)
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

fn directory(path: &str, daemon: &str) -> Map<String, Value> {
    object(json!({"local_path": path, "daemon_id": daemon}))
}

fn new(n: u128, resource_ref: Map<String, Value>) -> NewResource {
    NewResource {
        resource: ResourceId(id(n)),
        resource_type: "local_directory".to_owned(),
        resource_ref,
        label: None,
        position: None,
        machine: MachineFacts::default(),
    }
}

fn created() -> ProjectEvent {
    ProjectEvent::Created(Created {
        title: content(5),
        description: None,
        status: "planned".to_owned(),
        priority: "none".to_owned(),
    })
}

fn attached(n: u128, path: &str, daemon: &str, position: u32) -> ProjectEvent {
    ProjectEvent::ResourceAttached(ResourceAttached {
        resource: ResourceId(id(n)),
        resource_type: "local_directory".to_owned(),
        resource_ref: directory(path, daemon),
        label: None,
        position,
        verified: false,
    })
}

fn updated() -> Updated {
    Updated { title: Some(content(6)), description: None, status: Some("paused".to_owned()), priority: None }
}

/// One of each event; together they are a history.
pub(crate) fn samples() -> Vec<ProjectEvent> {
    vec![
        created(),
        attached(20, "/srv/game", "laptop", 0),
        ProjectEvent::ResourceUpdated(ResourceUpdated {
            resource: ResourceId(id(20)),
            resource_ref: object(json!({"local_path": "/srv/game", "daemon_id": "laptop", "label": "game"})),
            label: Some("game".to_owned()),
            position: 3,
            verified: true,
        }),
        ProjectEvent::ResourceDetached(ResourceDetached { resource: ResourceId(id(20)) }),
        ProjectEvent::Updated(updated()),
        ProjectEvent::Deleted(Deleted {}),
    ]
}

fn with_directory() -> [ProjectEvent; 2] {
    [created(), attached(20, "/srv/game", "laptop", 0)]
}

fn create(resources: Vec<NewResource>) -> ProjectCommand {
    ProjectCommand::Create { title: content(5), description: None, status: None, priority: None, resources }
}

#[test]
fn a_project_is_created_with_all_its_resources_or_not_at_all() {
    let two = vec![new(20, directory("/srv/game", "laptop")), new(21, directory("/srv/art", "tower"))];
    given([]).when(create(two)).then([
        created(),
        attached(20, "/srv/game", "laptop", 0),
        attached(21, "/srv/art", "tower", 1),
    ]);
    let same = vec![new(20, directory("/srv/game", "laptop")), new(21, directory("/srv/art", "laptop"))];
    given([]).when(create(same)).then_refused("duplicate_for_daemon");
    given([]).when(create(vec![new(20, directory("/", "laptop"))])).then_refused("protected_root");
    given([created()]).when(create(Vec::new())).then_refused("project_exists");
}

#[test]
fn a_daemon_has_one_directory_in_a_project_on_attach_and_on_update() {
    let attach = |n, path, daemon| ProjectCommand::Attach(new(n, directory(path, daemon)));
    given(with_directory()).when(attach(20, "/srv/game", "laptop")).then_nothing();
    given(with_directory()).when(attach(20, "/srv/else", "laptop")).then_refused("resource_id_taken");
    given(with_directory()).when(attach(21, "/srv/else", "laptop")).then_refused("duplicate_for_daemon");
    let two = || with_directory().into_iter().chain([attached(21, "/srv/art", "tower", 1)]);
    let move_to = |path: &str, daemon: &str| ProjectCommand::UpdateResource {
        resource: ResourceId(id(21)),
        resource_ref: Some(directory(path, daemon)),
        label: None,
        position: None,
        machine: MachineFacts::default(),
    };
    given(two()).when(move_to("/srv/art", "laptop")).then_refused("duplicate_for_daemon");
    given(two()).when(move_to("/srv/art", "tower")).then_nothing();
    // It doesn't stand in its own way.
    let moved = ProjectEvent::ResourceUpdated(ResourceUpdated {
        resource: ResourceId(id(21)),
        resource_ref: directory("/srv/new", "tower"),
        label: None,
        position: 1,
        verified: false,
    });
    given(two()).when(move_to("/srv/new", "tower")).then([moved]);
}

#[test]
fn a_new_name_leaves_the_place_alone_and_stands_in_both_spots() {
    let rename = ProjectCommand::UpdateResource {
        resource: ResourceId(id(20)),
        resource_ref: None,
        label: Some(Some(" game ".to_owned())),
        position: Some(3),
        machine: MachineFacts::default(),
    };
    let state = given(with_directory()).when(rename).then([ProjectEvent::ResourceUpdated(ResourceUpdated {
        resource: ResourceId(id(20)),
        resource_ref: object(json!({"local_path": "/srv/game", "daemon_id": "laptop", "label": "game"})),
        label: Some("game".to_owned()),
        position: 3,
        verified: false,
    })]);
    assert_eq!(state.resources[0].label.as_deref(), Some("game"));
}

/// S008: also where the reference holds what this build knows nothing of; and a name that is taken away is taken
/// away in both spots.
#[test]
fn a_new_name_keeps_unknown_keys_and_none_clears_both_spots() {
    let odd = |label: Option<&str>| {
        let mut reference =
            object(json!({"local_path": "/srv/game", "daemon_id": "laptop", "odd": {"k": [1]}}));
        reference.extend(label.map(|label| ("label".to_owned(), json!(label))));
        reference
    };
    let stands = |label: Option<&str>| {
        let label = label.map(str::to_owned);
        let (resource_ref, resource) = (odd(label.as_deref()), ResourceId(id(20)));
        ResourceUpdated { resource, resource_ref, label, position: 0, verified: false }
    };
    let attached = ResourceAttached {
        resource: ResourceId(id(20)),
        resource_type: "local_directory".to_owned(),
        resource_ref: odd(None),
        label: None,
        position: 0,
        verified: false,
    };
    let before = || [created(), ProjectEvent::ResourceAttached(attached.clone())];
    let name = |label: Option<&str>| ProjectCommand::UpdateResource {
        resource: ResourceId(id(20)),
        resource_ref: None,
        label: Some(label.map(str::to_owned)),
        position: None,
        machine: MachineFacts::default(),
    };
    given(before()).when(name(Some("game"))).then([ProjectEvent::ResourceUpdated(stands(Some("game")))]);
    let named = before().into_iter().chain([ProjectEvent::ResourceUpdated(stands(Some("game")))]);
    given(named).when(name(None)).then([ProjectEvent::ResourceUpdated(stands(None))]);
}

#[test]
fn an_unknown_type_is_refused_and_a_third_type_attaches() {
    let typed = |kind: &str, value| {
        let resource_type = kind.to_owned();
        ProjectCommand::Attach(NewResource { resource_type, ..new(30, object(value)) })
    };
    given([created()]).when(typed("floppy", json!({}))).then_refused("unknown_resource_type");
    let state = given([created()]).when(typed("wiki", json!({"page": "Home", "x": 1}))).then([
        ProjectEvent::ResourceAttached(ResourceAttached {
            resource: ResourceId(id(30)),
            resource_type: "wiki".to_owned(),
            resource_ref: object(json!({"page": "Home", "x": 1})),
            label: None,
            position: 0,
            verified: false,
        }),
    ]);
    assert_eq!(state.resources.len(), 1);
    let wiki = ProjectEvent::ResourceAttached(ResourceAttached {
        resource: ResourceId(id(31)),
        resource_type: "wiki".to_owned(),
        resource_ref: object(json!({"page": "Home"})),
        label: None,
        position: 0,
        verified: false,
    });
    given([created(), wiki]).when(typed("wiki", json!({"page": "Home"}))).then_refused("resource_duplicate");
}

#[test]
fn only_an_admin_deletes_and_a_deleted_project_is_gone() {
    given([created()]).when(ProjectCommand::Delete { by: Role::Member }).then_refused("role_too_low");
    given([created()])
        .when(ProjectCommand::Delete { by: Role::Admin })
        .then([ProjectEvent::Deleted(Deleted {})]);
    given(samples()).when(ProjectCommand::Delete { by: Role::Owner }).then_nothing();
    given(samples()).when(ProjectCommand::Attach(new(9, directory("/srv/x", "d")))).then_refused("not_found");
}

#[test]
fn an_update_says_only_what_changed() {
    let update = |status: &str| ProjectCommand::Update {
        title: Some(content(5)),
        description: None,
        status: Some(status.to_owned()),
        priority: Some("none".to_owned()),
    };
    given([created()]).when(update("planned")).then_nothing();
    given([created()]).when(update("asleep")).then_refused("bad_status");
    given([created()]).when(update("paused")).then([ProjectEvent::Updated(Updated {
        title: None,
        description: None,
        status: Some("paused".to_owned()),
        priority: None,
    })]);
}
