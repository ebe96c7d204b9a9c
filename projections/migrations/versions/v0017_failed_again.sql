ALTER TABLE core.dead_letter_marks ADD COLUMN failed_at bigint;
COMMENT ON COLUMN core.dead_letter_marks.failed_at IS 'when the letter had failed last, then, epoch ms';
UPDATE core.dead_letter_marks m SET failed_at = d.failed_at FROM model.dead_letters d WHERE d.letter_id = m.letter_id;
