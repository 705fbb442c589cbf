//! paths
