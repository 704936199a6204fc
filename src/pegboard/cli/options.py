"""Options that commands share: how the registry is made, the context, what may run, and how much is reported.

A plain class holds them: `registry --help` loads no attrs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from pegboard.tools.context import ReadonlyContext

F = TypeVar("F", bound=Callable[..., Any])
_MOST_SECONDS: Final = 1e9
FILE: Final = click.Path(exists=True, dir_okay=False)  # texts: `registry --help` loads no pathlib


class Options:
    """Options of the whole run.

    Attributes:
        debug: Whether errors come with their traceback, and times are shown.
        live: Whether every plugin is imported now.
        refresh: Whether what the cache knows is loaded again.
        config: A configuration over the user's and the project's, or `None`.
        functions: Files whose public functions are tools for this run.
        only: What `-T` limits the tools to; nothing for no limit.
        settings: Settings of plugins for this run, as `PLUGIN.KEY=VALUE`.
    """

    debug = False
    live = False
    refresh = False
    config: str | None = None
    functions: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether the registry is the one that every plain command shows."""
        return not (self.live or self.functions or self.only or self.settings) and self.config is None


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Puts a value into the run's options; a flag that isn't given leaves one given earlier."""
    if value:
        setattr(context.ensure_object(Options), parameter.name, value)


def _option(*names: str, **settings: Any) -> Callable[[F], F]:
    return click.option(*names, callback=_store, expose_value=False, **settings)


def _all(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def registry_options(*, hidden: bool = True) -> Callable[[F], F]:
    """`--config`, `--set`, `--live`, `--refresh`, `--debug`: taken before a command and, unmentioned, behind it."""
    return _all(
        _option(
            "--config",
            type=FILE,
            metavar="FILE",
            hidden=hidden,
            help="Also read FILE; overrides user and project settings.",
        ),
        _option(
            "--set",
            "settings",
            metavar="PLUGIN.KEY=VALUE",
            multiple=True,
            hidden=hidden,
            help="Give a plugin this setting, for this run; K:=JSON too.",
        ),
        _option("--live", is_flag=True, hidden=hidden, help="Import every plugin now, in this process."),
        _option("--refresh", is_flag=True, hidden=hidden, help="Load plugins anew, not from the cache."),
        _option("--debug", is_flag=True, hidden=hidden, help="Show tracebacks and times on standard error."),
    )


def tool_options(function: F) -> F:
    """`--functions` and `-T`, besides those of the registry."""
    return _all(
        _option(
            "--functions",
            type=FILE,
            metavar="FILE.py",
            multiple=True,
            help="Add the public functions that FILE.py defines, for this run. Its code is run.",
        ),
        _option(
            "-T",
            "only",
            metavar="SPEC",
            multiple=True,
            help="Only these tools: names, patterns (git_*), or key:value (plugin:files), with commas or repeated.",
        ),
        registry_options(),
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
    from pegboard.cli.arguments import read_words
    from pegboard.tools.context import ReadonlyContext

    return ReadonlyContext(user=user, agent=agent, model=model, provider=provider, state=read_words(state))


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < (number := float(text)) <= _MOST_SECONDS:  # "nan" isn't
            return number
    raise click.BadParameter(f"{text!r} is no number of seconds above 0.")


def call_options(function: F) -> F:
    """`--yes`, `--no`, `--rules`, `--timeout`."""
    return _all(
        click.option("--yes", is_flag=True, help="Confirm every call that has to be confirmed."),
        click.option("--no", is_flag=True, help="Reject every call that has to be confirmed."),
        click.option("--rules", type=FILE, metavar="FILE", help="What may run: rules, as TOML or JSON."),
        click.option("--timeout", type=_seconds, metavar="S", help="Seconds for each call."),
    )(function)
