"""What stands before a command, or among its options: how the board is made, for whom, and how much is told.

A plain class: `registry --help` loads no attrs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from pegboard.tools.context import ReadonlyContext

F = TypeVar("F", bound=Callable[..., Any])


class Options:
    """What holds for the whole run.

    Attributes:
        debug: Whether errors come with their traceback, and times are told.
        live: Whether every plugin is imported now.
        refresh: Whether what the cache knows is loaded again.
        config: A configuration over the user's and the project's, or `None`.
        functions: Files whose public functions are tools for this run.
        only: What `-T` limits the tools to; nothing for no limit.
    """

    __slots__ = ("config", "debug", "functions", "live", "only", "refresh")

    def __init__(self) -> None:
        self.debug = False
        self.live = False
        self.refresh = False
        self.config: str | None = None
        self.functions: tuple[str, ...] = ()
        self.only: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether the board is the one that every plain command shows."""
        return not (self.live or self.functions or self.only) and self.config is None


FILE: Final = click.Path(exists=True, dir_okay=False)
"""Texts: `registry --help` loads no pathlib."""


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Puts a value into the run's options; a flag that isn't given leaves one given earlier."""
    if value:
        setattr(context.ensure_object(Options), parameter.name, value)


def _kept(*names: str, **settings: Any) -> Callable[[F], F]:
    return click.option(*names, callback=_keep, expose_value=False, **settings)


def _all(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def board_options(*, hidden: bool = True) -> Callable[[F], F]:
    """`--config`, `--live`, `--refresh`, `--debug`: taken before a command and, unmentioned, behind it."""
    return _all(
        _kept("--config", type=FILE, metavar="FILE", hidden=hidden, help="Read this pegboard.toml too; it binds."),
        _kept("--live", is_flag=True, hidden=hidden, help="Import every plugin now, in this process."),
        _kept("--refresh", is_flag=True, hidden=hidden, help="Load again what the cache knows of plugins."),
        _kept("--debug", is_flag=True, hidden=hidden, help="Show tracebacks and times on standard error."),
    )


def tool_options(function: F) -> F:
    """`--functions` and `-T`, besides the board's."""
    return _all(
        _kept(
            "--functions",
            type=FILE,
            metavar="FILE.py",
            multiple=True,
            help="Add the public functions that FILE.py defines, for this run. Its code is run.",
        ),
        _kept(
            "-T",
            "only",
            metavar="SPEC",
            multiple=True,
            help="Only these tools: names, patterns (git_*), or key:value (plugin:files), with commas or repeated.",
        ),
        board_options(),
    )(function)


def context_options(function: F) -> F:
    """`--user`, `--agent`, `--model`, `--provider`, `--state`, as predicates ask for them."""
    return _all(
        click.option("--user", metavar="NAME", help="For this user."),
        click.option("--agent", metavar="NAME", help="For this agent."),
        click.option("--model", metavar="NAME", help="For this model."),
        click.option("--provider", metavar="NAME", help="For this provider of models."),
        click.option("--state", metavar="K=V", multiple=True, help="With this in the session's state; K:=JSON too."),
    )(function)


def context_of(
    user: str | None, agent: str | None, model: str | None, provider: str | None, state: tuple[str, ...]
) -> ReadonlyContext:
    """The context that `context_options` describe.

    Raises:
        WordError: A `--state` is no `K=V`.
    """
    from pegboard.tools.context import ReadonlyContext

    context = ReadonlyContext(user=user, agent=agent, model=model, provider=provider)
    if not state:
        return context
    from attrs import evolve

    from pegboard.cli.arguments import read_state

    return evolve(context, state=read_state(state))
