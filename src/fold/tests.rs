//! Folds against streams, splits and rebuilds; reservations under generated histories.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::directory_queue::DirectoryRow;
use super::registry::all;
use super::reservations::{Change, agent_slots, changes, conversation, daemon_slots, pending};
use super::*;
use crate::domain::directory::{self, Directory, DirectoryCommand, Place};
use crate::domain::schemas::samples;
use crate::domain::spec::{WORKSPACE, envelope, id};
use crate::domain::task::command::Claim;
use crate::domain::task::tests::facts;
use crate::domain::task::{self, Ending, ParkedBecause, Phase, Queued, Task, TaskCommand};
use crate::domain::{Envelope, Event, Family, StreamKey};
use crate::kernel::ids::{AgentId, DirectoryId, Incarnation, IssueId, MachineId, RuntimeId, TaskId};

type Table = BTreeMap<String, Row>;

/// Folds a log in batches of the given sizes, as drivers do.
fn build(model: &dyn ReadModel, log: &[Envelope], batch: usize) -> Table {
    let mut table = Table::new();
    for events in log.chunks(batch.max(1)) {
        let mut rows = Rows::new(json!(0));
        for event in events {
            for key in model.touches(event) {
                if !rows.holds(&key) {
                    rows.load(key.clone(), table.get(&key).cloned());
                }
            }
            rows.set_recorded_at(json!(event.recorded_at.unwrap().as_microsecond()));
            model.apply(&mut rows, event).unwrap();
        }
        for (key, row) in rows.take_changes() {
            match row {
                Some(row) => table.insert(key, row),
                None => table.remove(&key),
            };
        }
    }
    table
}

const DIRECTORY: DirectoryId = DirectoryId(id(500));

/// A little installation in memory: composite use cases over tasks and one directory.
#[derive(Default)]
struct Installation {
    log: Vec<Envelope>,
    versions: BTreeMap<StreamKey, i32>,
    held: BTreeMap<String, (reservations::Class, Uuid)>,
    tasks: BTreeMap<u128, Task>,
    directory: Option<Directory>,
}

impl Installation {
    /// Appends; a key that is taken twice fails the test.
    fn append(&mut self, stream: StreamKey, event: Event) {
        let version = self.versions.entry(stream).and_modify(|version| *version += 1).or_insert(1);
        let envelope = envelope(self.log.len() as i64 + 1, stream, *version, event);
        for change in changes(&envelope) {
            match change {
                Change::Free { class, holder } => self.held.retain(|_, held| *held != (class, holder)),
                Change::Take { key, class, holder } => {
                    let before = self.held.insert(key.clone(), (class, holder));
                    assert!(before.is_none(), "{key} is held twice");
                }
            }
        }
        self.log.push(envelope);
    }

    fn task(&mut self, n: u128, command: TaskCommand) -> bool {
        let Ok(events) = task::decide::decide(self.tasks.get(&n), command) else { return false };
        for event in events {
            let after = task::evolve::evolve(TaskId(id(n)), self.tasks.remove(&n), &event).expect("folds");
            self.tasks.insert(n, after);
            self.append(task::evolve::stream(TaskId(id(n))), event.into());
        }
        true
    }

    fn directory(&mut self, command: DirectoryCommand) {
        for event in directory::decide::decide(self.directory.as_ref(), command).unwrap_or_default() {
            self.directory = directory::state::evolve(self.directory.take(), &event);
            assert!(self.directory.is_some(), "folds");
            self.append(directory::state::stream(DIRECTORY), event.into());
        }
    }

    fn facts(n: u128) -> Queued {
        let pair = n % 3;
        Queued {
            issue: IssueId(id(100 + pair)),
            agent: AgentId(id(200 + pair % 2)),
            run: u32::try_from(n).unwrap(),
            ..facts()
        }
    }

    fn free(&self, prefix: &str, max: u32) -> Option<u32> {
        (0..max).find(|k| !self.held.contains_key(&format!("{prefix}{k}")))
    }

    fn slots(&self, n: u128) -> Option<(u32, u32)> {
        let agent = self.free(&agent_slots(Self::facts(n).agent), 1)?;
        Some((agent, self.free(&daemon_slots(WORKSPACE, "laptop"), 2)?))
    }

    fn step(&mut self, kind: usize, n: u128) {
        let generation = self.tasks.get(&n).map_or(0, |task| task.generation);
        let facts = Self::facts(n);
        match kind % 9 {
            0 if !self.tasks.contains_key(&n)
                && !self.held.contains_key(&pending(facts.issue, facts.agent)) =>
            {
                self.task(n, TaskCommand::Queue(facts));
            }
            1 if !self.held.contains_key(&conversation(facts.issue, facts.agent)) => {
                let Some((agent_slot, daemon_slot)) = self.slots(n) else { return };
                let claim = Claim {
                    daemon: "laptop".to_owned(),
                    runtime: RuntimeId(id(4)),
                    incarnation: Incarnation(id(6)),
                    agent_slot,
                    daemon_slot,
                    built_from: Vec::new(),
                    resources: Vec::new(),
                    comments: Vec::new(),
                };
                self.task(n, TaskCommand::Claim(claim));
            }
            2 => {
                self.task(n, TaskCommand::Receive { generation });
            }
            3 => {
                self.task(n, TaskCommand::ReleaseClaim { generation, reason: "no_receipt".to_owned() });
            }
            4 => self.enter(n, generation),
            5 => {
                self.task(n, TaskCommand::Start { generation });
            }
            6 => {
                let complete = TaskCommand::Complete { generation, output: None, ending: Ending::default() };
                if self.task(n, complete) {
                    self.release(n);
                }
            }
            7 => {
                self.task(n, TaskCommand::Cancel { reason: None });
                self.release(n);
            }
            8 => {
                let reason = "runtime_offline".to_owned();
                let fail =
                    TaskCommand::Fail { generation: None, reason, detail: None, ending: Ending::default() };
                if self.task(n, fail) {
                    self.release(n);
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, n: u128, generation: u32) {
        let ready = self.tasks.get(&n).is_some_and(|task| match &task.phase {
            Phase::Dispatched(claim) => claim.received && claim.directory.is_none(),
            _ => false,
        });
        if !ready {
            return;
        }
        let place = Place {
            machine: MachineId(id(5)),
            real_path: "/data/game".to_owned(),
            device: 1,
            inode: 2,
            boot_id: "b".to_owned(),
            label: "game".to_owned(),
        };
        let agent = Self::facts(n).agent;
        let task = TaskId(id(n));
        self.directory(DirectoryCommand::Enter {
            task,
            generation,
            agent,
            daemon: "laptop".to_owned(),
            place,
        });
        let directory = self.directory.clone().expect("entered");
        let label = "game".to_owned();
        let command = match directory.place_in_line(task) {
            None => TaskCommand::Enter { generation, directory: DIRECTORY, label },
            Some(place) => TaskCommand::Park {
                generation,
                directory: DIRECTORY,
                label,
                holder: directory.holder.map(|holder| holder.who.task),
                place: u32::try_from(place).unwrap(),
                because: ParkedBecause::Held,
            },
        };
        assert!(self.task(n, command));
    }

    /// The end of a task: out of the directory, and the first in line with free slots gets it.
    fn release(&mut self, n: u128) {
        let over = self.tasks.get(&n).is_some_and(|task| task.status().is_terminal());
        if !over {
            return;
        }
        self.directory(DirectoryCommand::Leave { task: TaskId(id(n)), reason: "cancelled".to_owned() });
        let Some(directory) = self.directory.clone().filter(|directory| directory.holder.is_none()) else {
            return;
        };
        for waiting in directory.queue {
            let n = waiting.task.0.as_u128();
            let Some((agent_slot, daemon_slot)) = self.slots(n) else { continue };
            self.directory(DirectoryCommand::Promote { task: waiting.task });
            assert!(self.task(n, TaskCommand::Promote { directory: DIRECTORY, agent_slot, daemon_slot }));
            return;
        }
    }
}

fn live(steps: &[(usize, u128)]) -> Installation {
    let mut installation = Installation::default();
    for (kind, n) in steps {
        installation.step(*kind, *n);
    }
    installation
}

proptest! {
    #[test]
    fn no_key_is_held_twice_and_what_is_over_holds_nothing_but_its_number(
        steps in proptest::collection::vec((0_usize..9, 1_u128..7), 0..120)
    ) {
        let installation = live(&steps);
        for task in installation.tasks.values().filter(|task| task.status().is_terminal()) {
            let kept = installation.held.iter().filter(|(_, (_, holder))| *holder == task.id.0);
            for (key, (class, _)) in kept {
                prop_assert_eq!(*class, reservations::Class::Run, "{} kept", key);
            }
        }
        // A task that runs or gets ready has both slots, one that waits has none.
        for task in installation.tasks.values() {
            let slots = installation.held.values().filter(|held| **held == (reservations::Class::Slot, task.id.0));
            let wanted = match task.phase { Phase::Dispatched(_) | Phase::Running(_) => 2, _ => 0 };
            prop_assert_eq!(slots.count(), wanted);
        }
    }

    #[test]
    fn however_a_log_is_split_the_rows_come_out_equal(
        steps in proptest::collection::vec((0_usize..9, 1_u128..7), 0..80),
        batch in 1_usize..9,
    ) {
        let log = live(&steps).log;
        for model in all() {
            prop_assert_eq!(build(&*model, &log, batch), build(&*model, &log, log.len()), "{}", model.name());
        }
    }

    #[test]
    fn a_directorys_row_is_the_fold_of_its_stream(
        steps in proptest::collection::vec((0_usize..9, 1_u128..7), 0..100)
    ) {
        let installation = live(&steps);
        let stream: Vec<Envelope> =
            installation.log.iter().filter(|event| event.stream.family == Family::Directory).cloned().collect();
        let table = build(&directory_queue::DirectoryQueue, &installation.log, 3);
        let row = table.get(&directory_queue::key(DIRECTORY));
        let row: Option<DirectoryRow> = row.map(|row| serde_json::from_value(row.object.clone()).unwrap());
        prop_assert_eq!(row.map(|row| row.state()), directory::state::fold(&stream).unwrap());
    }

    #[test]
    fn a_tasks_row_has_the_status_of_its_stream(
        steps in proptest::collection::vec((0_usize..9, 1_u128..7), 0..80)
    ) {
        let installation = live(&steps);
        let table = build(&task_status::TaskStatus, &installation.log, 4);
        for task in installation.tasks.values() {
            let row: task_status::TaskRow =
                serde_json::from_value(table[&task_status::key(task.id)].object.clone()).unwrap();
            prop_assert_eq!((row.status, row.generation), (task.status(), task.generation));
            prop_assert_eq!(&row.name, &task.name());
            let waits = matches!(task.phase, Phase::Parked(_));
            prop_assert_eq!(row.waiting.is_some(), waits);
            prop_assert_eq!(row.completed_at.is_some(), task.status().is_terminal());
        }
    }
}

/// The samples of a family as one stream each, folded by every model: those that are histories.
#[test]
fn the_families_samples_fold_and_the_feed_knows_every_event() {
    let mut log = Vec::new();
    let mut versions: BTreeMap<StreamKey, i32> = BTreeMap::new();
    for event in samples() {
        let histories = [
            Family::Operation,
            Family::Workspace,
            Family::Project,
            Family::Issue,
            Family::Agent,
            Family::Daemon,
        ];
        if !histories.contains(&event.family()) {
            continue;
        }
        let stream = StreamKey::new(event.family(), id(1000 + event.family() as u128));
        let version = versions.entry(stream).and_modify(|version| *version += 1).or_insert(1);
        log.push(envelope(log.len() as i64 + 1, stream, *version, event));
    }
    for model in all() {
        assert_eq!(build(&*model, &log, 1), build(&*model, &log, 100), "{}", model.name());
    }
    let feed = build(&activity_feed::ActivityFeed, &log, 7);
    assert_eq!(feed.keys().filter(|key| key.starts_with("event/")).count(), log.len());
    if let Some(path) = std::env::var_os("DUMP_ROWS") {
        let mut text = String::new();
        let tasks =
            live(&[(0, 1), (1, 1), (2, 1), (4, 1), (0, 2), (1, 2), (2, 2), (4, 2), (7, 1), (0, 4)]).log;
        for model in all() {
            for log in [&log, &tasks] {
                for (key, row) in build(&*model, log, 1) {
                    let line = json!({"model": model.name(), "key": key, "workspace_id": row.workspace,
                        "position": 1, "recorded_at_us": 1, "row": row.object});
                    text.push_str(&format!("{line}\n"));
                }
            }
        }
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn an_event_that_follows_no_row_is_poison_by_name_and_foreign_ones_touch_nothing() {
    let of_streams = [
        ("agent_roster", Family::Agent),
        ("directory_queue", Family::Directory),
        ("project_resources", Family::Project),
        ("task_status", Family::Task),
    ];
    for (name, family) in of_streams {
        let models = all();
        let model = models.iter().find(|model| model.name() == name).unwrap();
        let mut refused = 0;
        for sample in samples() {
            let own = sample.family() == family;
            let event = envelope(1, StreamKey::new(sample.family(), id(700)), 1, sample);
            let keys = model.touches(&event);
            assert_eq!(keys.len(), usize::from(own), "{name}");
            let mut rows = Rows::new(json!(0));
            keys.iter().for_each(|key| rows.load(key.clone(), None));
            match model.apply(&mut rows, &event) {
                Ok(()) => assert_eq!(rows.take_changes().len(), keys.len()),
                Err(error) => {
                    assert_eq!((error.read_model, Some(&error.key)), (name, keys.first()));
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "{name}");
    }
}

#[test]
fn every_read_model_has_its_folder() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("projections");
    // A history's table is made from its base's.
    let own: Vec<_> = all().into_iter().filter(|model| model.history_of().is_none()).collect();
    for model in &own {
        for file in ["version", "schema.sql", "README.md"] {
            assert!(folder.join(model.name()).join(file).is_file(), "{}/{file}", model.name());
        }
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), own.len());
}

#[test]
fn a_history_is_called_after_its_base_and_folds_as_it_does() {
    let names: Vec<&str> = all().iter().map(|model| model.name()).collect();
    let mut histories = 0;
    for model in all() {
        let Some(base) = model.history_of() else {
            assert!(!model.name().ends_with(history::ENDING), "{}", model.name());
            continue;
        };
        histories += 1;
        assert_eq!(model.name(), format!("{base}{}", history::ENDING));
        assert!(names.contains(&base) && model.mode() == Mode::Follower, "{}", model.name());
        let base = all().into_iter().find(|one| one.name() == base).unwrap();
        assert_eq!(model.version(), base.version());
        let log = live(&[(0, 1), (1, 1), (2, 1), (4, 1), (5, 1), (0, 2), (1, 2), (7, 2), (6, 1)]).log;
        assert_eq!(build(model.as_ref(), &log, 3), build(base.as_ref(), &log, 1), "{}", model.name());
    }
    assert!(histories > 5, "only {histories} histories");
}
