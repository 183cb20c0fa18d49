import queue
import threading
from pathlib import Path

import pytest

from lightbox.tools.model_zoo.staging import PREFIX, replace_file, staging
from support.patience import PATIENCE


def test_the_folder_is_fresh_and_gone_afterwards(tmp_path: Path) -> None:
    with staging(tmp_path / "models") as partial:
        assert partial.parent == tmp_path / "models"
        (partial / "half").mkdir()
    assert list((tmp_path / "models").iterdir()) == []


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), staging(tmp_path) as partial:
        (partial / "half").touch()
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}dead" / "1").mkdir(parents=True)
    (tmp_path / "model").mkdir()
    with staging(tmp_path) as partial:
        assert sorted(tmp_path.iterdir()) == sorted([partial, tmp_path / "model"])


def test_a_second_run_waits_and_leaves_the_first_ones_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr("lightbox.base.telemetry.say.progress", said.put)

    def second() -> None:
        with staging(tmp_path):
            pass

    thread = threading.Thread(target=second)
    with staging(tmp_path) as partial:
        thread.start()
        assert said.get(timeout=PATIENCE) == f"another run is writing to {tmp_path}: waiting for it"
        assert list(tmp_path.iterdir()) == [partial]
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    replace_file(tmp_path / "code" / "lightbox.json", "one")
    replace_file(tmp_path / "code" / "lightbox.json", "two")
    assert [path.name for path in (tmp_path / "code").iterdir()] == ["lightbox.json"]
    assert (tmp_path / "code" / "lightbox.json").read_text() == "two"
