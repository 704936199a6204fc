"""`registry torture`: tries faults on installed plugins, and prints a line for each."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager

import click

from pegboard.cli import (
    Options,
    Status,
    json_rows,
    merge_configuration,
    plugins_of,
    registry_options,
    rows_text,
    stdout_screen,
    write,
    write_note,
)
from pegboard.testing import discover
from pegboard_torture.torture import GROUPS, Tried, torture


@click.command("torture")
@click.argument("packages", metavar="[PACKAGE]...", nargs=-1)
@click.option("--all", "all_of_them", is_flag=True, help="Test all installed plugins.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Only the faults of this group; repeatable.")
@click.option("--include-mutating", is_flag=True, help="Also call tools that aren't marked read-only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@registry_options()
@click.pass_obj
def torture_command(  # noqa: PLR0913, PLR0917  one an option, by name
    options: Options,
    packages: tuple[str, ...],
    all_of_them: bool,
    groups: tuple[str, ...],
    include_mutating: bool,
    as_json: bool,
) -> int:
    """Test plugins by fault injection. Exits with 1 if a plugin fails.

    The faults are hostile arguments and environments, cancelled calls, tight limits and so on. Each runs in a child
    process, in a new temporary folder, without network access. Only tools that are marked read-only are called; with
    --include-mutating all tools are called, and anything that they can reach may change.

    PACKAGE is a distribution's or a plugin's name, or the folder of a pyproject.toml.
    """
    for group in groups:
        if group not in GROUPS:
            raise click.UsageError(f"there is no group {group!r}: take one of {', '.join(GROUPS)}")
    if all_of_them == bool(packages):
        raise click.UsageError("name the packages to try, or give --all")
    entries = discover().entries
    named = {each.name for package in packages for each in plugins_of(package, entries)}
    plugins = [each for each in entries if all_of_them or each.name in named]
    config = merge_configuration(options)
    settings = {found.name: config.settings(found.name, found.distribution) for found in plugins}
    tried: list[Tried] = []
    with Status() as status, _interrupt_on_sigterm():
        for each in torture(plugins, settings, include_mutating=include_mutating, groups=groups):
            status.show(f"{each.plugin}: {each.group}, {each.fault}")
            tried.append(each)
    if as_json:
        write(json_rows("trials", (each.to_json() for each in tried)))
    else:
        first: dict[tuple[str, str], str] = {}
        rows = [(each.plugin, each.group, each.fault, str(each.calls), _outcome(each, first)) for each in tried]
        write(rows_text(("PLUGIN", "GROUP", "FAULT", "CALLS", "OUTCOME"), rows, stdout_screen()))
    not_called = sorted({name for each in tried for name in each.not_called})
    if not_called:
        write_note(f"not called, as not marked read-only (--include-mutating calls them): {', '.join(not_called)}")
    lost = sum(not each.survived for each in tried)
    write_note(f"{lost} of {len(tried)} faults not survived" if lost else f"{len(tried)} faults, all survived")
    return 1 if lost else 0


@contextmanager
def _interrupt_on_sigterm() -> Generator[None]:
    """Handles SIGTERM like Ctrl-C, which also ends the child processes."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _outcome(tried: Tried, first: dict[tuple[str, str], str]) -> str:
    """The outcome of a fault; a cause that an earlier fault of the plugin had is a reference to that one."""
    known = [first.setdefault((tried.plugin, cause), tried.fault) for cause in tried.causes]
    texts = [cause if fault == tried.fault else f"as {fault}" for cause, fault in zip(tried.causes, known, strict=True)]
    return "; ".join(dict.fromkeys(texts)) or "survived"
