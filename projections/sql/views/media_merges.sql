-- Media that ended, each with the one that stays: coalesce((this), asked) is the media a name means now.
CREATE VIEW api.media_merges AS
SELECT media_id, survivor FROM model.media_merges;
