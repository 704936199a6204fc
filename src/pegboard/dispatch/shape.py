"""The stage `shape`: what the function gave back becomes a `ToolResult`."""

from __future__ import annotations

import json
from typing import Any, Final, cast

from pegboard.dispatch.json_writer import write_json
from pegboard.dispatch.work import CallError, Work
from pegboard.tools.content import CONTENT_TYPES, Content, FileContent, TextContent, ToolResult
from pegboard.tools.handler import Handler
from pegboard.tools.json_value import is_object
from pegboard.tools.judge import Judge
from pegboard.tools.tool import Tool

_SAYABLE: Final = (str, *CONTENT_TYPES)
NOTHING: Final = TextContent("{}")
_SCALARS: Final = frozenset({int, bool, str, type(None)})


def shape(work: Work) -> None:
    """Fills in `work.result`.

    A `ToolResult` is taken as it is; a text, bytes and content become content; other data becomes structured
    content and its JSON text; nothing becomes `{}`.

    Raises:
        CallError: `invalid_output`: the value isn't JSON, or breaks the output schema; the error names the path.
    """
    tool, value = work.tool, work.value
    assert tool is not None
    result = value if isinstance(value, ToolResult) else shaped(tool, value)
    judge = tool.output_judge
    if judge is not None and not result.is_error:
        _hold_to_schema(tool, judge, result.structured_content, written=result is not value)
    work.result = result


def shaped(tool: Tool, value: Any) -> ToolResult:
    """The result that says `value`, not yet held to the tool's output schema.

    Raises:
        CallError: `invalid_output`: the value isn't JSON.
    """
    if tool.output_judge is None:
        content = _content(value)
        if content is not None:
            return ToolResult(content)
        if value is None:
            return ToolResult(NOTHING, {})
    return _structured(tool, value)


def _content(value: Any) -> tuple[Content, ...] | None:
    """The content that a value is by itself, or `None` for data."""
    if isinstance(value, str):
        return (TextContent(value),)
    if isinstance(value, CONTENT_TYPES):
        return (value,)
    if isinstance(value, bytes | bytearray):
        return (FileContent("result:", bytes(value), "application/octet-stream"),)
    if isinstance(value, list | tuple):
        return _contents(cast("list[Any]", value))
    return None


def _contents(items: list[Any]) -> tuple[Content, ...] | None:
    """Pictures and the like, perhaps with texts between them; a list of texts alone is data."""
    if not any(isinstance(item, CONTENT_TYPES) for item in items):
        return None
    if not all(isinstance(item, _SAYABLE) for item in items):
        return None
    return tuple(TextContent(item) if isinstance(item, str) else item for item in items)


def _structured(tool: Tool, value: Any) -> ToolResult:
    """The value as JSON data, in an object where the tool has an output schema; and its text."""
    handler, unstructure = tool.handler, tool.unstructure
    assert isinstance(handler, Handler)
    try:
        if unstructure is not None:
            data = unstructure(value)
        else:
            data = value if type(value) in _SCALARS else _by_what_it_is(value)
        if handler.wraps_result or (tool.output_judge is not None and not is_object(data)):
            data = {"result": data}
        text = write_json(data)
    except Exception as error:
        raise _invalid(tool, _fault(value, error)) from error
    content = TextContent(text)
    if content.text is not text:  # it held lone surrogates
        data = json.loads(content.text)
    return ToolResult(content, data)  # pyright: ignore[reportArgumentType]  converted


def _by_what_it_is(value: Any) -> Any:
    from pegboard.tools.structure import to_json_data

    return to_json_data(value)


def _fault(value: Any, error: Exception) -> str:
    """What isn't JSON, with its path."""
    try:
        _by_what_it_is(value)
    except (TypeError, ValueError) as found:
        return str(found)
    return f"(root): {error}"


def _hold_to_schema(tool: Tool, judge: Judge, data: Any, *, written: bool) -> None:
    """Judges structured content; the short way is for what has been written as JSON just now."""
    try:
        if written and judge.accepts(data):
            return
    except ValueError:  # keys that are numbers, say: JSON when they are written, but not to the judge
        data = json.loads(write_json(data))
    problems = judge.problems(data)
    if problems:
        raise _invalid(tool, "; ".join(problems))


def _invalid(tool: Tool, reason: str) -> CallError:
    return CallError(
        "invalid_output",
        f"{tool.name} ran, but its result was refused: {reason}. Calling it again may not help.",
    )
