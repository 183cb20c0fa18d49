"""The environment is read here, with every problem at once."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lightbox.base.error_texts import in_our_words
from lightbox.base.errors import StartError
from lightbox.base.settings import Settings, variable_names
from lightbox.base.settings_types import option_of
from lightbox.features import FEATURES, enabled
from lightbox.model.options import ModelOptions, OptionSettings

P = TypeVar("P", bound=BaseModel)


class SettingsError(StartError):
    """Settings that cannot be used; ``problems`` holds one whole sentence for each.

    ``usable`` are the settings without the variables in ``wrong``, for further checks.
    """

    def __init__(self, problems: list[str], usable: Settings, wrong: frozenset[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.usable = usable
        self.wrong = wrong


def parts() -> list[type[BaseModel]]:
    """Return the classes that have settings: Lightbox's own, and those of the features."""
    return [Settings, OptionSettings, *(feature.settings for feature in FEATURES)]


def known_variables() -> set[str]:
    """Return the environment variables of all settings."""
    return {name for part in parts() for field in part.model_fields for name in variable_names(field, part)}


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings that an environment gives, by default the process's own.

    Raises SettingsError with a sentence for every problem, so that all can be fixed at once.
    """
    environ = _without_service_links(os.environ if environ is None else environ)
    known = known_variables()
    variables = {name: value for name, value in environ.items() if name in known and value.strip()}
    for name, platform in _ONLY_BESIDE.items():
        if not environ.get(platform, "").strip():
            variables.pop(name, None)
    problems = _misspelled(environ, known)
    wrong: set[str] = set()
    settings = _read(variables, problems, wrong)
    for feature in enabled(settings):
        for variable, expected in feature.problems(settings).items():
            if variable not in wrong:
                problems.append(f"{variable}: {expected}, got {variables.get(variable, 'its default')!r}")
                wrong.add(variable)
    if problems:
        usable = _read({name: value for name, value in variables.items() if name not in wrong}, [], set())
        raise SettingsError(list(dict.fromkeys(problems)), usable, frozenset(wrong))
    return settings


def _without_service_links(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that Kubernetes sets for each Service of a pod's namespace.

    A Service ``lightbox`` sets LIGHTBOX_PORT, and ``lightbox-kserve-grpc`` a variable with the name of a setting.
    """
    links = {name: link for name, value in environ.items() if (link := _SERVICE_LINK.fullmatch(f"{name}={value}"))}
    # The form of a Service's port is also that of a misspelled setting: Kubernetes never sets it alone.
    alone = {name for name, link in links.items() if link["port"] and f"{link['service']}_SERVICE_HOST" not in links}
    return {name: value for name, value in environ.items() if name not in links.keys() - alone}


def _read(variables: Mapping[str, str], problems: list[str], wrong: set[str]) -> Settings:
    """Return Lightbox's own settings with those of the features; problems are raised by ``_validated``."""
    others = [_validated(part, variables, problems, wrong) for part in parts() if part is not Settings]
    # Features look at their own settings. None for the others, because their defaults read files of the machine.
    on = enabled(_with(Settings.model_construct(**dict.fromkeys(Settings.model_fields)), others))
    defaults = {name: value for feature in on for name, value in feature.defaults.items()}
    settings = _with(_validated(Settings, {**defaults, **variables}, problems, wrong), others)
    settings.note_given(variables.keys() - wrong)
    if any(feature.loads_models for feature in on):
        settings.expect_other_models()
    return settings


def _with(settings: Settings, parts: Iterable[BaseModel]) -> Settings:
    for part in parts:
        settings.add(part)
    return settings


def _validated(part: type[P], variables: Mapping[str, str], problems: list[str], wrong: set[str]) -> P:
    """Return settings without the variables that are wrong; add these to ``wrong``, and a sentence for each.

    Of a setting with several variables another one counts where the first is wrong, and may be wrong too.
    """
    while True:
        try:
            return part.model_validate({name: value for name, value in variables.items() if name not in wrong})
        except ValidationError as error:
            # A default that depends on another setting is not computed after an error, which is no further problem.
            details = [detail for detail in error.errors() if detail["type"] != "default_factory_not_called"]
            found = {_variable(detail) for detail in details} - wrong
            if not found:  # nothing that could be left out
                raise
            problems += [_sentence(detail) for detail in details]
            wrong |= found


def _misspelled(environ: Mapping[str, str], known: set[str]) -> list[str]:
    problems = []
    for name in sorted(name for name in environ if name.startswith(_OURS)):
        if name not in known | NOT_SETTINGS:
            close = _by_option().get(name) or _closest(name, known, _OURS)
            hint = f"did you mean {close}?" if close else "the names are listed in docs/settings.md."
            problems.append(f"{name}: there is no such setting; {hint}")
    return problems


def _by_option() -> dict[str, str]:
    """Return the variable of each setting by the name that its option suggests: LIGHTBOX_PORT of ``--port``.

    Options of models have one together.
    """
    found = {f"{_OURS}{key.upper()}": "LIGHTBOX_OPTIONS" for key in ModelOptions.model_fields}
    for part in parts():
        for name, field in part.model_fields.items():
            option = option_of(field).name or name
            found[f"{_OURS}{option.replace('-', '_').upper()}"] = variable_names(name, part)[0]
    return found | _TRIED


def _closest(name: str, names: Iterable[str], prefix: str, likeness: float = 0.6) -> str | None:
    """Return the most similar of the names with a prefix, compared without it, with a ``likeness`` of at most 1."""
    rests = sorted(other.removeprefix(prefix) for other in names if other.startswith(prefix))
    close = difflib.get_close_matches(name.removeprefix(prefix), rests, n=1, cutoff=likeness)
    return f"{prefix}{close[0]}" if close else None


def spelling_hints(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence for each ``SAGEMAKER_*`` variable that no setting has and that resembles a setting's name.

    It does not stop a start: SageMaker sets variables of its own, and users set some for other containers.
    """
    environ = _without_service_links(os.environ if environ is None else environ)
    known = known_variables()
    hints = []
    for name in sorted(environ.keys() - known - _OF_THE_PLATFORM):
        if name.startswith(_AWS) and (close := _closest(name, known, _AWS, 0.75)):
            hints.append(f"{name}: there is no such setting; did you mean {close}?")
    return hints


_TRIED = {
    "LIGHTBOX_BIND_TO_PORT": "SAGEMAKER_BIND_TO_PORT",
    "LIGHTBOX_HTTP_PORT": "SAGEMAKER_BIND_TO_PORT",
    "LIGHTBOX_GRPC_PORT": "LIGHTBOX_KSERVE_GRPC_PORT",
    "LIGHTBOX_LOGLEVEL": "SAGEMAKER_GUNICORN_LOGLEVEL",
    "LIGHTBOX_MODEL": "LIGHTBOX_MODEL_DIR",
    "LIGHTBOX_MODEL_PATH": "LIGHTBOX_MODEL_DIR",
    "LIGHTBOX_TIMEOUT": "LIGHTBOX_REQUEST_TIMEOUT_SECONDS",
}
"""Further names that people try, with the setting that they mean."""

_ONLY_BESIDE = {"PORT": "K_SERVICE"}
"""Variables with names that other programs have too, and the platform's own beside which they are meant for us."""

_SERVICE_LINK = re.compile(
    r"(?P<service>[A-Z0-9_]+?)_(?:SERVICE_HOST=[0-9a-f.:]+|(?P<port>SERVICE_PORT(?:_[A-Z0-9_]+)?=[0-9]+)"
    r"|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP))?=(?:tcp|udp|sctp)://[][0-9a-f.:]+:[0-9]+"
    r"|PORT_[0-9]+_(?:TCP|UDP|SCTP)_(?:PROTO=(?:tcp|udp|sctp)|PORT=[0-9]+|ADDR=[0-9a-f.:]+))"
)
"""A variable with its value, as the kubelet and Docker's links set them for a Service."""

_OURS, _AWS = "LIGHTBOX_", "SAGEMAKER_"

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

NOT_SETTINGS = frozenset({"LIGHTBOX_LOG_DESCRIPTOR"})
"""Variables of our own processes, read without the settings."""


def _variable(detail: Any) -> str:
    """Return the variable of a problem; a problem of several variables names them in its message."""
    return str(detail["loc"][0]) if detail["loc"] else str(detail["msg"]).removeprefix("Value error, ").split(":")[0]


def _sentence(detail: Any) -> str:
    message = in_our_words(str(detail["msg"]))
    if detail["type"] == "options":  # it names each key and its value
        return f"{detail['loc'][0]}: {message}"
    return f"{detail['loc'][0]}: {message}, got {detail['input']!r}"
