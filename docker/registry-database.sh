#!/bin/sh
# Run once by the postgres image on an empty volume: the registry's own role and database.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --set password="$(cat /run/secrets/registry)" <<'SQL'
CREATE ROLE registry LOGIN PASSWORD :'password';
CREATE DATABASE registry OWNER registry;
REVOKE ALL ON DATABASE registry FROM PUBLIC;
SQL
