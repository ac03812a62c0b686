#!/usr/bin/env bash
# Does the Python package install, and do what its documents say?
exec "$(dirname "$0")/python/run"
