-- forgetting
SELECT;
