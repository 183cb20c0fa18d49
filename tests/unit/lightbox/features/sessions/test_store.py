"""The files of sessions: bounded in number, memory and time, and shared by all processes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lightbox.base.errors import BadRequest, TooLarge, Unavailable
from lightbox.base.machine.shared_files import held
from lightbox.base.run_dir import RunDir
from lightbox.features.sessions import Sessions, SessionSettings
from lightbox.features.sessions.store import ANYONE, FOLDER, HEADER, Session, SessionStore, UnknownSession, owner_of
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import worker_memory
from support.parameters import each
from support.patience import PATIENCE

ROWS = [bytes(range(16)), bytes(range(16, 32))]
"""An image of 4x2 pixels."""
IMAGE_BYTES = 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def store(folder: Path, seconds: float = PATIENCE, most: int = 10, images: int = 3) -> SessionStore:
    """Return a store with room for ``most`` sessions and ``images`` images of 4x2 pixels of one caller."""
    return SessionStore(folder, seconds, 2 * most, 2 * images * IMAGE_BYTES)


def keep(sessions: SessionStore, session: Session, rows: list[bytes] = ROWS) -> None:
    sessions.keep(session, (4, len(rows)), rows, 0.25, 77)


def test_an_id_is_one_that_botocore_takes_and_is_nowhere_in_the_folder(folder: Path) -> None:
    sessions = store(folder)
    first, second = sessions.open(), sessions.open()
    assert first.id != second.id
    assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*; Expires=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", first.header)
    assert first.id not in " ".join(path.name for path in folder.iterdir())
    assert first.label not in first.id
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@each("wrong", ["", "x", "../lock", "a" * 300, "0" * 32, "NEW_SESSION ", "é", "a\n"])
def test_an_id_that_is_none(folder: Path, wrong: str) -> None:
    sessions = store(folder)
    sessions.open()
    with pytest.raises(UnknownSession, match="expected NEW_SESSION, or the id of an open session") as raised:
        sessions.find(wrong)
    assert raised.value.message.startswith(HEADER)
    assert not wrong or wrong in "x" or wrong not in raised.value.message


def test_a_closed_session_is_gone_and_its_readers_finish(folder: Path) -> None:
    sessions = store(folder)
    session = sessions.open()
    keep(sessions, session)
    image = sessions.image(session)
    sessions.close(session)
    assert image is not None
    assert bytes(image.pixels) == b"".join(ROWS)
    for use in (sessions.find, lambda _: sessions.close(session), lambda _: sessions.image(session)):
        with pytest.raises(UnknownSession):
            use(session.id)
    with pytest.raises(UnknownSession):
        keep(sessions, session)
    assert sessions.usage() == (0, 0)


def test_an_expired_session_is_refused_at_once_and_removed_later(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = store(folder, seconds=60)
    session, younger = sessions.open(), store(folder, seconds=90).open()
    keep(sessions, session)
    monkeypatch.setattr(time, "monotonic", lambda: session.expires)
    with pytest.raises(UnknownSession):
        sessions.find(session.id)
    assert sessions.usage()[0] == 2
    sessions.remove_expired()
    assert sessions.usage() == (1, 0)
    assert sessions.find(younger.id) == younger


def test_the_expiry_does_not_move(folder: Path) -> None:
    sessions = store(folder)
    session = sessions.open()
    keep(sessions, session)
    keep(sessions, session)
    assert sessions.find(session.id) == session


def test_a_failed_image_leaves_nothing(folder: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield ROWS[0]
        raise BadRequest("it is truncated")

    sessions = store(folder)
    session = sessions.open()
    keep(sessions, session)
    with pytest.raises(BadRequest):
        sessions.keep(session, (4, 2), broken(), 0.0, 0)
    image = sessions.image(session)
    assert image is not None
    assert bytes(image.pixels) == b"".join(ROWS)
    assert sessions.usage() == (1, IMAGE_BYTES)


WRITER = """
import sys
from pathlib import Path
from lightbox.base.machine.shared_files import held
from lightbox.features.sessions.store import SessionStore

def rows():
    print("writing", flush=True)
    sys.stdin.read()
    yield b""

sessions = SessionStore(Path(sys.argv[1]), 600, 10, 10_000)
sessions.keep(sessions.find(sys.argv[2]), (4, 2), rows(), 0.0, 0)
"""


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_has_is_not(folder: Path) -> None:
    sessions = store(folder, images=9)
    session = sessions.open()
    command = [sys.executable, "-c", WRITER, str(folder), session.id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == b"writing\n"
        sessions.remove_expired()
        assert sessions.usage() == (1, IMAGE_BYTES)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    sessions.remove_expired()
    assert sessions.usage() == (1, 0)


def test_threads_stay_within_the_bounds(folder: Path) -> None:
    sessions, refused, opened = store(folder, most=8, images=4), [], []

    def work() -> None:
        for _ in range(20):
            try:
                session = sessions.open()
                opened.append(session)
                keep(sessions, session)
                image = sessions.image(session)
                assert image is None or bytes(image.pixels) == b"".join(ROWS)
            except (Unavailable, UnknownSession) as error:
                refused.append(error)
                session = opened[len(refused) % len(opened)]
            with held(sessions._folder / "turn"):
                count, size = sessions.usage()
            assert count <= 8
            assert size <= 4 * IMAGE_BYTES
            try:
                sessions.close(session)
            except UnknownSession:
                continue

    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert opened


def test_a_session_is_its_keys_own_and_one_caller_holds_half(folder: Path) -> None:
    sessions = store(folder, most=2, images=1)
    key, other, address = owner_of("ci"), owner_of("boss"), owner_of(None, "ci")
    session = sessions.open(key)
    assert sessions.find(session.id, key) == session
    for stranger in (other, address, ANYONE):
        with pytest.raises(UnknownSession):
            sessions.find(session.id, stranger)
    by_address = sessions.open(address)
    assert sessions.find(by_address.id, owner_of(None, "elsewhere")) == by_address
    with pytest.raises(UnknownSession):
        sessions.find(by_address.id, key)
    second = sessions.open(key)
    with pytest.raises(Unavailable, match="2 sessions of this caller are open, which is its half"):
        sessions.open(key)
    keep(sessions, session)
    with pytest.raises(Unavailable, match="leave to a caller, who may have half of the memory"):
        keep(sessions, second)
    with pytest.raises(TooLarge):
        sessions.check_size(4, 3)
    keep(sessions, by_address)
    keep(sessions, session)  # in place of its own
    with pytest.raises(Unavailable, match="4 sessions are open, which is the limit"):
        [sessions.open(other) for _ in range(3)]
    sessions.close(second)
    assert sessions.open(key)


def test_the_folder_is_in_memory_and_goes_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with RunDir() as run_dir:
        place = run_dir.make_folder_in_memory(FOLDER, 1 << 20)
        assert place.parent == Path("/dev/shm")
        assert place.stat().st_mode & 0o777 == 0o700
        assert (run_dir.path / "sessions").samefile(place)
    assert not place.exists()
    with RunDir() as run_dir:
        beside = run_dir.make_folder_in_memory(FOLDER, 1 << 60)
        assert beside == run_dir.path / "sessions"
        assert beside.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


def test_settings_by_either_name() -> None:
    assert not Sessions().enabled(load_settings({}))
    aws = load_settings({"SAGEMAKER_ENABLE_STATEFUL_SESSIONS": "true", "SAGEMAKER_SESSIONS_EXPIRATION": "60"})
    assert (Sessions().enabled(aws), aws.of(SessionSettings).session_seconds) == (True, 60)
    plain = load_settings({"LIGHTBOX_REQUEST_MEMORY_MB": "100", "SAGEMAKER_GUNICORN_WORKERS": "1"})
    ours = {"LIGHTBOX_REQUEST_MEMORY_MB": "100", "SAGEMAKER_GUNICORN_WORKERS": "1", "LIGHTBOX_SESSIONS": "true"}
    assert Sessions().memory(load_settings(ours)) == 25 << 20
    assert worker_memory(plain) - worker_memory(load_settings(ours)) == 25 << 20
