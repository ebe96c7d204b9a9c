-- The roles of Playhead, as a superuser makes them once per cluster. Passwords and logins are set by
-- projections/roles.py. No role can do more than its work, and none can hold a lock or a transaction for long.
-- search_path is pinned: every object is named with its schema.

ALTER ROLE playhead_owner NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS LOGIN;
ALTER ROLE playhead_projector NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS LOGIN;
ALTER ROLE playhead_relay NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS LOGIN;
ALTER ROLE playhead_reader NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS LOGIN;
ALTER ROLE playhead_door NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS LOGIN;
ALTER ROLE playhead_worker NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS LOGIN;

ALTER ROLE playhead_owner SET search_path = pg_catalog;
ALTER ROLE playhead_owner SET lock_timeout = '30s';
ALTER ROLE playhead_owner SET idle_in_transaction_session_timeout = '60s';

-- A frozen projector loses its transaction, so that its successor is not held up by its locks.
ALTER ROLE playhead_projector SET search_path = pg_catalog;
ALTER ROLE playhead_projector SET statement_timeout = '60s';
ALTER ROLE playhead_projector SET lock_timeout = '10s';
ALTER ROLE playhead_projector SET idle_in_transaction_session_timeout = '15s';

-- The relay's transaction is open while it waits for Kafka's acknowledgements.
ALTER ROLE playhead_relay SET search_path = pg_catalog;
ALTER ROLE playhead_relay SET statement_timeout = '15s';
ALTER ROLE playhead_relay SET lock_timeout = '5s';
ALTER ROLE playhead_relay SET idle_in_transaction_session_timeout = '30s';

ALTER ROLE playhead_reader SET search_path = pg_catalog;
ALTER ROLE playhead_reader SET default_transaction_read_only = on;
ALTER ROLE playhead_reader SET statement_timeout = '5s';
ALTER ROLE playhead_reader SET lock_timeout = '2s';
ALTER ROLE playhead_reader SET idle_in_transaction_session_timeout = '10s';

ALTER ROLE playhead_door SET search_path = pg_catalog;
ALTER ROLE playhead_door SET statement_timeout = '5s';
ALTER ROLE playhead_door SET lock_timeout = '2s';
ALTER ROLE playhead_door SET idle_in_transaction_session_timeout = '10s';

ALTER ROLE playhead_worker SET search_path = pg_catalog;
ALTER ROLE playhead_worker SET statement_timeout = '15s';
ALTER ROLE playhead_worker SET lock_timeout = '2s';
ALTER ROLE playhead_worker SET idle_in_transaction_session_timeout = '10s';
