CREATE TABLE model.media_merges (
    media_id text PRIMARY KEY,
    survivor text NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    CHECK (survivor <> media_id)
);
COMMENT ON TABLE model.media_merges IS 'media that ended: written by the library projection, read by everything that is asked for a media';
COMMENT ON COLUMN model.media_merges.survivor IS 'the one that stays, never one that ended itself';
COMMENT ON COLUMN model.media_merges.version IS 'offset in library.changed, within log_epoch';

ALTER TABLE model.playback_progress ADD COLUMN joined text[] NOT NULL DEFAULT '{}';
CREATE INDEX playback_progress_joined ON model.playback_progress (user_ref) WHERE joined <> '{}';
COMMENT ON COLUMN model.playback_progress.joined IS 'media that ended, whose state is in this row';
