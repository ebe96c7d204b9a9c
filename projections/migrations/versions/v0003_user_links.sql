ALTER TABLE core.users ADD COLUMN own_ref text;
COMMENT ON COLUMN core.users.own_ref IS 'before an operator linked the account: what unlinking gives back';
