"""usage: generate.py FOLDER EVENTS [RECORDINGS]

Writes a data set as `pagewise export parquet --append` makes it (docs/fleet.md) of RECORDINGS (else 1000) recordings with EVENTS
events in all, of three services in two releases each on many hosts. Nothing of it was measured. The same arguments give the same
rows."""

import datetime
import sys
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet

SERVICES = ["solver", "index", "gateway"]
KINDS = ["swap_in", "swap_cache_hit", "eviction", "page_written", "zero_filled"]
SHARES = [0.42, 0.03, 0.45, 0.08, 0.02]
NAMES = ["matrix", "table", "queue", "history", "pool", "cache", "rows", "names", "scratch", "edges", "arena", "blocks"]
DAYS, PAGE = 10, 4096
FIRST_DAY = datetime.date(2026, 11, 1)
BATCH = 1 << 20
DELTA = ["time_ns", "address", "latency_ns", "page"]


def text(values, codes, missing=None):
    codes = pyarrow.array(codes, pyarrow.int32(), mask=missing)
    return pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(values, pyarrow.string()))


def constant(value, rows):
    return text([value], numpy.zeros(rows, numpy.int32))


def events(chance, labels, rows, begin_ns):
    """A batch of events."""
    service = SERVICES.index(labels["service"])
    kind = chance.choice(len(KINDS), rows, p=SHARES).astype(numpy.int32)
    # Some objects are hot, and each service has its own.
    number = numpy.minimum(chance.geometric(0.25, rows) - 1, len(NAMES) - 1).astype(numpy.int32)
    page = chance.integers(0, 65536, rows)
    factor = 1.5 if labels["release"].endswith("2") else 1.0
    latency = (chance.lognormal(10, 0.7, rows) * factor * (1 + service)).astype(numpy.int64)
    no_fault = kind >= 2
    lines = [10 * (service + 1) + at for at in range(len(NAMES))]
    objects = [f"{name} ({labels['service']}.c:{line})" for name, line in zip(NAMES, lines)]
    columns = {
        **{name: constant(labels[name], rows) for name in ("recording", "service", "release")},
        "time_ns": begin_ns + numpy.cumsum(chance.integers(2_000, 200_000, rows)),
        "space": numpy.zeros(rows, numpy.int64),
        "pid": numpy.full(rows, 4242),
        "tid": pyarrow.array(4242 + chance.integers(0, 8, rows), mask=no_fault),
        "kind": text(KINDS, kind),
        "address": 0x7F0000000000 + (number.astype(numpy.int64) * 65536 + page) * PAGE,
        "latency_ns": pyarrow.array(latency, mask=no_fault),
        "object": text(objects, number),
        "object_kind": constant("allocation", rows),
        "name": text(NAMES, number),
        "file": constant(f"{labels['service']}.c", rows),
        "line": numpy.array(lines)[number],
        "function": constant("setup", rows),
        "page": page,
    }
    faults = kind < 2
    sums = {"swap_ins": faults.sum(), "stall_ns": latency[faults].sum(), "evictions": (kind == 2).sum(),
            "pages_written": (kind == 3).sum()}  # fmt: skip
    return columns, {name: int(value) for name, value in sums.items()}


def schema_of(columns, optional):
    kind = lambda column: column.type if isinstance(column, pyarrow.Array) else pyarrow.int64()  # noqa: E731
    return pyarrow.schema([pyarrow.field(name, kind(column), name in optional) for name, column in columns.items()])


OPTIONAL = {"service", "release", "pid", "tid", "latency_ns", "name", "file", "line", "function", "page"}


def write_events(path, chance, labels, rows, begin_ns):
    sums, writer = {}, None
    path.parent.mkdir(parents=True, exist_ok=True)
    for done in range(0, rows, BATCH):
        columns, found = events(chance, labels, min(BATCH, rows - done), begin_ns)
        begin_ns = int(columns["time_ns"][-1])
        schema = schema_of(columns, OPTIONAL)
        writer = writer or pyarrow.parquet.ParquetWriter(
            path, schema, compression="zstd", store_schema=False, column_encoding=dict.fromkeys(DELTA, "DELTA_BINARY_PACKED"),
            use_dictionary=[name for name in schema.names if name not in DELTA])  # fmt: skip
        writer.write_table(pyarrow.table(list(columns.values()), schema=schema))
        sums = {name: sums.get(name, 0) + value for name, value in found.items()}
    writer.close()
    return sums, begin_ns


def write_recording(path, labels, events_of_it, begin_ns, end_ns, day, sums, chance):
    limit = int(chance.choice([1, 2, 4])) << 28
    looked = chance.random() < 0.3
    need = int(limit * chance.lognormal(0.1, 0.3)) if chance.random() < 0.8 else None
    midnight = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
    number = lambda value: pyarrow.array([value], pyarrow.int64())  # noqa: E731
    word = lambda value: pyarrow.array([value], pyarrow.string())  # noqa: E731
    row = {
        "recording": word(labels["recording"]), "service": word(labels["service"]), "release": word(labels["release"]),
        "command": word(f"./{labels['service']} input"), "pagewise_version": word("0.1.0"), "kernel": word("6.18.0"),
        "cpus": number(8), "memory_bytes": number(32 << 30), "page_bytes": number(PAGE),
        "start_unix_ns": number(int(midnight.timestamp()) * 10**9), "start_monotonic_ns": number(begin_ns),
        "wall_ns": number(end_ns - begin_ns), "swap_kind": word("zram"), "limit_bytes": number(limit),
        "peak_rss_bytes": number(limit), "exit_code": number(0), "exit_signal": number(None), "losses": number(0),
        "working_set_bytes": number(int(limit * chance.uniform(0.5, 1.2)) if looked else None), "needed_bytes": number(need),
        "events": number(events_of_it), "counted_events": number(0), "swap_ins": number(sums["swap_ins"]),
        "evictions": number(sums["evictions"]), "pages_written": number(sums["pages_written"]), "stall_ns": number(sums["stall_ns"]),
    }  # fmt: skip
    fields = [pyarrow.field(name, column.type, name != "recording") for name, column in row.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.table(list(row.values()), schema=pyarrow.schema(fields))
    pyarrow.parquet.write_table(table, path, compression="zstd", store_schema=False)


def generate(folder, total, recordings=1000):
    folder, hosts = Path(folder), max(1, recordings // DAYS)
    for number in range(recordings):
        chance = numpy.random.default_rng([number, total])
        day = FIRST_DAY + datetime.timedelta(days=number // hosts % DAYS)
        service = SERVICES[(number + number // hosts) % len(SERVICES)]
        labels = {"recording": f"{number:016x}", "service": service, "release": f"4.{1 + number // hosts % 2}"}
        partition = Path(f"host=web-{number % hosts:02}") / f"date={day}" / f"{labels['recording']}.parquet"
        rows = total // recordings + (number < total % recordings)
        begin_ns = 10**12 + number * 10**6
        sums, end_ns = write_events(folder / "events" / partition, chance, labels, rows, begin_ns)
        write_recording(folder / "recordings" / partition, labels, rows, begin_ns, end_ns, day, sums, chance)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    generate(sys.argv[1], *map(int, sys.argv[2:]))
