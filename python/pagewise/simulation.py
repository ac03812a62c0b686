"""Replacement policies on traces of page references."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._native import RequestError

if TYPE_CHECKING:
    import pandas
    import pyarrow

Size = str | int | float
DEFAULT_FLUSH: int = _native.DEFAULT_FLUSH_PERIOD


class Simulation:
    """What policies did on a trace."""

    def __init__(self, document: dict[str, Any], notes: list[str]) -> None:
        self.document = document
        """The document ``pagewise.simulate/1`` (docs/json.md)."""
        self.notes = notes
        """What the command line would say on standard error."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One a policy, size and storage; keys and units as in docs/json.md."""
        return self.document["rows"]

    @property
    def curves(self) -> list[dict[str, Any]]:
        """One a policy: ``policy``, ``sampling_rate``, ``mean_absolute_error`` (of the miss ratio), ``points``."""
        return self.document["curves"]

    def to_arrow(self) -> pyarrow.Table:
        """The rows as a ``pyarrow.Table``."""
        import pyarrow

        return pyarrow.Table.from_pylist(self.rows)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a ``pandas.DataFrame``."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        trace = self.document["trace"]
        return f"<pagewise.Simulation of {trace['path']!r}: {len(self.rows)} rows>"


def simulate(
    trace: str | os.PathLike[str],
    policies: Sequence[str] | str = ("clock", "linux", "four-area", "belady"),
    memory: Sequence[Size] | Size = ("5%", "10%", "20%"),
    storage: str = "file=ufs3.1,swap=emram",
    *,
    storage_models: str | os.PathLike[str] | None = None,
    sweep: str | None = None,
    curve: bool = False,
    sample: str | float | None = None,
    baseline: bool = True,
    warmup: int = 0,
    flush: int | None = DEFAULT_FLUSH,
    classify: str | None = None,
    format: str | None = None,
    columns: str | None = None,
    page_size: int | None = None,
    skip_bad: bool = False,
    jobs: int | None = None,
) -> Simulation:
    """What `pagewise simulate` does, with the same options (docs/simulate.md).

    ``memory``: ``"20%"`` (of the footprint), ``"512M"``, ``"2500p"`` (pages), or a number of bytes.
    ``sample``: simulate only this share of the pages (``"1%"`` or ``0.01``), in memory as much smaller, and scale what they
    count; the column ``miss_ratio_error`` says how far off that is.
    ``baseline``: simulate CLOCK, too, which the column ``io_vs_clock`` compares with.
    ``flush``: references between two flushes of written file pages; ``None``: never.

    Raises ``TraceError`` if the trace cannot be read, ``RequestError`` if what is asked for makes no sense.
    """
    document, notes = _native.simulate(
        os.fspath(trace),
        policies=_list(policies),
        memory=[_size(size) for size in _list(memory)],
        storage=storage,
        storage_models=None if storage_models is None else os.fspath(storage_models),
        sweep=sweep,
        curve=curve,
        sample=None if sample is None else str(sample),
        baseline=baseline,
        warmup=_whole("warmup", warmup),
        flush=None if flush is None else _whole("flush", flush, least=1),
        classify=classify,
        format=format,
        columns=columns,
        page_size=None if page_size is None else _whole("page_size", page_size, least=1),
        skip_bad=skip_bad,
        jobs=None if jobs is None else _whole("jobs", jobs, least=1),
    )
    return Simulation(json.loads(document), notes)


def curve(
    trace: str | os.PathLike[str], policies: Sequence[str] | str = ("lru",), **options: Any
) -> list[dict[str, Any]]:
    """Whole curves by memory size, as `Simulation.curves` has them; options as of `simulate`.

    LRU's is exact; the others come from a sample of the pages, with its error.
    """
    return simulate(trace, policies, "100%", curve=True, **options).curves


def policies() -> dict[str, str]:
    """The policies by name, with the source of each."""
    return dict(_native.policy_sources())


def _list(value: Any) -> list[Any]:
    return [value] if isinstance(value, (str, int, float)) else list(value)


def _size(size: Size) -> str:
    if isinstance(size, str):
        return size
    if isinstance(size, bool) or not isinstance(size, (int, float)):
        raise RequestError(f"a memory size is text or a number of bytes, not {size!r}")
    if not math.isfinite(size) or size <= 0 or size != int(size):
        raise RequestError(f"a memory of {size} bytes: give a whole number above 0, or text like 20% or 512M")
    return str(int(size))


def _whole(name: str, value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RequestError(f"{name} = {value!r}: give a whole number from {least} on")
    return value
