"""`registry call` and `dispatch`: run one tool, or a list of calls as one turn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pegboard.cli.arguments import read_arguments
from pegboard.cli.commands.look import report_misses
from pegboard.cli.options import Options, call_options, context_of, context_options, tool_options
from pegboard.cli.output import (
    block,
    failure_text,
    json_line,
    pictures,
    remark,
    result_text,
    stderr_screen,
    stdout_screen,
    write,
    write_error,
    write_through,
)
from pegboard.cli.run import INTERRUPTED, approver_for, run_calls, write_event
from pegboard.cli.session import Session, complete_tool, complete_word, open_session
from pegboard.dispatch.arguments import parse_arguments
from pegboard.dispatch.batch import Outcome
from pegboard.dispatch.events import CallEnded, CallSuspended
from pegboard.files import write_whole
from pegboard.schema.json import size_text, strict_json
from pegboard.tools.call import CallError, ToolCall
from pegboard.tools.content import AudioContent, FileContent, ImageContent, ToolResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pegboard.dispatch.events import CallEvent
    from pegboard.tools.tool import Tool
    from pegboard.toolsets.resolve import ResolvedTools
    from pegboard.typing import JsonObject

MISUSES: Final = ("invalid_arguments", "unknown_tool", "not_offered")
"""The kinds of error that mean wrong use: the tool has not run. Exit code 2."""

MOST_INPUT: Final = 10_000_000


@click.command("call")
@click.argument("name", shell_complete=complete_tool)
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1, shell_complete=complete_word)
@click.option("--input-json", metavar="JSON", help="The arguments as a JSON object, '-' for standard input.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write the result's image, audio, file or text."
)
@call_options
@context_options
@tool_options
@click.pass_obj
def call_command(  # noqa: PLR0913, PLR0917  one an option, by name
    options: Options,
    name: str,
    words: tuple[str, ...],
    input_json: str | None,
    as_json: bool,
    output: str | None,
    yes: bool,
    no: bool,
    rules: str | None,
    timeout: float | None,
    **context: Any,
) -> int:
    """Call a tool, its arguments typed by its schema.

    \b
    key=value     a text, number, boolean, null or member of an enum, as the schema takes it
    key:=JSON     any JSON
    key=@FILE     a file's text (key=@@text for a text that begins with '@')
    a.b=value     a part of an object
    key=x key=y   the items of an array

    A freeform tool takes input=TEXT, or standard input. What may destroy something, or wants to be confirmed, is asked
    about in a terminal. At Ctrl-C the tool is stopped.
    """  # noqa: D301  click's marker is the character itself
    session = open_session(options)
    session.read_rules(rules)
    how: dict[str, Any] = {"approver": approver_for(yes=yes, no=no), "timeout": timeout}
    asked, where = context_of(**context), session.where()
    offered = None if options.live or session.asks_live(name, calls=True) else session.resolved(context=asked)

    async def work() -> Outcome:
        resolved = offered
        if resolved is None:
            resolved = await session.registry.resolve(asked, where=where, toolsets=session.askable([name]))
        tool = _offered(session, resolved, name)
        call = ToolCall(tool.name, _arguments(tool, words, input_json))
        outcome = await run_calls(session.registry, [call], resolved, asked, **how)
        if outcome.fatal is not None:
            raise outcome.fatal
        return outcome

    outcome = session.run(work)
    (result,) = outcome.results
    if output is not None and not result.is_error:
        save_result(result, output)
    else:
        _report(result, options, as_json=as_json)
    code = 2 if result.kind in MISUSES else int(result.is_error)
    return 130 if outcome.ended in INTERRUPTED else code


def _offered(session: Session, resolved: ResolvedTools, name: str) -> Tool:
    tool = resolved.get(name)
    if tool is not None:
        return tool
    if resolved.was_held_back(name):
        report_misses(session, resolved)
        raise click.ClickException(
            f"tool {name!r} isn't offered here: {resolved.explain(name).reasons[-1].text}.\n"
            f"'registry explain {name}' shows each step."
        )
    raise session.unknown(name, resolved)


def _arguments(tool: Tool, words: tuple[str, ...], input_json: str | None) -> JsonObject | str:
    """The arguments; JSON text stays text where nothing is put over it: dispatch reads it as it reads a model's."""
    text = None if input_json is None else _standard_input() if input_json == "-" else input_json
    if text is not None and not words:
        return text
    if text is None and not words and tool.spec.kind == "freeform" and not sys.stdin.isatty():
        return {"input": _standard_input()}
    if text is None:
        return read_arguments(words, tool.spec.input_schema)
    try:
        base = dict(parse_arguments(text, most_bytes=MOST_INPUT))
    except CallError as error:
        raise click.UsageError(f"--input-json: {error.text}") from None
    return read_arguments(words, tool.spec.input_schema, base)


def _standard_input() -> str:
    data = sys.stdin.buffer.read(MOST_INPUT + 1)
    if len(data) > MOST_INPUT:
        raise click.UsageError(f"standard input has more than {MOST_INPUT:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.UsageError("standard input isn't UTF-8 text") from None


def save_result(result: ToolResult, file: str) -> None:
    """Writes a result's pictures, sounds and files to a file, the second to FILE-2 and so on; else its text.

    Raises:
        OSError: A file can't be written.
    """
    media = [item.data for item in result.content if isinstance(item, ImageContent | AudioContent | FileContent)]
    path = Path(file)
    for number, data in enumerate(media or [result.text], 1):
        place = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        written = data.encode() if isinstance(data, str) else data
        write_whole(str(place), written)
        remark(f"{place}: {size_text(len(written))}")


def _report(result: ToolResult, options: Options, *, as_json: bool) -> None:
    if as_json:
        write(json_line(result.to_json()))
    elif not result.is_error:
        write(result_text(result, stdout_screen()))
        write(pictures(result, stdout_screen()))
    else:
        write_error(failure_text(result, stderr_screen()))
    if result.is_error and result.detail:
        _report_operator(result, result.detail, options, as_json=as_json)


def _report_operator(result: ToolResult, detail: str, options: Options, *, as_json: bool) -> None:
    """What a model doesn't read, for the person at the terminal: the cause; that a plugin failed to load, always."""
    cause, failed_to_load = _cause(detail), detail.startswith("plugin ")
    # A `ToolError` speaks for itself: the result has its text already.
    if failed_to_load or not (as_json or cause.partition(": ")[2].strip() in result.text):
        write_error(block(cause, stderr_screen(), indent="  ", style="red"))
    if failed_to_load and "--refresh" not in detail:
        remark("  'registry doctor' lists what failed; once it is corrected: registry list --refresh")
    if options.debug and "Traceback (" not in detail:  # a traceback stands in the log, which --debug shows
        remark(detail)
    if not (options.debug or as_json or failed_to_load):
        remark("(--debug shows more)")


def _cause(detail: str) -> str:
    """The sentence of a detail: what its traceback ends with, or what stands before it."""
    lines = detail.strip().splitlines()
    if not lines or not lines[0].startswith("Traceback "):
        return lines[0] if lines else ""
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    return "\n".join(lines[frames[-1] + 1 :] if frames else lines[-1:])


_MOST_CALLS_INPUT: Final = 50_000_000
MOST_CALLS: Final = 100_000


@click.command("dispatch")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--events", is_flag=True, help="Print each event as it happens, one JSON object a line.")
@click.option("--sequential", is_flag=True, help="Run one call after the other.")
@click.option("--max-concurrency", type=click.IntRange(1), metavar="N", help="Run at most N calls at once.")
@call_options
@context_options
@tool_options
@click.pass_obj
def dispatch_command(  # noqa: PLR0913  one an option, by name
    options: Options,
    *,
    file: str,
    events: bool,
    sequential: bool,
    max_concurrency: int | None,
    yes: bool,
    no: bool,
    rules: str | None,
    timeout: float | None,
    **context: Any,
) -> int:
    """Run a model's calls as one turn.

    FILE, or '-' for standard input, holds a JSON list of them:

    \b
    [{"id": "1", "name": "add", "arguments": {"a": 1}}, ...]

    Arguments are an object, or JSON text as models write it. Prints one result for each call, a JSON object a line, in
    call order, as soon as it and those before it are there. The exit code is 1 if any of them is an error.
    """  # noqa: D301  click's marker is the character itself
    raw = read_calls(file)
    session = open_session(options)
    session.read_rules(rules)
    how: dict[str, Any] = {"sequential": sequential, "max_concurrency": max_concurrency, "timeout": timeout}
    how["approver"] = approver_for(yes=yes, no=no)
    rows = None if events else _Rows()
    asked, where = context_of(**context), session.where()

    async def work() -> Outcome:
        names = [session.registry.parse(each).name for each in raw]
        resolved = await session.registry.resolve(asked, where=where, toolsets=session.askable(names))
        calls: list[ToolCall] = [session.registry.parse(each, resolved) for each in raw]
        if rows is not None:
            rows.calls = calls
        listener = write_event if rows is None else rows.listen
        return await run_calls(session.registry, calls, resolved, asked, listener, **how)

    outcome = session.run(work)
    if rows is not None:
        rows.finish(outcome)
    if outcome.fatal is not None:
        remark(f"the turn was ended: {outcome.fatal}")
    if outcome.ended in INTERRUPTED:
        return 130
    return 1 if outcome.is_error else 0


class _Rows:
    """Results as JSON lines: each is written once it and those before it are there."""

    def __init__(self) -> None:
        self.calls: Sequence[ToolCall] = ()
        self._waiting: dict[int, ToolResult] = {}
        self._written = 0

    def listen(self, event: CallEvent) -> None:
        """Takes a call's result; what waits for an answer is worded at the end."""
        if isinstance(event, CallEnded) and not isinstance(event, CallSuspended):
            self._waiting.setdefault(event.index, event.result)
        while self._written in self._waiting:
            self._write(self.calls[self._written], self._waiting[self._written])

    def finish(self, outcome: Outcome) -> None:
        """Writes what is left."""
        for call, result in [*outcome][self._written :]:
            self._write(call, result)

    def _write(self, call: ToolCall, result: ToolResult) -> None:
        (row,) = Outcome((call,), (result,)).to_json()["results"]
        write_through(json_line(row))
        self._written += 1


def read_calls(file: str) -> list[Any]:
    """The list that a file holds; what its members are, dispatch finds out.

    Raises:
        click.UsageError: It can't be read, or holds no JSON list.
    """
    try:
        with click.open_file(file, "rb") as stream:
            data = stream.read(_MOST_CALLS_INPUT + 1)
    except OSError as error:
        raise click.UsageError(f"{file} can't be read: {error.strerror}") from None
    file = "standard input" if file == "-" else file
    if len(data) > _MOST_CALLS_INPUT:
        raise click.UsageError(f"{file} has more than {_MOST_CALLS_INPUT:,} bytes")
    try:
        calls = strict_json(data)
    except ValueError as error:
        raise click.UsageError(f"{file} holds no JSON: {error}") from None
    if not isinstance(calls, list):
        raise click.UsageError(f'{file} holds no list of calls: [{{"id": ..., "name": ..., "arguments": ...}}, ...]')
    if len(calls) > MOST_CALLS:  # pyright: ignore[reportUnknownArgumentType]  JSON of any kind
        raise click.UsageError(f"{file} holds more than {MOST_CALLS:,} calls")
    return calls  # pyright: ignore[reportUnknownVariableType]
