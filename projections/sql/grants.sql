-- Least privilege, from nothing. Applied after everything else.

REVOKE ALL ON SCHEMA core, model, api FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA core, model, api
    FROM PUBLIC, playhead_projector, playhead_relay, playhead_reader, playhead_door, playhead_worker;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA model FROM PUBLIC;

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

-- reader: the views
GRANT USAGE ON SCHEMA api TO playhead_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA api TO playhead_reader;
