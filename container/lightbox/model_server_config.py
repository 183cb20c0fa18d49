"""The model server's configuration: which models it serves, as ModelServerConfig in protobuf's text form."""

from __future__ import annotations

from collections.abc import Iterable

from lightbox.plan import PlannedModel


def model_config(models: Iterable[PlannedModel]) -> str:
    """Return the text: every version on disk is served, new ones as they appear."""
    entries = "".join(
        "  config {\n"
        f'    name: "{model.name}"\n'
        f"    base_path: {_quoted(str(model.base_path))}\n"
        '    model_platform: "tensorflow"\n'
        "    model_version_policy { all {} }\n"
        "  }\n"
        for model in models
    )
    return f"model_config_list {{\n{entries}}}\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
