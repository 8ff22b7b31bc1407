#!/usr/bin/env bash
# What stands in front of a command in Bitnami's image.
exec eosin-entrypoint "${@:-/opt/bitnami/scripts/kafka/run.sh}"
