"""``python3 -m pagewise simulate TRACE... --engine ray``: what `pagewise simulate --engine` runs, with the same options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ._native import Error
from .sweeping import sweep

# As the command line has it: our failure, as opposed to a program's.
OWN_FAILURE = 125


def _parser() -> argparse.ArgumentParser:
    # What is not given is not passed on: the defaults are those of `sweep`, which does again what was asked for otherwise.
    parser = argparse.ArgumentParser(
        prog="python3 -m pagewise", allow_abbrev=False, argument_default=argparse.SUPPRESS, description=__doc__
    )
    add: Callable[..., Any] = parser.add_argument
    add("command", choices=["simulate"])
    add("traces", nargs="+", metavar="TRACE")
    add("--engine", choices=["local", "ray"])
    add("--address", help="of a Ray cluster: HOST:PORT or auto [default: one of this machine]")
    add("-o", "--output", metavar="DIR", help="the data set [default: pagewise.sweep]")
    add("-p", "--policy", dest="policies", type=_list)
    add("-m", "--memory", type=_list)
    add("-j", "--jobs", dest="workers", type=int, help="tasks at once [default: one for each processor]")
    for text in ("--storage", "--storage-models", "--sweep", "--classify", "--format", "--columns", "--sample"):
        add(text)
    add("--warmup", type=int)
    add("--flush", type=lambda text: None if text == "never" else int(text))
    add("--page-size", type=_bytes)
    add("--skip-bad", action="store_true")
    add("--csv", action="store_true", help="print all rows")
    return parser


def _list(text: str) -> list[str]:
    return text.split(",")


def _bytes(text: str) -> int:
    """4096 or 4K."""
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper(), 1)
    return int(text if factor == 1 else text[:-1]) * factor


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a sweep; returns the exit code."""
    # Options may stand between traces.
    options = vars(_parser().parse_intermixed_args(arguments))
    del options["command"]
    as_csv = options.pop("csv", False)
    if "all" in options.get("policies", ()):
        options["policies"] = "all"
    try:
        found = sweep(**options)
        rows = found.to_arrow()
    except Error as error:
        return _failed(str(error))
    if as_csv:
        from pyarrow import csv

        csv.write_csv(rows, sys.stdout.buffer)
    else:
        print(f"{len(found.tasks)} tasks, {found.ran} of them now: {rows.num_rows} rows in {found.output}")
    for trace, why in found.failed.items():
        _failed(f"{trace} failed: {why}" if trace not in why else why)
    return OWN_FAILURE if found.failed else 0


def _failed(text: str) -> int:
    print(f"pagewise: {text}", file=sys.stderr)
    return OWN_FAILURE


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        # What is finished is kept.
        sys.exit(130)
