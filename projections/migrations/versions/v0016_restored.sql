ALTER TABLE model.epoch ADD COLUMN restored_at timestamptz;
COMMENT ON COLUMN model.epoch.restored_at IS 'when a backup was restored last: servers may know more of what came before than core does';
