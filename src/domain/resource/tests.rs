//! The resource types' rules, and a third type that proves the recipe.

use serde_json::{Map, Value, json};

use super::local_directory::path::{OwnFolder, check, check_real, clean, last_segment, shape};
use super::local_directory::{PathFacts, PathRefusal};
use super::*;

/// A type that only tests have: one file (this), one line in [`types`].
pub struct Wiki;

impl ResourceType for Wiki {
    fn name(&self) -> &'static str {
        "wiki"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["page"]
    }

    fn normalise(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
        let page = text(given, "page")?
            .ok_or_else(|| Refusal::invalid("no_page", "a wiki has a page", "Name it."))?;
        let mut reference = given.clone();
        set_text(&mut reference, "page", Some(&page));
        Ok(reference)
    }

    fn display(&self, reference: &Map<String, Value>) -> String {
        reference.get("page").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("no object: {other}"),
    }
}

#[test]
fn a_third_type_works_through_the_registry_alone() {
    let wiki = find("wiki").unwrap();
    let normal = wiki.normalise(&object(json!({"page": " Home ", "theme": "dark"}))).unwrap();
    assert_eq!(Value::Object(normal), json!({"page": "Home", "theme": "dark"}));
    assert_eq!(find("floppy").err().unwrap().code, "unknown_resource_type");
}

#[test]
fn unknown_keys_stay_and_a_normalised_reference_normalises_to_itself() {
    let cases = [
        (
            "local_directory",
            json!({"local_path": " /srv/game ", "daemon_id": " d ", "x": [1], "execution_mode": ""}),
        ),
        ("local_directory", json!({"local_path": "C:/work", "daemon_id": "d", "label": null})),
        ("github_repo", json!({"url": " git@host:o/n.git ", "ref": "", "team": "core"})),
    ];
    for (kind, given) in cases {
        let kind = find(kind).unwrap();
        let once = kind.normalise(&object(given)).unwrap();
        assert_eq!(kind.normalise(&once).unwrap(), once);
    }
    let kept = find("local_directory").unwrap().normalise(&object(json!({
        "local_path": "/srv/game", "daemon_id": "d", "execution_mode": "in_place", "x": {"y": 1}
    })));
    assert_eq!(
        Value::Object(kept.unwrap()),
        json!({"local_path": "/srv/game", "daemon_id": "d", "x": {"y": 1}})
    );
}

/// S002.
#[test]
fn spaces_around_what_was_typed_are_not_stored() {
    let local = find("local_directory").unwrap().normalise(&object(json!({
        "local_path": " \t/srv/my game \n", "daemon_id": " d ", "label": " game "
    })));
    assert_eq!(
        Value::Object(local.unwrap()),
        json!({"local_path": "/srv/my game", "daemon_id": "d", "label": "game"})
    );
    let repo = find("github_repo").unwrap().normalise(&object(json!({"url": " git@host:o/n.git "})));
    assert_eq!(Value::Object(repo.unwrap()), json!({"url": "git@host:o/n.git"}));
    assert_eq!(check(" /srv/my game ", &PathFacts::default()).as_deref(), Ok("/srv/my game"));
}

/// S017: the roots of Windows are none of a POSIX machine's, where they aren't even absolute.
#[test]
fn roots_of_drives_and_shares_are_refused_and_are_nothing_where_there_are_no_drives() {
    for root in ["G:\\", "\\\\srv\\share", "\\\\srv\\share\\"] {
        assert_eq!(shape(root), Err(PathRefusal::DriveRoot), "{root}");
        assert_eq!(check(root, &PathFacts::default()), Err(PathRefusal::NotAbsolute), "{root}");
    }
    assert_eq!(shape("G:\\proj"), Ok(()));
}

#[test]
fn a_local_directory_names_the_key_that_is_wrong() {
    let kind = find("local_directory").unwrap();
    let code = |value| kind.normalise(&object(value)).err().map(|refusal| refusal.code);
    assert_eq!(code(json!({"daemon_id": "d"})).as_deref(), Some("empty"));
    assert_eq!(code(json!({"local_path": "/srv/x"})).as_deref(), Some("missing_daemon_id"));
    assert_eq!(code(json!({"local_path": 7, "daemon_id": "d"})).as_deref(), Some("bad_ref"));
    assert_eq!(code(json!({"local_path": "srv/x", "daemon_id": "d"})).as_deref(), Some("not_absolute"));
    let mode = json!({"local_path": "/srv/x", "daemon_id": "d", "execution_mode": "WORKTREE"});
    assert_eq!(code(mode).as_deref(), Some("unsupported_mode"));
}

#[test]
fn worktree_mode_needs_a_daemon_that_offers_it() {
    let kind = find("local_directory").unwrap();
    let reference = object(json!({"local_path": "/srv/x", "daemon_id": "d", "execution_mode": "worktree"}));
    let old = MachineFacts { cli_version: Some("0.4.1".to_owned()), ..MachineFacts::default() };
    let refusal = kind.check_machine(&reference, &old).unwrap_err();
    assert_eq!(
        (refusal.kind, refusal.code.as_str()),
        (RefusalKind::Unprocessable, "daemon_version_unsupported")
    );
    let new = MachineFacts { capabilities: vec![local_directory::WORKTREES.to_owned()], ..old };
    assert!(kind.check_machine(&reference, &new).is_ok());
}

#[test]
fn a_key_of_another_type_is_refused_by_name_and_what_was_there_stays() {
    let local = find("local_directory").unwrap();
    let given = object(json!({"local_path": "/srv/x", "daemon_id": "d", "url": "https://h/x", "mine": 1}));
    let refusal = no_foreign_keys(local, &given, None).unwrap_err();
    assert_eq!(refusal.code, "key_of_another_type");
    assert!(refusal.sentence.contains("`url`") && refusal.sentence.contains("github_repo"), "{refusal:?}");
    assert_eq!(no_foreign_keys(local, &given, Some(&given)), Ok(()), "an old row can still be changed");
    let own = object(json!({"local_path": "/srv/x", "daemon_id": "d", "url": "", "mine": 1, "label": "x"}));
    assert_eq!(no_foreign_keys(local, &own, None), Ok(()));
    let repo = object(json!({"url": "https://h/x", "execution_mode": "in_place"}));
    assert!(no_foreign_keys(find("github_repo").unwrap(), &repo, None).is_err());
}

#[test]
fn repository_addresses_of_any_host_pass_and_others_dont() {
    for good in [
        "https://github.com/o/n",
        "ssh://git@host/o/n.git",
        "git://h/x",
        "git@host:o/n.git",
        "host:path/x",
        "HTTPS://Git.Example/x",
    ] {
        assert_eq!(github_repo::repo_url(good).as_deref(), Ok(good), "{good}");
    }
    for bad in [
        "",
        "   ",
        "file:///etc",
        "https:///x",
        "ftp://h/x",
        "C:/work/x",
        "a b:c",
        "-oProxyCommand=x:y",
        "plain",
        "ssh://-oX/x",
        "https://u:secret@h/x",
    ] {
        assert!(github_repo::repo_url(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_protected_directory_is_met_by_equality_of_cleaned_paths() {
    let temporary = ["/var/tmp/", "/dev/shm", "/run", "/var/tmp/x/.."];
    let system = ["/bin", "/boot", "/proc", "/sys", "/dev/", "/usr/lib", "/usr/local", "/mnt"];
    let first = ["/", "//", "/home/", "/home/me/..", "/etc/.", "/tmp", "/Users/Shared/"];
    for bad in first.iter().chain(&temporary).chain(&system) {
        assert!(matches!(shape(bad), Err(PathRefusal::ProtectedRoot { .. })), "{bad}");
    }
    for good in [
        "/home/me/code",
        "/var/lib/x",
        "/srv",
        "/var/tmp/x",
        "/mnt/data",
        "/run/user/7/x",
        "\\\\host\\share\\x",
        "d:/work",
    ] {
        assert_eq!(shape(good), Ok(()), "{good}");
    }
    for root in ["C:\\", "z:/", "\\\\host\\share", "\\\\host\\share\\", "C:/x/.."] {
        assert_eq!(shape(root), Err(PathRefusal::DriveRoot), "{root}");
    }
    assert!(matches!(shape("c:/users"), Err(PathRefusal::ProtectedRoot { .. })));
    assert_eq!(shape("code/game"), Err(PathRefusal::NotAbsolute));
}

#[test]
fn a_machine_also_keeps_homes_their_parents_and_its_own_folders() {
    let facts = PathFacts {
        homes: vec!["/data/homes/ann".to_owned()],
        own_folders: vec![OwnFolder { role: "work root", path: "/var/lib/multica/work".to_owned() }],
        resolved_entries: vec![("/tmp".to_owned(), "/private/tmp".to_owned())],
    };
    assert_eq!(check("/data/homes/ann/", &facts), Err(PathRefusal::HomeDirectory));
    assert_eq!(check("/data/homes", &facts), Err(PathRefusal::HomeParent));
    assert_eq!(check("/data/homes/ann/code/", &facts).as_deref(), Ok("/data/homes/ann/code"));
    for near in ["/var/lib", "/var/lib/multica/work", "/var/lib/multica/work/x/y"] {
        assert!(matches!(check(near, &facts), Err(PathRefusal::DaemonFolder { .. })), "{near}");
    }
    let entry = || "/tmp".to_owned();
    assert_eq!(
        check_real("/private/tmp", "/private/tmp", &facts),
        Err(PathRefusal::ProtectedCanonical { entry: entry() })
    );
    assert_eq!(
        check_real("/srv/link", "/private/tmp", &facts),
        Err(PathRefusal::ProtectedViaSymlink { entry: entry() })
    );
    assert_eq!(
        check_real("/srv/link", "/tmp", &facts),
        Err(PathRefusal::ProtectedViaSymlink { entry: entry() })
    );
    assert_eq!(check_real("/srv/link", "/srv/code", &facts), Ok(()));
}

#[test]
fn every_refusal_of_a_path_has_code_sentence_and_next_step_and_survives_the_trip() {
    let text = String::new;
    let all = [
        PathRefusal::Empty,
        PathRefusal::NotAbsolute,
        PathRefusal::DriveRoot,
        PathRefusal::ProtectedRoot { entry: text() },
        PathRefusal::HomeDirectory,
        PathRefusal::HomeParent,
        PathRefusal::DaemonFolder { role: text() },
        PathRefusal::DoesNotExist,
        PathRefusal::StatFailed { errno: text() },
        PathRefusal::NotADirectory,
        PathRefusal::SymlinkResolution { errno: text() },
        PathRefusal::ProtectedViaSymlink { entry: text() },
        PathRefusal::ProtectedCanonical { entry: text() },
        PathRefusal::NotReadable,
        PathRefusal::NotWritable,
        PathRefusal::BadRef { key: text() },
        PathRefusal::MissingDaemonId,
        PathRefusal::DuplicateForDaemon { path: text(), called: text() },
        PathRefusal::UnsupportedMode { mode: text() },
        PathRefusal::OwnerNotAllowed { uid: 0, path: text() },
        PathRefusal::NotLockable { errno: text() },
        PathRefusal::Vanished,
    ];
    for refusal in all {
        assert!(!refusal.sentence().is_empty() && refusal.next_step().ends_with('.'), "{refusal:?}");
        let json = serde_json::to_value(&refusal).unwrap();
        assert_eq!(json["code"], refusal.code());
        assert_eq!(serde_json::from_value::<PathRefusal>(json).unwrap(), refusal);
        assert!(crate::domain::task::failure::find(refusal.failure_reason()).is_some());
    }
}

proptest::proptest! {
    #[test]
    fn cleaning_a_path_twice_changes_nothing_more(path in "(/|\\.|\\.\\.|[a-c]){0,12}") {
        let once = clean(&path);
        proptest::prop_assert_eq!(clean(&once), once.clone());
        proptest::prop_assert!(once.starts_with('/') && !once.contains("//") && !once.contains("/../"));
        proptest::prop_assert!(!last_segment(&path).is_empty() || path.is_empty());
    }
}

#[test]
fn a_directory_inside_or_around_another_of_the_same_machine_is_told() {
    let local = find("local_directory").unwrap();
    let at = |path: &str, daemon: &str| object(json!({"local_path": path, "daemon_id": daemon}));
    let own = at("/srv/game", "d");
    for (other, told) in [("/srv", "lies inside"), ("/srv/game/../game/engine/", "holds")] {
        let said = local.overlap(&own, &at(other, "d")).unwrap();
        assert!(said.contains(told) && said.contains(other), "{said}");
        assert_eq!(local.overlap(&own, &at(other, "elsewhere")), None);
    }
    for other in ["/srv/game", "/srv//game/", "/srv/gamer", "/srv/ga"] {
        assert_eq!(local.overlap(&own, &at(other, "d")), None, "{other}");
    }
}
