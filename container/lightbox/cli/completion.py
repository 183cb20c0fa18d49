"""``lightbox completion``: shell completion of commands, options and paths."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion", epilog='Example: eval "$(lightbox completion bash)", in ~/.bashrc')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script."""
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(ctx.find_root().command, {}, "lightbox", "_LIGHTBOX_COMPLETE").source())
