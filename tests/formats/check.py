"""usage: check.py DOCS WORK PAGEWISE

WORK holds pagewise.data with its exports, crashed.data, report.json, diff.json, check.json, plan.json, simulate.json,
hugepages.json and, where there is one, compare.json. Exits with 1 and says why if a tool opens a table otherwise than documented, or a document and the program disagree."""

import json
import os
import sys
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow.ipc
import pyarrow.parquet

import documents
import exports
import fleet
import markdown

TYPES = {"u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool", "text": "string", "kind": "string"}
PAGE_TOLERANCE = 4  # a page that two objects share counts for each of them in the documented query

failures = []


def expect(holds, text):
    if not holds:
        failures.append(text)


def plain(table):
    """Dictionaries and large strings become plain strings, so that the tools' answers compare."""
    fields = []
    for field in table.schema:
        kind = field.type.value_type if pyarrow.types.is_dictionary(field.type) else field.type
        if pyarrow.types.is_large_string(kind) or pyarrow.types.is_string_view(kind):
            kind = pyarrow.string()
        fields.append(pyarrow.field(field.name, kind))
    return table.cast(pyarrow.schema(fields)).replace_schema_metadata(None)


def opened(path):
    """The table as each tool opens it."""
    path = str(path)
    yield "pyarrow", plain(pyarrow.parquet.read_table(path))
    yield "DuckDB", plain(duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table())
    yield "Polars", plain(polars.scan_parquet(path).collect().to_arrow())
    frame = pandas.read_parquet(path, dtype_backend="pyarrow")
    yield "pandas", plain(pyarrow.Table.from_pandas(frame, preserve_index=False))


def check_table(path, rows, columns):
    first = None
    for tool, table in opened(path):
        expect(table.num_rows == rows, f"{path.name}: {tool} sees {table.num_rows} rows, meta.json says {rows}")
        names = table.column_names
        expect(names == [name for name, _ in columns], f"{path.name}: {tool} sees the columns {names}")
        for name, kind in columns:
            if name not in names:
                continue
            found = str(table.schema.field(name).type)
            expect(found == TYPES[kind.rstrip("?")], f"{path.name}: {tool} sees {name} as {found}, not {kind}")
            nulls = table.column(name).null_count
            expect(kind.endswith("?") or nulls == 0, f"{path.name}: {tool} sees {nulls} nulls in {name}")
        first = first or table
        expect(table.equals(first), f"{path.name}: {tool} does not see the values that pyarrow sees")


def check_closed(folder, text):
    meta = json.loads((folder / "meta.json").read_text())
    described = {name: markdown.rows(section) for name, section in markdown.sections(text, 3).items()}
    counts = meta["row_counts"]
    files = {path.stem for path in folder.glob("*.parquet")}
    expect(set(described) == set(counts) == files,
           f"tables: {sorted(described)} documented, {sorted(counts)} in meta.json, {sorted(files)} in the folder")
    for name in sorted(files & set(described) & set(counts)):
        check_table(folder / f"{name}.parquet", counts[name], described[name])
    documented = {key for line in text.splitlines() if line.startswith("| `")
                  for key in line.split("|")[1].replace("`", "").replace(" ", "").split(",")}
    for key in meta:
        expect(key in documented, f"meta.json: {key} is not documented")
    return counts


def check_crashed(folder):
    for path in sorted(folder.glob("*.arrows")):
        whole = pyarrow.ipc.open_stream(path.read_bytes()).read_all()
        frame = polars.read_ipc_stream(path)
        expect(frame.height == whole.num_rows, f"{path.name}: Polars sees {frame.height} rows, pyarrow {whole.num_rows}")
    events = folder / "events.arrows"
    expect(events.exists() and pyarrow.ipc.open_stream(events.read_bytes()).read_all().num_rows > 0,
           "a trace that was cut short has no events")


def run_examples(name, text):
    """Every example of a document, in the folder of the trace: each must run, and a query must find something."""
    for query in markdown.code(text, "sql"):
        found = duckdb.sql(query).fetchall()
        expect(found, f"{name}: this query finds nothing:\n{query}")
        yield query, found
    for source in markdown.code(text, "python"):
        exec(compile(source, name, "exec"), {})


def compare_with_report(found, report):
    """The documented query for variables against the report's own attribution."""
    by_place = {(name, line): swap_ins for name, _, line, swap_ins, _ in found}
    compared = 0
    for item in report["objects"]:
        reads = item["swap_ins"] - item["swap_cache_hits"]
        if item["kind"] == "allocation" and item["name"] and reads > 1000:
            query = by_place.get((item["name"], item["line"]), 0)
            rounds = reads // max(1, item["distinct_pages"]) + 1
            expect(abs(query - reads) <= PAGE_TOLERANCE * rounds,
                   f"{item['name']}: {query} swap-ins by the documented query, {reads} by the report")
            compared += 1
    return compared


def main():
    docs, work, pagewise = (Path(argument).resolve() for argument in sys.argv[1:])
    trace_text, json_text = (docs / "trace-format.md").read_text(), (docs / "json.md").read_text()
    os.chdir(work)

    counts = check_closed(Path("pagewise.data"), trace_text)
    check_crashed(Path("crashed.data"))

    described = {name: markdown.rows(section) for name, section in markdown.sections(json_text, 2).items()}
    report = json.loads(Path("report.json").read_text())
    # Each size of a comparison has the keys of the first, which stand at the top, but for these.
    once = ("schema", "page_out", "mean_speedup")
    compared = described["pagewise.compare/1"]
    described["pagewise.compare/1"] = compared + [(f"sizes[].{key}", kind) for key, kind in compared if not key.startswith(once)]
    names = ["diff", "check", "plan", "simulate", "hugepages"] + ["compare"] * Path("compare.json").exists()
    others = [json.loads(Path(f"{name}.json").read_text()) for name in names]
    for document in (report, *others):
        for text in documents.disagreements(document, described[document["schema"]]):
            expect(False, f"docs/json.md, {document['schema']}: {text}")

    exports.check(docs, report, expect)

    examples, compared = 0, None
    texts = {name: (docs / name).read_text() for name in ("trace-format.md", "json.md", "export.md")}
    for query, found in [example for name, text in texts.items() for example in run_examples(name, text)]:
        examples += 1
        if "sites.parquet" in query:
            compared = compare_with_report(found, report)
    examples += len(fleet.check(docs, pagewise, expect))
    expect(examples == 8, f"{examples} queries were found in the documents, not 8")
    if Path("pattern.json").exists():
        expect(compared == 4, f"{compared} allocations of pattern were compared, not 4")

    for text in dict.fromkeys(failures):
        print(f"formats: {text}", file=sys.stderr)
    if failures:
        sys.exit(1)
    print(f"formats: {sum(counts.values())} rows in {len(counts)} tables, {examples} queries, as documented")


if __name__ == "__main__":
    main()
