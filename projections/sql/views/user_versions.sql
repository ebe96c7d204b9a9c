-- The version of everything listed for a person.
CREATE VIEW api.user_versions AS
SELECT e.model_epoch, u.log_epoch, u.partition, u.version, u.user_ref
FROM model.user_versions u CROSS JOIN model.epoch e;
