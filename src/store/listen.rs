//! Keeps the process' knowledge of the head fresh, and tells other processes of ours.
//!
//! Invariants: a message is a hint, never a fact: the head is read again after each connect and at each
//! poll; nothing here is part of an append, whose commits a NOTIFY would put in line.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::{LOG, Store, StoreError};
use crate::kernel::error_chain::Chain;

/// Follows the head until dropped: notifications, a poll where they fail, and our own for the others.
pub async fn run(store: Store) {
    let limits = store.limits().clone();
    loop {
        if let Err(error) = session(&store, limits.head_poll.duration(), limits.notify_pause.duration()).await
        {
            tracing::warn!(error = %Chain(&error), "lost the connection that follows the log, trying again");
        }
        tokio::time::sleep(limits.head_poll.duration()).await;
    }
}

async fn session(store: &Store, poll: Duration, pause: Duration) -> Result<(), StoreError> {
    let wait = store.limits().database_wait;
    let connected = tokio::time::timeout(wait.duration(), store.config().connect(NoTls)).await;
    let (client, mut connection) = connected.map_err(|_| StoreError::TimedOut { waited_ms: wait.0 })??;
    let (heard, mut hints) = mpsc::unbounded_channel();
    let driver = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(hint) = message
                && heard.send(hint.payload().to_owned()).is_err()
            {
                break;
            }
        }
    });
    let ended = follow(store, &client, &mut hints, poll, pause).await;
    driver.abort();
    ended
}

async fn follow(
    store: &Store,
    client: &Client,
    hints: &mut mpsc::UnboundedReceiver<String>,
    poll: Duration,
    pause: Duration,
) -> Result<(), StoreError> {
    client.batch_execute(include_str!("sql/listen.sql")).await?;
    let mut told = super::read::head_in(client).await?;
    store.advance(told);
    let mut head = store.head();
    loop {
        tokio::select! {
            hint = hints.recv() => {
                let Some(hint) = hint else { return Err(StoreError::Unavailable("connection closed".into())) };
                if let Some(position) = parse(&hint) {
                    told = told.max(position);
                    store.advance(position);
                }
            }
            changed = head.changed() => {
                if changed.is_err() { return Ok(()) }
                tokio::time::sleep(pause).await;
                let position = *head.borrow_and_update();
                if position > told {
                    told = position;
                    let payload = format!("{LOG}:{position}");
                    client.execute(include_str!("sql/notify.sql"), &[&payload]).await?;
                }
            }
            () = tokio::time::sleep(poll) => {
                let position = super::read::head_in(client).await?;
                told = told.max(position);
                store.advance(position);
            }
        }
    }
}

fn parse(hint: &str) -> Option<i64> {
    let (log, position) = hint.split_once(':')?;
    if log.parse() == Ok(LOG) { position.parse().ok() } else { None }
}
