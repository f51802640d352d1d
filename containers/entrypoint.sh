#!/bin/sh
# Gives programs the secrets that they take from their environment or settings only. The files are mounted by Compose.
set -eu

# An empty secret would let everybody in who has none either.
secret_in() {
    found=$(cat "$1") || found=
    if [ -z "$found" ]; then
        echo "entrypoint: $1 has to hold a secret, and is empty or cannot be read" >&2
        exit 1
    fi
    printf %s "$found"
}

if [ -n "${CONNECT_SERVER_TOKEN_FILE:-}" ]; then
    SPARK_CONNECT_AUTHENTICATE_TOKEN=$(secret_in "$CONNECT_SERVER_TOKEN_FILE")
    export SPARK_CONNECT_AUTHENTICATE_TOKEN
fi
if [ -n "${CONNECT_CLIENT_TOKEN_FILE:-}" ]; then
    token=$(secret_in "$CONNECT_CLIENT_TOKEN_FILE")
    AIRFLOW_CONN_SPARK_CONNECT=$(printf %s "$token" | python -c 'import json, sys
print(json.dumps({"conn_type": "spark_connect", "host": "127.0.0.1", "password": sys.stdin.read().strip()}))')
    export AIRFLOW_CONN_SPARK_CONNECT
fi
if [ -n "${SPARK_SECRET_FILE:-}" ]; then
    secret=$(secret_in "$SPARK_SECRET_FILE")
    # Drivers of a Spark cluster take it from their settings only, and an argument could be seen.
    folder=$(mktemp -d)
    cat "$SPARK_CONF_DIR/spark-defaults.conf" > "$folder/spark-defaults.conf"
    printf 'spark.authenticate.secret %s\n' "$secret" >> "$folder/spark-defaults.conf"
    export SPARK_CONF_DIR="$folder"
fi
exec "$@"
