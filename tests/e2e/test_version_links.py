"""Versions that come and go while Lightbox serves: no request fails, incomplete and broken versions never answer."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import requests

from lightbox.supervisor.watching.versions import LOOK_SECONDS, QUIET_SECONDS
from support.models import GOLDEN, export_classes, export_half_plus
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY, Stack, running

HALF_PLUS_TWO, HALF_PLUS_THREE, HALF_PLUS_NINE = ({"predictions": [answer]} for answer in (2.5, 3.5, 9.5))
VERSION_1, VERSION_2 = (GOLDEN / "half_plus_two" / number for number in "12")
"""They answer 2.5 and 3.5 for 1.0."""
BETWEEN_REQUESTS = 0.05
"""Seconds that a caller pauses: without a pause it takes a core from what is tested and from other tests."""
JSON = b'{"instances": [1.0]}'
PICTURE = (REPOSITORY / "docs" / "samples" / "digit-7.png").read_bytes()
NAMES = [f"class {number}" for number in range(10)]

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("copied", "synced", "broken", "rolled_back", "replaced", "restarted"):
        (folder / name).mkdir()
        shutil.copytree(VERSION_1, folder / name / "1")
    for name in ("rolled_back", "replaced", "restarted"):
        shutil.copytree(VERSION_2, folder / name / "2")
    export_classes(folder / "pictures", 1, 10)
    export_classes(folder / "named", 1, 10)
    (folder / "named" / "code").mkdir()
    (folder / "named" / "code" / "lightbox.json").write_text(json.dumps({"labels": NAMES, "top_k": 1}))
    return folder


@pytest.fixture(scope="module")
def versions_stack(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(models, tmp_path_factory.mktemp("run")) as stack:
        yield stack


class Caller(threading.Thread):
    """Requests a model again and again. ``answers`` has the answers in order, without consecutive repeats."""

    def __init__(self, stack: Stack, model: str, body: bytes) -> None:
        super().__init__()
        self._stack, self._model, self._body = stack, model, body
        self._ended = threading.Event()
        self.answers: list[object] = []
        self.count = 0

    def run(self) -> None:
        while not self._ended.wait(BETWEEN_REQUESTS):
            answer = ask(self._stack, self._model, body=self._body)
            if self.answers[-1:] != [answer]:
                self.answers.append(answer)
            self.count += 1

    def end(self) -> None:
        self._ended.set()
        self.join()


@contextmanager
def asked(stack: Stack, model: str, body: bytes = JSON) -> Iterator[Caller]:
    caller = Caller(stack, model, body)
    caller.start()
    try:
        yield caller
    finally:
        caller.end()


def ask(stack: Stack, model: str, version: int | None = None, body: bytes = JSON) -> object:
    named = f"tfs-model-name={model}" + (f",tfs-model-version={version}" if version else "")
    media_type = "application/json" if body is JSON else "application/x-image"
    response = stack.invoke(body, Content_Type=media_type, X_Amzn_SageMaker_Custom_Attributes=named)
    return response.json() if response.status_code == 200 else (response.status_code, response.text)


def wait_for_log(stack: Stack, text: str) -> None:
    stack.wait_until(lambda: text in stack.log)


def pause(looks: float, event: threading.Event = threading.Event()) -> None:  # noqa: B008 - it is never set
    event.wait(looks * LOOK_SECONDS)


def test_a_slow_copy_takes_over_when_it_is_whole(versions_stack: Stack, models: Path) -> None:
    target, writes = models / "copied" / "2", []
    with asked(versions_stack, "copied") as caller:
        for file in sorted(path for path in VERSION_2.rglob("*") if path.is_file()):
            place = target / file.relative_to(VERSION_2)
            place.parent.mkdir(parents=True, exist_ok=True)
            content = file.read_bytes()
            for end in (len(content) // 2, len(content)):
                assert HALF_PLUS_THREE not in caller.answers
                place.write_bytes(content[:end])
                writes.append(time.monotonic())
                pause(1.5)  # a change missed by one look is seen by a later one
        wait_for_log(versions_stack, "version 2 of the model 'copied' answers")
        asked_until_then = caller.count
        assert any(caller.count > asked_until_then + 5 for _ in poll())
    assert caller.answers == [HALF_PLUS_TWO, HALF_PLUS_THREE]
    assert ask(versions_stack, "copied", version=1) == HALF_PLUS_TWO
    if max(later - earlier for earlier, later in pairwise(writes)) < QUIET_SECONDS:  # else it may count as broken
        assert "version 2 of the model 'copied' is not served" not in versions_stack.log


def test_a_copy_without_its_variables_never_answers_and_one_that_is_mended_does(
    versions_stack: Stack, models: Path
) -> None:
    target = models / "synced" / "2"
    with asked(versions_stack, "synced") as caller:
        shutil.copytree(VERSION_2, target, ignore=shutil.ignore_patterns("variables"))
        missing = f"{target}/variables/variables.index is missing"
        wait_for_log(
            versions_stack, f"version 2 of the model 'synced' has appeared and cannot be served yet: {missing}"
        )
        wait_for_log(versions_stack, f"version 2 of the model 'synced' is not served: {missing}")
        assert caller.answers == [HALF_PLUS_TWO]
        assert ask(versions_stack, "synced", version=2)[0] == 404  # type: ignore[index]
        shutil.copytree(VERSION_2 / "variables", target / "variables")
        cut = target / "variables" / "variables.data-00000-of-00001"
        cut.write_bytes(cut.read_bytes()[:-1])
        wait_for_log(versions_stack, "version 2 of the model 'synced' is not served: it cannot be loaded: ")
        assert caller.answers == [HALF_PLUS_TWO]
        shutil.copy(VERSION_2 / "variables" / cut.name, cut)
        wait_for_log(versions_stack, "version 2 of the model 'synced' answers")
        assert any(HALF_PLUS_THREE in caller.answers for _ in poll())
    assert caller.answers == [HALF_PLUS_TWO, HALF_PLUS_THREE]


def test_a_version_whose_graph_fails_never_answers(versions_stack: Stack, models: Path) -> None:
    with asked(versions_stack, "broken") as caller:
        export_half_plus(models / "broken", 2, 3.0, fails=True)
        wait_for_log(versions_stack, "version 2 of the model 'broken' is not served: it failed a probe")
        (models / "broken" / "3").mkdir()
        (models / "broken" / "3" / "saved_model.pb").write_bytes(b"garbage")
        wait_for_log(versions_stack, f"version 3 of the model 'broken' is not served: {models}/broken/3/saved_model.pb")
        shutil.copytree(VERSION_2, models / "broken" / "4")
        wait_for_log(versions_stack, "version 4 of the model 'broken' answers")
        assert any(HALF_PLUS_THREE in caller.answers for _ in poll())
    assert caller.answers == [HALF_PLUS_TWO, HALF_PLUS_THREE]
    assert versions_stack.log.count("version 2 of the model 'broken' is not served") == 1
    assert ask(versions_stack, "broken", version=2)[0] == 404  # type: ignore[index]


def test_when_the_newest_is_removed_the_older_answers(versions_stack: Stack, models: Path) -> None:
    with asked(versions_stack, "rolled_back") as caller:
        assert any(caller.count > 5 for _ in poll())
        shutil.rmtree(models / "rolled_back" / "2")
        wait_for_log(versions_stack, "version 2 of the model 'rolled_back' was removed; version 1 answers")
        assert any(ask(versions_stack, "rolled_back", version=2) != HALF_PLUS_THREE for _ in poll())  # unloaded
        asked_until_then = caller.count
        assert any(caller.count > asked_until_then + 5 for _ in poll())
    assert caller.answers == [HALF_PLUS_THREE, HALF_PLUS_TWO]


def test_a_version_that_is_replaced_under_its_number_is_loaded_again(versions_stack: Stack, models: Path) -> None:
    with asked(versions_stack, "replaced") as caller:
        assert any(caller.count > 5 for _ in poll())
        export_half_plus(models.parent / "aside", 2, 9.0)
        shutil.rmtree(models / "replaced" / "2")  # replaced before the next look
        shutil.copytree(models.parent / "aside" / "2", models / "replaced" / "2")
        wait_for_log(versions_stack, "version 2 of the model 'replaced' answers")
        assert any(caller.answers[-1] == HALF_PLUS_NINE for _ in poll())
    assert caller.answers == [HALF_PLUS_THREE, HALF_PLUS_TWO, HALF_PLUS_NINE]


def test_a_version_with_other_classes_than_names_never_answers(versions_stack: Stack, models: Path) -> None:
    with asked(versions_stack, "named", PICTURE) as caller:
        export_classes(models / "named", 2, 7)
        why = "expected a label for each of the 7 classes of the output scores, got 10"
        file = models / "named" / "code" / "lightbox.json"
        wait_for_log(versions_stack, f"version 2 of the model 'named' is not served: {file}: labels: {why}")
        page = requests.get(f"{versions_stack.url}/metrics", timeout=PATIENCE).text
        (held,) = [line for line in page.splitlines() if line.startswith('lightbox_version_not_served{model="named"')]
        assert held == 'lightbox_version_not_served{model="named",reason="incompatible",version="2"} 1.0'
        export_classes(models / "named", 3, 10)
        wait_for_log(versions_stack, "version 3 of the model 'named' answers")
        assert any(len(caller.answers) > 1 for _ in poll())
    assert caller.answers == [
        {"predictions": [[{"label": "class 0", "class": 0, "score": version}]]} for version in (1.0, 3.0)
    ]
    assert ask(versions_stack, "named", version=2, body=PICTURE)[0] == 404  # type: ignore[index]


def test_a_version_that_takes_no_image_never_answers_where_images_are_taken(
    versions_stack: Stack, models: Path
) -> None:
    with asked(versions_stack, "pictures", PICTURE) as caller:
        export_classes(models / "pictures", 2, 10, flat=True)
        wait_for_log(versions_stack, "version 2 of the model 'pictures' is not served: signature 'serving_default'")
        export_classes(models / "pictures", 3, 7)  # all names match here
        wait_for_log(versions_stack, "version 3 of the model 'pictures' answers")
        assert any(len(caller.answers) > 1 for _ in poll())
    assert caller.answers == [{"predictions": [[1.0] * 10]}, {"predictions": [[3.0] * 7]}]
    assert "expected an image, as image (uint8 [-1,8,8,3]) of version 1, got" in versions_stack.log


def test_a_model_server_that_starts_again_sees_what_answers_alone(versions_stack: Stack, models: Path) -> None:
    half = models / "restarted" / "9"
    half.mkdir()
    shutil.copy(VERSION_2 / "saved_model.pb", half)
    versions_stack.lose("-m lightbox.model_runtime.server")
    versions_stack.wait_for_ping(200)
    assert ask(versions_stack, "restarted") == HALF_PLUS_THREE
    assert ask(versions_stack, "restarted", version=9)[0] == 404  # type: ignore[index]
