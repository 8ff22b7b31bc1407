#!/usr/bin/env bash
# Nothing has to be prepared.
