-- Folding a whole log takes as long as it takes. Locks: none.
set statement_timeout = 0; set idle_in_transaction_session_timeout = 0
