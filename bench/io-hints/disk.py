"""Settings of the disk that a benchmark's files are on, put back however the run ends."""
import contextlib
import os
import pathlib
import subprocess

DAMON = pathlib.Path("/sys/kernel/mm/damon/admin/kdamonds")
BLKIO = pathlib.Path("/sys/fs/cgroup/blkio")


def disk_of(path):
    """The folder of the whole disk in sysfs."""
    device = path.stat().st_dev
    node = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    return node if (node / "queue").exists() else node.parent


def read_ahead_of(path):
    """KiB."""
    return int((disk_of(path) / "queue/read_ahead_kb").read_text())


@contextlib.contextmanager
def read_ahead(path, kib):
    """read_ahead_kb of the disk; None: as it is."""
    setting = disk_of(path) / "queue/read_ahead_kb"
    before = setting.read_text().strip()
    if kib is None:
        yield int(before)
        return
    # A process of its own session puts it back once our end of the pipe is closed: also when we are killed.
    keeper = subprocess.Popen(["sh", "-c", 'read -r _; echo "$1" >"$2"', "keeper", before, setting], stdin=subprocess.PIPE, start_new_session=True)
    try:
        setting.write_text(str(kib))
        yield kib
    finally:
        keeper.stdin.close()
        keeper.wait()


@contextlib.contextmanager
def throttled(path, bytes_a_second, operations_a_second):
    """A cgroup of blkio (version 1) whose processes have a disk of that speed: reads, direct writes, and what is written by who asks for it (fsync,
    sync_file_range). What the kernel writes back by itself belongs to no cgroup there, and is not throttled. Yields what makes this process join it,
    for preexec_fn; None: there is no such hierarchy."""
    if not (BLKIO / "blkio.throttle.read_bps_device").exists():
        yield None
        return
    group = BLKIO / f"pagewise-bench-{os.getpid()}"
    group.mkdir()
    try:
        number = (disk_of(path) / "dev").read_text().strip()
        for way in ("read", "write"):
            (group / f"blkio.throttle.{way}_bps_device").write_text(f"{number} {bytes_a_second}")
            (group / f"blkio.throttle.{way}_iops_device").write_text(f"{number} {operations_a_second}")
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        group.rmdir()


@contextlib.contextmanager
def damon_paused(wanted):
    """Without the kernel's own eviction of what is idle, if wanted. Yields how many of its threads were paused."""
    running = [state for state in DAMON.glob("*/state") if state.read_text().strip() == "on"] if wanted else []
    try:
        for state in running:
            state.write_text("off")
        yield len(running)
    finally:
        for state in running:
            state.write_text("on")
