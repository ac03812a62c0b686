"""Sweeps, here and on a Ray cluster of this machine."""

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import pagewise
from pagewise.sweeping import Task

POLICIES = ["clock", "arc", "belady"]


def sweep(traces, output, **options):
    return pagewise.sweep(traces, POLICIES, ["5%", "20%"], output=output, **options)


def test_a_sweep_finds_what_simulations_find(blocks, other_blocks, tmp_path):
    found = sweep([blocks, other_blocks], tmp_path)
    assert (found.ran, found.failed) == (6, {})
    rows = found.to_arrow().to_pylist()
    assert len(rows) == 12
    alone = pagewise.simulate(blocks, POLICIES, ["5%", "20%"]).rows
    for expected in alone:
        (row,) = [
            row
            for row in rows
            if (row["trace"], row["policy"], row["memory_pages"]) == (str(blocks), expected["policy"], expected["memory_pages"])
        ]
        for key, value in expected.items():
            assert row[key] == value, key


def test_a_sweep_of_samples_says_how_far_off_it_is(blocks, tmp_path):
    rows = sweep([blocks], tmp_path, sample="25%").to_arrow().to_pylist()
    alone = pagewise.simulate(blocks, POLICIES, ["5%", "20%"], sample=0.25)
    assert alone.document["sampling_rate"] == 0.25
    found = {(row["policy"], row["memory_pages"]): (row["misses"], row["miss_ratio_error"]) for row in rows}
    for row in alone.rows:
        assert found[row["policy"], row["memory_pages"]] == (row["misses"], row["miss_ratio_error"])
        assert row["miss_ratio_error"] > 0


def test_what_is_done_is_not_done_again(blocks, other_blocks, tmp_path):
    assert sweep([blocks], tmp_path).ran == 3
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    again = sweep([blocks, other_blocks], tmp_path)
    assert again.ran == 3 and len(again.tasks) == 6
    assert all(path.stat().st_mtime_ns == written for path, written in times.items())
    # Another question has another answer.
    assert pagewise.sweep([blocks], POLICIES, ["10%"], output=tmp_path).ran == 3


def test_a_file_that_is_half_written_is_written_again(blocks, tmp_path):
    first = sweep([blocks], tmp_path)
    whole = first.to_arrow()
    path = first.tasks[1].path(tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    again = sweep([blocks], tmp_path)
    assert again.ran == 1 and again.to_arrow() == whole


def test_a_bad_trace_does_not_end_the_sweep(blocks, tmp_path):
    bad, gone = tmp_path / "bad.lis", tmp_path / "gone.lis"
    bad.write_text("no\ntrace\n")
    found = sweep([bad, blocks, gone], tmp_path / "out")
    assert set(found.failed) == {str(bad), str(gone)}
    assert "gone.lis" in found.failed[str(gone)]
    assert found.ran == 3 and found.to_arrow().num_rows == 6


def test_traces_of_one_name_are_two(blocks, tmp_path):
    copy = tmp_path / "elsewhere" / blocks.name
    copy.parent.mkdir()
    copy.write_bytes(blocks.read_bytes())
    assert sweep([blocks, copy], tmp_path / "out").to_arrow().num_rows == 12


def test_a_trace_by_url_is_fetched(blocks, tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEWISE_CACHE", str(tmp_path / "cache"))
    found = sweep([blocks.as_uri(), (tmp_path / "none.lis").as_uri()], tmp_path / "out")
    assert found.ran == 3
    assert list(found.failed) == [(tmp_path / "none.lis").as_uri()]


def serve(answer):
    """A server of this machine that answers every request so; its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def test_a_trace_is_fetched_by_http_once(blocks, tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEWISE_CACHE", str(tmp_path / "cache"))
    asked = []

    def answer(request):
        asked.append(request.path)
        request.send_response(200)
        request.send_header("Content-Length", str(blocks.stat().st_size))
        request.end_headers()
        request.wfile.write(blocks.read_bytes())

    found = sweep([f"http://127.0.0.1:{serve(answer)}/blocks.lis"], tmp_path / "out")
    assert (found.ran, asked) == (3, ["/blocks.lis"])


def test_a_download_that_is_cut_short_is_no_trace(blocks, tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEWISE_CACHE", str(tmp_path / "cache"))

    def answer(request):
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(blocks.read_bytes()[:400])

    url = f"http://127.0.0.1:{serve(answer)}/blocks.lis"
    found = sweep([url], tmp_path / "out")
    assert "400 of 1000 bytes" in found.failed[url]
    assert not list((tmp_path / "cache").glob("*.lis"))


def test_an_object_store_that_refuses_is_told(blocks, tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEWISE_CACHE", str(tmp_path / "cache"))
    for name, value in (("AWS_ACCESS_KEY_ID", "none"), ("AWS_SECRET_ACCESS_KEY", "none"), ("AWS_EC2_METADATA_DISABLED", "true")):
        monkeypatch.setenv(name, value)

    def refuse(request):
        request.send_response(403)
        request.send_header("Content-Length", "0")
        request.end_headers()

    store = f"s3://bucket/a.lis?scheme=http&region=us-east-1&endpoint_override=127.0.0.1:{serve(refuse)}"
    found = sweep([store, blocks], tmp_path / "out")
    assert found.ran == 3 and set(found.failed) == {store}
    assert found.failed[store].startswith(f"cannot fetch {store}") and "ACCESS_DENIED" in found.failed[store].upper().replace(" ", "_")


def test_a_recording_of_a_newer_version_does_not_end_the_sweep(sample, blocks, tmp_path):
    newer = tmp_path / "newer.data"
    shutil.copytree(sample, newer)
    meta = json.loads((newer / "meta.json").read_text())
    (newer / "meta.json").write_text(json.dumps({**meta, "schema": "pagewise.trace/99", "version": 99}))
    found = sweep([newer, blocks], tmp_path / "out")
    assert found.ran == 3 and "99" in found.failed[str(newer)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 0}, "from 1 on"),
        ({"workers": -2}, "from 1 on"),
        ({"engine": "spark"}, "'local' or 'ray'"),
        ({"address": "auto"}, "engine='ray'"),
        ({"memory": [float("nan")]}, "whole number above 0"),
        ({"memory": ["-3%"]}, "-3%"),
        ({"policies": ["clok"]}, "did you mean"),
    ],
)
def test_requests_that_make_no_sense_are_told_before_anything_runs(blocks, tmp_path, options, said):
    with pytest.raises(pagewise.RequestError, match=said):
        pagewise.sweep([blocks], **{"policies": POLICIES, "memory": ["5%"], "output": tmp_path / "out", **options})
    assert not (tmp_path / "out").exists()


def test_no_cluster_is_told(blocks, tmp_path):
    with pytest.raises(pagewise.Error, match="no Ray cluster at 127.0.0.1:1"):
        sweep([blocks], tmp_path, engine="ray", address="127.0.0.1:1")


@pytest.fixture(scope="module")
def cluster():
    import ray

    ray.init(num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    yield
    ray.shutdown()


def test_ray_finds_the_same_to_the_bit(blocks, other_blocks, tmp_path, cluster):
    local = sweep([blocks, other_blocks], tmp_path / "local")
    on_ray = sweep([blocks, other_blocks], tmp_path / "ray", engine="ray")
    assert on_ray.ran == 6
    assert on_ray.to_arrow() == local.to_arrow()


def workers_at_work():
    found = subprocess.run(["pgrep", "-f", "^ray::_run_task"], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def test_a_lost_worker_costs_only_its_task(blocks, other_blocks, tmp_path, cluster):
    local = pagewise.sweep([blocks, other_blocks], "all", ["20%"], output=tmp_path / "local")
    killed = []

    def kill():
        while not killed:
            for pid in workers_at_work()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.002)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    found = pagewise.sweep([blocks, other_blocks], "all", ["20%"], output=tmp_path / "ray", engine="ray")
    killer.join(10)
    assert killed, "no worker was seen at work"
    assert found.ran == len(found.tasks), "each once"
    assert found.to_arrow() == local.to_arrow()


def test_a_task_knows_whether_it_is_done(tmp_path):
    task = Task("a.lis", "lru", {"memory": ["5%"]})
    assert not task.is_done(tmp_path)
    task.path(tmp_path).parent.mkdir(parents=True)
    task.path(tmp_path).touch()
    assert not task.is_done(tmp_path)


def test_another_version_on_a_worker_is_told(blocks):
    with pytest.raises(pagewise.Error, match="install the same on both"):
        Task(str(blocks), "lru", {"memory": ["5%"]}, version="0.0.0").run()


def test_another_version_on_a_ray_worker_is_told(blocks, tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(Task, "__init__", lambda task, trace, policy, request: task.__dict__.update(
        trace=trace, policy=policy, request=request, version="0.0.0"))  # fmt: skip
    with pytest.raises(pagewise.Error, match="install the same on both"):
        sweep([blocks], tmp_path, engine="ray")


def engine(arguments, **environment):
    command = [os.environ["PAGEWISE"], "simulate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PAGEWISE_PYTHON": sys.executable, **environment})


def test_the_command_line_sweeps(blocks, other_blocks, tmp_path):
    options = ["--policy", "clock,arc,belady", "--memory", "5%,20%", "--engine", "local", "--output", tmp_path / "out"]
    done = engine([blocks, *options, other_blocks, "--csv"])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 13
    again = sweep([blocks, other_blocks], tmp_path / "out")
    assert again.ran == 0, "the command line asks for the same"
    failed = engine([tmp_path / "gone.lis", *options])
    assert failed.returncode == 125 and "gone.lis" in failed.stderr


def test_the_command_line_without_the_package_says_what_to_type(blocks, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\nexit 3\n")
    (folder / "python3").chmod(0o755)
    for python, said in ((folder / "python3", "-m pip install './python[ray]'"), (folder / "none", "cannot run")):
        done = engine([blocks, "--engine", "ray"], PAGEWISE_PYTHON=str(python))
        assert done.returncode == 125 and said in done.stderr, done
    assert "--engine" in engine([blocks, blocks]).stderr
