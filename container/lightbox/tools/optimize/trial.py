"""Measures a setting beside the present one: both answer the same pictures in turn, in a process that may crash.

Results are cached by what they depend on, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import lightbox
from lightbox.base.errors import LightboxError, StartError
from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.own_process import run
from lightbox.model_runtime.engines.setting import TRIED, Setting, key_of
from lightbox.tools.optimize.agreement import TOP_1, Record, compared, most_possible, summary, with_class, with_objects
from lightbox.tools.optimize.pictures import Picture

CHUNK = 100
"""Pictures of a process."""
_MOST_SECONDS = 3600.0


class TrialFailed(Exception):
    """A setting cannot be measured; the message is one sentence."""


@dataclass(frozen=True)
class Subject:
    """The model to optimize."""

    path: str
    """Of ``lightbox.load``."""
    folder: Path
    """The folder of its newest version."""
    options: Mapping[str, Any]
    """Of ``lightbox.load``."""
    labels: Sequence[str]
    resolved: str
    """All options, as JSON: results hold for them."""
    may_decode: bool
    """Whether the options leave ``fast_decode`` open."""


@dataclass(frozen=True)
class Trial:
    """The results of a setting: an item for each picture."""

    setting: Setting
    items: Sequence[Mapping[str, Any]]

    @property
    def records(self) -> list[Record]:
        """The records of the answers."""
        return [item["agreement"] for item in self.items if "agreement" in item]

    def most_possible(self, count: int) -> float:
        """Return the agreement that ``count`` pictures can still reach; 1 if only the whole tells."""
        return most_possible(self.records, count)

    def milliseconds(self, kind: str) -> tuple[float, float]:
        """Return the median of a picture, ``cpu`` or ``wall``: of the present setting, and of this one."""
        pairs = [item[kind] for item in self.items if kind in item]
        return median(pair[0] for pair in pairs) * 1e3, median(pair[1] for pair in pairs) * 1e3

    @property
    def share(self) -> float:
        """The CPU time as a share of that of the present setting: the median of the pictures, whose pairs are measured
        one right after the other."""
        return float(median(item["cpu"][1] / item["cpu"][0] for item in self.items if "cpu" in item))

    def agreement(self) -> dict[str, float]:
        """Return the agreement with the present setting, by measure."""
        return summary(self.records)

    def truth(self) -> list[dict[str, float]]:
        """Return how right the present setting and this one are, by measure; empty without labels."""
        known = [item["truth"] for item in self.items if "truth" in item]
        return [summary(pair[which] for pair in known) for which in (0, 1)] if known else []


def measured(
    subject: Subject,
    setting: Setting,
    pictures: Sequence[Picture],
    basis: str,
    least: float = 0.0,
    say: Callable[[int], None] | None = None,
) -> Trial:
    """Return the results of a setting for pictures, up to where the agreement can no longer reach ``least``.

    ``basis`` is what the INT8 model was made of. ``say`` gets the number of pictures after each process. Raises
    TrialFailed.
    """
    items: list[Mapping[str, Any]] = []
    for at in range(0, len(pictures), CHUNK):
        items += _chunk(subject, setting, pictures[at : at + CHUNK], basis)
        if say:
            say(len(items))
        if Trial(setting, items).most_possible(len(pictures)) < least:
            break
    if not any("cpu" in item for item in items):
        raise TrialFailed(str(next((item["error"] for item in items), "no picture is answered")))
    return Trial(setting, items)


def _chunk(subject: Subject, setting: Setting, pictures: Sequence[Picture], basis: str) -> list[Mapping[str, Any]]:
    depends = [key_of(subject.folder, Setting()), key_of(subject.folder, setting), asdict(setting), subject.resolved]
    digest = hashlib.sha256(json.dumps([lightbox.__version__, depends, basis, pictures]).encode()).hexdigest()
    kept = disk_cache.kept_folder()
    place = kept / f"optimize-{digest[:32]}.json" if kept else None
    if place and (known := disk_cache.read(place)):
        return list(known["items"])
    task = {
        "model": subject.path,
        "options": subject.options,
        "labels": subject.labels,
        "settings": [asdict(Setting()), asdict(setting)],
        "pictures": pictures,
    }
    found = in_process("lightbox.tools.optimize.trial", task)
    if place:
        disk_cache.write(place, {"items": found})
    return list(found)


def in_process(module: str, task: Mapping[str, Any]) -> Any:
    """Return what the ``main`` of a module writes for a task in a process of its own. Raises TrialFailed."""
    with tempfile.TemporaryDirectory(prefix="optimize-") as folder:
        asked, answer = Path(folder, "task.json"), Path(folder, "answer.json")
        asked.write_text(json.dumps(task))
        _, ended = run([sys.executable, "-P", "-m", module, str(asked), str(answer)], most_seconds=_MOST_SECONDS)
        if not answer.exists():
            raise TrialFailed(f"its process {ended}")
        found = json.loads(answer.read_text())
        if isinstance(found, str):
            raise TrialFailed(found)
        return found


def answered(work: Callable[[Mapping[str, Any]], Any]) -> None:
    """Write what ``work`` returns for the task of a process, or the sentence of its error."""
    asked, answer = map(Path, sys.argv[1:])
    try:
        found = work(json.loads(asked.read_text()))
    except (StartError, LightboxError) as error:
        found = " ".join(str(error).split())
    partial = answer.with_suffix(".part")
    partial.write_text(json.dumps(found))
    partial.rename(answer)


# ------------------------------------------------------------------ in the child


def _items(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(_measured(task, [Picture(*item) for item in task["pictures"]]))


def _measured(task: Mapping[str, Any], pictures: Sequence[Picture]) -> Iterator[Mapping[str, Any]]:
    """Yield the results for each picture. Raises StartError."""
    models = []
    for fields in task["settings"]:
        setting = Setting(**fields)
        TRIED.set(setting)
        models.append(lightbox.load(task["model"], threads=setting.threads, **task["options"]))
    name, is_warm = "", False
    for number, picture in enumerate(pictures):
        body = Path(picture.path).read_bytes()
        if not is_warm:
            try:
                outputs = models[0].predict_arrays(body)
                for model in models:
                    model.predict(body)
            except LightboxError as error:
                yield {"error": f"{picture.path}: {error}"}
                continue
            name, is_warm = "" if len(outputs) > 1 else next(iter(outputs)), True
        found: list[Any] = [None, None]
        cpu, wall = [0.0, 0.0], [0.0, 0.0]
        for which in (0, 1) if number % 2 else (1, 0):
            used, began = time.process_time(), time.perf_counter()
            try:
                found[which] = models[which].predict(body)
            except LightboxError as error:
                found[which] = error
            cpu[which], wall[which] = time.process_time() - used, time.perf_counter() - began
        if isinstance(found[0], LightboxError):
            yield {"error": f"{picture.path}: {found[0]}"}
        elif isinstance(found[1], LightboxError):
            yield {"agreement": {TOP_1: 0.0}}
        else:
            item = {"cpu": cpu, "wall": wall, "agreement": compared(found[0], found[1], name)}
            truth = [record for answer in found if (record := _truth(answer, picture, task["labels"]))]
            yield item | ({"truth": truth} if len(truth) == len(found) else {})


def _truth(answer: Any, picture: Picture, labels: Sequence[str]) -> dict[str, Any]:
    if picture.objects is not None:
        return with_objects(answer, picture.objects)
    if picture.label is None:
        return {}
    number = int(picture.label) if picture.label.isdecimal() else -1
    number = labels.index(picture.label) if picture.label in labels else number
    right = with_class(answer, number, picture.label)
    return {} if right is None else {"accuracy": right}


if __name__ == "__main__":
    answered(_items)
