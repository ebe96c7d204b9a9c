-- dead letters
SELECT;
