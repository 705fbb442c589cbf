//! Waiting for facts: the one place where tests let time pass.

use std::future::Future;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// The same where a look may start a process.
const LOOK_BLOCKING: Duration = Duration::from_millis(25);

/// What a look comes to.
pub trait Fact {
    /// What it gives once it holds.
    type Value;

    /// That, or what was seen instead.
    fn seen(self) -> Result<Self::Value, String>;
}

impl Fact for bool {
    type Value = ();

    fn seen(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("it doesn't hold".to_owned()) }
    }
}

impl<T> Fact for Result<T, String> {
    type Value = T;

    fn seen(self) -> Self {
        self
    }
}

/// Waits until a fact holds, and fails with the last thing seen where it doesn't within the limit.
pub async fn eventually<F, R>(limit: Duration, mut fact: F) -> <R::Output as Fact>::Value
where
    F: FnMut() -> R,
    R: Future<Output: Fact>,
{
    let started = Instant::now();
    loop {
        match fact().await.seen() {
            Ok(value) => return value,
            Err(last) if started.elapsed() > limit => panic!("in vain waited {limit:?}; last: {last}"),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// The same for tests that have no runtime.
#[track_caller]
pub fn eventually_blocking<R: Fact>(limit: Duration, what: &str, mut fact: impl FnMut() -> R) -> R::Value {
    let started = Instant::now();
    loop {
        match fact().seen() {
            Ok(value) => return value,
            Err(last) if started.elapsed() > limit => {
                panic!("{what} didn't come within {limit:?}; last: {last}")
            }
            Err(_) => std::thread::sleep(LOOK_BLOCKING),
        }
    }
}

/// Whether a fact came true within the limit: for clean-up, which goes on either way.
pub fn came_true(limit: Duration, mut fact: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !fact() {
        if started.elapsed() > limit {
            return false;
        }
        std::thread::sleep(LOOK_BLOCKING);
    }
    true
}

/// Lets something that a test plays go at its pace: a heartbeat, an idle long poll. Nothing is waited for.
pub async fn pace(span: Duration) {
    tokio::time::sleep(span).await;
}
