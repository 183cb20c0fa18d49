"""scripts/compare_signals.py: the machine's model, the autoscaler, and the tables that docs/scaling.md shows."""

from __future__ import annotations

import itertools
import re
import shlex

import pytest

import compare_signals
from scaling.machine import Work, figures
from scaling.replay import LEAST, SIGNALS, STABLE_TICKS, Autoscaler, Fleet, Scenario, Signal, replay
from support.stack import REPOSITORY

CPU = 0.0242
CORES = 2
CPU_SIGNAL = next(signal for signal in SIGNALS if signal.name == "CPU")


def test_a_machine_is_the_queue_of_the_textbook() -> None:
    """M/M/2: 2 rho / (1 - rho^2) requests, far from the bound."""
    half = figures(round(100 * 0.5 * CORES / CPU), Work(CPU), CORES)
    assert half.cpu == pytest.approx(0.5, abs=0.001)
    assert half.concurrency == pytest.approx(2 * 0.5 / (1 - 0.25), rel=0.01)
    assert half.saturation == pytest.approx(half.concurrency / 16, rel=0.01)
    assert half.refused < 1e-9


def test_an_overloaded_machine_refuses_what_it_cannot_carry_and_is_full() -> None:
    full = figures(round(100 * 2 * CORES / CPU), Work(CPU), CORES)
    assert full.refused == pytest.approx(0.5, abs=0.01)
    assert full.cpu == pytest.approx(1, abs=0.001)
    assert full.saturation > 0.999
    assert full.waiting + full.refused > 0.999
    assert full.rate == pytest.approx(CORES / CPU, rel=0.001)


def test_a_handler_that_waits_fills_slots_and_leaves_the_cores_idle() -> None:
    full = figures(10_000, Work(CPU, elsewhere=0.5), CORES)
    assert full.rate == pytest.approx(16 / (CPU + 0.5), rel=0.01)
    assert full.saturation > 0.99
    assert full.cpu < 0.4


def test_nothing_comes_and_nothing_is_full() -> None:
    idle = figures(0, Work(CPU), CORES)
    assert (idle.cpu, idle.saturation, idle.concurrency, idle.waiting, idle.refused) == (0, 0, 0, 0, 0)


def decisions(ready: int, loads: list[float]) -> list[int]:
    """Return what is decided for a fleet that stays as it is, with 0.5 of CPU as the target."""
    autoscaler, fleet = Autoscaler(Signal("CPU", lambda seen: seen.cpu, 1), 0.5), Fleet(ready, 1)
    return [autoscaler.decide(figures(round(100 * load * CORES / CPU), Work(CPU), CORES), fleet) for load in loads]


def test_the_autoscaler_goes_up_at_once_and_down_slowly() -> None:
    assert decisions(10, [0.5, 0.54, 0.46]) == [10, 10, 10], "within the tolerance"
    assert decisions(10, [0.79]) == [16]
    assert decisions(2, [0.99]) == [4]
    assert decisions(10, [0.5] + [0.25] * (STABLE_TICKS - 1)) == [10] * STABLE_TICKS, "the highest wish counts"
    assert decisions(10, [0.25])[0] < 10
    assert decisions(LEAST, [0.01] * 3) == [LEAST] * 3


def test_machines_that_start_are_paid_and_do_not_answer() -> None:
    fleet = Fleet(3, start_ticks=2)
    fleet.resize(5, now=0)
    assert (fleet.ready, fleet.paid) == (3, 5)
    fleet.tick(1)
    assert fleet.ready == 3
    fleet.tick(2)
    assert fleet.ready == 5
    fleet.lose_a_third(2)
    assert (fleet.ready, fleet.paid) == (4, 5)
    fleet.resize(3, now=3)
    assert (fleet.ready, fleet.paid) == (3, 3)


def test_a_load_that_stays_needs_what_the_target_says() -> None:
    steady = Scenario("steady", 240, lambda now: 300.0, lambda now: Work(CPU))
    outcome = replay(steady, CPU_SIGNAL, 0.6, CORES, 90, seed=1)
    assert outcome.requests == pytest.approx(300 * 3600, rel=0.05)
    needed = 300 * CPU / CORES / 0.6
    assert 0.9 * needed < outcome.hours < 1.4 * needed
    assert replay(steady, CPU_SIGNAL, 0.6, CORES, 90, seed=1) == outcome
    assert replay(steady, CPU_SIGNAL, 0.6, CORES, 90, seed=2) != outcome


@pytest.mark.extended
def test_the_page_shows_what_its_command_prints_and_recommends_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "scaling.md").read_text()
    (command,) = re.findall(r"^\.venv/bin/python scripts/compare_signals\.py.*$", page, re.MULTILINE)
    assert compare_signals.main(shlex.split(command)[2:]) == 0
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith("|")]
    assert [line for line in page.splitlines() if line.startswith("| ") and "machine-hours" in line]
    for row in rows:
        assert row in page
    first, second = (after.split("|")[1:3] for line, after in itertools.pairwise(rows[-8:]) if "lightbox_" in after)
    assert first[0].strip() == "lightbox_saturation and CPU"
    assert second[0].strip() == "lightbox_saturation"
    shares = (float(first[1]), float(second[1]))
    assert f"**Scale by `lightbox_saturation` and CPU, both at {shares[0]:g}.**" in page
    assert f"`lightbox_saturation`, at {shares[1]:.2g}" in page


@pytest.mark.parametrize("option", ["--cpu-ms", "--start-seconds"])
def test_what_is_no_time_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compare_signals.main([option, "0"])
    assert f"{option}: expected a number above 0, not 0" in capsys.readouterr().err
