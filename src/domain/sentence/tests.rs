//! Sentences a stranger understands.

use super::*;
use crate::domain::schemas::samples;
use crate::domain::spec::{envelope, id};
use crate::domain::{Actor, Family, StreamKey, Via};

struct People;

impl Names for People {
    fn task(&self, id: TaskId) -> Option<String> {
        Some(if id.0.as_u128() == 1 { "GAME-12#3" } else { "GAME-11#1" }.to_owned())
    }
    fn issue(&self, _: IssueId) -> Option<String> {
        Some("GAME-12".to_owned())
    }
    fn agent(&self, _: AgentId) -> Option<String> {
        Some("dev".to_owned())
    }
    fn project(&self, _: ProjectId) -> Option<String> {
        Some("The game".to_owned())
    }
    fn directory(&self, _: DirectoryId) -> Option<String> {
        Some("game".to_owned())
    }
    fn daemon(&self, _: &str) -> Option<String> {
        Some("Ann's laptop".to_owned())
    }
    fn member(&self, _: UserId) -> Option<String> {
        Some("Ann".to_owned())
    }
    fn content(&self, _: ContentId) -> Option<String> {
        Some("Mend the door\nand the window".to_owned())
    }
}

fn sentence(event: Event, names: &dyn Names) -> Sentence {
    let stream = StreamKey::new(event.family(), id(1));
    let mut envelope = envelope(1, stream, 1, event);
    envelope.actor = Actor { kind: ActorKind::Daemon, id: "laptop".to_owned(), via: Via::Daemon };
    render(&envelope, names)
}

#[test]
fn every_event_has_a_sentence_without_paths_whose_links_stand_in_it() {
    for event in samples() {
        for names in [&People as &dyn Names, &NoNames] {
            let said = sentence(event.clone(), names);
            assert!(said.text.len() > 12 && !said.text.ends_with('.'), "{said:?}");
            for private in ["/data/game", "/srv/game", "/var/lib"] {
                assert!(!said.text.contains(private), "{said:?}");
            }
            assert!(!said.text.contains("  "), "{said:?}");
        }
    }
}

#[test]
fn a_parked_task_names_holder_directory_and_place() {
    let parked =
        samples().into_iter().find(|event| crate::domain::codec::event_type(event).unwrap() == "task.parked");
    let said = sentence(parked.unwrap(), &People);
    assert_eq!(said.text, "Ann's laptop parked GAME-12#3: game is held by GAME-11#1, 2nd in line");
    let rels: Vec<&str> = said.links.iter().map(|link| link.rel).collect();
    assert_eq!(rels, ["daemon", "task", "directory", "task"]);
}

#[test]
fn what_isnt_shown_and_what_was_erased_are_said_to_be() {
    let created = samples().into_iter().find(|event| event.family() == Family::Issue).unwrap();
    assert!(sentence(created.clone(), &NoNames).text.ends_with("created GAME-12 a text that isn't shown"));
    assert!(
        sentence(created.clone(), &People)
            .text
            .ends_with("created GAME-12 \u{201c}Mend the door\u{2026}\u{201d}")
    );
    struct Gone;
    impl Names for Gone {
        fn task(&self, _: TaskId) -> Option<String> {
            None
        }
        fn issue(&self, _: IssueId) -> Option<String> {
            None
        }
        fn agent(&self, _: AgentId) -> Option<String> {
            None
        }
        fn project(&self, _: ProjectId) -> Option<String> {
            None
        }
        fn directory(&self, _: DirectoryId) -> Option<String> {
            None
        }
        fn daemon(&self, _: &str) -> Option<String> {
            None
        }
        fn member(&self, _: UserId) -> Option<String> {
            None
        }
        fn content(&self, _: ContentId) -> Option<String> {
            Some(crate::kernel::text::ERASED.to_owned())
        }
    }
    assert!(sentence(created, &Gone).text.ends_with("created GAME-12 an erased text"));
}

#[test]
fn ordinals_are_english() {
    let all: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].into_iter().map(ordinal).collect();
    assert_eq!(all, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]);
}
