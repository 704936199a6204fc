"""Click options shared by commands: of the registry, the context and calls.

`Options` is a plain class, so that `registry --help` doesn't load attrs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pegboard.lazy import lazy_call

if TYPE_CHECKING:
    from pegboard.tools.context import ReadonlyContext

F = TypeVar("F", bound=Callable[..., Any])
_MOST_SECONDS: Final = 1e9
FILE_PATH: Final = click.Path(exists=True, dir_okay=False)  # a file that exists, as str: pathlib stays unloaded
_COMPLETION: Final = "pegboard.cli.completion"
complete_tool: Final = lazy_call(f"{_COMPLETION}:complete_tool")
complete_plugin: Final = lazy_call(f"{_COMPLETION}:complete_plugin")
complete_exporter: Final = lazy_call(f"{_COMPLETION}:complete_exporter")
complete_word: Final = lazy_call(f"{_COMPLETION}:complete_word")


class Options:
    """Options of one run of `registry`.

    Attributes:
        debug: Whether tracebacks and times are shown.
        live: Whether every plugin is imported.
        refresh: Whether plugins are loaded again instead of from the cache.
        config: A configuration file that overrides the user's and the project's, or `None`.
        functions: Files whose public functions are added as tools.
        only: Values of `-T`; empty for all tools.
        settings: Settings of plugins, as `PLUGIN.KEY=VALUE`.
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
        """Whether no option changes what the registry contains."""
        return not (self.live or self.functions or self.only or self.settings) and self.config is None


def _store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Stores an option's value in `Options`; an empty one doesn't reset a value given before the command."""
    if value:
        setattr(context.ensure_object(Options), parameter.name, value)


def _option(*names: str, **settings: Any) -> Callable[[F], F]:
    return click.option(*names, callback=_store, expose_value=False, **settings)


def _all(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    return lambda function: reduce(lambda decorated, decorator: decorator(decorated), reversed(decorators), function)


def registry_options(*, hidden: bool = True) -> Callable[[F], F]:
    """`--config`, `--set`, `--live`, `--refresh`, `--debug`: shown before a command, also accepted after it."""
    return _all(
        _option(
            "--config",
            type=FILE_PATH,
            metavar="FILE",
            hidden=hidden,
            help="Also read FILE; it overrides user and project settings.",
        ),
        _option(
            "--set",
            "settings",
            metavar="PLUGIN.KEY=VALUE",
            multiple=True,
            shell_complete=lazy_call(f"{_COMPLETION}:complete_setting"),
            hidden=hidden,
            help="Override a plugin's setting for this run; also K:=JSON.",
        ),
        _option("--live", is_flag=True, hidden=hidden, help="Import every plugin now and query toolsets."),
        _option("--refresh", is_flag=True, hidden=hidden, help="Reload plugins instead of using the cache."),
        _option("--debug", is_flag=True, hidden=hidden, help="Print tracebacks and times to standard error."),
    )


def tool_options(function: F) -> F:
    """`--functions`, `-T` and the options of the registry."""
    return _all(
        _option(
            "--functions",
            type=FILE_PATH,
            metavar="FILE.py",
            multiple=True,
            help="Run FILE.py and add its public functions as tools, for this run.",
        ),
        _option(
            "-T",
            "only",
            metavar="SPEC",
            multiple=True,
            help="Only these tools: names, patterns (git_*) or key:value (plugin:files), comma-separated or repeated.",
        ),
        registry_options(),
    )(function)


where_option = click.option(
    "--where",
    metavar="PREDICATE",
    shell_complete=lazy_call(f"{_COMPLETION}:complete_where"),
    help="Only tools that match: 'read_only and not tag:network'.",
)
"""`--where`, for commands that list tools."""


def context_options(function: F) -> F:
    """`--user`, `--agent`, `--model`, `--provider`, `--state`: the context that predicates see."""
    names = {"user": "user", "agent": "agent", "model": "model", "provider": "model provider"}
    return _all(
        *(
            click.option(f"--{name}", metavar="NAME", help=f"Resolve tools for this {of}.")
            for name, of in names.items()
        ),
        click.option("--state", metavar="K=V", multiple=True, help="Set K in the session state; also K:=JSON."),
    )(function)


def context_of(
    user: str | None, agent: str | None, model: str | None, provider: str | None, state: tuple[str, ...]
) -> ReadonlyContext:
    """The context that `context_options` describe.

    Raises:
        click.ClickException: A `--state` isn't `K=V`.
    """
    from pegboard.cli.arguments import read_words
    from pegboard.tools.context import ReadonlyContext

    return ReadonlyContext(user=user, agent=agent, model=model, provider=provider, state=read_words(state))


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < (number := float(text)) <= _MOST_SECONDS:  # "nan" isn't
            return number
    raise click.BadParameter(f"{text!r} is not a number of seconds above 0")


def call_options(function: F) -> F:
    """`--yes`, `--no`, `--rules`, `--timeout`."""
    return _all(
        click.option("--yes", is_flag=True, help="Approve every call that needs confirmation."),
        click.option("--no", is_flag=True, help="Reject every call that needs confirmation."),
        click.option("--rules", type=FILE_PATH, metavar="FILE", help="Permission rules, as TOML or JSON."),
        click.option("--timeout", type=_seconds, metavar="S", help="Time limit of each call, in seconds."),
    )(function)
