-- What became of a letter: as it was marked; but what failed once more after it was redriven is open again.
-- answered: when it had failed last, when it was marked.
CREATE OR REPLACE FUNCTION model.letter_status(marked text, answered bigint, failed_at bigint)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN marked IS NULL OR (marked = 'redriven' AND failed_at > answered) THEN 'open' ELSE marked END
$$;
