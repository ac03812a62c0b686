"""Simulations."""

import json
import math
import os
import signal
import threading
import time

import pytest
from conftest import write_blocks

import pagewise


def test_rows_are_those_of_the_command_line(blocks, pagewise_command):
    options = ["--policy", "lru,arc,belady", "--memory", "5%,300p", "--storage", "file=nvme,swap=zram-lz4", "--curve"]
    expected = json.loads(pagewise_command("simulate", blocks, "--json", *options)[0])
    found = pagewise.simulate(
        blocks, ["lru", "arc", "belady"], ["5%", "300p"], "file=nvme,swap=zram-lz4", curve=True
    )
    assert found.document == expected
    frame = found.to_pandas()
    assert list(frame["policy"]) == [row["policy"] for row in expected["rows"]]
    assert found.to_arrow().num_rows == 6
    assert pagewise.curve(blocks, "lru", storage="file=nvme,swap=zram-lz4") == expected["curves"][:1]


def test_every_policy_has_a_source():
    sources = pagewise.policies()
    assert {"fifo", "lru", "clock", "four-area", "belady"} <= set(sources) and all(sources.values())


@pytest.mark.parametrize("size", [0, -1, -5.0, math.nan, math.inf, 1.5, True, None, "-5%", "many", "0"])
def test_sizes_that_are_none_are_refused(blocks, size):
    with pytest.raises(pagewise.RequestError):
        pagewise.simulate(blocks, "lru", [size])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"policies": "clok"}, "did you mean `clock`"),
        ({"policies": []}, "no policy is asked for"),
        ({"memory": []}, "no size of memory is asked for"),
        ({"storage": "disk=hdd"}, "neither file, swap nor level"),
        ({"page_size": 3000}, "a power of two"),
        ({"sample": 0}, "above 0 and at most 1"),
        ({"sample": math.nan}, "above 0 and at most 1"),
        ({"sample": "200%"}, "above 0 and at most 1"),
        ({"sample": 0.1, "curve": True}, "leave out the sample"),
        ({"jobs": 0}, "from 1 on"),
        ({"warmup": -1}, "from 0 on"),
        ({"warmup": 10**9}, "none would count"),
        ({"format": "lackee"}, "lackey"),
    ],
)
def test_requests_that_make_no_sense_are_told(blocks, options, said):
    with pytest.raises(pagewise.RequestError, match=said):
        pagewise.simulate(blocks, **options)


def test_errors_are_those_of_the_command_line(tmp_path, pagewise_command):
    (tmp_path / "empty").touch()
    for path in (tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(pagewise.TraceError) as error:
            pagewise.simulate(path)
        assert str(error.value) == pagewise_command("simulate", path)[1]


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory):
    return write_blocks(tmp_path_factory.mktemp("traces") / "long.lis", 1_000_000, pages=50_000)


def test_ctrl_c_ends_a_simulation(long_trace):
    begin = time.monotonic()
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    sizes = [f"{size}p" for size in range(100, 2100)]
    with pytest.raises(KeyboardInterrupt):
        pagewise.simulate(long_trace, ["arc", "lirs"], sizes)
    assert time.monotonic() - begin < 10


def test_python_goes_on_meanwhile(long_trace):
    turns = 0
    worker = threading.Thread(target=pagewise.simulate, args=(long_trace, ["arc", "lru"], ["10%"]))
    worker.start()
    while worker.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 10
