-- forwarding
SELECT;
