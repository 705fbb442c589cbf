//! Webhooks are created, changed, told to try again, removed.

use serde_json::json;

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use super::load;
use crate::domain::Refusal;
use crate::domain::webhook::{self, WebhookCommand};
use crate::fold::reservations::{webhook_name, webhook_names};
use crate::kernel::ids::{WebhookId, WorkspaceId};

/// One command on one webhook.
pub struct WebhookWrite {
    /// Whose webhook.
    pub workspace: WorkspaceId,
    /// Which.
    pub webhook: WebhookId,
    /// What is asked.
    pub command: WebhookCommand,
    /// So many webhooks a workspace has at most.
    pub most: usize,
}

impl Decision for WebhookWrite {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let name = match &self.command {
            WebhookCommand::Create(facts) => {
                let there = view.reservations(&webhook_names(self.workspace))?.len();
                if there >= self.most {
                    return Err(Refusal::conflict(
                        "too_many_webhooks",
                        format!("a workspace has {} webhooks at most", self.most),
                        "Remove one that isn't needed: `multica webhook list`.",
                    )
                    .into());
                }
                Some(&facts.name)
            }
            WebhookCommand::Update(change) => change.name.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.name_is_free(view, name)?;
        }
        let state = load::webhook(view, self.workspace, self.webhook)?;
        for event in webhook::decide::decide(state.as_ref(), self.command.clone())? {
            draft.push(webhook::evolve::stream(self.webhook), event);
        }
        Ok(draft.finish(json!({"webhook": self.webhook})))
    }
}

impl WebhookWrite {
    /// The append would only say that the key is taken: this says the name.
    fn name_is_free(&self, view: &View, name: &str) -> Result<(), Halt> {
        let key = webhook_name(self.workspace, name);
        if view.reservations(&key)?.get(&key).is_some_and(|holder| *holder != self.webhook.0) {
            return Err(Refusal::conflict(
                "name_taken",
                format!("a webhook is called {name} already"),
                "Choose another name.",
            )
            .into());
        }
        Ok(())
    }
}
