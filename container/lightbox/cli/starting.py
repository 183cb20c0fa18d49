"""The common part of ``serve`` and ``check``: checked settings, and preparations before the first child."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

from lightbox.base.errors import StartError
from lightbox.base.run_dir import RunDir
from lightbox.base.settings import Settings
from lightbox.core.start import Start
from lightbox.features import enabled, prepare, wants
from lightbox.model_files.checks import newest_folder
from lightbox.model_files.layout import ModelOnDisk
from lightbox.model_files.recipes import model_options
from lightbox.model_runtime.engines.disk_cache import kept_folder
from lightbox.serving.settings_loading import SettingsError, load_settings
from lightbox.supervisor.starting.child_environment import child_environ
from lightbox.supervisor.starting.commands import PYTHON
from lightbox.supervisor.starting.models_on_disk import code_dirs, plan_models, shared_code_dirs, unpacked
from lightbox.supervisor.starting.planning import make_plan
from lightbox.supervisor.starting.start_checks import find_problems
from lightbox.supervisor.supervisor import STOP_SIGNALS, Supervisor


class StartRefused(StartError):
    """Nothing can be started; the message holds a line for each problem."""


class CheckedSettings(NamedTuple):
    """The settings of a start, checked."""

    usable: Settings
    """The usable part of the settings."""
    settings: Settings
    """The same with folders in place of models' archives, which are unpacked."""
    problems: list[str]
    """A sentence for each problem of the settings and their files."""


@contextmanager
def checked_settings() -> Iterator[CheckedSettings]:
    """Check the settings. Unpacked files are removed after the block, also after a signal."""
    try:
        settings, problems, wrong = load_settings(), list[str](), frozenset[str]()
    except SettingsError as error:
        settings, problems, wrong = error.usable, error.problems, error.wrong
    with interruptible(), unpacked(settings) as usable:
        yield CheckedSettings(settings, usable, problems + find_problems(usable, wrong, wants(usable)))


def fixed_models(settings: Settings) -> Collection[ModelOnDisk]:
    """Return the models that are loaded at the start."""
    return plan_models(settings)[0].values() if settings.has_fixed_models else ()


@contextmanager
def prepared_supervisor(settings: Settings, while_planning: AbstractContextManager[None]) -> Iterator[Supervisor]:
    """Prepare a start up to its first child: make the run directory, plan, bind the port. Raises StartError."""
    with RunDir() as run_dir:
        with while_planning:
            plan = make_plan(settings, run_dir, wants(settings))
        start = Start(settings, plan, run_dir, [feature.name for feature in enabled(settings)])
        supervisor = Supervisor(start, prepare(start))
        try:
            yield supervisor
        finally:
            supervisor.close_listeners()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let a signal interrupt long steps, such as a download, with a clean-up.

    What the block itself does with these signals stays: a supervisor that has stopped ignores them for good.
    """

    def end(*_: object) -> None:
        sys.exit(0)

    before = {number: signal.signal(number, end) for number in STOP_SIGNALS}
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            if signal.getsignal(number) is end:
                signal.signal(number, handler)


def look_at_engines(models: Iterable[ModelOnDisk], settings: Settings, option: str) -> int:
    """Run the comparison of engines for each model's newest version; return the highest exit status."""
    code = 0
    for model in models:
        print(f"model: {model.name}", flush=True)
        compare = engines_command(model, settings, option)
        code = max(code, subprocess.run(compare, env=child_environ(), check=False).returncode)  # noqa: S603
    return code


def engines_command(model: ModelOnDisk, settings: Settings, *options: str) -> list[str]:
    """Return the command that looks at the engines for a model's newest version."""
    chosen = model_options(model, code_dirs(model, shared_code_dirs(settings)), settings)
    cache = list[str]()
    with suppress(OSError):  # a start says why
        cache = [f"--cache={folder}"] if (folder := kept_folder()) is not None else []
    precision = [f"--precision={chosen.precision}"] if "precision" in chosen.model_fields_set else []
    return [*PYTHON, "lightbox.model_runtime.engines", *precision, *cache, *options, str(newest_folder(model))]
