-- What this transaction writes can be made again from the log. Locks: none.
set local synchronous_commit = off
