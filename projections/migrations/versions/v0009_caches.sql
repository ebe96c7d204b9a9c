-- caches
SELECT;
