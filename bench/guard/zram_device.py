"""A zram device as swap, of our own and removed however the run ends: a keeper waits at a pipe that the kernel closes with us."""
import contextlib
import pathlib
import subprocess

CONTROL = pathlib.Path("/sys/class/zram-control")
# As priorities go up to 32767: before all other swap.
PRIORITY = 32000
# A device is busy for a moment after it was last used. Signals to the run's group are not for the keeper.
KEEPER = """
trap '' INT TERM HUP QUIT
cat >/dev/null
for attempt in $(seq 100); do
    grep -q "^/dev/zram$1 " /proc/swaps && swapoff /dev/zram$1
    if echo 1 >/sys/block/zram$1/reset && echo "$1" >/sys/class/zram-control/hot_remove; then exit 0; fi 2>/dev/null
    sleep 0.1
done
echo "zram$1 could not be removed; type: swapoff /dev/zram$1; echo $1 >/sys/class/zram-control/hot_remove" >&2
"""


def algorithms():
    """What this kernel's zram compresses with: read of a device, which is added for that if there is none."""
    for device in sorted(pathlib.Path("/sys/block").glob("zram*")):
        return [word.strip("[]") for word in (device / "comp_algorithm").read_text().split()]
    number = (CONTROL / "hot_add").read_text().strip()
    try:
        return [word.strip("[]") for word in pathlib.Path(f"/sys/block/zram{number}/comp_algorithm").read_text().split()]
    finally:
        (CONTROL / "hot_remove").write_text(number)


@contextlib.contextmanager
def device(algorithm, size):
    """Its name, in use as swap."""
    number = (CONTROL / "hot_add").read_text().strip()
    # In a session of its own: what ends the run does not end it.
    keeper = subprocess.Popen(["sh", "-c", KEEPER, "keeper", number], stdin=subprocess.PIPE, start_new_session=True)
    try:
        attributes = pathlib.Path(f"/sys/block/zram{number}")
        (attributes / "comp_algorithm").write_text(algorithm)
        (attributes / "disksize").write_text(str(size))
        subprocess.run(["mkswap", "-q", f"/dev/zram{number}"], check=True, capture_output=True)
        subprocess.run(["swapon", "-p", str(PRIORITY), f"/dev/zram{number}"], check=True)
        yield f"zram{number}"
    finally:
        keeper.stdin.close()
        keeper.wait()
