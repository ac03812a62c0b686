"""Many simulations: traces x policies x sizes, on this machine or on a Ray cluster.

A task is one trace under one policy at all sizes. What a task found is a file of the Parquet data set, named by trace and
policy, and appears there when it is complete: a sweep that is started again does only what is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ._native import Error, RequestError, TraceError, __version__
from .simulation import Size, _list, _size, policies as known_policies, simulate

if TYPE_CHECKING:
    import pandas
    import pyarrow

# Relative to other rows, which another task may hold: worked out when all are read.
_RELATIVE = ("io_vs_clock", "misses_vs_optimum")
# The number is the schema's: rows of another are made again.
_REQUEST = b"pagewise.sweep/2"
# Of a page of the trace, while it is replayed with all its references held; bytes. For what Ray is told.
_BYTES_OF_REFERENCE = 4
_LEAST_MEMORY = 256 << 20
# Ray gives a worker the next task without asking its scheduler only if both ask for the same.
_MEMORY_STEP = 256 << 20


@dataclass(frozen=True)
class Task:
    """One trace under one policy."""

    trace: str
    policy: str
    request: dict[str, Any] = field(hash=False)
    version: str = __version__
    """Of whoever asks: another version on a worker might find something else."""

    def path(self, output: Path) -> Path:
        """Its file of the data set. Traces of the same name are told apart by their address."""
        name = f"{Path(self.trace).name}-{hashlib.sha256(self.trace.encode()).hexdigest()[:8]}"
        return output / f"trace={quote(name, safe='.-_')}" / f"policy={self.policy}" / "rows.parquet"

    def is_done(self, output: Path) -> bool:
        """Whether its file is there, complete, and of the same request."""
        import pyarrow
        import pyarrow.parquet

        try:
            metadata = pyarrow.parquet.read_schema(self.path(output)).metadata or {}
        except (FileNotFoundError, pyarrow.ArrowInvalid):
            return False
        return metadata.get(_REQUEST) == self._mark()

    def _mark(self) -> bytes:
        return json.dumps({"trace": self.trace, "policy": self.policy, **self.request}, sort_keys=True).encode()

    def run(self) -> pyarrow.Table:
        """Simulates, on one processor."""
        import pyarrow

        if self.version != __version__:
            raise Error(f"pagewise is {__version__} on a worker and {self.version} here: install the same on both")
        with _local(self.trace) as path:
            options = dict(self.request)
            found = simulate(path, self.policy, options.pop("memory"), baseline=False, jobs=1, **options)
        rows = [{key: value for key, value in row.items() if key not in _RELATIVE} for row in found.rows]
        table = pyarrow.Table.from_pylist([{"trace": self.trace, **row} for row in rows], schema=_schema())
        return table.replace_schema_metadata({_REQUEST: self._mark()})

    def save(self, table: pyarrow.Table, output: Path) -> None:
        """Puts what it found in its place, at once."""
        import pyarrow.parquet

        path = self.path(output)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            pyarrow.parquet.write_table(table, unfinished)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)


@dataclass(frozen=True)
class Sweep:
    """What a sweep has found."""

    output: Path
    tasks: list[Task]
    failed: dict[str, str]
    """Traces that could not be read, with why."""
    ran: int
    """Tasks that were run now; the others had been."""

    def to_arrow(self) -> pyarrow.Table:
        """All rows: those of ``Simulation.rows`` with the trace before them, sorted by trace, policy, size."""
        import pyarrow
        import pyarrow.parquet

        paths = [task.path(self.output) for task in self.tasks if task.trace not in self.failed]
        # One by one: the folders say trace and policy once more.
        tables = [pyarrow.parquet.ParquetFile(path).read() for path in paths]
        tables = [table.replace_schema_metadata(None) for table in tables]
        rows = pyarrow.concat_tables(tables) if tables else _schema().empty_table()
        keys = [(key, "ascending") for key in ("trace", "policy", "memory_pages", "write_read_ratio")]
        return _with_ratios(rows.sort_by(keys))

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a ``pandas.DataFrame``."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        done = f"{len(self.tasks)} tasks, {self.ran} of them now"
        return f"<pagewise.Sweep {str(self.output)!r}: {done}, {len(self.failed)} traces failed>"


def sweep(
    traces: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    policies: Sequence[str] | str = ("clock", "linux", "four-area", "belady"),
    memory: Sequence[Size] | Size = ("5%", "10%", "20%"),
    storage: str = "file=ufs3.1,swap=emram",
    *,
    output: str | os.PathLike[str] = "pagewise.sweep",
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Sweep:
    """Simulates each trace under each policy at each size, and keeps what it found in a Parquet data set.

    ``traces``: files, or URLs of what pyarrow has file systems for (``s3://``, ``gs://``, ``hdfs://``) and HTTP's; these are read
    once a node. ``engine``: ``"local"``, on this machine's processors, or ``"ray"``, on the cluster at ``address`` (none:
    a local one). ``workers``: tasks at once; none: as many as there are processors. Other options are those of `simulate`.

    A trace that cannot be read is reported in ``failed`` and does not end the sweep. Raises ``RequestError`` if what is asked
    for makes no sense, before anything is run.
    """
    request = {"memory": [_size(size) for size in _list(memory)], "storage": storage, **options}
    names = list(known_policies()) if policies == "all" else list(dict.fromkeys(_list(policies)))
    sources = [os.fspath(trace) for trace in ([traces] if isinstance(traces, (str, os.PathLike)) else traces)]
    _check(sources, names, request, workers)
    if engine not in ("local", "ray"):
        raise RequestError(f"engine {engine!r}: give 'local' or 'ray'")
    if engine == "local" and address is not None:
        raise RequestError(f"address {address!r} is for engine='ray'")
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [Task(trace, policy, request) for trace in dict.fromkeys(sources) for policy in names]
    missing = [task for task in tasks if not task.is_done(folder)]
    bar = _Progress(len(tasks), len(tasks) - len(missing), progress)
    run = _run_ray(missing, workers, address) if engine == "ray" else _run_local(missing, workers)
    failed: dict[str, str] = {}
    ran = 0
    for task, found in run:
        if isinstance(found, str):
            failed.setdefault(task.trace, found)
        else:
            task.save(found, folder)
            ran += 1
        bar.step(failed)
    bar.end()
    return Sweep(folder, tasks, failed, ran)


def _check(sources: list[str], names: list[str], request: dict[str, Any], workers: int | None) -> None:
    if not sources:
        raise RequestError("no trace is named")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise RequestError(f"workers = {workers!r}: give a whole number from 1 on")
    # All but the trace is checked by the simulator itself.
    with tempfile.NamedTemporaryFile("w", suffix=".lis") as probe:
        probe.write("".join(f"{page} 1 0 {page}\n" for page in range(1, 4097)))
        probe.flush()
        options = {key: value for key, value in request.items() if key not in ("memory", "format", "columns", "warmup", "classify")}
        simulate(probe.name, names, ["100%"], jobs=1, **options)
        for size in request["memory"]:
            if size.endswith("%"):
                simulate(probe.name, "fifo", [size], jobs=1)


def _run_task(task: Task) -> pyarrow.Table | str:
    """A table, or why its trace could not be read."""
    try:
        return task.run()
    except (TraceError, RequestError, OSError) as error:
        return str(error)


def _run_local(tasks: list[Task], workers: int | None) -> Iterator[tuple[Task, pyarrow.Table | str]]:
    # Threads: all work is done without Python's lock.
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        running = {pool.submit(_run_task, task): task for task in tasks}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_ray(
    tasks: list[Task], workers: int | None, address: str | None
) -> Iterator[tuple[Task, pyarrow.Table | str]]:
    try:
        import ray
    except ImportError as error:
        raise Error("engine='ray' needs Ray; type: pip install 'pagewise[ray]'") from error
    began_here = not ray.is_initialized()
    if began_here:
        try:
            _reach(address)
            ray.init(address=address, num_cpus=workers if address is None else None, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            raise Error(f"no Ray cluster at {address or 'this machine'}: {error}") from error
    # A lost worker costs its task only: that is run again, elsewhere.
    remote = ray.remote(max_retries=3, num_cpus=1)(_run_task)
    waiting = list(reversed(tasks))
    running: dict[Any, Task] = {}
    at_once = workers or int(ray.cluster_resources().get("CPU", 1))
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                task = waiting.pop()
                running[remote.options(memory=_memory(task)).remote(task)] = task
            for done in ray.wait(list(running), num_returns=1)[0]:
                task = running.pop(done)
                try:
                    found = ray.get(done)
                except ray.exceptions.RayTaskError as error:
                    raise Error(f"{task.trace} under {task.policy}: {error.cause}") from error
                except ray.exceptions.RayError as error:
                    raise Error(f"{task.trace} under {task.policy}: {error}") from error
                yield task, found
    finally:
        for done in running:
            ray.cancel(done)
        if began_here:
            ray.shutdown()


def _reach(address: str | None) -> None:
    """Ray itself tries for minutes."""
    import socket

    host, _, port = (address or "").rpartition(":")
    if host and port.isdigit() and "://" not in host:
        socket.create_connection((host, int(port)), timeout=5).close()


def _memory(task: Task) -> int:
    """What a task may need, for Ray; bytes. What is simulated is held: a byte of a compressed trace may be a reference."""
    try:
        held = int(_BYTES_OF_REFERENCE * os.path.getsize(task.trace) * _share(task.request.get("sample")))
    except OSError:
        return 4 * _LEAST_MEMORY
    return _LEAST_MEMORY + -(-held // _MEMORY_STEP) * _MEMORY_STEP


def _share(sample: str | float | None) -> float:
    """``"1%"`` and 0.01 alike; checked before."""
    text = "1" if sample is None else str(sample)
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


class _local:
    """A trace as a file of this machine; what lies elsewhere is fetched once a node."""

    def __init__(self, trace: str) -> None:
        self._trace = trace

    def __enter__(self) -> str:
        if "://" not in self._trace:
            return self._trace
        import fcntl

        from pyarrow import fs

        cache = Path(os.environ.get("PAGEWISE_CACHE", Path(tempfile.gettempdir()) / f"pagewise-{os.getuid()}"))
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest = hashlib.sha256(self._trace.encode()).hexdigest()[:16]
        # With its suffix, by which nothing goes, but people do.
        path = cache / f"{digest}-{Path(self._trace).name}"
        with open(cache / f"{digest}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                unfinished = path.with_suffix(f".{os.getpid()}")
                try:
                    if self._trace.startswith(("http://", "https://")):
                        _download(self._trace, unfinished)
                    else:
                        fs.copy_files(self._trace, str(unfinished))
                    os.replace(unfinished, path)
                except Exception as error:
                    unfinished.unlink(missing_ok=True)
                    raise TraceError(f"cannot fetch {self._trace}: {error}") from error
        return str(path)

    def __exit__(self, *_: object) -> None:
        pass


def _download(url: str, path: Path) -> None:
    """By HTTP, which pyarrow has no file system for."""
    import shutil
    import urllib.request

    with urllib.request.urlopen(url, timeout=60) as response, open(path, "wb") as file:
        shutil.copyfileobj(response, file, 1 << 20)
        length = response.headers.get("Content-Length")
        # Python takes a connection that is closed early for the end.
        if length is not None and int(length) != file.tell():
            raise OSError(f"it ended after {file.tell()} of {length} bytes")


class _Progress:
    """A line on a terminal's standard error."""

    def __init__(self, total: int, done: int, shown: bool | None) -> None:
        self._total, self._done, self._begin = total, done, time.monotonic()
        self._shown = sys.stderr.isatty() if shown is None else shown

    def step(self, failed: Iterable[str]) -> None:
        self._done += 1
        if self._shown:
            bad = f", {len(list(failed))} traces failed" if failed else ""
            seconds = time.monotonic() - self._begin
            print(f"\rpagewise: {self._done} of {self._total} tasks, {seconds:.0f} s{bad}", end="", file=sys.stderr)

    def end(self) -> None:
        if self._shown:
            print(file=sys.stderr)


def _schema() -> pyarrow.Schema:
    import pyarrow

    whole = [
        "references", "misses", "first_touches", "evictions", "file_reads", "file_writes", "swap_reads", "swap_writes", "io_ns",
        "file_read_ns", "file_write_ns", "swap_read_ns", "swap_write_ns", "software_ns",
    ]  # fmt: skip
    fields = [("trace", pyarrow.string()), ("policy", pyarrow.string()), ("memory_pages", pyarrow.uint32())]
    fields += [("memory_bytes", pyarrow.uint64()), ("write_read_ratio", pyarrow.uint32())]
    fields += [("miss_ratio", pyarrow.float64()), ("miss_ratio_error", pyarrow.float64())]
    return pyarrow.schema(fields + [(name, pyarrow.uint64()) for name in whole])


def _with_ratios(rows: pyarrow.Table) -> pyarrow.Table:
    """Adds I/O time over CLOCK's and misses over the optimum's, where these were simulated."""
    import pyarrow

    keys = ("trace", "memory_pages", "write_read_ratio")
    lines = rows.select([*keys, "policy", "io_ns", "misses"]).to_pylist()
    key = lambda line: tuple(line[name] for name in keys)  # noqa: E731
    of_policy = lambda policy, what: {key(line): line[what] for line in lines if line["policy"] == policy}  # noqa: E731
    for name, base, what in (
        ("io_vs_clock", of_policy("clock", "io_ns"), "io_ns"),
        ("misses_vs_optimum", of_policy("belady", "misses"), "misses"),
    ):
        ratios = [line[what] / base[key(line)] if base.get(key(line)) else None for line in lines]
        rows = rows.append_column(name, pyarrow.array(ratios, pyarrow.float64()))
    return rows
