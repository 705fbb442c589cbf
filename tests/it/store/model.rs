//! Random commands by two writers, repeated, reordered and cut off, against a model of a few lines.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use multica::app::AppError;
use multica::app::decision::{Committed, Submission};
use multica::app::writer::Writer;
use multica::kernel::ids::CommandId;
use multica::store::read;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use uuid::Uuid;

use crate::support::toy::{Create, Delete, SetStatus, command_as};
use crate::support::{Rig, writer};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Doing {
    Create,
    Set(u8),
    Delete,
}

/// One command: which writer gets it, about which project.
#[derive(Debug, Clone)]
struct Asked {
    by_other: bool,
    project: usize,
    doing: Doing,
}

/// Commands sent at once, and whether connections are killed meanwhile.
#[derive(Debug, Clone)]
struct Round {
    asked: Vec<Asked>,
    kills: bool,
}

const PROJECTS: usize = 3;

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let doing = prop_oneof![
        2 => Just(Doing::Create),
        5 => (0_u8..3).prop_map(Doing::Set),
        1 => Just(Doing::Delete),
    ];
    let asked = (any::<bool>(), 0..PROJECTS, doing).prop_map(|(by_other, project, doing)| Asked {
        by_other,
        project,
        doing,
    });
    let round = (proptest::collection::vec(asked, 1..6), proptest::bool::weighted(0.2))
        .prop_map(|(asked, kills)| Round { asked, kills });
    proptest::collection::vec(round, 2..6)
}

/// What the log should hold: of each project what was done, in order.
#[derive(Default)]
struct Model {
    done: BTreeMap<usize, Vec<Doing>>,
}

impl Model {
    /// Takes over what was written, if it may stand there, and says what the answer has to be.
    fn write(&mut self, asked: &Asked) -> Option<serde_json::Value> {
        let before = self.done.entry(asked.project).or_default();
        let result = match asked.doing {
            Doing::Create => before.is_empty().then_some(json!(null)),
            // The same status again writes nothing, so it isn't written.
            Doing::Set(_) if before.is_empty() || before.last() == Some(&asked.doing) => None,
            Doing::Set(_) => Some(json!(before.len() + 1)),
            Doing::Delete => (!before.is_empty()).then_some(json!(null)),
        };
        before.push(asked.doing);
        result
    }
}

struct World {
    rig: Rig,
    other: Writer,
}

impl World {
    /// Sends a command until its outcome is known, as every client of ours does.
    async fn insist(
        &self,
        by_other: bool,
        submission: impl Fn() -> Submission,
    ) -> Result<Committed, AppError> {
        let writer = if by_other { &self.other } else { &self.rig.writer };
        loop {
            match writer.submit(submission()).await {
                Err(AppError::Unavailable { .. } | AppError::Conflict) => tokio::task::yield_now().await,
                answer => return answer,
            }
        }
    }

    async fn play(&self, rounds: &[Round]) {
        let projects: Vec<Uuid> = (0..PROJECTS).map(|_| Uuid::now_v7()).collect();
        let submission = |id: CommandId, asked: &Asked| {
            let project = projects[asked.project];
            match asked.doing {
                Doing::Create => command_as(id, [1; 16], Create { project, title: "a title".to_owned() }),
                Doing::Set(n) => command_as(id, [1; 16], SetStatus { project, status: n.to_string() }),
                Doing::Delete => command_as(id, [1; 16], Delete { project }),
            }
        };
        let mut model = Model::default();
        let killer = self.rig.db.superuser().await;
        for round in rounds {
            let ids: Vec<CommandId> = round.asked.iter().map(|_| CommandId(Uuid::now_v7())).collect();
            let sent = join_all(
                round
                    .asked
                    .iter()
                    .zip(&ids)
                    .map(|(asked, id)| self.insist(asked.by_other, move || submission(*id, asked))),
            );
            let kills = async {
                if round.kills {
                    let kill = "select pg_terminate_backend(pid) from pg_stat_activity \
                                where datname = current_database() and usename = 'multica_app' \
                                and query like '%commit_batch%'";
                    killer.query(kill, &[]).await.unwrap();
                }
            };
            let (answers, ()) = tokio::join!(sent, kills);
            // In the order of the log each of them may stand where it stands.
            let mut written: Vec<(&Committed, &Asked)> = answers
                .iter()
                .zip(&round.asked)
                .filter_map(|(answer, asked)| answer.as_ref().ok().map(|done| (done, asked)))
                .filter(|(done, _)| done.events == 1)
                .collect();
            written.sort_by_key(|(done, _)| done.position);
            for (done, asked) in written {
                let result = model.write(asked);
                let result = result.unwrap_or_else(|| panic!("{asked:?} stands at {}", done.position));
                if matches!(asked.doing, Doing::Set(_)) {
                    assert_eq!(done.result, result, "{asked:?}");
                }
            }
            // Backwards and by the other writer: each gets the answer that it had.
            for ((asked, id), answer) in round.asked.iter().zip(&ids).zip(&answers).rev() {
                let again = self.insist(!asked.by_other, || submission(*id, asked)).await;
                match (answer, again) {
                    (Ok(before), Ok(after)) if before.events > 0 => {
                        assert_eq!((before.position, &before.result), (after.position, &after.result));
                        assert!(after.repeated);
                    }
                    (Err(AppError::Refused(before)), Err(AppError::Refused(after))) => {
                        assert_eq!(before.code, after.code);
                    }
                    // It wrote nothing then: it is decided by what is now, and written where that is another.
                    (Ok(before), Ok(after)) => {
                        assert_eq!(before.events, 0);
                        if after.events == 1 {
                            assert!(model.write(asked).is_some(), "{asked:?}");
                        }
                    }
                    (before, after) => panic!("{asked:?}: {before:?}, then {after:?}"),
                }
            }
        }
        for (n, project) in projects.iter().enumerate() {
            let key = multica::domain::StreamKey::new(multica::domain::Family::Project, *project);
            let events = read::stream(&self.rig.store, key).await.unwrap();
            assert_eq!(events.len(), model.done.get(&n).map_or(0, Vec::len), "of project {n}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_two_writers_are_asked_the_log_is_one_order_and_repeats_change_nothing() {
    let long = std::env::var("MULTICA_TEST_LONG").is_ok_and(|long| long == "1");
    let rig = Rig::new().await;
    let other = writer(&rig.store, &rig.registry);
    let world = World { rig, other };
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..if long { 600 } else { 24 } {
        let tree = rounds().new_tree(&mut runner).unwrap();
        let rounds = tree.current();
        println!("{rounds:?}");
        world.play(&rounds).await;
    }
    world.rig.finish().await;
}

#[tokio::test]
async fn a_repeat_gets_its_answer_from_another_server_although_there_is_nothing_left_to_do() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    let [create, set] = [(); 2].map(|()| CommandId(Uuid::now_v7()));
    rig.writer.submit(command_as(create, [1; 16], Create { project, title: String::new() })).await.unwrap();
    let asked = || command_as(set, [1; 16], SetStatus { project, status: "done".to_owned() });
    let first = rig.writer.submit(asked()).await.unwrap();
    let other = writer(&rig.store, &rig.registry);
    let again = other.submit(asked()).await.unwrap();
    assert_eq!((again.position, &again.result, again.events), (first.position, &first.result, 1));
    assert!(again.repeated);
    // The same key for something else stays a mistake, wherever it is used.
    let third = writer(&rig.store, &rig.registry);
    let reused = command_as(set, [2; 16], SetStatus { project, status: "done".to_owned() });
    assert!(matches!(third.submit(reused).await, Err(AppError::IdempotencyKeyReused)));
    rig.finish().await;
}
