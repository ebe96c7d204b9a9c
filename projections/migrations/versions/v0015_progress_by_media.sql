CREATE INDEX playback_progress_by_media ON model.playback_progress (media_id);
