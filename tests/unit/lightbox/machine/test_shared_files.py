"""Files that processes share: writers are killed at every step, readers find the old document or the new."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pydantic import TypeAdapter

from lightbox.machine.shared_files import Document, shared_numbers
from support.patience import PATIENCE

NUMBERS = TypeAdapter(dict[str, list[int]])
OLD, NEW = {"a": [1]}, {"a": list(range(5000))}
KILLED_AT_EACH_STEP = """
import os, signal, sys
from pathlib import Path
from pydantic import TypeAdapter
from lightbox.machine.shared_files import Document

document = Document(Path(sys.argv[1]), TypeAdapter(dict[str, list[int]]), {})
old, new = {"a": [1]}, {"a": list(range(5000))}

def write(left):
    def step(frame, event, argument):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(step)
    document.write(new)
    sys.setprofile(None)
    os._exit(0)

ended = -1
left = 0
while ended != 0:
    left += 1
    document.write(old)
    child = os.fork()
    if child == 0:
        write(left)
    ended = os.waitpid(child, 0)[1]
    found = document.read()
    assert found in (old, new)
    print(int(found == new), end="")
"""


def test_a_document_is_read_again_when_it_is_another(tmp_path: Path) -> None:
    reader, writer = (Document(tmp_path / "numbers.json", NUMBERS, {}) for _ in range(2))
    assert (reader.read(), reader.stamp()) == ({}, None)
    writer.write(OLD)
    first = reader.read()
    assert (first, reader.read() is first) == (OLD, True)
    writer.write(NEW)
    assert reader.read() == NEW


def test_a_writer_that_is_killed_leaves_the_old_document_or_the_new(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_AT_EACH_STEP, str(tmp_path / "numbers.json")]
    seen = subprocess.run(command, timeout=PATIENCE, check=True, capture_output=True, text=True).stdout
    assert seen == "".join(sorted(seen)), "once the new document is there, it stays"
    assert (seen[0], seen[-1]) == ("0", "1")
    assert len(seen) > 20


def test_numbers_are_seen_by_all_who_map_them(tmp_path: Path) -> None:
    ours, others = (shared_numbers(tmp_path / "numbers", 3, "q") for _ in range(2))
    assert others.tolist() == [0, 0, 0]
    ours[1] = -(1 << 62)
    assert others.tolist() == [0, -(1 << 62), 0]
    seconds = shared_numbers(tmp_path / "seconds", 1, "d")
    seconds[0] = 0.5
    assert shared_numbers(tmp_path / "seconds", 1, "d").tolist() == [0.5]
