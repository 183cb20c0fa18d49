"""``lightbox model-server``: the embedded model server, with the flags of tensorflow_model_server."""

from __future__ import annotations

import importlib

import click


@click.command(
    "model-server", add_help_option=False, context_settings={"ignore_unknown_options": True, "help_option_names": []}
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def command(flags: tuple[str, ...]) -> int:
    """Run the embedded model server alone.

    It takes the flags of tensorflow_model_server; --help lists them.
    """
    # By name: serving processes never import the model server (pyproject.toml), which runs in its own process.
    code = int(importlib.import_module("lightbox.model_runtime.server.main").main(list(flags)))
    return 0 if flags == ("--help",) else code  # the exit code of tensorflow_model_server, and of python -m
