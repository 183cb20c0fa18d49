"""Chooses the engine of a model."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lightbox.model_runtime.engines import AUTO, DEFAULT, ENGINES
from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.engine import Choice, Engine, Opened, OpenOptions, engines, named
from lightbox.model_runtime.engines.hardware import PRECISIONS, Hardware
from lightbox.model_runtime.engines.race import fastest, known
from lightbox.model_runtime.engines.samples import mark_rows
from lightbox.model_runtime.engines.setting import setting_of
from lightbox.model_runtime.formats import model_file
from lightbox.model_runtime.formats.signature import SIGNATURE
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.status import Code, StatusError, invalid, unreadable

log = logging.getLogger("model_server")

CHOICES = (*ENGINES, AUTO)
OPTIONS_FILE = "lightbox.json"


def own_options(folder: str) -> dict[str, str]:
    """Return ``engine`` and ``precision`` of ``code/lightbox.json``; raise INVALID_ARGUMENT.

    The model's own file has precedence over the one beside all models; Lightbox links the one that counts.
    """
    base_path = Path(folder).absolute().parent
    for beside in (base_path, base_path.parent):
        path = beside / "code" / OPTIONS_FILE
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise unreadable(str(path), error) from None
        return checked_options(content, str(path))
    return {}


def checked_options(content: object, place: str) -> dict[str, str]:
    """Return ``engine`` and ``precision`` of ``content``; raise INVALID_ARGUMENT for another value."""
    result = {}
    for key, allowed in (("engine", CHOICES), ("precision", PRECISIONS)):
        value = content.get(key) if isinstance(content, dict) else None
        if value not in (None, *allowed):
            raise invalid(f"{place}: {key}: expected {', '.join(allowed)}, got {value!r}")
        if value is not None:
            result[key] = value
    return result


class _Elsewhere:
    """Stands for an engine that another process has loaded."""

    def __init__(self) -> None:
        self.signatures: dict[str, meta_graph_pb2.SignatureDef] = {}

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        raise StatusError(Code.UNIMPLEMENTED, "another process answers it")

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Opener:
    """Opens the models of a server."""

    engine: str
    tags: tuple[str, ...]
    session_config: bytes
    hardware: Hardware
    is_guarded: bool = True
    """Whether inputs that would crash the process are refused, see RankGuard."""
    options: Mapping[str, str] = field(default_factory=dict)
    """``engine`` and ``precision`` for all models, overriding their ``lightbox.json``."""

    def open(self, folder: str, batches: Sequence[int] = (1,)) -> Opened:
        """Load the model in ``folder`` and run made-up inputs of each batch size; raise StatusError."""
        wanted, options = self._resolved(folder, batches)
        # The default opens no files of other formats, so naming it does not apply to them.
        if wanted == AUTO or (wanted == DEFAULT and model_file(Path(folder))):
            return _open_best(folder, options)
        return _open_with(named(wanted), folder, options)

    def open_as(self, folder: str, chosen: Mapping[str, str]) -> Runner:
        """Open a model with the engines that another process has chosen for its signatures, without finding out more.

        Calls for the engine that defines the results raise UNIMPLEMENTED. Raises StatusError, also if that engine was
        chosen for all, and if the same choice cannot be made here.
        """
        wanted, options = self._resolved(folder, (1,))
        options = replace(options, chosen=chosen)
        names = sorted(set(chosen.values()) - {DEFAULT})
        if len(names) != 1:
            raise invalid(f"its engine is {' and '.join(names) or DEFAULT}")
        engine = named(names[0])
        engine.check_installed()
        if model_file(Path(folder)):
            runner = engine.open(folder, options).runner
            mark_rows(runner)
            return runner
        if wanted == engine.name:
            found: Opened | None = engine.open(folder, options)
        else:
            found = engine.open_beside(folder, options, _Elsewhere)
        if found is None or {name: choice.engine for name, choice in found.choices.items()} != chosen:
            raise invalid("another process has chosen other engines for its signatures")
        return found.runner

    def _resolved(self, folder: str, batches: Sequence[int]) -> tuple[str, OpenOptions]:
        """Return the engine that is asked for, or auto, and how it opens the model."""
        own = own_options(folder) | dict(self.options)
        hardware = replace(self.hardware, precision=own.get("precision", self.hardware.precision))
        wanted = own.get("engine", self.engine)
        if wanted == AUTO:
            setting, why = setting_of(Path(folder), own)
            if setting:
                streams = hardware.streams if setting.threads == 1 else max(1, hardware.threads // setting.threads)
                hardware = replace(hardware, streams=streams, precision=setting.precision, level=setting.level)
                wanted = setting.engine
                log.info("%s is served by the setting that lightbox optimize has found: %s", folder, setting)
            elif why:
                log.warning("%s is served without the setting that lightbox optimize has found: %s", folder, why)
        return wanted, OpenOptions(hardware, self.tags, self.session_config, self.is_guarded, batches)

    def choices(self, folder: str, compares: bool, keeps: bool) -> Mapping[str, Choice]:
        """Return the engine that ``auto`` takes for each signature; see ``Engine.choices``. Empty for a single one."""
        reference, able = _able(folder)
        if reference is None:
            able = _precise(able, self.hardware)
            if not compares and not known(folder, able, self.hardware):
                return {SIGNATURE: Choice("", "the engines are compared when the model is loaded")}
            return {SIGNATURE: fastest(folder, able, self.hardware)[1]}
        options = OpenOptions(self.hardware, self.tags, self.session_config, self.is_guarded)
        return able[0].choices(folder, options, compares, keeps) if able else {}


def _open_with(engine: Engine, folder: str, options: OpenOptions) -> Opened:
    file = model_file(Path(folder))
    if not engine.opens(Path(folder)):
        raise invalid(f"engine {engine.name} does not open {file.path if file else folder}: use {AUTO}")
    engine.check_installed()
    return engine.open(folder, options) if file is None else _open_fastest(folder, [engine], options)


def _open_best(folder: str, options: OpenOptions) -> Opened:
    """Open a model with the engine that defines the results, or with one that gives the same results faster.

    If no engine defines them, the fastest of all is used.
    """
    reference, able = _able(folder)
    if reference is None:
        return _open_fastest(folder, able, options)
    fallback = (lambda: reference.open(folder, options).runner) if reference.is_installed() else None
    opened = (engine.open_beside(folder, options, fallback) for engine in able)
    return next((one for one in opened if one is not None), None) or reference.open(folder, options)


def _open_fastest(folder: str, able: Sequence[Engine], options: OpenOptions) -> Opened:
    """Open a model with the engine that takes the least CPU time, and has the precision that is asked for."""
    engine, choice = fastest(folder, _precise(able, options.hardware), options.hardware, options.batches)
    runner = engine.open(folder, options).runner
    mark_rows(runner)
    for name in runner.signatures:
        log.info("engine of %s, signature %s: %s (%s)", folder, name, choice.engine, choice.reason)
    return Opened(runner, dict.fromkeys(runner.signatures, choice))


def _precise(able: Sequence[Engine], hardware: Hardware) -> list[Engine]:
    """Return the engines that have the precision that is asked for; all if none has it."""
    return [engine for engine in able if hardware.precision in engine.precisions] or [*able]


def _able(folder: str) -> tuple[Engine | None, list[Engine]]:
    """Return the engine that defines a model's results, if any, and the other installed engines that open it."""
    opening = [engine for engine in engines() if engine.opens(Path(folder))]
    reference = next((engine for engine in opening if engine.sets_results), None)
    able = [engine for engine in opening if engine is not reference and engine.is_installed()]
    if reference is None and not able:
        names = " or ".join(engine.package for engine in opening)
        raise invalid(f"no engine opens the model in {folder}{f': install {names}' if names else ''}")
    return reference, able
