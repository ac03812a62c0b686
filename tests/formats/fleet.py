"""docs/fleet.md: what `pagewise export parquet --append` makes, and the documented queries on a generated fleet, each against
a computation of its own."""

import subprocess
import sys
from pathlib import Path

import duckdb
import polars
import pyarrow.parquet

import markdown

TYPES = {"i64": "int64", "text": "string"}


def check(docs, pagewise, expect):
    """In the current folder, with pagewise.data in it."""
    text = (docs / "fleet.md").read_text()
    sections = markdown.sections(text, 2)
    exported = markdown.rows(markdown.sections((docs / "export.md").read_text(), 2)["parquet and csv: every event"])
    wide = [(name, kind.replace("u32", "i64").replace("u64", "i64")) for name, kind in exported]
    documented = {"recordings": markdown.rows(sections["recordings"]), "events": markdown.rows(sections["events"]) + wide}

    append = [pagewise, "export", "parquet", "--append", "real", "--host", "a", "--date", "2026-11-22", "--release", "1"]
    for _ in range(2):
        subprocess.run(append, check=True, capture_output=True)
    check_real(documented, expect)

    sys.path.insert(0, str(docs.parent / "bench/fleet"))
    from generate import generate

    generate("fleet", 40_000, 60)
    for table, columns in documented.items():
        found = {shape(path) for path in Path("fleet", table).rglob("*.parquet")}
        expect(found == {as_shape(columns)}, f"bench/fleet/generate.py: {table} is not as documented")
    return [check_query(query, expected, expect) for query, expected in zip(queries(text), expected_answers(), strict=True)]


def as_shape(columns):
    return tuple((name, TYPES[kind.rstrip("?")], kind.endswith("?")) for name, kind in columns)


def shape(path):
    return tuple((field.name, str(field.type), field.nullable) for field in pyarrow.parquet.read_schema(path))


def check_real(documented, expect):
    counts = {}
    for table, columns in documented.items():
        files = list(Path("real", table).rglob("*"))
        [path] = [path for path in files if path.is_file()]
        expect(path.match("host=a/date=*/*.parquet"), f"{path}: not in its partition")
        expect(shape(path) == as_shape(columns), f"{path}: its columns are {shape(path)}")
        frame = polars.read_parquet(path)
        for name, kind in columns:
            expect(kind.endswith("?") or frame[name].null_count() == 0, f"{path}: nulls in {name}")
        counts[table] = frame
    [row] = counts["recordings"].to_dicts()
    events = counts["events"]
    plain = polars.read_parquet("pagewise.parquet")
    expect(events.drop("recording", "service", "release").equals(plain.cast({polars.UInt32: polars.Int64, polars.UInt64: polars.Int64})),
           "real/events: they are not those of export parquet")
    faults = events.filter(polars.col("kind").is_in(["swap_in", "swap_cache_hit"]))
    sums = (len(events), len(faults), faults["latency_ns"].sum())
    expect((row["events"], row["swap_ins"], row["stall_ns"]) == sums, f"real/recordings: {row} is not what its events say: {sums}")
    expect(events["recording"].unique().to_list() == [row["recording"]], "real/events: they are of another recording")


def queries(text):
    return markdown.code(text, "sql")


def check_query(query, expected, expect):
    found = duckdb.sql(query).fetchall()
    expect(found, f"fleet.md: this query finds nothing:\n{query}")
    same = len(found) == len(expected) and all(
        left == right or isinstance(left, float) and abs(left - right) <= 1e-9 * abs(right)
        for row, wanted in zip(found, expected) for left, right in zip(row, wanted, strict=True))
    expect(same, f"fleet.md: {found[:3]}... and not {expected[:3]}... by\n{query}")
    return query


def expected_answers():
    """By Polars, in the order of the document."""
    col = polars.col
    events = polars.scan_parquet("fleet/events", hive_partitioning=True)
    worst = (events.filter(col("service") == "solver", col("kind").is_in(["swap_in", "swap_cache_hit"]))
             .group_by("object").agg(col("host").n_unique().alias("hosts"), polars.len(), col("latency_ns").sum() / 1e9)
             .sort("latency_ns", descending=True).head(10))  # fmt: skip
    recordings = polars.read_parquet("fleet/recordings", hive_partitioning=True)
    share = (col("stall_ns").sum() / col("wall_ns").sum()).alias("share")
    releases = recordings.group_by("service", "release").agg(polars.len(), share).sort(["service", "share"], descending=[False, True])
    need = polars.coalesce("needed_bytes", "working_set_bytes")
    outgrown = (recordings.filter(need > col("limit_bytes")).group_by("host", "service")
                .agg(polars.len(), col("date").max(), (need / col("limit_bytes")).max().alias("times"))
                .sort(["times", "host", "service"], descending=[True, False, False]))  # fmt: skip
    return [worst.collect().rows(), releases.rows(), outgrown.rows()]
