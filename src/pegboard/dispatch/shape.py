"""The stage `shape`: what the function gave back becomes a `ToolResult`, within its limits."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, cast

import attrs

from pegboard.dispatch.heavy import (
    MOST_VALUES,
    TooManyValuesError,
    check_number,
    copied,
    is_heavy,
    sayable,
    write_heavy,
)
from pegboard.dispatch.json_writer import write_json
from pegboard.dispatch.truncate import hold_to_limits, is_within, keeper_of, limits_of, truncated
from pegboard.dispatch.work import CallError, Work
from pegboard.schema.json import is_object, json_faults
from pegboard.schema.validator import Validator
from pegboard.tools.content import CONTENT_TYPES, Content, FileContent, TextContent, ToolResult
from pegboard.tools.handler import Handler
from pegboard.tools.policy import ResultLimits
from pegboard.tools.tool import Tool

_SAYABLE: Final = (str, *CONTENT_TYPES)
NOTHING: Final = TextContent("{}")
Writer: TypeAlias = Callable[[Any], str]
_SCALARS: Final = frozenset({int, bool, str, type(None)})


def shape(work: Work) -> Awaitable[None] | None:
    """Fills in `work.result`, now or once what is given back has been awaited.

    A `ToolResult` is taken as it is; a text, bytes and content become content; other data becomes structured
    content and its JSON text; nothing becomes `{}`. What is heavy is shaped in a thread; of what is too long, the
    model gets a part.

    Raises:
        CallError: `invalid_output`: the value isn't JSON, or breaks the output schema; the error names the path.
            `limit`: it holds too many values. `timeout`: it can't be read in time.
    """
    tool, value = work.tool, work.value
    assert tool is not None
    if type(value) is ToolResult:
        return _take(work, tool, value)
    if is_heavy(value):
        return _shape_off_the_loop(work, tool, value)
    result = result_of(tool, value)
    content, own_limits = result.content, tool.policy.result_limits
    limits = work.around.limits.results if own_limits is None else own_limits
    if len(content) == 1 and type(text := content[0]) is TextContent and len(text.text) <= limits.small:
        work.result = result  # what nearly every result is
        return None
    return _hold(work, result, limits)


def _hold(work: Work, result: ToolResult, limits: ResultLimits) -> Awaitable[None] | None:
    if is_within(result, limits):
        work.result = result
        return None
    return _shorten(work, result)


def _take(work: Work, tool: Tool, given: ToolResult) -> Awaitable[None] | None:
    if given.structured_content is not None and is_heavy(given.structured_content):
        return _shape_off_the_loop(work, tool, given)
    return _hold(work, result_of(tool, given), limits_of(work))


async def _shorten(work: Work, result: ToolResult) -> None:
    work.result = await hold_to_limits(work, result)


async def _shape_off_the_loop(work: Work, tool: Tool, value: Any) -> None:
    from pegboard.dispatch.timeout import LimitExpiredError, within

    around = work.around
    seconds = around.limits.timeout if tool.policy.timeout is None else tool.policy.timeout
    shaping = around.threads.run(_heavy_result_of, tool, value, limits_of(work), keeper_of(work))
    try:
        work.result = await within(seconds, shaping, grace=around.limits.grace)
    except LimitExpiredError:
        text = f"{tool.name} ran, but its result could not be read within {seconds:g} s."
        raise CallError("timeout", text) from None


def _heavy_result_of(tool: Tool, value: Any, *to_shorten: Any) -> ToolResult:
    """In a thread."""
    try:
        check_number(_data_of(value))
    except TooManyValuesError:
        text = f"{tool.name} ran, but its result holds more than {MOST_VALUES:,} values. Ask for less at once."
        raise CallError("limit", text) from None
    except Exception:  # noqa: BLE001, S110  (whoever writes it will find the same, and where)
        pass
    return truncated(result_of(tool, value, write_heavy), *to_shorten)


def result_of(tool: Tool, value: Any, write: Writer = write_json) -> ToolResult:
    """The result that says `value`, held to the tool's output schema.

    Raises:
        CallError: `invalid_output`.
    """
    validator = tool.output_validator
    try:
        if isinstance(value, ToolResult):
            result = _checked(value)
            if validator is None or result.is_error:
                return result
            problems = validator.problems(result.structured_content)
        else:
            result = shaped(tool, validator, value, write)
            if validator is None:
                return result
            problems = _problems(validator, result.structured_content, write)
    except Exception as error:
        raise _invalid(tool, _fault(value, error), error) from error
    if problems:
        raise _invalid(tool, "; ".join(problems))
    return result


def _problems(validator: Validator, data: Any, write: Writer) -> tuple[str, ...]:
    """What is wrong with what has been written as JSON just now; the short way is for what isn't heavy."""
    try:
        if write is write_json and validator.accepts(data):
            return ()
    except ValueError:  # keys that are numbers, say: JSON when they are written, but not to the judge
        data = json.loads(write_json(data))
    return validator.problems(data)


def _checked(result: ToolResult) -> ToolResult:
    """A result of the tool's own; what isn't quite JSON in it is written as JSON."""
    data = result.structured_content
    if data is None or not json_faults(data):
        return result
    return attrs.evolve(result, structured_content=_by_what_it_is(data))


def shaped(tool: Tool, validator: Validator | None, value: Any, write: Writer = write_json) -> ToolResult:
    """The result that says `value`, not yet held to the tool's output schema.

    Raises:
        Exception: The value isn't JSON.
    """
    if validator is None:
        if isinstance(value, str):
            return ToolResult(TextContent(value))  # pyright: ignore[reportArgumentType]  converted
        content = _content(value)
        if content is not None:
            return ToolResult(content)
        if value is None:
            return ToolResult(NOTHING, {})  # pyright: ignore[reportArgumentType]  converted
    return _structured(tool, validator, value, write)


def _content(value: Any) -> tuple[Content, ...] | None:
    """The content that a value is by itself, or `None` for data."""
    if isinstance(value, CONTENT_TYPES):
        return (value,)
    if isinstance(value, bytes | bytearray):
        return (FileContent("result:", copied(value), "application/octet-stream"),)
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


def _structured(tool: Tool, validator: Validator | None, value: Any, write: Writer) -> ToolResult:
    """The value as JSON data, in an object where the tool has an output schema; and its text."""
    handler, unstructure = tool.handler, tool.unstructure
    assert isinstance(handler, Handler)
    if unstructure is not None:
        data = unstructure(value)
    else:
        data = value if type(value) in _SCALARS else _by_what_it_is(value)
    if handler.wraps_result or (validator is not None and not is_object(data)):
        data = {"result": data}
    text = write(data)
    content = TextContent(text)
    if content.text is not text:  # it held lone surrogates
        data = sayable(data) if write is write_heavy else json.loads(content.text)
    return ToolResult(content, data)  # pyright: ignore[reportArgumentType]  converted


def _by_what_it_is(value: Any) -> Any:
    from pegboard.tools.structure import to_json_data

    return to_json_data(value)


def _data_of(value: Any) -> Any:
    return value.structured_content if issubclass(type(value), ToolResult) else value


def _fault(value: Any, error: Exception) -> str:
    """What isn't JSON, with its path."""
    try:
        data = _by_what_it_is(_data_of(value))
    except Exception as found:  # noqa: BLE001  (whatever a value of the tool's own makes of being read)
        return f"{found}" if _is_ours(found) else f"(root): {type(found).__name__}"
    return "; ".join(json_faults(data)) or f"(root): {type(error).__name__}"


def _is_ours(error: Exception) -> bool:
    """Whether we have raised it; what others say in theirs is not for the model."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("pegboard.")


def _invalid(tool: Tool, reason: str, error: Exception | None = None) -> CallError:
    from pegboard.dispatch.failure import detail_of

    text = f"{tool.name} ran, but its result was refused: {reason}. Calling it again may not help."
    return CallError("invalid_output", text, detail=None if error is None else detail_of(error))
