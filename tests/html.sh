#!/usr/bin/env bash
# The HTML report, used in a browser.
exec "$(dirname "$0")/html/run"
