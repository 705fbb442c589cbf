//! What a read model must show as of a position: its fold over the log up to there, in memory.

use std::collections::BTreeMap;

use multica::domain::Envelope;
use multica::fold::{ReadModel, Rows};
use multica::kernel::ids::WorkspaceId;
use multica::readmodel::{Registry, history, query};
use multica::store::{AsOf, Store, read};
use serde_json::{Value, json};

/// Rows by key, with the position of their last change.
pub type Table = BTreeMap<String, (i64, Value)>;

/// The moment of a position.
pub async fn moment(store: &Store, position: i64) -> AsOf {
    let time = read::moment(store, position).await.unwrap().unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    AsOf { position, time }
}

/// Folds events one by one.
fn folded(model: &dyn ReadModel, log: &[Envelope]) -> Table {
    let mut rows = Rows::new(Value::Null);
    let mut table = Table::new();
    for event in log {
        for key in model.touches(event) {
            if !rows.holds(&key) {
                rows.load(key, None);
            }
        }
        rows.set_recorded_at(json!(event.recorded_at.unwrap().as_microsecond()));
        model.apply(&mut rows, event).unwrap();
        for (key, row) in rows.take_changes() {
            match row {
                Some(row) => drop(table.insert(key, (event.position.unwrap(), row.object))),
                None => drop(table.remove(&key)),
            }
        }
    }
    table
}

/// At every position of the log, what each read model with a history shows is the fold of the log up to there.
pub async fn assert_kept(store: &Store, registry: &Registry, workspace: WorkspaceId) {
    let log = read::range(store, 0, 100_000).await.unwrap();
    assert_eq!(history::reached(store).await.unwrap(), log.len() as i64, "histories are at the head");
    let bases = registry.all().filter(|one| registry.get(&format!("{}_history", one.model().name())).is_ok());
    let mut compared = 0;
    for base in bases {
        for position in 0..=log.len() {
            let past = store.at(moment(store, position as i64).await);
            let shown: Table = query::of_workspace(&past, base, workspace)
                .await
                .unwrap()
                .into_iter()
                .map(|stored| (stored.key, (stored.position, stored.row.object)))
                .collect();
            let wanted = folded(base.model(), &log[..position]);
            assert_eq!(shown, wanted, "{} as of {position}", base.model().name());
            compared += shown.len();
        }
    }
    assert!(compared > 0, "nothing was compared");
}
