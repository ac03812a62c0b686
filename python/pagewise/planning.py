"""Plans."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trace import Trace


class Plan:
    """What `pagewise apply` would do to a program, and what that promises."""

    def __init__(self, document: dict[str, Any], toml: str) -> None:
        self.document = document
        """The document ``pagewise.plan/1`` (docs/json.md)."""
        self.toml = toml
        """The plan itself: what `pagewise plan` writes to ``plan.toml``."""

    @property
    def words(self) -> str:
        """What the plan does, or why there is nothing to do."""
        return self.document["words"]

    @property
    def rules(self) -> list[dict[str, Any]]:
        """One an object."""
        return self.document["rules"]

    @property
    def curve(self) -> list[dict[str, int]]:
        """``memory_bytes``, ``swap_ins`` (pages) and ``wall_ns`` without the plan, by memory size."""
        return self.document["curve"]

    def write(self, path: str | os.PathLike[str] = "plan.toml") -> None:
        """Writes the plan, for `pagewise apply` and `pagewise compare`. Refuses to overwrite a file."""
        with open(path, "x", encoding="utf-8") as file:
            file.write(self.toml)

    def __repr__(self) -> str:
        return f"<pagewise.Plan: {self.words}>"


def plan(trace: Trace | str | os.PathLike[str], memory: str | int | None = None) -> Plan:
    """What `pagewise plan` advises for a recording; see `Trace.plan`."""
    from .trace import Trace

    if not isinstance(trace, Trace):
        trace = Trace(trace)
    return trace.plan(memory)
