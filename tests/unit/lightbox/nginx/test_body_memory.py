"""The memory account of large bodies: it stays within the limit and releases the bodies of lost workers."""

from __future__ import annotations

import pytest

from lightbox.core import start
from lightbox.core.start import room_for_bodies
from lightbox.nginx import body_memory
from lightbox.nginx.body_memory import FAILURE, BodyAccount, missing_storage
from lightbox.serving.settings_loading import load_settings

MB = 1_000_000


def test_bodies_have_no_more_room_than_there_is() -> None:
    account = BodyAccount(most=30 * MB, largest=8 * MB)
    assert [account.take("1", str(number), 8 * MB) for number in range(5)] == [True] * 3 + [False] * 2
    assert account.take("2", "small", 6 * MB)
    assert not account.take("2", "one more", MB)
    account.give_back("1", "0")
    account.give_back("1", "0")
    account.give_back("1", "never taken")
    assert account.take("1", "5", 8 * MB)
    assert not account.take("1", "6", MB)


def test_very_large_bodies_leave_half_to_others_but_one_has_room() -> None:
    account = BodyAccount(most=120 * MB, largest=100 * MB)
    assert account.take("1", "a", 100 * MB)
    assert not account.take("1", "b", 11 * MB)
    assert account.take("1", "c", 10 * MB)
    account.give_back("1", "a")
    assert account.take("1", "d", 60 * MB)


def test_a_body_of_unknown_length_gets_what_fits() -> None:
    account = BodyAccount(most=512 << 20, largest=100 << 20)
    steps = [account.instead(f"/room/1/{number}/{100 << 20}", "") for number in range(40)]
    assert steps == [None] * 2 + ["up_to_16"] * 3 + ["up_to_8"] * 33 + [""] * 2
    account.give_back("1", "2")
    assert account.instead(f"/room/1/declared/{100 << 20}", str(100 << 20)) == ""
    assert account.instead(f"/room/1/40/{100 << 20}", "") == "up_to_16"


def test_a_lost_worker_holds_nothing() -> None:
    account = BodyAccount(most=20 * MB, largest=10 * MB)
    assert account.take("1", "a", 10 * MB)
    assert account.take("2", "b", 10 * MB)
    account.lost_worker("1")
    assert account.take("2", "c", 10 * MB)
    assert not account.take("2", "d", MB)
    account.clear()
    assert account.take("3", "e", 10 * MB)


@pytest.mark.parametrize(
    ("given", "memory_mb", "room_mb"), [(None, 4096, 1024), (None, 100, 200), ("500", 4096, 500), ("16", 4096, 200)]
)
def test_the_room_is_what_is_set_or_a_quarter_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, given: str | None, memory_mb: int, room_mb: int
) -> None:
    monkeypatch.setattr(start, "available_bytes", lambda: memory_mb << 20)
    monkeypatch.setattr(start, "free_bytes", lambda: 4 << 30)
    settings = load_settings({} if given is None else {"LIGHTBOX_REQUEST_MEMORY_MB": given})
    assert room_for_bodies(settings) >> 20 == room_mb


@pytest.mark.parametrize(
    ("length", "target", "free", "missing"),
    [
        ("8000000", "/room/1/a/8000000", 7_999_999, "the request body of 8,000,000 bytes"),
        ("8000000", "/room/1/a/8000000", 8_000_000, None),
        ("1500000", "/room/1/a/1500000", 0, None),
        ("", "/room/1/a/100000000", 0, None),
        ("", FAILURE, 0, "a request body that declares no length"),
        ("", FAILURE, 5_000_000, None),
        ("8000000", FAILURE, 0, "the request body of 8,000,000 bytes"),
        ("100", FAILURE, 0, None),
        ("-8000000", FAILURE, 5_000_000, None),
    ],
)
def test_what_does_not_fit_into_tmpdir(
    monkeypatch: pytest.MonkeyPatch, length: str, target: str, free: int, missing: str | None
) -> None:
    monkeypatch.setattr(body_memory, "free_bytes", lambda: free)
    assert missing_storage(length, target) == missing
