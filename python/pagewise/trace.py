"""Recordings."""

from __future__ import annotations

import json
import os
from typing import Any

from . import _native
from .planning import Plan
from .table import Table


class Trace:
    """A recording of ``pagewise record``, closed or as far as it has come."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._native = _native.Trace(os.fspath(path))

    @property
    def path(self) -> str:
        """The recording's folder."""
        return str(self._native.path)

    @property
    def meta(self) -> dict[str, Any]:
        """What was recorded, where and when (``meta.json``, docs/trace-format.md)."""
        return json.loads(self._native.meta_json())

    @property
    def tables(self) -> list[str]:
        """Names of all tables (docs/trace-format.md)."""
        return list(self._native.table_names())

    def table(self, name: str) -> Table:
        """One of the recording's own tables, with its columns as documented there.

        Raises ``KeyError`` if there is no table of that name.
        """
        return Table(self._native.table(name))

    __getitem__ = table

    def events(self) -> Table:
        """Each event with its object beside it: the columns of ``pagewise export parquet`` (docs/export.md)."""
        return Table(self._native.events())

    def objects(self) -> Table:
        """A row an object, most stall first; columns mean what the keys of ``objects`` in ``pagewise report --json`` do.

        Shape: one row an object; ``bytes``, ``extra_bytes`` in bytes, ``stall_ns`` in ns, shares from 0 to 1.
        """
        return Table(self._native.objects())

    def sums(self) -> Table:
        """A row for each object with an event, most stall first: the counts of ``objects()`` alone, without patterns and needs.

        Memory grows with objects, not with events.
        """
        return Table(self._native.sums())

    def report(self) -> dict[str, Any]:
        """The document ``pagewise.report/1`` (docs/json.md)."""
        return json.loads(self._native.report_json())

    def plan(self, memory: str | int | None = None) -> Plan:
        """What to lock, stream or leave alone; ``memory`` as ``"512M"``, ``"60%"`` (of the peak) or bytes.

        Without it, for the limit of the recording.
        """
        document, toml = self._native.plan(None if memory is None else str(memory))
        return Plan(json.loads(document), toml)

    def __repr__(self) -> str:
        return f"<pagewise.Trace {self.path!r}>"


def open(path: str | os.PathLike[str] = "pagewise.data") -> Trace:
    """Opens a recording. Raises ``TraceError``, with what to do about it."""
    return Trace(path)
