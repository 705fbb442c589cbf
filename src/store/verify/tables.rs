//! What lies beside the events and can be computed from them: reservations, streams, results, types; and seals.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{Finding, Walk};
use crate::kernel::digest::hex;
use crate::store::read::{READ_CONTENTS, blocks_in};
use crate::store::reservations::with_prefix_in;
use crate::store::{LOG, StoreError};

/// Most rows of one table that are named: a table that was emptied is one fault, not a million.
const MOST: i64 = 1_000;

/// Ids in one question.
const SOME: usize = 5_000;

impl Walk<'_> {
    /// Events that no block covers, after the end of the last one.
    pub(super) async fn beyond(&mut self, end: i64) -> Result<(), StoreError> {
        let rows = self.tx.query(include_str!("../sql/find_beyond.sql"), &[&LOG, &end, &MOST]).await?;
        for row in rows {
            self.find(Finding::NoBlock { position: row.try_get(0)? });
        }
        Ok(())
    }

    /// Texts that lie with the erased ones were erased only if an event says so; and what an event says was erased
    /// isn't there.
    pub(super) async fn erasures(&mut self) -> Result<(), StoreError> {
        for (position, content) in std::mem::take(&mut self.erased) {
            if self.told_erased.contains_key(&content) {
                self.report.erased += 1;
            } else {
                self.find(Finding::ContentMissing { position, content });
            }
        }
        let told = std::mem::take(&mut self.told_erased);
        let ids: Vec<Uuid> = told.keys().copied().collect();
        for some in ids.chunks(SOME) {
            for row in self.tx.query(READ_CONTENTS, &[&LOG, &some]).await? {
                let content = row.try_get("id")?;
                if let Some(position) = told.get(&content).copied() {
                    self.find(Finding::ContentBack { position, content });
                }
            }
        }
        Ok(())
    }

    /// Seals, those outside the database and those that the log itself tells of.
    pub(super) async fn seals(&mut self, end: i64) -> Result<(), StoreError> {
        let mut seals = std::mem::take(&mut self.sealed);
        seals.extend(self.asked.seals.iter().cloned());
        seals.sort_by_key(|seal| seal.position);
        seals.dedup();
        let positions: Vec<i64> = seals.iter().map(|seal| seal.position).collect();
        let blocks = blocks_in(self.tx, &positions).await?;
        self.report.seals = seals.len() as u64;
        for seal in seals {
            let position = seal.position;
            if position > end {
                self.find(Finding::CutOff { position, head: end });
            } else if blocks.get(&position).map(|hash| hex(hash)).as_ref() != Some(&seal.block) {
                self.find(Finding::Seal { position });
            }
        }
        Ok(())
    }

    pub(super) async fn reservations(&mut self) -> Result<(), StoreError> {
        let live = with_prefix_in(self.tx, "").await?;
        let rebuilt = std::mem::take(&mut self.held);
        let mut keys: Vec<&String> = live.keys().chain(rebuilt.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            if live.get(key) != rebuilt.get(key) {
                self.find(Finding::Reservation { key: key.clone() });
            }
        }
        Ok(())
    }

    pub(super) async fn streams(&mut self) -> Result<(), StoreError> {
        let rows = self.tx.query(include_str!("../sql/find_other_streams.sql"), &[&LOG, &MOST]).await?;
        for row in rows {
            self.find(Finding::Stream { stream: row.try_get(0)?, position: row.try_get(1)? });
        }
        Ok(())
    }

    pub(super) async fn commands(&mut self, head: i64) -> Result<(), StoreError> {
        let sql = include_str!("../sql/find_other_commands.sql");
        let rows = self.tx.query(sql, &[&LOG, &head, &MOST]).await?;
        for row in rows {
            self.find(Finding::Command { command: row.try_get(0)?, position: row.try_get(1)? });
        }
        Ok(())
    }

    /// Every type of this build stands in the table with its schema's digest, and so does every type that
    /// an event has: types of a newer build are no fault.
    pub(super) async fn event_types(&mut self) -> Result<(), StoreError> {
        if self.asked.catalogue.is_empty() {
            return Ok(());
        }
        let mut noted = BTreeMap::new();
        for row in self.tx.query(include_str!("../sql/read_event_types.sql"), &[]).await? {
            let key: (String, i16) = (row.try_get(0)?, row.try_get(1)?);
            noted.insert(key, row.try_get::<_, Vec<u8>>(2)?);
        }
        let mut wrong = BTreeSet::new();
        for known in self.asked.catalogue {
            let key = (known.event_type.clone(), known.schema_version);
            if noted.get(&key).map(Vec::as_slice) != Some(known.sha256.as_slice()) {
                wrong.insert(key);
            }
        }
        for row in self.tx.query(include_str!("../sql/read_types_written.sql"), &[&LOG]).await? {
            let key: (String, i16) = (row.try_get(0)?, row.try_get(1)?);
            if !noted.contains_key(&key) {
                wrong.insert(key);
            }
        }
        for (event_type, version) in wrong {
            self.find(Finding::EventType { event_type, version });
        }
        Ok(())
    }
}
