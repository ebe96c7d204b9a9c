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
GRANT EXECUTE ON FUNCTION model.keep_event_days(integer, integer), model.raise_epoch() TO playhead_projector;

-- relay: the outbox, and how much waits for an operator, of which it may not read a word
GRANT USAGE ON SCHEMA model, core TO playhead_relay;
GRANT SELECT, DELETE ON model.outbox TO playhead_relay;
GRANT SELECT (letter_id, cause_class, failed_at) ON model.dead_letters TO playhead_relay;
GRANT SELECT (letter_id, status, failed_at) ON core.dead_letter_marks TO playhead_relay;
GRANT EXECUTE ON FUNCTION model.letter_status(text, bigint, bigint) TO playhead_relay;
GRANT SELECT (consumer, resumed_at) ON model.breakers TO playhead_relay;
GRANT SELECT ON core.backups TO playhead_relay;

-- reader: the views, and the questions they stand on
GRANT USAGE ON SCHEMA api TO playhead_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA api TO playhead_reader;
GRANT EXECUTE ON FUNCTION api.progress_of(text, text[]), api.media_after(text, text, bigint) TO playhead_reader;
GRANT EXECUTE ON FUNCTION api.seen_items(text[]), model.letter_status(text, bigint, bigint) TO playhead_reader;

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

-- dead letters: the projector keeps the list, and redrives; operators' words are only added to
GRANT SELECT, INSERT, UPDATE, DELETE ON model.dead_letters, model.dead_letter_origins TO playhead_projector;
GRANT SELECT, INSERT, UPDATE ON core.dead_letter_marks TO playhead_projector;
GRANT SELECT, INSERT ON core.dlq_audit TO playhead_projector;
GRANT USAGE ON SCHEMA api TO playhead_projector;
GRANT SELECT ON api.dead_letters TO playhead_projector;
GRANT EXECUTE ON FUNCTION model.letter_status(text, bigint, bigint) TO playhead_projector;

-- forgetting: the projector drops what the log says of these; the door refuses their older reports and lists who they are
GRANT SELECT, INSERT ON model.forgotten_users TO playhead_projector;
GRANT SELECT, INSERT, UPDATE ON core.forgotten_people, core.forgotten_accounts TO playhead_door;
GRANT SELECT ON api.forgotten_users TO playhead_door;
-- and sees, for 'playhead doctor', how old the newest backup is
GRANT SELECT ON core.backups TO playhead_door;

-- forwarding: the projector says how playback should stand on servers, and looks up whose accounts are where and which
-- media are linked; the worker reads it, says what it is about to write, and what became of it
GRANT SELECT (source_id, user_ref) ON core.users TO playhead_projector;
GRANT SELECT (source_id, kind) ON core.sources TO playhead_projector;
GRANT SELECT (source_id, forward_since) ON core.source_upstreams TO playhead_projector;
GRANT SELECT, INSERT, UPDATE, DELETE ON core.forward_wanted, core.forward_plays TO playhead_projector;
GRANT DELETE ON core.tasks TO playhead_projector;
GRANT SELECT ON core.forward_wanted, core.forward_plays, core.forward_sent TO playhead_worker;
GRANT UPDATE (done_version, sent, refusals, outcome, done_at) ON core.forward_wanted TO playhead_worker;
GRANT UPDATE (tried), DELETE ON core.forward_plays TO playhead_worker;
GRANT INSERT, DELETE ON core.forward_sent TO playhead_worker;
GRANT SELECT (source_id, upstream_user, user_ref) ON core.users TO playhead_worker;
GRANT SELECT ON api.media TO playhead_worker;

-- the cache worker asks for heavy lists to be read again, and whoever does reads them as the API does
REVOKE ALL ON FUNCTION core.want_cache(text, text, integer, bigint, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION core.want_cache(text, text, integer, bigint, text) TO playhead_worker;
GRANT SELECT ON api.collections, api.collection_items, api.items, api.sources TO playhead_worker;

-- who is forgotten is forgotten in tables of rebuilds and in those kept for a rollback too
REVOKE ALL ON FUNCTION core.forget_in_copies(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION core.forget_in_copies(text[]) TO playhead_door, playhead_projector;
