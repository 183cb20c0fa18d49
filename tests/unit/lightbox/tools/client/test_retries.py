"""Images that are sent again, and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.endpoint import endpoint, good, refuse, results, run, write_photos

pytestmark = pytest.mark.extended


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")


def test_who_hangs_up_is_asked_again(photos: Path) -> None:
    with endpoint(lambda body, times: None if times < 3 else good(body)) as served:
        assert run(photos, served.url) == 0
    assert set(served.came.values()) == {3}
    assert len(results(photos)) == 3


def test_attempts_have_an_end(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture that is refused every time gets a row. Pictures without a response wait for the next run."""
    with endpoint(lambda body, _: refuse("0") if body == b"a.jpg" else None) as served:
        assert run(photos, served.url, "--attempts", "2") == 1
    assert set(served.came.values()) == {2}
    assert {row["error"] for row in results(photos).values()} == {"try again: the queue is full"}
    said = capsys.readouterr().err
    assert "a.jpg: try again: the queue is full" in said
    assert "stopped: no response for 2 pictures in a row; the last error: no answer: " in said
    with endpoint(good) as served:
        assert run(photos, served.url, "--again") == 0
    assert len(results(photos)) == 3


@pytest.mark.parametrize("status", [400, 404, 413, 500, 502, 504])
def test_other_failures_are_noted_and_not_sent_again(photos: Path, status: int) -> None:
    with endpoint(
        lambda body, _: (status, {}, b'{"error": "no image", "code": "c"}') if body == b"a.jpg" else good(body)
    ) as served:
        assert run(photos, served.url) == 1
    assert set(served.came.values()) == {1}
    row = results(photos)["a.jpg"]
    assert (row["code"], row["error"], row["response"]) == ("c", "no image", None)


def test_failures_are_sent_again_where_it_is_asked_for(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda body, _: (400, {}, b"not today") if body == b"a.jpg" else good(body)) as served:
        assert run(photos, served.url) == 1
    row = results(photos)["a.jpg"]
    assert (row["code"], row["error"]) == ("status_400", "not today")
    with endpoint(good) as served:
        assert run(photos, served.url) == 0
        assert not served.came
        assert run(photos, served.url, "--again") == 0
    assert set(served.came) == {b"a.jpg"}
    assert len(results(photos)) == 3
    assert "2 had been answered before" in capsys.readouterr().out
    with endpoint(good) as served:
        assert run(photos, served.url) == 0
    assert not served.came
