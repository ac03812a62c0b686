#!/usr/bin/env bash
# Do the tools that the documents name open a trace, and do documents and program agree?
exec "$(dirname "$0")/formats/run"
