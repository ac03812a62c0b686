"""What `pagewise export` wrote, as the tools it is for read it, against the report of the same recording."""

import csv
import gzip
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow.parquet
from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

import markdown
import profile

TYPES = {"u32": "uint32", "u64": "uint64", "text": "string"}


def check(docs, report, expect):
    """All formats, in the current folder. `expect(holds, text)` takes the failures."""
    columns = markdown.rows(markdown.sections((docs / "export.md").read_text(), 2)["parquet and csv: every event"])
    events = check_parquet(columns, report, expect)
    check_csv(events, columns, expect)
    check_folded(report, expect)
    check_pprof(report, expect)
    check_perfetto(events, report, expect)


def by_object(report, key):
    """Sums by variable and line, as (name, line)."""
    sums = Counter()
    for item in report["objects"]:
        sums[item["name"], item["line"]] += item[key]
    return +sums


def check_parquet(columns, report, expect):
    path = "pagewise.parquet"
    table = pyarrow.parquet.read_table(path)
    found = [(field.name, str(field.type)) for field in table.schema]
    expect(found == [(name, TYPES[kind.rstrip("?")]) for name, kind in columns], f"{path}: its columns are {found}")
    for name, kind in columns:
        expect(kind.endswith("?") or table[name].null_count == 0, f"{path}: nulls in {name}")
    frame = polars.read_parquet(path)
    expect(frame.equals(polars.from_arrow(table)), f"{path}: Polars does not see what pyarrow sees")
    wide = pandas.read_parquet(path, dtype_backend="pyarrow")
    expect(len(wide) == table.num_rows and list(wide.columns) == table.column_names, f"{path}: pandas differs")
    for kinds, measure, key in ((["swap_in", "swap_cache_hit"], "count(*)", "swap_ins"), (["eviction"], "count(*)", "evictions"),
                                (["swap_in", "swap_cache_hit"], "sum(coalesce(latency_ns, 0))", "stall_ns")):
        rows = duckdb.sql(f"SELECT name, line, {measure} FROM '{path}' WHERE kind IN {tuple(kinds + [''])} GROUP BY ALL")
        sums = +Counter({(name, line): int(value) for name, line, value in rows.fetchall()})
        expect(sums == by_object(report, key), f"{path}: {key} by object are not those of the report")
    return table


def check_csv(events, columns, expect):
    path = Path("pagewise.csv")
    text = path.read_bytes()
    expect(text.endswith(b"\r\n") and text.count(b"\r\n") == text.count(b"\n"), f"{path}: lines do not end in CRLF")
    with open(path, newline="") as file:
        rows = csv.reader(file, strict=True)
        expect(next(rows) == [name for name, _ in columns], f"{path}: its header is not as documented")
        wanted = zip(*(column.to_pylist() for column in events.columns))
        same = all(row == ["" if value is None else str(value) for value in want]
                   for row, want in zip(rows, wanted, strict=True))
    expect(same, f"{path}: it does not hold what pagewise.parquet holds")
    for tool, count in (("DuckDB", duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall()[0][0]),
                        ("Polars", polars.read_csv(path).height), ("pandas", len(pandas.read_csv(path)))):
        expect(count == events.num_rows, f"{path}: {tool} sees {count} rows of {events.num_rows}")


def check_folded(report, expect):
    for weight, key in (("swap_ins", "swap_ins"), ("stall_ns", "stall_ns"), ("evictions", "evictions")):
        total = 0
        for line in Path(f"{weight}.folded").read_text().splitlines():
            found = re.fullmatch(r"([^;]+(?:;[^;]+)*) (\d+)", line)
            expect(found, f"{weight}.folded: no collapsed stack: {line}")
            total += int(found[2]) if found else 0
        expect(total == report["summary"][key], f"{weight}.folded: {total} in all, the report has {report['summary'][key]}")


def check_pprof(report, expect):
    path = "pagewise.pb.gz"
    parsed = profile.message_class()()
    parsed.ParseFromString(gzip.open(path).read())
    expect(not list(unknown_fields.UnknownFieldSet(parsed)), f"{path}: it has fields that pprof does not know")
    texts = parsed.string_table
    expect(texts[0] == "", f"{path}: its first text is not empty")
    ids = {kind: [item.id for item in getattr(parsed, kind)] for kind in ("location", "function", "mapping")}
    for kind, found in ids.items():
        expect(0 not in found and len(set(found)) == len(found), f"{path}: ids of {kind} are not unique and nonzero")
    expect(all(location in ids["location"] for sample in parsed.sample for location in sample.location_id),
           f"{path}: a sample has no location")
    types = [(texts[kind.type], texts[kind.unit]) for kind in parsed.sample_type]
    wanted = [("swap_ins", "count"), ("stall", "nanoseconds"), ("evictions", "count"), ("swapped_in", "bytes")]
    expect(types == wanted, f"{path}: its sample types are {types}")
    sums = [sum(sample.value[at] for sample in parsed.sample) for at in range(len(types))]
    summary = report["summary"]
    expect(sums[:3] == [summary["swap_ins"], summary["stall_ns"], summary["evictions"]],
           f"{path}: its sums {sums} are not those of the report")
    if go := shutil.which("go"):
        command = [go, "tool", "pprof", "-raw", path]
        raw = subprocess.run(command, capture_output=True, text=True, timeout=60)
        expect(raw.returncode == 0 and "stall/nanoseconds[dflt]" in raw.stdout, f"go tool pprof: {raw.stderr}")


def check_perfetto(events, report, expect):
    path = "pagewise.perfetto-trace"
    trace = perfetto.Trace()
    trace.ParseFromString(Path(path).read_bytes())
    names, slices, sums, counters, tracks = {}, {}, Counter(), Counter(), {}
    strange = 0
    for packet in trace.packet:
        names.update((name.iid, name.name) for name in packet.interned_data.event_names)
        strange += len(unknown_fields.UnknownFieldSet(packet))
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        event = packet.track_event
        strange += len(unknown_fields.UnknownFieldSet(event))
        if event.type == perfetto.TrackEvent.TYPE_SLICE_BEGIN:
            slices.setdefault(event.track_uuid, []).append((packet.timestamp, names[event.name_iid]))
        elif event.type == perfetto.TrackEvent.TYPE_SLICE_END:
            begin, name = slices[event.track_uuid].pop()
            sums[name] += packet.timestamp - begin
        elif event.type == perfetto.TrackEvent.TYPE_COUNTER:
            counters[tracks[event.track_uuid].name] += 1
    expect(strange == 0, f"{path}: {strange} fields that Perfetto does not know")
    expect(not any(slices.values()), f"{path}: slices without an end")
    del sums["reclaim"]  # within faults or beside them
    stall = report["summary"]["stall_ns"]
    # Faults that overlap by the difference of two processors' clocks are cut.
    expect(abs(sum(sums.values()) - stall) <= stall // 1000, f"{path}: {sum(sums.values())} ns of waiting, the report has {stall}")
    expect({"resident memory", "swapped memory", "swap-ins", "evictions", "waiting for swap-ins"} <= set(counters),
           f"{path}: its counters are {sorted(counters)}")
    expect(any(track.HasField("thread") for track in tracks.values()), f"{path}: it has no threads")
    if shell := shutil.which("trace_processor_shell"):
        check_trace_processor(shell, path, events, expect)


def check_trace_processor(shell, path, events, expect):
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    with TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=shell)) as processor:
        [row] = processor.query("SELECT count(*) AS n FROM slice WHERE dur >= 0 AND name <> 'reclaim'")
        faults = sum(kind in ("swap_in", "swap_cache_hit") for kind in events["kind"].to_pylist())
        expect(row.n == faults, f"{path}: trace_processor sees {row.n} faults of {faults}")
