"""Files shared between processes: writers are killed at every step, and readers see the old or the new document."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import TypeAdapter

from lightbox.base.machine.shared_files import Document, SharedCounters, shared_numbers
from support import commands
from support.parameters import each

NUMBERS = TypeAdapter(dict[str, list[int]])
OLD, NEW = {"a": [1]}, {"a": list(range(5000))}
KILLED_AT_EACH_STEP = """
import os, signal, sys
from pathlib import Path
from pydantic import TypeAdapter
from lightbox.base.machine import shared_files

path, kind = Path(sys.argv[1]), sys.argv[2]
old, new = {"a": [1]}, {"a": list(range(5000))}
document = shared_files.Document(path, TypeAdapter(dict[str, list[int]]), {})

def prepare():
    if kind == "document":
        document.write(old)
    elif kind == "numbers":
        path.unlink(missing_ok=True)

def write():
    if kind == "document":
        document.write(new)
    elif kind == "numbers":
        shared_files.shared_numbers(path, 600)[599] = 1 << 62
    elif kind == "lock":
        os.close(shared_files.hold(path))
    else:
        shared_files.release(shared_files.hold_new(path))

def is_written():
    if kind == "document":
        found = document.read()
        assert found in (old, new)
        return found == new
    if kind == "numbers":
        found = shared_files.shared_numbers(path, 600)
        assert found.tolist()[:599] == [0] * 599 and found[599] in (0, 1 << 62)
        return found[599] != 0
    left = shared_files.hold(path)
    assert left is not None, "nobody is left that could let go of it"
    shared_files.release(left)
    return ended == 0

def killed(left):
    def step(frame, event, argument):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(step)
    write()
    sys.setprofile(None)
    os._exit(0)

ended = -1
left = 0
while ended != 0:
    left += 1
    prepare()
    child = os.fork()
    if child == 0:
        killed(left)
    ended = os.waitpid(child, 0)[1]
    print(int(is_written()), end="")
"""


def test_a_document_is_read_again_when_it_is_another(tmp_path: Path) -> None:
    reader, writer = (Document(tmp_path / "numbers.json", NUMBERS, {}) for _ in range(2))
    assert (reader.read(), reader.stamp()) == ({}, None)
    writer.write(OLD)
    first = reader.read()
    assert (first, reader.read() is first) == (OLD, True)
    writer.write(NEW)
    assert reader.read() == NEW


@each("kind", ["document", "numbers", "lock", "new lock"])
def test_who_is_killed_leaves_the_old_or_the_new_and_no_lock(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-c", KILLED_AT_EACH_STEP, str(tmp_path / "shared"), kind]
    seen = commands.output(command)
    assert seen == "".join(sorted(seen)), "once the new is there, it stays"
    assert (seen[0], seen[-1]) == ("0", "1")
    assert len(seen) > 5


def test_numbers_are_seen_by_all_who_map_them(tmp_path: Path) -> None:
    ours, others = (shared_numbers(tmp_path / "numbers", 3) for _ in range(2))
    assert others.tolist() == [0, 0, 0]
    ours[1] = -(1 << 62)
    assert others.tolist() == [0, -(1 << 62), 0]


def test_each_process_counts_in_a_row_of_its_own(tmp_path: Path) -> None:
    ours, others = (SharedCounters(tmp_path / "counters", "open", "dropped") for _ in range(2))
    assert others.read() == {"open": [], "dropped": []}
    first, third = ours.row(), others.row(2)
    first[0], first[1], third[0] = 1, 2, 3
    assert ours.read() == {"open": [1, 0, 3], "dropped": [2, 0, 0]}
    assert others.row().tolist() == [1, 2]
