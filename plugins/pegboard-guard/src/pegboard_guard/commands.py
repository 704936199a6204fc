"""`registry guard` and `registry logs`: verify and show journals."""

from __future__ import annotations

import json
from collections import deque
from functools import partial
from pathlib import Path
from typing import Final

import click

from pegboard.cli import json_rows, write
from pegboard.text import visible
from pegboard_guard.journal_check import Report, verify_all
from pegboard_guard.journal_file import MOST_LINE, Record, decode_or_none

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_SHOWN: Final = ("call", "turn", "session", "user", "agent", "approvedBy", "approved_by")  # the last: journals of 0.1


@click.group("guard")
def guard_command() -> None:
    """Verify and show the audit journals of pegboard-guard."""


@guard_command.command("verify")
@click.argument("file", type=_FILE)
@click.option(
    "--head",
    metavar="HASH",
    help="Hash of a record that must be in the journal, to find out whether its end was cut off.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify_command(file: Path, head: str | None, as_json: bool) -> int:
    """Check that a journal is unchanged.

    Exits with 1 if it was changed, and names the first broken record.

    FILE is the journal's latest file; its rotated files (FILE.1, FILE.2, ...) are read before it.
    """
    reports = verify_all(file, head=head)
    is_missing = head is not None and not any(report.has_head for report in reports)
    if as_json:
        write(json_rows("files", (report.to_json() for report in reports)))
    else:
        write("".join(f"{visible(_line(report))}\n" for report in reports))
    if is_missing:
        click.echo(
            visible(f"error: no record has the hash {head}: the journal was cut off, or isn't this one"), err=True
        )
    return 0 if all(report.ok for report in reports) and not is_missing else 1


@guard_command.command("log")
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def log_command(file: Path, as_json: bool) -> int:
    """Show the records of a journal's file.

    Exits with 1 if a line is not a record. Each record is checked alone; 'verify' also finds missing ones.
    """
    return _show(file, None, as_json=as_json)


def logs_command(journal: Path | None) -> click.Command:
    """`registry logs`, for the journal in the settings, if there is one."""

    @click.command("logs")
    @click.argument("file", type=_FILE, required=False)
    @click.option("-n", "count", metavar="N", type=click.IntRange(min=1), help="Show only the last N records.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
    def logs(file: Path | None, count: int | None, as_json: bool) -> int:
        """Show the tool calls in the audit journal.

        Nothing is recorded until the configuration names a file: [plugins.guard.journal] file = "~/audit.jsonl".
        FILE is another journal's file. Exits with 1 if a line is not a record.
        """
        path = file or journal
        if path is None:
            text = 'no journal is configured: set [plugins.guard.journal] file = "~/audit.jsonl" in pegboard.toml'
            raise click.UsageError(text)
        if not path.exists():
            click.echo(f"{path}: no call was recorded yet", err=True)
            return 0
        return _show(path, count, as_json=as_json)

    return logs


def _show(file: Path, count: int | None, *, as_json: bool) -> int:
    """Prints the last `count` records, or all; returns the exit code."""
    is_whole = True
    with file.open("rb") as lines:
        numbered = enumerate(iter(partial(lines.readline, MOST_LINE), b""), 1)
        for number, line in numbered if count is None else deque(numbered, count):
            record = decode_or_none(line)
            if record is None:
                is_whole = False
                click.echo(f"line {number} is not a record; see 'registry guard verify'", err=True)
            else:
                click.echo(json.dumps(record.facts) if as_json else visible(_row(record)))
    return 0 if is_whole else 1


def _line(report: Report) -> str:
    if report.broken is not None:
        return f"{report.file}: broken: {report.broken}"
    parts = [f"{report.records} records", f"head {report.head}"]
    if report.mended:
        parts.append(f"{report.mended} torn by crashes")
    if report.lost:
        parts.append(f"{report.lost} lost")
    return f"{report.file}: whole: {', '.join(parts)}"


def _row(record: Record) -> str:
    """One line for people: `2025-03-01T09:30:00.125000Z  ok  read_file  0.002 s  session a1`."""
    facts = record.facts
    parts = [str(facts.get("at"))]
    if record.kind in ("call", "start"):
        parts += [str(facts.get("outcome", "started")), str(facts.get("tool"))]
        if "seconds" in facts:
            parts.append(f"{facts['seconds']:.3f} s")
        parts += [f"{key} {facts[key]}" for key in _SHOWN if key in facts]
        if "arguments" in facts:
            parts.append(json.dumps(facts["arguments"]))
    else:
        parts.append(_remark(record))
    return "  ".join(parts)


def _remark(record: Record) -> str:
    facts = record.facts
    if record.kind == "journal":
        return f"(journal {facts.get('id')}, file {facts.get('part')})"
    if record.kind == "mended":
        return "(a crash had torn the record before)"
    return f"({facts.get('records')} records could not be written)" if record.kind == "lost" else f"({record.kind})"
