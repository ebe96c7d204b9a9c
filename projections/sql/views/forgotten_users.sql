-- Who was forgotten, as far as the read models have come.
CREATE VIEW api.forgotten_users AS
SELECT user_ref, partition, log_epoch, version FROM model.forgotten_users;
