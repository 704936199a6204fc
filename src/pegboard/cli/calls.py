"""What `call` and `dispatch` share: who confirms, what may run, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pegboard.cli.options import FILE

if TYPE_CHECKING:
    from pegboard.registry import ToolRegistry


class _Seconds(click.FloatRange):
    """A number of seconds; "nan" is none, though it is a float."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number:  # noqa: PLR0124  so only NaN is
            self.fail(f"{value!r} is no number of seconds.", param, ctx)
        return number


def call_options(function: Any) -> Any:
    """`--yes`, `--no`, `--rules`, `--timeout`."""
    for decorator in (
        click.option("--timeout", type=_Seconds(0, 1e9, min_open=True), metavar="S", help="Seconds for each call."),
        click.option("--rules", type=FILE, metavar="FILE", help="What may run: rules, as TOML or JSON."),
        click.option("--no", is_flag=True, help="Say no to whatever has to be confirmed."),
        click.option("--yes", is_flag=True, help="Say yes to whatever has to be confirmed."),
    ):
        function = decorator(function)
    return function


def ruled(registry: ToolRegistry, rules: str | None) -> None:
    """Lets a board go by the rules of a file.

    Raises:
        ConfigError: The file is wrong.
    """
    if rules is not None:
        from pegboard.dispatch.permissions.permissions import read_permissions

        registry.permissions = read_permissions(rules)


def limited(options: dict[str, Any], timeout: float | None) -> dict[str, Any]:
    """Options of `ToolRegistry.batch` with the time limit, where there is one."""
    return options if timeout is None else {**options, "timeout": timeout}
