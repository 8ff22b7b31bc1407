#!/usr/bin/env bash
# Becomes the broker. Everything comes from the variables of this process.
exec eosin serve --environment
