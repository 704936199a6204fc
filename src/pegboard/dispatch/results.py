"""Results: a tool's return value or exception as a `ToolResult` within its limits."""

from __future__ import annotations

import asyncio
import base64
import enum
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Sequence, Set as AbstractSet
from functools import lru_cache, partial
from itertools import chain, islice
from operator import attrgetter
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final, cast

import attrs

from pegboard.dispatch.state import CallState, time_limit
from pegboard.errors import CallStoppedError, FatalToolError, ToolError, detail_of, log_failure
from pegboard.json import MAX_DEPTH, json_problems, unicode_text
from pegboard.schema.converter import foreign_writer
from pegboard.schema.text_types import nearest_notation
from pegboard.schema.unstructure import names_to_write, to_json_data
from pegboard.timeout import LimitExpiredError, within
from pegboard.tools.call import CallError
from pegboard.tools.content import CONTENT_TYPES, Content, FileContent, TextContent, ToolResult, media_type
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.limits import DEFAULT_RESULT_LIMITS, Limits, ResultLimits
from pegboard.tools.tool import Tool

MOST_AT_ONCE: Final = 5_000
"""Values that are converted on the event loop: some milliseconds. 64 characters count as one value."""

MOST_VALUES: Final = 1_000_000
"""Values in one result, shared parts counted each time: written out, these can make a small value endless."""

_SIGN_OF_MEDIA: Final = re.compile('"(?:mime_type"|mimeType"|media_type"|data:)')  # all begin alike, which is fast
"""What the JSON text of data with an image, a sound or a file in it contains, also one that the tool has encoded."""

_SIGN_OF_BYTES: Final = '"(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR|SUQz|T2dnU|JVBERi0)'
"""What it contains if there are the bytes of an image, a sound or a PDF in the data."""

_DATA_URL: Final = re.compile("data:([^,;]+)(?:;[^,;]+)*;base64,")
_MOST_DEPTH: Final = MAX_DEPTH - 4  # a wrapped result is one level deeper
_WRITTEN_AS_IS: Final = frozenset({int, float, bool, type(None)})
_WRITTEN_OTHERWISE: Final = (
    *(str, int, float, bytes, enum.Enum, Mapping, AbstractSet, Sequence, MappingView, ToolResult),
    *CONTENT_TYPES,
)
_BYTES: Final = (bytes, bytearray, memoryview)
_MEDIA: Final = ("image/", "audio/", "video/", "application/pdf")
_SCALARS: Final = frozenset({int, bool, str, type(None)})
_COLLECTIONS: Final = frozenset({dict, list, tuple, set, frozenset, deque})
_type: Callable[[Any], type[Any]] = type

write_json: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
"""JSON encoder; raises `TypeError` or `ValueError` for a value that isn't JSON, `RecursionError` for a deep one."""

_make_encoder: Final[Any] = getattr(json.encoder, "c_make_encoder", None)  # `JSONEncoder` makes one for each value
_write_pieces: Final[Callable[[Any], Iterable[str]]] = (
    partial(
        _make_encoder(None, None, json.encoder.encode_basestring, None, ": ", ", ", False, False, False),  # noqa: FBT003  in C, by position
        _current_indent_level=0,
    )
    if _make_encoder
    else write_json
)
"""The text of copied data in pieces, as of `write_json`; kept, and without its search for cycles."""


async def shape(state: CallState, tool: Tool, value: Any) -> ToolResult:
    """The result of a call whose tool has returned this value.

    A `ToolResult` is used as it is; a string, bytes and content become content; other data becomes structured content
    and its JSON text; `None` becomes `{}`. A large value is converted in a thread; a long result is truncated.

    Raises `invalid_output`, with the path of what isn't JSON or breaks the output schema, `limit` or `timeout`.
    """
    if values_left(value.structured_content if type(value) is ToolResult else value) < 0:
        return await _shape_off_the_loop(state, tool, value)
    result = result_of(tool, value)
    content, limits = result.content, limits_of(state)
    # One short text is what nearly every result is.
    is_short = len(content) == 1 and type(text := content[0]) is TextContent and len(text.text) <= limits.small
    return result if is_short else await hold_to_limits(state, result)


def quick_result(tool: Tool, value: Any, limits: Limits) -> ToolResult | None:
    """What `shape` makes of a small value: weighed, copied and written in one pass; `None` if that isn't possible."""
    try:
        validator, own_limits, kind = tool.output_validator, tool.policy.result_limits, _type(value)
        if kind is str and validator is None:
            text, data, is_usual = value, None, not value.startswith("data:")
        else:
            data, left = (value, 0) if kind in _SCALARS or kind is float else _copy(value, MOST_AT_ONCE)
            wraps = isinstance(tool.handler, Handler) and tool.handler.wraps_result
            if wraps or (validator is not None and type(data) is not dict):
                data = {"result": data}
            text = "".join(_write_pieces(data))
            fits = left >= 0 and not _SIGN_OF_MEDIA.search(text)
            is_usual = fits and (value is not None if validator is None else validator.accepts(data))
        if not is_usual or len(text) > (limits.results if own_limits is None else own_limits).small:
            return None
        if text.isascii():
            return ToolResult.of_text(text, data)
        content = TextContent(text)
        return ToolResult.of_text(content, data) if content.text is text else None  # else it held lone surrogates
    except Exception:  # noqa: BLE001  `shape` words it
        return None


class _UnusualError(Exception):
    """A value needs more than one pass: it is large, or not of JSON's own types and classes of written attributes."""


def _copy(value: Any, left: int, depth: int = 0) -> tuple[Any, int]:
    """A copy of a value as JSON data, as `to_json_data` gives it, and the rest of a budget, as of `values_left`.

    The rest may be negative: then the value is large. Raises `_UnusualError`, and what reading the value raises.
    """
    kind = _type(value)
    keys: Any = None
    if kind is dict:
        keys, items = value, value.values()
        if any(_type(key) is not str for key in value):
            raise _UnusualError
    elif kind is list:
        items = value
    else:
        return _copier_of(kind)(value, left, depth)
    left -= len(items)
    if left < 0 or depth > _MOST_DEPTH:
        raise _UnusualError
    done: list[Any] = []
    for item in items:
        kind = _type(item)
        if kind is str:
            left -= len(item) >> 6
        elif kind not in _WRITTEN_AS_IS:
            item, left = _copy(item, left, depth + 1)  # noqa: PLW2901
        done.append(item)
    return (done if keys is None else dict(zip(keys, done, strict=True))), left


@lru_cache(1_024)
def _copier_of(kind: type[Any]) -> Callable[[Any, int, int], tuple[Any, int]]:
    """`_copy` of an attrs class, as straight code: reading its attributes in a loop takes three times as long."""
    names = names_to_write(kind) if attrs.has(kind) else None
    if not names or issubclass(kind, _WRITTEN_OTHERWISE) or foreign_writer(kind) or nearest_notation(kind) is not None:
        raise _UnusualError
    code = [f" if left < 0 or depth > {_MOST_DEPTH}: raise unusual"]
    for number, (name, _) in enumerate(names):
        code += (
            f" v{number} = value.{name}",
            f" kind = type(v{number})",
            f" if kind is str: left -= len(v{number}) >> 6",
            f" elif kind not in plain: v{number}, left = copied(v{number}, left, depth + 1)",
        )
    items = ", ".join(f"{key!r}: v{number}" for number, (_, key) in enumerate(names))
    code.append(f" return {{{items}}}, left - {len(names)}")
    space: dict[str, Any] = {"unusual": _UnusualError, "plain": _WRITTEN_AS_IS, "copied": _copy, "__name__": __name__}
    exec("\n".join(("def copy(value, left, depth):", *code)), space)  # noqa: S102  made of attributes' names only
    return space["copy"]


async def _shape_off_the_loop(state: CallState, tool: Tool, value: Any) -> ToolResult:
    seconds = time_limit(state, tool)
    shaping = state.runtime.threads.run_for(tool.name, partial(_large_result_of, state, tool, value))
    try:
        return await within(seconds, shaping, grace=state.settings.limits.grace)
    except LimitExpiredError:
        text = f"{tool.name} ran, but its result could not be read within {seconds:g} s."
        raise CallError("timeout", text) from None


def _large_result_of(state: CallState, tool: Tool, value: Any) -> ToolResult:
    value = read_iterator(tool, value)
    data = value.structured_content if issubclass(type(value), ToolResult) else value
    if values_left(data, MOST_VALUES, 0, only_known=False) < 0:
        text = f"{tool.name} ran, but its result contains more than {MOST_VALUES:,} values. Request less at once."
        raise CallError("limit", text)
    return truncate_result(state, result_of(tool, value))


def read_iterator(tool: Tool, value: Any) -> Any:
    """The items of an iterator, up to one over the limit, if the tool declares an `Iterable`; else `value`."""
    if tool.output_validator is None or not isinstance(value, Iterator):
        return value
    return list(islice(cast("Iterator[Any]", value), MOST_VALUES + 1))


def result_of(tool: Tool, value: Any) -> ToolResult:
    """`value` as a result, validated by the tool's output schema; raises `invalid_output`."""
    validator = tool.output_validator
    try:
        if isinstance(value, ToolResult):
            result = _check(value)
        elif validator is not None or (result := _content_result(value)) is None:
            data = value if type(value) in _SCALARS else to_json_data(value)
            # An output schema needs an object; a tool without a handler was run by its host.
            wraps = isinstance(tool.handler, Handler) and tool.handler.wraps_result
            if wraps or (validator is not None and type(data) is not dict):
                data, value = {"result": data}, {"result": value}
            text = "".join(_write_pieces(data))
            content = TextContent(text)
            if content.text is not text:  # it held lone surrogates
                data = json.loads(content.text)
            if _SIGN_OF_MEDIA.search(text) or re.search(_SIGN_OF_BYTES, text):
                result = _with_media(value, None if validator is None else data)
            else:
                result = ToolResult.of_text(content, data)
            if validator is not None and validator.accepts(data):
                return result
        if validator is None or result.is_error:
            return result
        problems = validator.problems(result.structured_content)
    except Exception as error:
        raise _invalid(tool, _fault(value, error), error) from error
    if problems:
        raise _invalid(tool, "; ".join(problems))
    return result


def _check(result: ToolResult) -> ToolResult:
    """A tool's own `ToolResult`, with structured content converted to JSON types."""
    data = result.structured_content
    if data is None or not json_problems(data):
        return result
    text = unicode_text(write_json(to_json_data(data)))
    content = result.content or (_with_media(data).content if _SIGN_OF_MEDIA.search(text) else ())
    return attrs.evolve(result, structured_content=json.loads(text), content=content)


def _content_result(value: Any) -> ToolResult | None:
    """The result of a string, content or `None`; `None` for data, such as a list of strings only."""
    if isinstance(value, str):
        medium = _medium_of(value)
        return ToolResult.of_text(TextContent(value)) if medium is None else ToolResult((medium,))
    if value is None:
        return ToolResult(TextContent("{}"), {})  # pyright: ignore[reportArgumentType]  converted
    if issubclass(_type(value), _BYTES):
        value = FileContent("result:", bytes(value), "application/octet-stream")
    items = cast("Sequence[Any]", value if isinstance(value, list | tuple) else (value,))
    has_content = any(isinstance(item, CONTENT_TYPES) for item in items)
    if not has_content or not all(isinstance(item, (str, *CONTENT_TYPES)) for item in items):
        return None
    return ToolResult(tuple(TextContent(item) if isinstance(item, str) else item for item in items))


def _with_media(value: Any, whole: Any = None) -> ToolResult:
    """A result with a value as JSON, and beside it the images, sounds and binary files in it, also encoded ones.

    `whole` is its JSON form for an output schema; without it, the data have a note in place of each medium, as texts.
    """
    media: list[Content] = []

    def without(part: Any) -> Any:
        medium = _medium_of(part) or part
        kind = _type(medium)
        if issubclass(kind, CONTENT_TYPES) and not isinstance(getattr(medium, "data", ""), str):
            media.append(medium)
            return f"[{medium.type} {len(media)} beside this text]"
        if (names := names_to_write(kind)) is not None:
            return {key: without(getattr(part, name)) for name, key in names}
        if isinstance(part, Mapping):
            return {key: without(item) for key, item in cast("Mapping[Any, Any]", part).items()}
        if issubclass(kind, (str, *_BYTES)) or not issubclass(kind, Sequence | AbstractSet | MappingView):
            return part
        return [without(item) for item in part]

    content = TextContent(write_json(to_json_data(without(value))))
    return ToolResult((content, *media), json.loads(content.text) if whole is None else whole)


def _medium_of(part: Any) -> FileContent | None:
    """The image, sound, video or PDF that something in a value is, else `None`.

    That is bytes, by their beginning; and base64 in a data URL, or in an object as MCP and Anthropic have it.
    """
    declared, encoded = None, None
    if isinstance(part, str) and (match := _DATA_URL.match(part)) is not None:
        declared, encoded = match[1], part[match.end() :]
    elif isinstance(part, Mapping):
        facts = cast("Mapping[Any, Any]", part)
        declared, encoded = facts.get("mimeType") or facts.get("media_type"), facts.get("data")
    if isinstance(declared, str) and isinstance(encoded, str) and declared.startswith(_MEDIA):
        try:
            data = base64.b64decode(encoded, validate=True)
        except ValueError:
            return None
    elif issubclass(_type(part), _BYTES):
        data = bytes(cast("bytes", part))
    else:
        return None
    name = media_type(data, declared)
    return FileContent("result:", data, name) if name.startswith(_MEDIA) else None


def _fault(value: Any, error: Exception) -> str:
    """Description of the part that isn't JSON, with its path."""
    try:
        data = to_json_data(value.structured_content if issubclass(type(value), ToolResult) else value)
    except Exception as found:  # noqa: BLE001  (reading a tool's own value may raise anything)
        return f"{found}" if _is_ours(found) else f"(root): {type(found).__name__}"
    return "; ".join(json_problems(data)) or f"(root): {type(error).__name__}"


def _is_ours(error: Exception) -> bool:
    """Whether pegboard's code raised it; other messages aren't for the model."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("pegboard.")


def _invalid(tool: Tool, reason: str, error: Exception | None = None) -> CallError:
    text = f"{tool.name} ran, but its result was refused: {reason}. Calling it again may not help."
    return CallError("invalid_output", text, detail=None if error is None else detail_of(error))


def values_left(value: Any, left: int = MOST_AT_ONCE, characters: int = 64, *, only_known: bool = True) -> int:
    """The rest of a budget of values after counting those in a value, negative if there are more; never raises.

    So many characters count as one more value; 0: none do. With `only_known`, it is negative also if reading the value
    may take long, as that runs code of an unknown class. Otherwise what can't be read counts nothing: writing it fails.
    """
    try:
        return _rest(value, left, (), characters, only_known)
    except Exception:  # noqa: BLE001  such as of a property
        return -1 if only_known else left


def _rest(value: Any, left: int, above: tuple[int, ...], characters: int, only_known: bool) -> int:
    if isinstance(value, str | bytes | bytearray):
        return left - len(value) // characters if characters else left
    kind = _type(value)
    if kind in _WRITTEN_AS_IS:
        return left
    if len(above) > MAX_DEPTH or id(value) in above:  # too deep or cyclic, which writing it will refuse
        return -1 if only_known else left
    read = _reader_of(kind)
    if read is not None:
        members: Any = read(value)
    elif only_known and kind not in _COLLECTIONS:
        return -1
    elif isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        members = chain(mapping, mapping.values()) if only_known else mapping.values()
    else:
        members = cast("Any", value) if isinstance(value, AbstractSet | Sequence | deque) else ()
    above = *above, id(cast("object", value))
    for member in members:
        left -= 1
        if _type(member) not in _WRITTEN_AS_IS:
            left = _rest(member, left, above, characters, only_known)
        if left < 0:
            break
    return left


@lru_cache(1_024)
def _reader_of(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]] | None:
    """Getter of the attributes that are written, none for a number or date; `None` for an unknown class."""
    written = names_to_write(kind)
    if written:
        names = [name for name, _ in written]
        return attrgetter(names[0], *names)  # a single name would give no tuple
    if written is not None or issubclass(kind, enum.Enum | int | float) or nearest_notation(kind) is not None:
        return lambda _: ()
    return None


_CHARACTERS: Final = 64  # characters or bytes of a generator's items that count as one more value
_ITEMS_AT_ONCE: Final = 1_000  # items of an async generator after which it yields to the event loop


def drain(source: Iterable[Any], context: ToolContext) -> Any:
    """Exhausts a generator; returns its return value, or else the list of its items. Each item is emitted.

    Raises `limit` with too many items, and `CallStoppedError` once the call is cancelled; then the generator is closed.
    """
    generator, items, left = iter(source), list[Any](), MOST_VALUES
    try:
        while not context.cancelled:
            try:
                item = next(generator)
            except StopIteration as end:
                return items if end.value is None else end.value
            left = _take_item(item, items, left, context)
    finally:
        if isinstance(generator, GeneratorType):
            generator.close()
    raise CallStoppedError("the call was cancelled", kind="aborted")


async def drain_async(source: Any, context: ToolContext) -> list[Any]:
    """`drain` of an async generator, which has no return value; a cancellation closes it."""
    items, left = list[Any](), MOST_VALUES
    try:
        async for item in source:
            left = _take_item(item, items, left, context)
            if not len(items) % _ITEMS_AT_ONCE:
                await asyncio.sleep(0)
    finally:
        if isinstance(source, AsyncGeneratorType):
            await source.aclose()
    return items


def _take_item(item: Any, items: list[Any], left: int, context: ToolContext) -> int:
    """Counts, stores and emits an item; returns how many values may still follow."""
    left = values_left(item, left - 1, _CHARACTERS, only_known=False)
    if left < 0:
        most = f"{MOST_VALUES:,} values ({_CHARACTERS} characters count as one)"
        raise CallError("limit", f"The tool was stopped: it returned more than {most}. Request less.")
    items.append(item)
    context.emit(item)
    return left


def limits_of(state: CallState) -> ResultLimits:
    """The limits on the call's result: its tool's own, else the registry's."""
    own = state.tool.policy.result_limits if state.tool is not None else None
    return state.settings.limits.results if own is None else own


async def hold_to_limits(state: CallState, result: ToolResult) -> ToolResult:
    """The result, truncated if it is too long; in a thread, as that writes a file."""
    from pegboard.dispatch.truncate import is_within  # loaded with the first long result

    if is_within(result, limits_of(state)):
        return result
    return await state.runtime.threads.run(truncate_result, state, result)


def truncate_result(state: CallState, result: ToolResult) -> ToolResult:
    """The result, truncated if it is too long. May block, as it stores the text, for the call's user and session."""
    from pegboard.dispatch.truncate import READER, reader_of, truncate

    made, store = state.made_context, state.runtime.store
    offered = {tool.name for tool in (state.snapshot.tools if made is None else made.offered)}
    reader = None if store is None else store.reader
    if offered:
        reader = next((name for name in (reader, READER) if name in offered), None)
    return truncate(result, limits_of(state), store, reader_of(state.request), reader)


def failure_result(state: CallState, error: BaseException) -> ToolResult:
    """The error result for an exception that ended a call. Never raises."""
    if isinstance(error, FatalToolError):
        state.end_turn(error=error)
    elif not isinstance(error, (CallError, ToolError, asyncio.CancelledError)):  # any other is unexpected
        log_failure(state.call.name, error)
    policy = None if state.tool is None else state.tool.policy.expose_errors
    expose = state.settings.limits.expose_errors if policy is None else policy
    return error_result(state.call.name, error, limits_of(state), expose=expose)


def error_result(
    name: str, error: BaseException, limits: ResultLimits = DEFAULT_RESULT_LIMITS, *, expose: bool
) -> ToolResult:
    """The error result of a tool. Never raises.

    The model gets the text of a `ToolError`; of any other the tool's name, the exception's type, and, if `expose` is
    set, its message.
    """
    try:
        result = _error_result(name, error, expose)
        if len(result.text) <= limits.small:
            return result
        from pegboard.dispatch.truncate import cut_short

        return attrs.evolve(result, content=cut_short(result.text, limits))
    except Exception as failed:  # noqa: BLE001  such as of a ToolError whose `__init__` never ran
        return ToolResult.error("tool_failure", f"{name} failed.", detail=detail_of(failed))


def _error_result(name: str, error: BaseException, expose: bool) -> ToolResult:
    if isinstance(error, CallError):
        return error.result()
    detail = detail_of(error)
    if isinstance(error, CallStoppedError):
        return ToolResult.error(error.kind, f"{name} was stopped: {error.text}.", detail=detail)
    if isinstance(error, ToolError):
        text = f"{error.text}" if error.hint is None else f"{error.text}\n{error.hint}"
        result = ToolResult.error("tool_failure", text, detail=detail)
        return attrs.evolve(result, metadata={"retryable": error.retryable})
    if isinstance(error, asyncio.CancelledError):
        return ToolResult.error("aborted", f"{name} cancelled itself before it returned a result.")
    raised = error
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration | StopAsyncIteration):
        raised = error.__cause__  # which coroutines and futures have wrapped
    text = f": {_text_of(raised)}" if expose else ""
    return ToolResult.error("tool_failure", f"{name} failed: {type(raised).__name__}{text}.", detail=detail)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except Exception:  # noqa: BLE001  of the exception's own `__str__`
        return "(no text)"
