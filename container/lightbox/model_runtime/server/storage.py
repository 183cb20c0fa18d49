"""The versions of a model below its base path, and those that its policy selects."""

from __future__ import annotations

import re
from pathlib import Path

from lightbox.model_runtime.wire.messages import model_server_config_pb2
from lightbox.model_runtime.wire.status import Code, StatusError

_VERSION = re.compile(r"[+-]?[0-9]+\Z")
_INT64 = 1 << 63


def versions_on_disk(name: str, base_path: str) -> dict[int, str]:
    """Return version number to path for every entry of ``base_path`` whose name is a number.

    Plain files count too (their load fails); other names are ignored. Raises StatusError with NOT_FOUND for a missing
    folder.
    """
    folder = Path(base_path)
    try:
        entries = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        text = f"Could not find base path {base_path} for servable {name}"
        text += f" with error NOT_FOUND: {base_path} not found"
        raise StatusError(Code.NOT_FOUND, text) from None
    numbered = [entry for entry in entries if _VERSION.match(entry) and abs(int(entry)) < _INT64]
    return {int(entry): str(folder / entry) for entry in numbered}


def choose(versions: dict[int, str], config: model_server_config_pb2.ModelConfig) -> dict[int, str]:
    """Return the ``versions`` that the model's version policy selects.

    ``latest`` (the default, one version) counts from the largest number down; ``specific`` ignores versions that are
    not on disk.
    """
    policy = config.model_version_policy
    kind = policy.WhichOneof("policy_choice")
    if kind == "all":
        return dict(versions)
    if kind == "specific":
        wanted = set(policy.specific.versions)
        return {version: path for version, path in versions.items() if version in wanted}
    count = (policy.latest.num_versions if kind == "latest" else 0) or 1
    return {version: versions[version] for version in sorted(versions, reverse=True)[:count]}
