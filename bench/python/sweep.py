"""usage: sweep.py FOLDER ROUNDS REFERENCES

Two hundred tasks on Ray, by one worker and by two, and by threads; then once more with a worker killed in the middle. Prints JSON."""

import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import ray

import pagewise
from pagewise import sweeping

POLICIES = ["fifo", "lru", "clock", "arc", "s3-fifo", "lirs", "sieve", "2q", "four-area", "cflru"]
TRACES = 20


def write_trace(path, seed, references):
    chance = random.Random(seed)
    pages = (int(chance.random() * chance.random() * 50_000) for _ in range(references))
    path.write_text("\n".join(map(str, pages)) + "\n")
    return path


def run(traces, output, **options):
    begin = time.perf_counter()
    found = pagewise.sweep(traces, POLICIES, ["1000p", "5000p", "20000p"], output=output, **options)
    seconds = time.perf_counter() - begin
    assert (found.ran, found.failed) == (len(traces) * len(POLICIES), {}), found
    return seconds, found.to_arrow()


def on_ray(traces, output, workers):
    """Without the start of the cluster and of its processes."""
    ray.init(num_cpus=workers, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    try:
        run(traces[:1], output.with_name(output.name + ".warm"), engine="ray", workers=workers)
        return run(traces, output, engine="ray", workers=workers)
    finally:
        ray.shutdown()


def with_a_worker_killed(traces, folder, expected):
    """What was begun and finished, by how many workers."""
    log, simple = folder / "log", sweeping._run_task
    path = str(log)

    def note(word, task):
        with open(path, "a") as file:
            file.write(f"{word} {os.getpid()} {task.policy} {task.trace}\n")

    def logged(task):
        note("begin", task)
        found = simple(task)
        note("end", task)
        return found

    sweeping._run_task = logged
    killed = []

    def kill():
        while not log.exists() or log.read_text().count("end ") < TRACES * len(POLICIES) // 2:
            time.sleep(0.01)
        pid = int(log.read_text().splitlines()[-1].split()[1])
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    threading.Thread(target=kill, daemon=True).start()
    ray.init(num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    seconds, found = run(traces, folder / "killed", engine="ray", workers=2)
    ray.shutdown()
    lines = [line.split(maxsplit=2) for line in log.read_text().splitlines()]
    ended = [what for word, _, what in lines if word == "end"]
    begun = [what for word, _, what in lines if word == "begin"]
    return {"killed": len(killed), "same_rows": found == expected, "begun": len(begun), "ended": len(ended),
            "ended_twice": len(ended) - len(set(ended)), "seconds": seconds}  # fmt: skip


def main():
    folder, rounds, references = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    traces = [write_trace(folder / f"{number}.lis", number, references) for number in range(TRACES)]
    times = {"one": [], "two": [], "local": [], "local_one": []}
    expected = None
    for turn in range(rounds + 1):
        for name, work in (
            ("one", lambda output: on_ray(traces, output, 1)),
            ("two", lambda output: on_ray(traces, output, 2)),
            ("local", lambda output: run(traces, output, workers=2)),
            ("local_one", lambda output: run(traces, output, workers=1)),
        ):
            seconds, rows = work(folder / f"{name}.{turn}")
            expected = expected or rows
            assert rows == expected, f"{name}: other rows"
            # The first round found everything cold.
            times[name] += [seconds] * (turn > 0)
    print(json.dumps({**times, "killed": with_a_worker_killed(traces, folder, expected)}))


main()
