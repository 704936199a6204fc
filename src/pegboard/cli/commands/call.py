"""`registry call` and `dispatch`: run one tool, or a batch of calls."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pegboard.cli.arguments import SchemaType, file_text, read_arguments
from pegboard.cli.commands.look import report_misses
from pegboard.cli.options import (
    Options,
    call_options,
    complete_tool,
    complete_word,
    context_of,
    context_options,
    tool_options,
)
from pegboard.cli.output import (
    block,
    failure_text,
    image_escapes,
    json_line,
    read_stdin,
    result_text,
    stderr_screen,
    stdin_is_terminal,
    stdout_screen,
    write,
    write_error,
    write_note,
    write_unbuffered,
)
from pegboard.cli.run import INTERRUPTED, approver_for, run_calls, write_event
from pegboard.cli.session import Session, open_session
from pegboard.dispatch.arguments import parse_arguments
from pegboard.dispatch.batch import Outcome
from pegboard.dispatch.events import CallEnded, CallEvent, CallSuspended
from pegboard.errors import suggest
from pegboard.files import write_atomic
from pegboard.json import is_array, size_text, strict_json
from pegboard.text import visible
from pegboard.tools.call import CallError, ToolCall
from pegboard.tools.content import AudioContent, FileContent, ImageContent, ToolResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pegboard.tools.context import ReadonlyContext
    from pegboard.tools.tool import Tool
    from pegboard.toolsets.resolve import ResolvedTools
    from pegboard.typing import JsonObject

MISUSES: Final = ("invalid_arguments", "unknown_tool", "not_offered")
"""Kinds of usage errors, for which the tool isn't run: exit code 2."""

MOST_INPUT: Final = 10_000_000
_MOST_CALLS_INPUT: Final = 50_000_000
MOST_CALLS: Final = 100_000


class _CallCommand(click.Command):
    """Command `call`: for an unknown option that is an argument of the tool, its error says how to write that."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            ctx.ignore_unknown_options = True
            super().parse_args(ctx, given)
            schema = open_session(ctx.obj).find(ctx.params["name"]).spec.input_schema
            properties, words = SchemaType(schema, schema).properties, [*ctx.params["words"], "-"]
            near = suggest(error.option_name.lstrip("-").replace("-", "_"), properties)
            if not near:
                raise
            at = next(number for number, word in enumerate(words) if word.startswith(error.option_name))
            _, sign, value = words[at].partition("=")
            if not sign:
                value = "..." if words[at + 1].startswith("-") else words[at + 1]
                value = "true" if properties[near[0]].types <= {"boolean"} else value
            argument = shlex.quote(visible(f"{near[0]}={value}"))
            raise click.UsageError(f"arguments are written without dashes: {argument}", ctx) from None


@click.command("call", cls=_CallCommand)
@click.argument("name", shell_complete=complete_tool)
@click.argument("words", metavar="[KEY=VALUE]...", nargs=-1, shell_complete=complete_word)
@click.option(
    "--input-json", metavar="JSON", help="The arguments as a JSON object; '-' reads standard input, '@FILE' a file."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the result's images, audio and files, or its text.",
)
@call_options
@context_options
@tool_options
@click.pass_obj
def call_command(  # noqa: PLR0913  one an option, by name
    options: Options,
    *,
    name: str,
    words: tuple[str, ...],
    input_json: str | None,
    as_json: bool,
    output: str | None,
    **more: Any,
) -> int:
    """Call a tool with arguments typed by its schema.

    \b
    key=value     a string, number, boolean, null or enum member, as the schema allows
    key:=JSON     any JSON
    key=@FILE     a file's text (key=@@text for a text that begins with '@')
    a.b=value     a property of an object
    key=x key=y   the items of an array

    A freeform tool takes input=TEXT, or standard input. In a terminal, you are asked before a call that is destructive
    or needs confirmation. Ctrl-C stops the tool.
    """  # noqa: D301  click's marker is the character itself
    session, asked, how = _open(options, **more)
    where = session.where()
    queries = options.live or session.has_checks or session.needs_query(name, calls=True)
    offered = None if queries else session.resolved(context=asked)

    async def work() -> Outcome:
        resolved = offered
        if resolved is None:
            resolved = await session.registry.resolve(asked, where=where, toolsets=session.to_query([name]))
        tool = _find_tool(session, resolved, name)
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


def _open(
    options: Options, *, yes: bool, no: bool, rules: str | None, timeout: float | None, **context: Any
) -> tuple[Session, ReadonlyContext, dict[str, Any]]:
    """Session, context and options of a batch, by the options of the command."""
    session = open_session(options)
    session.read_rules(rules)
    return session, context_of(**context), {"approver": approver_for(yes=yes, no=no), "timeout": timeout}


def _find_tool(session: Session, resolved: ResolvedTools, name: str) -> Tool:
    if (tool := resolved.get(name)) is not None:
        return tool
    if not resolved.was_held_back(name):
        raise session.unknown(name, resolved)
    report_misses(session, resolved)
    why = f"{resolved.explain(name).reasons[-1]}"[2:]
    advice = f"'registry explain {name}' shows each step."
    raise click.ClickException(f"tool {name!r} isn't offered here: {why}.\n{advice}")


def _arguments(tool: Tool, words: tuple[str, ...], given: str | None) -> JsonObject | str:
    """The arguments; those of `--input-json` alone stay text, so that dispatch parses them as it does a model's."""
    if given is None:
        if not words and tool.spec.kind == "freeform" and not stdin_is_terminal():
            return {"input": read_stdin(MOST_INPUT)}
        return read_arguments(words, tool.spec.input_schema)
    if given == "-":
        given = read_stdin(MOST_INPUT)
    elif given.startswith("@"):
        given = file_text(f"--input-json {given}", given[1:])
    elif not given.lstrip().startswith("{"):
        raise click.UsageError(f"--input-json: {given!r:.80} isn't a JSON object; '--input-json @FILE' reads a file")
    if not words:
        return given
    try:
        base = dict(parse_arguments(given, most_bytes=MOST_INPUT))
    except CallError as error:
        raise click.UsageError(f"--input-json: {error.text}") from None
    return read_arguments(words, tool.spec.input_schema, base)


def save_result(result: ToolResult, file: str) -> None:
    """Writes a result's images, audio and files to a file, the second to FILE-2 and so on; else its text."""
    media = [item.data for item in result.content if isinstance(item, ImageContent | AudioContent | FileContent)]
    path = Path(file)
    for number, data in enumerate(media or [result.text], 1):
        place = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        written = data.encode() if isinstance(data, str) else data
        write_atomic(str(place), written)
        write_note(f"{place}: {size_text(len(written))}")


def _report(result: ToolResult, options: Options, *, as_json: bool) -> None:
    if as_json:
        write(json_line(result.to_json()))
    elif not result.is_error:
        write(result_text(result, stdout_screen()) + image_escapes(result, stdout_screen()))
    else:
        write_error(failure_text(result, stderr_screen()))
    if not (result.is_error and result.detail):
        return
    # Details that aren't for the model: the cause, which with `--json` only a plugin's failed load has.
    detail, cause, failed_to_load = result.detail, _cause(result.detail), result.detail.startswith("plugin ")
    if failed_to_load or not (as_json or cause.partition(": ")[2].strip() in result.text):  # as a `ToolError` has it
        write_error(block(cause, stderr_screen(), indent="  ", style="red"))
    if failed_to_load and "--refresh" not in detail:
        write_note("  'registry doctor' lists what failed; once it is fixed, run: registry list --refresh")
    if options.debug and "Traceback (" not in detail:  # --debug shows the log, which has the traceback
        write_note(detail)
    if not (options.debug or as_json or failed_to_load):
        write_note("(--debug shows more)")


def _cause(detail: str) -> str:
    """The message in a detail: the end of a traceback, or the line before it."""
    lines = detail.strip().splitlines() or [""]
    if not lines[0].startswith("Traceback "):
        return lines[0]
    frames = [number for number, line in enumerate(lines) if line.startswith("  ")]
    return "\n".join(lines[frames[-1] + 1 :] if frames else lines[-1:])


@click.command("dispatch")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--events", is_flag=True, help="Print events as they happen, as JSON lines.")
@click.option("--sequential", is_flag=True, help="Run one call at a time.")
@click.option("--max-concurrency", type=click.IntRange(1), metavar="N", help="Run at most N calls at once.")
@call_options
@context_options
@tool_options
@click.pass_obj
def dispatch_command(
    options: Options, *, file: str, events: bool, sequential: bool, max_concurrency: int | None, **more: Any
) -> int:
    """Run a model's calls as one turn.

    FILE, or '-' for standard input, contains a JSON list of calls:

    \b
    [{"id": "1", "name": "add", "arguments": {"a": 1}}, ...]

    Arguments are an object, or JSON text as models write it. Prints one result per call as soon as possible, as JSON
    lines in the order of the calls. Exits with 1 if any of them is an error.
    """  # noqa: D301  click's marker is the character itself
    raw = read_calls(file)
    session, asked, how = _open(options, **more)
    how |= {"sequential": sequential, "max_concurrency": max_concurrency}
    rows, where = None if events else _Rows(), session.where()

    async def work() -> Outcome:
        names = [session.registry.parse(each).name for each in raw]
        resolved = await session.registry.resolve(asked, where=where, toolsets=session.to_query(names))
        calls = [session.registry.parse(each, resolved) for each in raw]
        listener = write_event if rows is None else partial(rows.listen, calls)
        return await run_calls(session.registry, calls, resolved, asked, listener, **how)

    outcome = session.run(work)
    if rows is not None:
        rows.finish(outcome)
    if outcome.fatal is not None:
        write_note(f"a tool ended the turn: {outcome.fatal}")
    if outcome.ended in INTERRUPTED:
        return 130
    return 1 if outcome.is_error else 0


class _Rows:
    """Writes results as JSON lines in call order, as soon as possible."""

    def __init__(self) -> None:
        self._waiting: dict[int, ToolResult] = {}
        self._written = 0

    def listen(self, calls: Sequence[ToolCall], event: CallEvent) -> None:
        """Stores a call's result and writes those whose turn it is; suspended calls wait for `finish`."""
        if isinstance(event, CallEnded) and not isinstance(event, CallSuspended):
            self._waiting.setdefault(event.index, event.result)
        while self._written in self._waiting:
            self._write(calls[self._written], self._waiting[self._written])

    def finish(self, outcome: Outcome) -> None:
        """Writes the remaining results."""
        for call, result in [*outcome][self._written :]:
            self._write(call, result)

    def _write(self, call: ToolCall, result: ToolResult) -> None:
        (row,) = Outcome((call,), (result,)).to_json()["results"]
        write_unbuffered(json_line(row))
        self._written += 1


def read_calls(file: str) -> list[Any]:
    """Reads a JSON list of calls, whose items are validated by dispatch; anything else is a usage error."""
    if file == "-":
        file, text = "standard input", read_stdin(_MOST_CALLS_INPUT)
    else:
        text = file_text(file, file, most=_MOST_CALLS_INPUT)
    try:
        calls: object = strict_json(text.encode())
    except ValueError as error:
        raise click.UsageError(f"{file} isn't valid JSON: {error}") from None
    if not is_array(calls):
        raise click.UsageError(f'{file} isn\'t a list of calls: [{{"id": ..., "name": ..., "arguments": ...}}, ...]')
    if len(calls) > MOST_CALLS:
        raise click.UsageError(f"{file} has more than {MOST_CALLS:,} calls")
    return calls
