-- Rows changed under the versions they have: whoever did it may begin another model epoch, and can't go back to one.
CREATE OR REPLACE FUNCTION model.raise_epoch()
RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE model.epoch SET model_epoch = model_epoch + 1 RETURNING model_epoch
$$;
