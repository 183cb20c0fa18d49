"""Finds the setting that takes the least CPU time of those whose answers agree with the present ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from typing import Any

from lightbox.model_runtime.cores import available_cores
from lightbox.model_runtime.engines import AUTO
from lightbox.model_runtime.engines.engine import engines
from lightbox.model_runtime.engines.hardware import INT8, PRECISIONS, has_bf16
from lightbox.model_runtime.engines.setting import Setting
from lightbox.tools.optimize import calibration
from lightbox.tools.optimize.pictures import Picture, Pictures
from lightbox.tools.optimize.trial import Subject, Trial, TrialFailed, measured

SCREENED = 30
"""Pictures that show how fast a setting is, before all show how right it is."""
BF16 = PRECISIONS[1]
LEAST_GAIN = 0.97
"""A larger share of the CPU time is not worth a setting."""


def candidates(subject: Subject, decodes: bool) -> Iterator[Setting]:
    """Yield the settings of one thread, without the present one; with reduced decoding if ``decodes``."""
    opening = [engine for engine in engines() if engine.opens(subject.folder)]
    has_reference = any(engine.sets_results for engine in opening)  # auto then keeps it beside the other
    for engine in opening:
        if not engine.is_installed() or engine.sets_results:
            continue
        for precision, level, fast in product(engine.precisions, engine.levels, (False, True) if decodes else (False,)):
            setting = Setting(AUTO if has_reference else engine.name, precision, level, fast_decode=fast)
            if setting != Setting() and (precision != BF16 or has_bf16()):
                yield setting


class Search:
    """Tries settings. Raises TrialFailed if the model itself answers no picture."""

    def __init__(self, subject: Subject, pictures: Pictures, budget: float, say: Callable[[str], None]) -> None:
        """``say`` gets lines about the progress."""
        self._subject, self._pictures, self._least, self._say = subject, pictures, 1 - budget, say
        self._basis = calibration.basis_of(pictures.calibrating)
        self.tried: dict[str, dict[str, Any]] = {}
        """By setting: times, agreement and verdict."""
        self.best: Trial | None = None

    @property
    def setting(self) -> Setting:
        """The setting to take: the present one if no other is better."""
        return self.best.setting if self.best else Setting()

    def find(self) -> None:
        """Find the setting that takes the least CPU time, of those that agree."""
        screened = [trial for setting in self._wanted() if (trial := self._screened(setting))]
        for trial in sorted(screened, key=lambda trial: trial.share):
            if problem := self._disagreement(trial) or ("" if self.best else self._problem(trial)):
                self._note(trial, f"refused: {problem}")
            elif self.best:
                self._note(trial, "not compared: it takes more CPU time than the chosen one")
            else:
                self._compare(trial.setting)
        self._try_threads()
        if self.setting.precision != INT8:
            calibration.remove(self._subject)

    def _wanted(self) -> list[Setting]:
        """Return the settings to try. Reduced decoding saves time only for large pictures."""
        fast = self._screened(Setting(fast_decode=True)) if self._subject.may_decode else None
        wanted = [*candidates(self._subject, decodes=fast is not None and fast.share <= LEAST_GAIN)]
        if in_int8 := [setting for setting in wanted if setting.precision == INT8]:
            self._say(f"making the INT8 model: {self._basis}")
            try:
                calibration.make(self._subject, self._pictures.calibrating)
            except TrialFailed as error:
                self._refuse(in_int8[0], str(error))
                return [setting for setting in wanted if setting not in in_int8]
        return [setting for setting in wanted if str(setting) != str(Setting(fast_decode=True))]

    def _screened(self, setting: Setting) -> Trial | None:
        """Return how a setting does with a few pictures; None, and the reason in the report, if it fails."""
        trial = self._measured(setting, self._pictures.comparing[:SCREENED])
        if trial:
            present, this = trial.milliseconds("cpu")
            self._say(f"tried {setting}: {this:.3g} instead of {present:.3g} ms of CPU")
        return trial

    def _measured(self, setting: Setting, pictures: Sequence[Picture], *more: Any) -> Trial | None:
        basis = self._basis if setting.precision == INT8 else ""
        try:
            return measured(self._subject, setting, pictures, basis, *more)
        except TrialFailed as error:
            self._refuse(setting, str(error))
            return None

    def _compare(self, setting: Setting) -> None:
        """Compare the answers for all pictures, and take the setting if they agree."""
        pictures = self._pictures.comparing

        def say(done: int) -> None:
            self._say(f"comparing {setting}: {done:,} of {len(pictures):,} pictures")

        if trial := self._measured(setting, pictures, self._least, say):
            if problem := self._problem(trial):
                self._note(trial, f"refused: {problem}")
            else:
                self.best = trial
                self._note(trial, "chosen")

    def _problem(self, trial: Trial) -> str | None:
        """Return why a setting cannot be taken, by what is known of it; None if it may be."""
        is_gain = trial.share <= LEAST_GAIN * (self.best.share if self.best else 1)
        return self._disagreement(trial) or (None if is_gain else "it saves less than 3 % of the CPU time")

    def _disagreement(self, trial: Trial) -> str | None:
        count, found = len(self._pictures.comparing), trial.agreement()
        is_whole = len(trial.items) == count
        if is_whole and (not found or any(map(math.isnan, found.values()))):
            return "the present setting finds nothing in these pictures to agree with"
        short = [f"{name} {value:.2%}" for name, value in found.items() if value < self._least]
        if short and (is_whole or trial.most_possible(count) < self._least):
            part = "" if is_whole else f" after {len(trial.items):,} pictures"
            return f"{' and '.join(short)}{part}, less than {self._least:.2%}"
        return None

    def _try_threads(self) -> None:
        """Try all cores for a call of the chosen setting: it answers sooner, and seldom with less CPU time."""
        if (best := self.best) is None or (cores := available_cores()) == 1:
            return
        trial = self._screened(replace(best.setting, threads=cores))
        if trial and trial.share < LEAST_GAIN * best.share:
            self._compare(trial.setting)
        elif trial:
            self._note(trial, "not compared: it takes no less CPU time than one thread")

    def _note(self, trial: Trial, verdict: str) -> None:
        pairs = {kind: trial.milliseconds(kind) for kind in ("cpu", "wall")}
        entry: dict[str, Any] = {f"{kind}_ms": _beside([round(one, 3) for one in pair]) for kind, pair in pairs.items()}
        truth = [_rounded(values) for values in trial.truth()]
        entry |= {"agreement": _rounded(trial.agreement())} | ({"truth": _beside(truth)} if truth else {})
        self._keep(trial.setting, {"verdict": verdict, "pictures": len(trial.items), **entry})

    def _refuse(self, setting: Setting, why: str) -> None:
        self._keep(setting, {"verdict": f"refused: {why}"})

    def _keep(self, setting: Setting, entry: Mapping[str, Any]) -> None:
        self.tried[str(setting)] = {**asdict(setting), **entry}
        self._say(f"{setting}: {entry['verdict']}")


def _beside(pair: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("present", "this"), pair, strict=True))


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in values.items()}
