ALTER TABLE core.poll_health ADD COLUMN channel text;
COMMENT ON COLUMN core.poll_health.channel IS 'push channel at the last poll: open or away; null: none';
