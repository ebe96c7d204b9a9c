-- Least privilege, from nothing. Applied after everything else.

REVOKE ALL ON SCHEMA core, model, api FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA core, model, api
    FROM PUBLIC, playhead_projector, playhead_relay, playhead_reader, playhead_door, playhead_worker;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA model, api FROM PUBLIC;

-- door: sources, tokens, users, aliases
GRANT USAGE ON SCHEMA core TO playhead_door;
GRANT SELECT, INSERT, UPDATE, DELETE ON core.sources, core.tokens, core.users, core.media_aliases TO playhead_door;
-- and servers that are polled, with their credentials: no other role may read these
GRANT SELECT, INSERT, UPDATE, DELETE ON
    core.source_upstreams, core.source_accounts, core.poll_state, core.poll_health, core.forward_sent
    TO playhead_door;

-- projector: read models and its own bookkeeping; it fills the outbox and cannot empty it
GRANT USAGE ON SCHEMA model TO playhead_projector;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    model.offsets, model.breakers, model.playback_progress, model.user_versions, model.progress_history,
    model.plays, model.listening_time, model.processed_events
    TO playhead_projector;
GRANT SELECT ON model.epoch TO playhead_projector;
GRANT INSERT ON model.outbox TO playhead_projector;
GRANT EXECUTE ON FUNCTION model.keep_event_days(integer, integer) TO playhead_projector;

-- relay: the outbox and nothing else
GRANT USAGE ON SCHEMA model TO playhead_relay;
GRANT SELECT, DELETE ON model.outbox TO playhead_relay;

-- reader: the views, and the questions they stand on
GRANT USAGE ON SCHEMA api TO playhead_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA api TO playhead_reader;
GRANT EXECUTE ON FUNCTION api.progress_of(text, text[]), api.media_after(text, text, bigint) TO playhead_reader;

-- tasks: the projector says what is wanted, the worker what becomes of it, under leases that only it can take
GRANT USAGE ON SCHEMA core TO playhead_projector;
GRANT SELECT, INSERT ON core.tasks TO playhead_projector;
GRANT UPDATE (log_epoch, wanted_version, done_version, cancelled_version, running_version, payload, correlation_id,
    requested_at, attempts, next_attempt_at, dead_at) ON core.tasks TO playhead_projector;
GRANT USAGE ON SCHEMA core TO playhead_worker;
GRANT SELECT ON core.tasks TO playhead_worker;
GRANT UPDATE (done_version, running_version, attempts, next_attempt_at, lease_token, lease_until, progress, last_error,
    last_error_class, finished_at, dead_at) ON core.tasks TO playhead_worker;
GRANT USAGE ON SEQUENCE core.lease_numbers TO playhead_worker;
GRANT SELECT, INSERT, UPDATE ON core.schedules TO playhead_worker;
-- where sources are, and what servers are asked with
GRANT SELECT ON core.sources, core.source_trees, core.source_upstreams, core.source_accounts TO playhead_worker;
-- door: sets trees and schedules up, and shows how tasks fare
GRANT SELECT, INSERT, UPDATE, DELETE ON core.source_trees, core.schedules TO playhead_door;
GRANT SELECT ON core.tasks TO playhead_door;

-- library: the projector writes its read models, and the names the door looks media up by
GRANT SELECT, INSERT, UPDATE, DELETE ON
    model.media_items, model.media_locators, model.media_merges, model.upstream_aliases, model.scan_sessions,
    model.source_state, model.collections, model.collection_items
    TO playhead_projector;
GRANT SELECT, INSERT, UPDATE ON core.media_aliases, core.alias_versions TO playhead_projector;
-- the door completes what a report leaves out and knows media by their names; it sees no person's playback
GRANT USAGE ON SCHEMA api TO playhead_door;
GRANT SELECT ON api.media_facts, api.media_names TO playhead_door;
-- and asks whether the library has given any of them to another
GRANT SELECT ON core.alias_versions TO playhead_door;
-- the worker compares with what is known of files
GRANT USAGE ON SCHEMA api TO playhead_worker;
GRANT SELECT ON api.known_files TO playhead_worker;
