-- reconcile
SELECT;
