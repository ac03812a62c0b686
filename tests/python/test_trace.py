"""Recordings as tables."""

import json

import duckdb
import pandas
import polars
import pyarrow
import pytest

import pagewise


def test_every_table_can_be_read(sample):
    trace = pagewise.open(sample)
    assert "events" in trace.tables and len(trace.tables) > 15
    for name in trace.tables:
        table = trace.table(name)
        assert table.to_arrow().column_names == table.columns
    rows = trace.meta["row_counts"]
    assert rows["events"] > 0
    for name, count in rows.items():
        if name != "spaces":
            assert trace[name].to_arrow().num_rows == count, name


def test_what_knows_arrow_takes_a_table_as_it_is(sample):
    table = pagewise.open(sample)["events"]
    as_arrow = pyarrow.table(table)
    assert isinstance(table.to_pandas(), pandas.DataFrame)
    assert polars.DataFrame(table).height == table.to_polars().height == as_arrow.num_rows
    ((count,),) = duckdb.sql("SELECT count(*) FROM as_arrow").fetchall()
    assert count == as_arrow.num_rows
    assert sum(batch.num_rows for batch in table.batches()) == as_arrow.num_rows


def test_events_have_their_objects(sample, pagewise_command, tmp_path):
    pagewise_command("export", "parquet", sample, "-o", tmp_path / "events.parquet")
    exported = polars.read_parquet(tmp_path / "events.parquet")
    events = pagewise.open(sample).events().to_polars()
    assert events.columns == exported.columns
    assert len(pagewise.open(sample).events().to_pandas()) == len(events)
    assert events["object"].cast(str).to_list() == exported["object"].to_list()
    assert events["latency_ns"].to_list() == exported["latency_ns"].to_list()


def test_objects_are_those_of_the_report(sample, pagewise_command):
    trace = pagewise.open(sample)
    report = json.loads(pagewise_command("report", sample, "--json")[0])
    assert trace.report() == report
    objects = trace.objects().to_arrow().to_pylist()
    assert len(objects) == len(report["objects"]) > 0
    for row, expected in zip(objects, report["objects"]):
        assert row.pop("object") == expected["label"]
        for key, value in row.items():
            assert value == expected[key], key


def test_sums_are_those_of_the_objects(sample):
    trace = pagewise.open(sample)
    sums = {row["object"]: row for row in trace.sums().to_arrow().to_pylist()}
    objects = [row for row in trace.objects().to_arrow().to_pylist() if row["swap_ins"] or row["evictions"]]
    assert objects and set(sums) >= {row["object"] for row in objects}
    for row in objects:
        found = sums[row["object"]]
        assert found == {key: row[key] for key in found}
    stalls = [row["stall_ns"] for row in sums.values()]
    assert stalls == sorted(stalls, reverse=True)


def test_errors_are_those_of_the_command_line(sample, pagewise_command, tmp_path):
    for path in (tmp_path / "none.data", tmp_path):
        with pytest.raises(pagewise.TraceError) as error:
            pagewise.open(path)
        assert str(error.value) == pagewise_command("report", path)[1]
    with pytest.raises(KeyError, match="no table event; there are: events, spaces"):
        pagewise.open(sample)["event"]


def test_a_damaged_recording_is_told_and_not_read(sample, tmp_path):
    import shutil

    copy = tmp_path / "copy.data"
    shutil.copytree(sample, copy)
    bytes_ = bytearray((copy / "events.parquet").read_bytes())
    bytes_[len(bytes_) // 2] ^= 0xFF
    (copy / "events.parquet").write_bytes(bytes_)
    with pytest.raises(Exception, match="events.parquet is damaged"):
        pagewise.open(copy)["events"].to_arrow()
    with pytest.raises(pagewise.TraceError, match="events.parquet is damaged"):
        pagewise.open(copy).report()


def test_a_plan_is_that_of_the_command_line(sample, pagewise_command, tmp_path):
    text, said = pagewise_command("plan", sample, "--json", "-o", tmp_path / "plan.toml")
    trace = pagewise.open(sample)
    if not text:
        with pytest.raises(pagewise.Error) as error:
            trace.plan()
        assert str(error.value) == said
        return
    plan = pagewise.plan(trace)
    assert plan.document == json.loads(text)
    assert plan.toml == (tmp_path / "plan.toml").read_text()
    with pytest.raises(FileExistsError):
        plan.write(tmp_path / "plan.toml")


@pytest.mark.parametrize("memory", ["-5", "many", "0", "nan%"])
def test_a_plan_for_a_memory_that_is_none_is_refused(sample, memory):
    with pytest.raises(pagewise.RequestError):
        pagewise.plan(sample, memory)
