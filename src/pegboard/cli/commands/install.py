"""`registry install` and `uninstall`: the running environment's pip or uv, and what came or went by it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

import click

from pegboard.cli.options import Options
from pegboard.cli.output import complain, remark
from pegboard.cli.session import Session, open_session
from pegboard.cli.terminal import write

_PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.command("install", context_settings=_PASSED_ON)
@click.argument("packages", metavar="PACKAGE...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def install_command(options: Options, packages: tuple[str, ...]) -> int:
    """Install packages, and show the tools that came.

    They go into the environment that registry runs in, by its pip or, where it has none, by uv. Options that
    registry doesn't know go there: registry install -e . --upgrade
    """
    return _changed(options, ["install", *packages])


@click.command("uninstall", context_settings=_PASSED_ON)
@click.argument("packages", metavar="PACKAGE...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.pass_obj
def uninstall_command(options: Options, packages: tuple[str, ...], yes: bool) -> int:
    """Uninstall packages, and show the tools that went."""
    # uv never asks, and takes no such option.
    unasked = ["-y"] if yes and find_spec("pip") is not None else []
    return _changed(options, ["uninstall", *unasked, *packages])


def _changed(options: Options, work: Sequence[str]) -> int:
    before = open_session(options)
    code = run_installer(installer(work))
    if code:
        complain(f"the installer ended with exit code {code}; nothing else was done")
        return 1
    _report(before, open_session(options))
    return 0


def installer(work: Sequence[str]) -> list[str]:
    """The command line that does this work for the running Python: by its pip, or else by uv.

    Raises:
        click.UsageError: There is neither.
    """
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *work]
    from shutil import which

    uv = which("uv")
    if uv is None:
        raise click.UsageError(f"neither pip is in {sys.prefix} nor uv on the PATH: install one of them")
    return [uv, "pip", work[0], "--python", sys.executable, *work[1:]]


def run_installer(command: Sequence[str]) -> int:
    """Runs it; its output goes to standard error, so that standard output is only what came or went."""
    import subprocess

    return subprocess.run(command, stdout=sys.stderr.fileno(), check=False).returncode  # noqa: S603  what the person asked for


def _report(before: Session, after: Session) -> None:
    old = {tool.name: tool for tool in before.registry.tools()}
    new = {tool.name: tool for tool in after.registry.tools()}
    came = sorted(new.keys() - old.keys())
    went = sorted(old.keys() - new.keys())
    changed = sorted(name for name in new.keys() & old.keys() if new[name].spec != old[name].spec)
    for sign, names in (("+", came), ("-", went), ("~", changed)):
        write("".join(f"{sign} {name}\n" for name in names))
    if not (came or went or changed):
        remark("no tools came or went")
    for problem in after.registry.problems():
        if problem not in before.registry.problems():
            remark(f"{problem.plugin or problem.distribution}: {problem.cause}")
