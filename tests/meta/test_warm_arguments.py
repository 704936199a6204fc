"""The warm command reads its arguments as click does."""

from __future__ import annotations

import click
import pytest

from pegboard.cli.main import OWN, own_command, registry_group
from pegboard.cli.options import complete_tool
from pegboard.cli.warm import TOOL_COMMANDS, WARM_OPTIONS


def options(command: str) -> dict[str, click.Option]:
    """The options of a command by each of their names; `""` is the bare command."""
    params = (registry_group if not command else own_command(command)).params
    return {name: param for param in params if isinstance(param, click.Option) for name in param.opts}


@pytest.mark.parametrize(
    ("command", "name"), [(command, name) for command in WARM_OPTIONS for name in WARM_OPTIONS[command]]
)
def test_each_warm_option_is_one_of_clicks(command: str, name: str) -> None:
    """It is there, and takes a value where click's does."""
    option = options(command)[name]
    assert WARM_OPTIONS[command][name] is (not option.is_flag)
    assert not option.multiple
    assert option.nargs == 1


@pytest.mark.parametrize("command", [command for command in WARM_OPTIONS if command])
def test_a_warm_command_takes_names_of_tools_only(command: str) -> None:
    """Any number for `list`, one for the others; `search` takes any words."""
    (argument,) = [param for param in own_command(command).params if isinstance(param, click.Argument)]
    assert argument.nargs == (-1 if command in {"list", "search"} else 1)


def test_the_commands_that_complete_to_names_of_tools() -> None:
    """Those whose first argument click completes so; all of their arguments where it takes any number."""
    found: dict[str, bool] = {}
    for command in OWN:
        arguments = [param for param in own_command(command).params if isinstance(param, click.Argument)]
        if arguments and arguments[0]._custom_shell_complete is complete_tool:
            found[command] = arguments[0].nargs == -1
    assert found == TOOL_COMMANDS
