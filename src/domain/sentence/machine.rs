//! Sentences of the installation, daemons and directories.

use uuid::Uuid;

use super::{Writer, count, list};
use crate::domain::daemon::{DaemonEvent, ProbeOutcome};
use crate::domain::directory::DirectoryEvent;
use crate::domain::operation::{OperationEvent, SealPlaceKind};
use crate::kernel::ids::{DirectoryId, RuntimeId};

pub(super) fn operation(actor: &str, event: &OperationEvent) -> String {
    match event {
        OperationEvent::Started(e) => format!("a server of version {} started", e.version),
        OperationEvent::ReadModelRebuilt(e) => {
            format!("read model {} was rebuilt up to position {} ({} rows)", e.read_model, e.up_to, e.rows)
        }
        OperationEvent::EventSkipped(e) => format!(
            "read model {} passes over the event at position {}: {}",
            e.read_model, e.position, e.reason
        ),
        OperationEvent::Verified(e) => {
            let wrong = usize::try_from(e.found).unwrap_or(usize::MAX);
            let found = match wrong {
                0 => "all is right".to_owned(),
                n => count(n, "thing is wrong", "things are wrong"),
            };
            format!(
                "the log was verified up to position {} ({}, {}): {found}",
                e.up_to,
                count(usize::try_from(e.blocks).unwrap_or(usize::MAX), "block", "blocks"),
                count(usize::try_from(e.read_models).unwrap_or(usize::MAX), "read model", "read models")
            )
        }
        OperationEvent::Sealed(e) => {
            let place = match e.place {
                SealPlaceKind::File => "a file",
                SealPlaceKind::Git => "a Git repository",
            };
            format!("the log was sealed at position {} in {place}", e.up_to)
        }
        OperationEvent::ExportMade(e) => {
            let mut by: Vec<&str> = e.filters.keys().map(String::as_str).collect();
            if e.searched {
                by.push("words");
            }
            let narrowed = if by.is_empty() { String::new() } else { format!(", filtered by {}", list(&by)) };
            format!("{actor} exported the audit trail up to position {} as {}{narrowed}", e.up_to, e.format)
        }
    }
}

fn runtime(w: &Writer<'_>, id: RuntimeId) -> String {
    w.names.provider(id).map_or_else(|| "a runtime".to_owned(), |provider| format!("the runtime {provider}"))
}

pub(super) fn daemon(w: &mut Writer<'_>, actor: &str, stream: Uuid, event: &DaemonEvent) -> String {
    let of = w.names.machine(stream).map(|name| format!(" of {name}")).unwrap_or_default();
    match event {
        DaemonEvent::Registered(e) => {
            // As it was called then: the event knows.
            let known = Some(e.device_name.clone()).filter(|name| !name.is_empty());
            let name = known.or_else(|| w.names.daemon(&e.daemon)).unwrap_or_else(|| e.daemon.clone());
            let daemon = w.link("daemon", e.daemon.clone(), Some(name));
            format!("the daemon on {daemon} registered (version {}, {})", e.cli_version, e.os)
        }
        DaemonEvent::RuntimeRegistered(e) => {
            let version = if e.version.is_empty() { String::new() } else { format!(" {}", e.version) };
            format!("{actor} offers {}{version}", e.provider)
        }
        DaemonEvent::CapabilitiesDeclared(e) => {
            let all: Vec<&str> = e.capabilities.iter().map(String::as_str).collect();
            format!("{actor} declared what it can do: {}", list(&all))
        }
        DaemonEvent::RuntimeWentOffline(e) => {
            let runtime = runtime(w, e.runtime);
            match e.last_seen {
                _ if e.withdrawn => format!("{runtime}{of} isn't offered any more"),
                Some(seen) => format!("{runtime}{of} went offline, last seen {}", minute(seen)),
                None => format!("{runtime}{of} went offline"),
            }
        }
        DaemonEvent::RuntimeCameBack(e) => {
            let runtime = runtime(w, e.runtime);
            match e.last_seen {
                Some(seen) => format!("{runtime}{of} is back, not seen since {}", minute(seen)),
                None => format!("{runtime}{of} is back"),
            }
        }
        DaemonEvent::DeclaredDead(e) => match e.reason.as_str() {
            "by_member" => format!("{actor} gave a daemon{of} up; its running tasks are lost"),
            _ => format!("a daemon{of} was given up after it was away too long; its running tasks are lost"),
        },
        DaemonEvent::DrainStarted(_) => format!("{actor} takes no new tasks and waits for what runs"),
        DaemonEvent::DrainEnded(_) => format!("{actor} is done waiting for what ran"),
        DaemonEvent::Deregistered(_) => format!("{actor} signed off"),
        DaemonEvent::DirectoryProbeRequested(_) => format!("{actor} asked a daemon to look at a path"),
        DaemonEvent::DirectoryProbed(e) => match &e.result {
            ProbeOutcome::Usable { git: true, .. } => {
                format!("{actor} looked at a path: a Git work tree, usable")
            }
            ProbeOutcome::Usable { .. } => format!("{actor} looked at a path: a directory, usable"),
            ProbeOutcome::Refused { sentence, .. } => format!("{actor} looked at a path: {sentence}"),
        },
    }
}

fn minute(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

pub(super) fn directory(w: &mut Writer<'_>, actor: &str, id: DirectoryId, event: &DirectoryEvent) -> String {
    let label = match event {
        DirectoryEvent::Acquired(e) => Some(e.place.label.as_str()),
        DirectoryEvent::Queued(e) => Some(e.place.label.as_str()),
        DirectoryEvent::Promoted(_)
        | DirectoryEvent::LeftQueue(_)
        | DirectoryEvent::LockBlocked(_)
        | DirectoryEvent::LockTaken(_)
        | DirectoryEvent::Released(_)
        | DirectoryEvent::HolderLost(_) => None,
    };
    let directory = w.directory(id, label);
    match event {
        DirectoryEvent::Acquired(e) => {
            let task = w.task(e.task);
            format!("{task} holds {directory} now")
        }
        DirectoryEvent::Queued(e) => {
            let task = w.task(e.task);
            match e.holder {
                Some(holder) => {
                    let holder = w.task(holder);
                    format!("{task} waits for {directory}, which {holder} holds")
                }
                None => format!("{task} waits for {directory} at its place in line"),
            }
        }
        DirectoryEvent::Promoted(e) => {
            let task = w.task(e.task);
            format!("{task} was next in line and holds {directory} now")
        }
        DirectoryEvent::LeftQueue(e) => {
            let task = w.task(e.task);
            format!("{task} no longer waits for {directory}: it was {}", e.reason)
        }
        DirectoryEvent::LockBlocked(e) => {
            let task = w.task(e.task);
            let who = e.who(|id| w.task(id));
            format!("{task} holds {directory} but is kept out: {who} has locked it")
        }
        DirectoryEvent::LockTaken(e) => {
            let task = w.task(e.task);
            format!("{actor} locked {directory} for {task}")
        }
        DirectoryEvent::Released(e) => {
            let task = w.task(e.task);
            format!("{task} released {directory}")
        }
        DirectoryEvent::HolderLost(e) => {
            let task = w.task(e.task);
            format!("{directory} was taken from {task}, whose machine is gone")
        }
    }
}
