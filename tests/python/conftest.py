import os
import random
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def sample():
    """A small recording."""
    return os.environ["SAMPLE"]


@pytest.fixture
def pagewise_command():
    """Runs the command line: what it printed, and what it said on standard error."""

    def run(*arguments):
        done = subprocess.run([os.environ["PAGEWISE"], *map(str, arguments)], capture_output=True, text=True)
        return done.stdout, done.stderr.removeprefix("pagewise: ").strip()

    return run


def write_blocks(path, references, seed=1, pages=4000):
    """A trace of blocks: a sweep again and again, and a hot part."""
    chance = random.Random(seed)
    lines = []
    for at in range(references):
        page = chance.randrange(pages // 10) if chance.random() < 0.6 else at % pages
        lines.append(f"{page} 1 0 {at}")
    Path(path).write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def blocks(tmp_path_factory):
    return write_blocks(tmp_path_factory.mktemp("traces") / "blocks.lis", 100_000)


@pytest.fixture(scope="session")
def other_blocks(tmp_path_factory):
    return write_blocks(tmp_path_factory.mktemp("traces") / "other.lis", 60_000, seed=2, pages=3000)
