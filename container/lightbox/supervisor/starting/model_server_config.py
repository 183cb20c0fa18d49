"""The configuration files of a model server: its models, and its batching."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lightbox.base.machine.shared_files import replace_file
from lightbox.base.settings import Settings
from lightbox.model.catalogue import PlannedModel

MODEL_CONFIG, BATCHING_PARAMETERS = "models.config", "batching.config"


def write_model_config(models: Iterable[PlannedModel], run_dir: Path) -> None:
    """Write the configuration of a starting server; it would wait forever for folders that do not exist."""
    replace_file(run_dir / MODEL_CONFIG, model_config(models).encode())


def model_config(models: Iterable[PlannedModel]) -> str:
    """Return the configuration: all versions in a model's base path are served, new ones as they appear."""
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


def batching_parameters(settings: Settings) -> str:
    """Return the BatchingParameters text for the settings."""
    return (
        f"max_batch_size {{ value: {settings.max_batch_size} }}\n"
        f"batch_timeout_micros {{ value: {settings.batch_timeout_micros} }}\n"
        f"num_batch_threads {{ value: {settings.num_batch_threads} }}\n"
        f"max_enqueued_batches {{ value: {settings.max_enqueued_batches} }}\n"
    )
