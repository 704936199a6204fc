"""The click front of `registry`: everything that the warm front doesn't answer."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

from pegboard.cli.group import RegistryGroup
from pegboard.cli.options import Options, registry_options

FAILED = 1
"""The exit code where a tool answered with an error, something was found, or something failed."""
MISUSED = 2
"""The exit code of wrong use and of unknown tools."""
INTERRUPTED = 130
"""The exit code after Ctrl-C."""
PROGRAM = "registry"


def _print_version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from pegboard.cli.tool_texts import version_text
        from pegboard.plugins.snapshot import own_version

        click.echo(version_text(own_version()))
        context.exit()


@click.group(
    PROGRAM,
    cls=RegistryGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Without a command: registry list.",
)
@registry_options(hidden=False)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
@click.pass_context
def registry_group(context: click.Context) -> Any:
    """Look at the tools that plugins bring, and call them."""
    if context.invoked_subcommand is None:
        from pegboard.cli.commands.look import list_command

        return context.invoke(list_command)
    return None


def main(argv: list[str] | None = None) -> int:
    """Runs `registry`; nothing is raised.

    Args:
        argv: The arguments without the program's name; those of the process by default.

    Returns:
        The exit code: 0; 1 where a tool answered with an error or something was found wrong; 2 for wrong use and
        unknown tools; 130 after Ctrl-C. Where the reader of the output has gone, 0.
    """
    options = Options()
    started = time.perf_counter()
    try:
        _write_anything()
        code = _run(sys.argv[1:] if argv is None else argv, options)
    except BrokenPipeError:
        from pegboard.cli.warm import quiet_stdout

        quiet_stdout()
        return 0
    except (KeyboardInterrupt, EOFError, click.Abort):
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001  whatever it was, it is reported in one line
        from pegboard.cli.output import report_error

        code = report_error(error, options)
        if isinstance(error, OSError):
            _forget_output()
    code = _flushed(code)
    if options.debug:
        _report_times(started)
    return code


def _forget_output() -> None:
    """Lets what still waits to be written fail once only: it has been reported."""
    from pegboard.cli.warm import quiet_stdout

    try:
        sys.stdout.flush()
    except OSError:
        quiet_stdout()


def _flushed(code: int) -> int:
    """The exit code once everything is written: 0 where the reader has gone, 1 where it can't be written."""
    from pegboard.cli.warm import quiet_stdout, unwritten

    try:
        sys.stdout.flush()
    except BrokenPipeError:
        quiet_stdout()
        return 0
    except OSError as error:
        return unwritten(error)
    return code


def _run(argv: list[str], options: Options) -> int:
    instruction = os.environ.get("_REGISTRY_COMPLETE")
    if instruction:
        from pegboard.cli.completion import complete

        return complete(registry_group, instruction)
    try:
        with registry_group.make_context(PROGRAM, list(argv), obj=options) as context:
            code: Any = registry_group.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    return code if isinstance(code, int) else 0


def _write_anything() -> None:
    """Lets no character that the terminal's encoding doesn't have end a command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _report_times(started: float) -> None:
    process = time.process_time()
    click.echo(f"took {time.perf_counter() - started:.3f} s; {process:.3f} s of CPU since the start", err=True)
