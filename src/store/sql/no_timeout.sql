-- Walking a whole log takes as long as it takes, but not longer than somebody waits for it: a statement whose client is
-- gone ends within a second, where the server's platform can tell. Locks: none.
set statement_timeout = 0; set idle_in_transaction_session_timeout = 0;
do $$ begin perform set_config('client_connection_check_interval', '1s', false);
exception when invalid_parameter_value or undefined_object then null; end $$
