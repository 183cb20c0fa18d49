"""The environment is read here: settings, with every problem at once, and the few variables that are none of ours."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, ValidationError

from lightbox.errors import StartError
from lightbox.settings import Settings


class SettingsError(StartError):
    """Settings that cannot be used; ``problems`` holds one whole sentence for each.

    ``usable`` are the settings without the variables in ``wrong``, to look for what else is amiss.
    """

    def __init__(self, problems: list[str], usable: Settings, wrong: frozenset[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.usable = usable
        self.wrong = wrong


def variable(name: str, default: str = "") -> str:
    """Return a variable that is no setting of ours, such as PATH or TMPDIR."""
    return os.environ.get(name, default)


def environment() -> dict[str, str]:
    """Return all variables, for a process that is to be started."""
    return dict(os.environ)


def variable_names(field_name: str) -> list[str]:
    """Return the environment variables of a field, the one that counts most first."""
    alias = Settings.model_fields[field_name].validation_alias
    if isinstance(alias, AliasChoices):
        return [str(choice) for choice in alias.choices]
    return [str(alias)]


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings that an environment gives, by default the process's own.

    Raises SettingsError with a sentence for every problem, so that all can be mended at once.
    """
    environ = os.environ if environ is None else environ
    known = {name for field in Settings.model_fields for name in variable_names(field)}
    given = {name: value for name, value in environ.items() if name in known and value.strip()}
    problems = _misspelled(environ, known)
    if environ.get("SAGEMAKER_MULTI_MODEL", "").strip().lower() in ("true", "1", "yes", "on"):
        given.setdefault("LIGHTBOX_MODEL_DIR", MULTI_MODEL_DIR)
    wrong: frozenset[str] = frozenset()
    try:
        settings = Settings.model_validate(given)
    except ValidationError as error:
        # A default that follows another setting is not asked for when any is wrong; that is no problem of its own.
        details = [detail for detail in error.errors() if detail["type"] != "default_factory_not_called"]
        problems += [_sentence(detail) for detail in details]
        wrong = frozenset(_variable(detail) for detail in details)
        settings = Settings.model_validate({name: value for name, value in given.items() if name not in wrong})
    if problems:
        raise SettingsError(problems, settings, wrong)
    return settings


def _misspelled(environ: Mapping[str, str], known: set[str]) -> list[str]:
    ours = sorted(name for name in known if name.startswith("LIGHTBOX_"))
    problems = []
    for name in sorted(environ):
        if name.startswith("LIGHTBOX_") and name not in known and name not in NOT_SETTINGS:
            close = difflib.get_close_matches(name, ours, n=1)
            hint = f"did you mean {close[0]}?" if close else "the names are listed in docs/settings.md."
            problems.append(f"{name}: there is no such setting; {hint}")
    return problems


def spelling_hints(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence for each ``SAGEMAKER_*`` variable that no setting has and that resembles a setting's name.

    It stops no start: SageMaker sets variables of its own, and users set some for other containers.
    """
    environ = os.environ if environ is None else environ
    known = {name for field in Settings.model_fields for name in variable_names(field)}
    ours = sorted(name.removeprefix(_AWS) for name in known if name.startswith(_AWS))
    hints = []
    for name in sorted(environ.keys() - known - _OF_THE_PLATFORM):
        if name.startswith(_AWS):
            close = difflib.get_close_matches(name.removeprefix(_AWS), ours, n=1, cutoff=_LIKENESS)
            hints += [f"{name}: there is no such setting; did you mean {_AWS}{close[0]}?"] if close else []
    return hints


_AWS = "SAGEMAKER_"
_LIKENESS = 0.75
"""Of 1; the prefix, which all names share, does not count."""

_OF_THE_PLATFORM = frozenset(
    {
        "SAGEMAKER_BATCH_STRATEGY",
        "SAGEMAKER_CONTAINER_LOG_LEVEL",
        "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT",
        "SAGEMAKER_ENABLE_CLOUDWATCH_METRICS",
        "SAGEMAKER_ENV",
        "SAGEMAKER_JOB_NAME",
        "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS",
        "SAGEMAKER_MAX_PAYLOAD_IN_MB",
        "SAGEMAKER_MODEL_SERVER_TIMEOUT",
        "SAGEMAKER_MODEL_SERVER_WORKERS",
        "SAGEMAKER_NUM_MODEL_WORKERS",
        "SAGEMAKER_PROGRAM",
        "SAGEMAKER_REGION",
        "SAGEMAKER_REQUIREMENTS",
        "SAGEMAKER_SERVING_MODULE",
        "SAGEMAKER_SUBMIT_DIRECTORY",
        "SAGEMAKER_TFS_VERSION",
        "SAGEMAKER_USE_NGINX",
    }
)
"""Variables of SageMaker, its SDK and its other containers: no hint for these, however much one resembles a setting."""

MULTI_MODEL_DIR = "/opt/ml/models"
"""Where SageMaker puts the models of a multi-model endpoint."""

NOT_SETTINGS = frozenset({"LIGHTBOX_TENSORFLOW_MESSAGES", "LIGHTBOX_LOG_DESCRIPTOR"})
"""Variables of the installation and of our own processes, read where there are no settings."""


def _variable(detail: Any) -> str:
    """Return the variable that a problem is about; what concerns several names it in its message."""
    return str(detail["loc"][0]) if detail["loc"] else str(detail["msg"]).removeprefix("Value error, ").split(":")[0]


def _sentence(detail: Any) -> str:
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"{detail['loc'][0]}: {message[0].lower()}{message[1:]}, got {detail['input']!r}"
