//! Statements that more than one of the drivers runs.

/// The table that answers for a read model.
pub(super) const ANSWERING_TABLE: &str = include_str!("sql/answering_table.sql");
/// Drops `{table}`.
pub(super) const DROP_TABLE: &str = include_str!("sql/drop_table.sql");
/// Locks the head until the transaction ends.
pub(super) const LOCK_HEAD: &str = include_str!("sql/lock_head.sql");
/// For work that takes as long as it takes.
pub(super) const NO_TIMEOUT: &str = include_str!("sql/no_timeout.sql");
/// One read model's standing.
pub(super) const READ_PROJECTION: &str = include_str!("sql/read_projection.sql");
/// Rows of `{table}` by key.
pub(super) const ROWS_BY_KEY: &str = include_str!("sql/rows_by_key.sql");
/// Changes out of one JSON array.
pub(super) const CHANGES_JSON: &str = include_str!("sql/changes_json.sql");
/// Changes out of arrays.
pub(super) const CHANGES_ARRAYS: &str = include_str!("sql/changes_arrays.sql");
/// Fresh statistics of `{table}`.
pub(super) const ANALYZE: &str = include_str!("sql/analyze.sql");
/// Forgets a rebuild.
pub(super) const REBUILD_END: &str = include_str!("sql/rebuild_end.sql");

/// SQL without its comment lines: they name the placeholders too.
pub(super) fn bare(sql: &str) -> String {
    sql.lines().filter(|line| !line.trim_start().starts_with("--")).map(|line| format!("{line}\n")).collect()
}
