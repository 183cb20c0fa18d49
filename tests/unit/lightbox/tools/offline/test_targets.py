"""lightbox.tools.offline.targets: each picture gets exactly one row, even if a run is killed at any point."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

from lightbox.tools.offline.rows import Row
from lightbox.tools.offline.storage import AwsError, at, split
from lightbox.tools.offline.targets import FORMS, Target, TargetError
from support.parameters import few_of
from support.s3_server import BUCKET, client

COUNT = 7
ENDINGS = [*FORMS, *(f"{ending}/" for ending in FORMS)]
A_FEW = [(".jsonl", 7), (".parquet/", 7)]
FIRST, GROWN = 3, 5
"""Pictures of a run that is killed, and of its source when it has grown: they end in the middle of a part."""
MOST_EVENTS = 2000
"""An upper bound for the audit events of one run."""


class By(NamedTuple):
    """The model that answers."""

    name: str | None = "cats"
    version: int | None = 3
    engine: str | None = "openvino"
    reads: bool = False

    def responses(self, pictures: Any) -> Iterator[tuple[str, Any]]:
        raise NotImplementedError


def row(number: int, error: str | None = None) -> Row:
    """Return a row with values that are hard for a file format: quotes, line breaks, None, NaN and non-ASCII."""
    response = None if error else json.dumps([number, 'a "quoted", text\r\nin two lines', None, float("nan"), "ü"])
    return Row(f"{number}, ü.jpg", response, "too_large" if error else None, error, "cats", 3, "openvino")


def write(to: str, count: int = COUNT, part_rows: int = 2) -> None:
    """Write the missing rows, as a run does."""
    with Target(to, By(), part_rows) as target:
        for number in range(count):
            if row(number).path not in target.done:
                target.add(row(number))
        target.finish()


def found(to: str) -> list[Row]:
    """Return the rows of a target."""
    parent, name = split(to)
    files = at(parent)
    names = list(files.names(name)) if to.endswith("/") else [name]
    rows = list[Row]()
    for one in names:
        with files.open(one) as file:
            rows += FORMS[Path(one).suffix]().read(file)
    return rows


def same(one: Row, other: Row) -> bool:
    """Compare rows and treat NaN as equal."""
    texts = [None if it.response is None else repr(json.loads(it.response)) for it in (one, other)]
    return texts[0] == texts[1] and one._replace(response=None) == other._replace(response=None)


@pytest.fixture(params=ENDINGS)
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_rows_come_back_as_they_were(tmp_path: Path, ending: str) -> None:
    to = f"{tmp_path}/rows{ending}"
    with Target(to, By(), 2) as target:
        for number in range(COUNT):
            target.add(row(number, 'no, it\nis "too" large' if number == 3 else None))
        target.finish()
    rows = found(to)
    assert all(same(one, row(number, rows[3].error if number == 3 else None)) for number, one in enumerate(rows))
    assert [one.code for one in rows] == [None] * 3 + ["too_large"] + [None] * 3
    assert [file.name for file in tmp_path.iterdir()] == [f"rows{ending}".rstrip("/")]


def killed_at(event: int, run: Callable[[], None]) -> bool:
    """Run in a process that kills itself at its n-th audit event; return whether it reached that event."""
    child = os.fork()
    if not child:
        seen = 0

        def hook(name: str, arguments: object) -> None:
            nonlocal seen
            if name.split(".", maxsplit=1)[0] in ("open", "os", "shutil", "fcntl", "socket", "tempfile"):
                seen += 1
                if seen == event:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            run()
            os.execlp("true", "true")  # not os._exit, in which coverage collects garbage: the threads' locks are lost
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize(("ending", "step"), few_of([(".jsonl", 1), (".csv/", 1), (".parquet", 1), *A_FEW], *A_FEW))
def test_killed_anywhere_it_goes_on_and_each_picture_has_one_row(tmp_path: Path, ending: str, step: int) -> None:
    """Kill a first run and a second run, finish, then repeat with more pictures as the source grows."""
    for event in range(1, MOST_EVENTS, step):
        to = f"{tmp_path}/{event}{ending}"
        was_killed = killed_at(event, lambda to=to: write(to, FIRST))  # type: ignore[misc]
        killed_at(event // 2 + 1, lambda to=to: write(to, FIRST))  # type: ignore[misc]
        write(to, FIRST)
        assert Counter(one.path for one in found(to)) == {row(number).path: 1 for number in range(FIRST)}
        killed_at(event, lambda to=to: write(to, GROWN))  # type: ignore[misc]
        write(to, GROWN)
        assert Counter(one.path for one in found(to)) == {row(number).path: 1 for number in range(GROWN)}
        assert not Path(f"{to}.parts").exists()
        if not was_killed:
            assert event > GROWN
            return
    pytest.fail("it never came to its end")


def test_an_unfinished_run_leaves_no_file_that_looks_finished(tmp_path: Path) -> None:
    to = tmp_path / "rows.csv"
    with Target(str(to), By(), 2) as target:
        for number in range(3):
            target.add(row(number))
    assert not to.exists()
    assert [file.name for file in (tmp_path / "rows.csv.parts").iterdir()] == ["part-00000.csv"]


def test_pictures_that_failed_are_answered_again_where_it_is_asked_for(tmp_path: Path, ending: str) -> None:
    to = f"{tmp_path}/rows{ending}"
    with Target(to, By(), 2) as target:
        for number in range(COUNT):
            target.add(row(number, "gone" if number % 2 else None))
        target.finish()
    with Target(to, By()) as target:
        assert len(target.done) == COUNT
    with Target(to, By(), again=True) as target:
        assert target.done == {row(number).path for number in range(0, COUNT, 2)}
    write(to)
    assert Counter(one.path for one in found(to)) == {row(number).path: 1 for number in range(COUNT)}
    assert {one.error for one in found(to)} == {None}


def test_a_target_is_of_one_model_and_of_one_run(tmp_path: Path, ending: str) -> None:
    to = f"{tmp_path}/rows{ending}"
    with (
        Target(to, By()) as target,
        pytest.raises(TargetError, match="another run is writing to it"),
        Target(to, By()),
    ):
        pass
    write(to)
    for by, named in ((By("dogs"), "'dogs', version 3"), (By(version=4), "'cats', version 4")):
        with pytest.raises(TargetError) as caught, Target(to, by):
            pass
        assert str(caught.value) == (
            f"{to}: holds answers of the model 'cats', version 3, this run's are of the model {named}: "
            "name another target with --to"
        )
    with Target(to, By(None, None, None)) as target:
        assert len(target.done) == COUNT


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """The parts of the run that should write the file also stay."""
    for ending in FORMS:
        file = tmp_path / f"notes{ending}"
        with Target(str(file), By()) as target:
            target.add(row(0))
            target.flush()
        for text in ("my notes", "my notes\n", '{"path": "a.jpg"}\n', "[1]\n", "path,response\n"):
            file.write_text(text)
            with (
                pytest.raises(TargetError, match="holds no rows of this command: name another"),
                Target(str(file), By()),
            ):
                pass
            assert file.read_text() == text
            assert len(found(f"{file}.parts/")) == 1


def test_what_is_no_target_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for to, words in (
        ("out.xml", "expected a name that ends in .jsonl, .csv, .parquet, got '.xml'"),
        ("out", "expected a name that ends in .jsonl, .csv, .parquet, got 'none'"),
        ("no/out.csv", f"the folder {tmp_path}/no does not exist"),
    ):
        with pytest.raises(TargetError) as caught:
            Target(f"{tmp_path}/{to}", By())
        assert str(caught.value) == f"{tmp_path}/{to}: {words}"
    (tmp_path / "out.csv").touch()
    with pytest.raises(TargetError, match="expected a folder, because of the slash at its end; it is a file"):
        Target(f"{tmp_path}/out.csv/", By())
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        TargetError, match=r"Parquet needs the package pyarrow: pip install 'lightbox-serve\[parquet\]'"
    ):
        Target(f"{tmp_path}/out.parquet", By())


@pytest.mark.parametrize(
    ("form", "step"), few_of([(".jsonl", 11), (".parquet/", 11), (".parquet/", 41)], (".parquet/", 41))
)
def test_in_s3_too(moto_s3: dict[str, str], form: str, step: int) -> None:
    to = f"s3://{BUCKET}/{form[1:4]}/rows{form}"
    for event in range(1, MOST_EVENTS, step):
        was_killed = killed_at(event, lambda: write(to, FIRST))
        write(to, FIRST)
        assert Counter(one.path for one in found(to)) == {row(number).path: 1 for number in range(FIRST)}
        killed_at(event, lambda: write(to, GROWN))
        write(to, GROWN)
        assert Counter(one.path for one in found(to)) == {row(number).path: 1 for number in range(GROWN)}
        keys = [entry["Key"] for entry in client(moto_s3).list_objects_v2(Bucket=BUCKET)["Contents"]]
        assert form.endswith("/") or [key for key in keys if ".parts/" in key] == []
        for key in keys:
            client(moto_s3).delete_object(Bucket=BUCKET, Key=key)
        if not was_killed:
            assert event > GROWN
            return
    pytest.fail("it never came to its end")


def test_two_runs_do_not_write_one_part(moto_s3: dict[str, str]) -> None:
    to = f"s3://{BUCKET}/two/rows.csv/"
    with Target(to, By()) as first, Target(to, By()) as second:
        first.add(row(0))
        second.add(row(0))
        first.flush()
        with pytest.raises(TargetError, match="another run is writing to it"):
            second.flush()
    assert len(found(to)) == 1


def test_a_part_whose_answer_was_lost_is_there(moto_s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 sends the part again, and S3 refuses it because it already exists."""
    send, lost = URLLib3Session.send, list[str]()

    def losing(self: URLLib3Session, request: Any) -> Any:
        response = send(self, request)
        if request.method == "PUT" and not lost:
            lost.append(request.url)
            raise ConnectionClosedError(endpoint_url=request.url)
        return response

    monkeypatch.setattr(URLLib3Session, "send", losing)
    to = f"s3://{BUCKET}/lost/rows.csv/"
    with Target(to, By()) as target:
        target.add(row(0))
        target.flush()
        target.add(row(1))
        target.finish()
    assert len(lost) == 1
    assert [one.path for one in found(to)] == [row(0).path, row(1).path]


@pytest.mark.parametrize("status", [400, 501])
def test_a_store_without_conditions_gets_each_part(
    moto_s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    send = URLLib3Session.send

    def unconditional(self: URLLib3Session, request: Any) -> Any:
        if "If-None-Match" not in request.headers:
            return send(self, request)
        refusal = AWSResponse(request.url, status, {}, None)
        refusal._content = b""
        return refusal

    monkeypatch.setattr(URLLib3Session, "send", unconditional)
    for ending in (".csv/", ".csv"):
        to = f"s3://{BUCKET}/without-{status}/rows{ending}"
        write(to)
        assert Counter(one.path for one in found(to)) == {row(number).path: 1 for number in range(COUNT)}
        with Target(f"{to}/two.csv/", By()) as first, Target(f"{to}/two.csv/", By()) as second:
            for one in (first, second):
                one.add(row(0))
            first.flush()
            with pytest.raises(TargetError, match="another run is writing to it"):
                second.flush()


def test_a_bucket_that_is_not_there_is_a_sentence(moto_s3: dict[str, str]) -> None:
    with pytest.raises(TargetError, match=r"nobodys-bucket.*NoSuchBucket"), Target("s3://nobodys-bucket/a.csv/", By()):
        pass
    files = at("s3://nobodys-bucket/a")
    with pytest.raises(AwsError, match=r"NoSuchBucket"):
        files.read("b.jpg", 100)
