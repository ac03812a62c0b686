"""What the benchmarks of huge pages share: settings of the kernel, programs that access memory, rows of results."""
import concurrent.futures
import contextlib
import datetime
import json
import mmap
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGEWISE = pathlib.Path(os.environ.get("PAGEWISE", ROOT / "target/release/pagewise"))
THP = pathlib.Path("/sys/kernel/mm/transparent_hugepage")
SAVED = ROOT / "build/bench-hugepages-settings.json"


def chosen(path):
    text = path.read_text().strip()
    return text.split("[")[1].split("]")[0] if "[" in text else text


@contextlib.contextmanager
def settings(values):
    """Changes files of the kernel, and puts them back however this ends."""
    before = {str(path): chosen(path) for path in values}
    # An outer `settings` comes first: what it saved is older.
    saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    SAVED.parent.mkdir(exist_ok=True)
    SAVED.write_text(json.dumps({**before, **saved}))
    try:
        for path, value in values.items():
            path.write_text(str(value))
        yield
    finally:
        for path, value in before.items():
            pathlib.Path(path).write_text(value)
        if saved:
            SAVED.write_text(json.dumps(saved))
        else:
            SAVED.unlink()


def restore():
    """What a killed run has left."""
    if SAVED.exists():
        for path, value in json.loads(SAVED.read_text()).items():
            pathlib.Path(path).write_text(value)
        SAVED.unlink()


def khugepaged_at(rate):
    """So many regions a second, as far as khugepaged comes."""
    sleep = 1000 // rate
    values = {"pages_to_scan": 512, "scan_sleep_millisecs": sleep, "alloc_sleep_millisecs": sleep}
    return {THP / "khugepaged" / name: value for name, value in values.items()}


@contextlib.contextmanager
def khugepaged_unhurried():
    """Without its niceness of 19, with which it hardly runs where programs keep all processors busy."""
    pid = next(entry.name for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit() and name_of(entry) == "khugepaged")
    before = os.getpriority(os.PRIO_PROCESS, int(pid))
    os.setpriority(os.PRIO_PROCESS, int(pid), 0)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, int(pid), before)


def name_of(process):
    try:
        return (process / "comm").read_text().strip()
    except FileNotFoundError:
        return ""


def collapsed():
    return int((THP / "khugepaged/pages_collapsed").read_text())


def require_root_and_madvise(command):
    """Ends where a run would mean nothing, and undoes settings on signals."""
    if os.geteuid() != 0:
        sys.exit(f"it needs root; type: sudo {command}")
    if chosen(THP / "enabled") != "madvise":
        sys.exit(f"{THP}/enabled must be madvise: else all arms get huge pages at once")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))


def compiled(name, compiler="gcc"):
    program = ROOT / f"build/bench-{pathlib.Path(name).stem}"
    program.parent.mkdir(exist_ok=True)
    words = [compiler, "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program]
    subprocess.run([*words, ROOT / "bench/hugepages" / name], check=True)
    return program


def started(words):
    """A program that says `ready` and waits for a line."""
    words = [str(word) for word in words]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if child.stdout.readline() != "ready\n":
        sys.exit(f"{words} did not start")
    return child


def go(child):
    child.stdin.write("\n")
    child.stdin.flush()


def manager(options, state):
    """`pagewise hugepages` with these options; its last line tells what it did."""
    words = [PAGEWISE, "hugepages", *options, "--state", state]
    return subprocess.Popen([str(word) for word in words], stderr=subprocess.PIPE, text=True)


def told(manager):
    """Promotions, and percent of a processor that were used, once the manager has ended."""
    last = manager.communicate()[1].strip().splitlines()[-1]
    return int(last.split(" promoted")[0].split()[-1]), float(last.rsplit("used ", 1)[1].split()[0])


@contextlib.contextmanager
def fragmented(wanted):
    """While this lasts, free memory is in pieces: of each 2 MiB, 8 base pages are held by a program that took all of it and gave back
    the rest. They can be moved, as page cache can be."""
    if not wanted:
        yield
        return
    free = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemAvailable")) >> 10
    child = started([compiled("fragment.c"), free - 512])
    try:
        yield
    finally:
        child.kill()
        child.wait()


POPULATE_WRITE = 23


@contextlib.contextmanager
def backed_by_the_host(mebibytes):
    """Touches so much memory and frees it, right before something is measured. Where this machine is a guest whose kernel tells the
    host which 2 MiB are free (page_reporting), the first touch of those costs ten times as much as the page fault itself. Where
    that kernel can be told to wait with it, it is meanwhile."""
    reporting = pathlib.Path("/sys/module/page_reporting/parameters")
    waits = {"max_waiting_mib": 1_000_000, "min_free_ms": 300_000}
    with settings({reporting / name: value for name, value in waits.items() if (reporting / name).exists()}):
        with mmap.mmap(-1, mebibytes << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_HUGEPAGE)
            memory.madvise(POPULATE_WRITE)
        yield


def kilobytes(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    raise KeyError(key)


def processor():
    """Its model, as figures differ by it."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def new_row(**values):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {**values, "commit": commit, "kernel": platform.release(), "processor": processor(), "date": datetime.date.today().isoformat(), "load": os.getloadavg()[0]}


def append(raw, row):
    with raw.open("a") as file:
        file.write(json.dumps(row) + "\n")


def rounds(arguments):
    """Their numbers. The first is discarded, as memory that the host had taken back is slow to touch once, but with --warm."""
    first = 1 if arguments.warm else 0
    return range(first, first + arguments.rounds)


def rows(raw):
    """But those of first rounds."""
    read = (json.loads(line) for line in raw.read_text().splitlines())
    return [row for row in read if row["round"] > 0]


def numbers(program):
    """What a program prints until it ends, a list a line."""
    with program:
        return [list(map(float, line.split())) for line in program.stdout.read().splitlines()]


def numbers_of(programs):
    """The same of several that run at once: one that nobody reads stops when its pipe is full, after some six minutes."""
    with concurrent.futures.ThreadPoolExecutor() as threads:
        return list(threads.map(numbers, programs))


def relative(lines, reference):
    """When, in ms, and reads by processor time in terms of the reference's at that moment."""
    found, at = [], 0
    for ms, count, spent in lines:
        while at + 1 < len(reference) and reference[at][0] < ms - 50:
            at += 1
        _, count_then, spent_then = reference[at]
        if spent > 0 and spent_then > 0:
            found.append([int(ms), round(count / spent / (count_then / spent_then), 4)])
    return found


def wait_until(moment):
    time.sleep(max(0.0, moment - time.monotonic()))
