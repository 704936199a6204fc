"""`registry lock`, `registry verify` and `registry diff`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import click
from attrs import evolve

from pegboard.cli import (
    Options,
    Session,
    json_rows,
    one_line,
    open_session,
    rows_text,
    stdout_screen,
    tool_options,
    write,
    write_note,
)
from pegboard.errors import did_you_mean, near_or_known, suggest
from pegboard.json import canonical_json, count_text
from pegboard.text import visible
from pegboard.typing import JsonObject
from pegboard_lock.check import Comparison
from pegboard_lock.code import FILE
from pegboard_lock.drift import Drift
from pegboard_lock.lock_file import Lock, LockError, is_binding, read_lock, write_lock
from pegboard_lock.present import Found, find_for, find_known, find_live, lock_of, take_names
from pegboard_lock.settings import CLASSES, DriftClass, LockSettings, base_of, lock_path, read_settings

_CANT_COMPARE: Final = 3
_TABLES: Final = ("distributions", "toolsets", "tools")


def _classes(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[DriftClass, ...] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in CLASSES:
            raise click.BadParameter(f"{name!r} is no class of drift.{near_or_known(name, CLASSES)}")
    return cast("tuple[DriftClass, ...]", tuple(names))


_json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_fail_on: Final = click.option(
    "--fail-on",
    metavar="CLASS,...",
    callback=_classes,
    help="Exit with 1 for drift of these classes; by default those that are held back or asked about.",
)


@click.command("lock")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--yes", is_flag=True, help="Accept without asking.")
@tool_options
@click.pass_obj
def lock_command(options: Options, names: tuple[str, ...], *, yes: bool) -> int:
    """Accept the tools as they are now, in pegboard.lock.

    NAME is a tool, a distribution or a toolset: its difference is shown, and only its lines change. Without one, all
    that is there is accepted. Toolsets that publish no list are queried with --live.
    """
    session, _, file = _open(options)
    lock = Lock()
    try:
        lock, content = read_lock(file)
        if not (names or is_binding(file, content)):
            write_note(f"{file} isn't trusted: nothing of it is kept")
            lock = Lock()
    except LockError as error:
        if file.exists():
            write_note(f"{error}" if names else f"{error}: it is written anew")
            if names:
                return _CANT_COMPARE
    comparison = Comparison(lock, base_of(session.config, file))
    found = find_live(session, lock) if options.live else find_known(session, lock)
    for failure in found.failures:
        write_note(failure)
    new = _take_names(comparison, found, names) if names else lock_of(comparison, found.present)
    is_same = new.to_text() == lock.to_text()
    if not names or is_same:
        for hint in _hints(comparison, found):
            write_note(hint)
    if names and not _confirm(lock, new, file, yes=yes):
        return 0 if is_same else 1
    trusted = write_lock(file, new, whole=not names)
    write_note(f"{file}: {count_text(len(new.tools), 'tool')} locked")
    if not trusted:
        write_note(f"it isn't trusted, and accepts nothing, until you run: registry config trust {file}")
    return _CANT_COMPARE if found.failures else 0


def _confirm(old: Lock, new: Lock, file: Path, *, yes: bool) -> bool:
    """Shows the difference of two locks; whether there is one, and the user accepts it."""
    lines = [*_diff(old, new)]
    write("".join(f"{line}\n" for line in lines))
    if not lines:
        write_note("nothing has changed")
        return False
    if yes or click.confirm(f"Accept this in {file.name}?", err=True):
        return True
    write_note("nothing was accepted")
    return False


def _take_names(comparison: Comparison, found: Found, names: tuple[str, ...]) -> Lock:
    """The lock with what these names name as it is now; raises `click.UsageError` for a name that is nothing."""
    try:
        return take_names(comparison, found.present, names)
    except LookupError as error:
        name, lock = str(error.args[0]), comparison.lock
        known = {*lock.tools, *(tool.name for tool in found.present.tools), *lock.distributions, *lock.toolsets}
        near = did_you_mean(suggest(name, known))
        text = f"{name!r} is no tool, distribution or toolset here.{near}"
        raise click.UsageError(" ".join([text, *_hints(comparison, found)])) from None


def _hints(comparison: Comparison, found: Found) -> Iterator[str]:
    """Which tools aren't known now, with the options that load them."""
    if found.unqueried:
        yield f"Toolsets of {', '.join(found.unqueried)} weren't queried: --live does."
    if absent := comparison.absent_files(found.present):
        options = (f"--functions {visible(name.removeprefix(FILE))}" for name in sorted(absent))
        yield f"Functions in files weren't loaded: {' '.join(options)} does."


@click.command("verify")
@_json_option
@_fail_on
@tool_options
@click.pass_obj
def verify_command(options: Options, *, as_json: bool, fail_on: tuple[DriftClass, ...] | None) -> int:
    """Check that the tools are as they are locked.

    Exits with 1 for drift, with 3 if it can't be checked: no lock, a damaged one, or a toolset that doesn't answer.
    """
    return _compare(options, (), as_json=as_json, fail_on=fail_on, shows_lines=False)


@click.command("diff")
@click.argument("name", required=False)
@_json_option
@_fail_on
@tool_options
@click.pass_obj
def diff_command(options: Options, name: str | None, *, as_json: bool, fail_on: tuple[DriftClass, ...] | None) -> int:
    """Show how the tools differ from the lock, line by line; exits as verify does.

    NAME is a tool, a distribution or a toolset.
    """
    return _compare(options, () if name is None else (name,), as_json=as_json, fail_on=fail_on, shows_lines=True)


def _compare(
    options: Options,
    names: tuple[str, ...],
    *,
    as_json: bool,
    fail_on: tuple[DriftClass, ...] | None,
    shows_lines: bool,
) -> int:
    session, settings, file = _open(options)
    try:
        lock, content = read_lock(file)
    except LockError as error:
        write_note(f"error: {error}")
        return _CANT_COMPARE
    if not is_binding(file, content):
        write_note(f"{file} isn't trusted, and accepts nothing: registry config trust {file}")
    found = find_for(session, lock)
    comparison = Comparison(lock, base_of(session.config, file))
    new = _take_names(comparison, found, names) if names else lock_of(comparison, found.present)
    drifts = comparison.all_drifts(found.present)
    if names:
        drifts = [drift for drift in drifts if _is_about(drift, names, new, lock)]
    if as_json:
        write(json_rows("drift", [drift.to_json() for drift in drifts]))
    else:
        _show(drifts, settings)
        write("".join(f"{line}\n" for line in _diff(lock, new)) if shows_lines else "")
    for failure in found.failures:
        write_note(failure)
    for hint in _hints(comparison, evolve(found, unqueried=())):
        write_note(hint)
    if found.failures:
        return _CANT_COMPARE
    if not (drifts or as_json):
        write_note(f"{count_text(len(found.present.tools), 'tool')} as locked")
    failing = settings.failing if fail_on is None else fail_on
    return int(any(drift.kind in failing for drift in drifts))


def _is_about(drift: Drift, names: tuple[str, ...], new: Lock, lock: Lock) -> bool:
    """Whether a drift is one of these names, or of the distribution or toolset of a tool among them."""
    entries = [entry for name in names for table in (new.tools, lock.tools) if (entry := table.get(name)) is not None]
    more = {entry[key] for entry in entries for key in ("distribution", "toolset")}
    if drift.tool is not None:
        return drift.tool in names
    subject = drift.distribution or drift.toolset
    return subject in names or subject in more


def _show(drifts: Sequence[Drift], settings: LockSettings) -> None:
    rows = [
        (
            drift.kind,
            settings.action(drift.kind),
            drift.tool or drift.distribution or drift.toolset or "",
            one_line(drift.text),
        )
        for drift in drifts
    ]
    if rows:
        write(rows_text(("CLASS", "ACTION", "OF", "WHAT"), rows, stdout_screen()))


def _diff(old: Lock, new: Lock) -> Iterator[str]:
    """The lines of a unified diff of two locks, entry by entry."""
    for table in _TABLES:
        before, after = (cast("Mapping[str, JsonObject]", getattr(each, table)) for each in (old, new))
        for name in sorted({*before, *after}):
            one, other = (_lines(each.get(name)) for each in (before, after))
            label = visible(name)
            yield from difflib.unified_diff(one, other, f"{label} locked", f"{label} now", lineterm="")


def _lines(entry: Any) -> list[str]:
    if entry is None:
        return []
    normal = json.loads(canonical_json(entry))  # numbers as in the file, where 1.0 is 1
    return [visible(line) for line in json.dumps(normal, indent=2, sort_keys=True, ensure_ascii=False).splitlines()]


def _open(options: Options) -> tuple[Session, LockSettings, Path]:
    """The session, the settings and the path of the lock."""
    if options.only:
        raise click.UsageError("-T doesn't apply to the lock; name the tools: registry lock NAME...")
    session = open_session(options)
    settings = read_settings(session.config)
    return session, settings, lock_path(session.config, settings)
