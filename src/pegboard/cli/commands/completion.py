"""`registry completion`: the script that completes in a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from pegboard.cli.page import write

_FOLDER: Final = Path(__file__).parents[1] / "shells"
_HOW: Final = """\b
eval "$(registry completion bash)"      in ~/.bashrc
eval "$(registry completion zsh)"       in ~/.zshrc, behind compinit
registry completion fish > ~/.config/fish/completions/registry.fish
"""


@click.command("completion", epilog=_HOW)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> int:
    """Print the script that completes in a shell.

    It completes commands, tools and their arguments. Put it to use with one of these:
    """
    write((_FOLDER / f"registry.{shell}").read_text())
    return 0
