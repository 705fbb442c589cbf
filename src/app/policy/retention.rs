//! Transcripts that are older than the installation keeps them, and messages of those that are gone.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{AppError, Duty, Policies};
use crate::app::erase::RemoveTranscripts;
use crate::domain::operation::GoneTranscript;
use crate::kernel::digest::{hex, sha256};
use crate::kernel::ids::WorkspaceId;
use crate::store::transcript::{self, Kept};
use crate::store::upkeep;

/// Where the search for old transcripts stands: this round's, and when the next begins.
#[derive(Debug, Default)]
pub(super) struct Search {
    behind: Option<Kept>,
    ended: Option<Instant>,
}

impl Policies {
    /// One step: the next transcripts that are too old, if the installation keeps them for a time at all.
    pub(super) async fn old_transcripts(&self, search: &mut Search) -> Result<(), AppError> {
        let Some(days) = self.keep_transcripts else { return Ok(()) };
        let waits = self.limits.retention_every.duration();
        if search.ended.is_some_and(|ended| ended.elapsed() < waits) {
            return Ok(());
        }
        let most = self.limits.retention_batch;
        let old = transcript::older(&self.store, days, search.behind, most).await?;
        let Some(last) = old.last().copied() else {
            *search = Search { behind: None, ended: Some(Instant::now()) };
            return Ok(());
        };
        let mut by_workspace: BTreeMap<WorkspaceId, Vec<GoneTranscript>> = BTreeMap::new();
        for kept in &old {
            let gone =
                GoneTranscript { task: kept.task, generation: kept.generation, messages: kept.messages };
            by_workspace.entry(kept.workspace).or_default().push(gone);
        }
        for (workspace, transcripts) in by_workspace {
            let names: Vec<String> =
                transcripts.iter().map(|gone| format!("{}/{}", gone.task, gone.generation)).collect();
            let duty = Duty {
                policy: "transcripts_removed",
                workspace,
                position: 0,
                target: hex(&sha256(&[names.join(",").as_bytes()])),
            };
            self.submit(duty, RemoveTranscripts { workspace, days, transcripts }).await?;
        }
        *search = Search { behind: Some(last), ended: None };
        Ok(())
    }

    /// Messages of transcripts that are gone, a bounded number of steps: what an erasure that broke off left
    /// lying, and what was too old.
    pub(super) async fn left_over(&self) -> Result<(), AppError> {
        for _ in 0..self.limits.purge_steps {
            if !upkeep::purge_transcripts(&self.store, None).await? {
                break;
            }
        }
        Ok(())
    }
}
