-- rebuild
SELECT;
