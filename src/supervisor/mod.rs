//! One supervisor per task: prepare → run → finalize, outliving the daemon.

pub mod frame;
