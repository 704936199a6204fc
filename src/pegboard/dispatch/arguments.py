"""The stages `parse` and `validate`: arguments from JSON text to validated data, converted if allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, NoReturn, cast

import attrs
from attrs import field
from jiter import from_json

from pegboard.callbacks import may_block
from pegboard.dispatch.state import CallState
from pegboard.errors import ToolError, detail_of
from pegboard.json import (
    MAX_DEPTH,
    MOST_PROBLEMS,
    NotPlainError,
    is_object,
    json_problems,
    plain_copy,
    problem,
    short_json_with_kind,
    strict_json,
)
from pegboard.timeout import LimitExpiredError, within
from pegboard.tools.call import CallError, CallFault, ToolCall
from pegboard.tools.handler import Preparer, own_problems
from pegboard.tools.limits import DEFAULT_LIMITS, Limits
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject, define, frozen

_MARKS: Final = bytes.maketrans(b"123456789E[", b"000000000e{")
"""Maps all digits, exponents and brackets to one character each, to find text that may be too deep, or may hold a
number beyond a double's range: an exponent (a digit before an e), or very many digits."""

_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
"""An unclosed string extends to the end, so that matching takes linear time."""

_INCOMPLETE_NUMBER: Final = re.compile(rb"(?<=[0-9])(?:\.|[eE][+-]?)$")
_DICT: Final[type[Any]] = dict


def parse_arguments(
    text: str | bytes, *, most_bytes: int, most_nodes: int = DEFAULT_LIMITS.argument_nodes
) -> dict[str, Any]:
    """Strict parser of a JSON object; blank text and `null` mean `{}`.

    Refuses duplicate keys, NaN and infinities (written out or by overflow), lone surrogates, more than
    64 levels, more than 4,300 digits in one number (jiter's limit, and Python's own), more than `most_bytes`
    bytes, and more than `most_nodes` values: it raises `invalid_arguments`, with the reason.
    """
    data: Any = text
    if isinstance(text, str) and len(text) <= most_bytes:  # a longer one isn't even encoded
        try:
            data = text.encode()
        except UnicodeEncodeError:
            _refuse("the text contains a lone surrogate")
    if len(data) > most_bytes:
        unit = "characters" if isinstance(data, str) else "bytes"
        _refuse(f"{len(data):,} {unit} of JSON; the maximum is {most_bytes:,} bytes")
    if len(data) > most_nodes and _is_too_wide(data, most_nodes):
        _refuse(_too_many(most_nodes))
    try:
        value: Any = strict_json(data)
    except ValueError as error:
        if not data.strip():
            return {}
        _refuse(f"not JSON: {str(error)[:200]}")
    if type(value) is not _DICT:
        if value is None:
            return {}
        _refuse(f"expected a JSON object, found {short_json_with_kind(value)}")
    # Where the text doesn't rule out a breach of the limits, the value is checked.
    marks, size = data.translate(_MARKS), len(data)
    brackets = marks.count(b"{") if size > min(MAX_DEPTH, most_nodes) else 0  # fewer than characters
    if (
        brackets > MAX_DEPTH
        or b"0e" in marks
        or (size > 200 and b"0" * 200 in marks)
        or (size > most_nodes and brackets + data.count(b",") > most_nodes)
    ):
        return _plain_object(value, most_nodes)
    return value


def parse(given: object, limits: Limits) -> dict[str, Any]:
    """Arguments from any value that a host may pass: parsed if text, deep-copied if a mapping, in plain JSON types.

    The copy ensures that what is validated, approved and run is the same, and that a tool changes only its own.
    Raises as `parse_arguments`.
    """
    try:
        if isinstance(given, str | bytes):
            return parse_arguments(given, most_bytes=limits.argument_bytes, most_nodes=limits.argument_nodes)
        return _plain_object(given, limits.argument_nodes)
    except CallError:
        raise
    except Exception as error:  # reading a host's own mapping may raise anything
        raise _refusal((problem((), "they can't be read"),), detail=detail_of(error)) from error


def _plain_object(given: object, most_nodes: int) -> dict[str, Any]:
    """A deep copy of a mapping, whose values have to be of JSON's own types.

    Raises `invalid_arguments`, or what a mapping of another type raises when it is read.
    """
    if type(given) is not dict:
        if not isinstance(given, Mapping):
            _refuse(f"expected a JSON object, found {type(given).__name__}")
        mapping = cast("Mapping[Any, Any]", given)
        keys = [*islice(mapping, most_nodes + 1)]
        if len(keys) > most_nodes:
            _refuse(_too_many(most_nodes))
        given = {key: mapping[key] for key in keys}
    left = [most_nodes]
    try:
        return plain_copy(given, MAX_DEPTH, left)
    except NotPlainError:
        if left[0] < 0:
            _refuse(_too_many(most_nodes))
        raise _refusal(json_problems(given, most_nodes)) from None


def _is_too_wide(data: bytes, most_nodes: int) -> bool:
    """Whether a JSON text has more values, by its number of commas; in linear time, without parsing it."""
    if data.count(b",") <= most_nodes:
        return False
    return _STRINGS.sub(b"", data).count(b",") > most_nodes


def _too_many(most_nodes: int) -> str:
    return f"it contains more than {most_nodes:,} values"


def _refusal(problems: Sequence[str], *, detail: str | None = None) -> CallError:
    """The error of arguments that aren't one JSON object within the limits."""
    if len(problems) == 1:
        listed = f" {problems[0].removeprefix('(root): ')}. "
    else:
        listed = "".join(f"\n- {each}" for each in problems) + "\n"
    text = f"The arguments were refused:{listed}Send one JSON object that matches the tool's schema."
    return CallError("invalid_arguments", text, detail=detail, problems=tuple(problems))


def _refuse(reason: str) -> NoReturn:
    raise _refusal((problem((), reason),))


def parse_inner_text(state: CallState, tool: Tool, error: CallError) -> dict[str, Any]:
    """The arguments of a call whose arguments were refused, if they were encoded twice and coercion is on.

    Raises the given error otherwise.
    """
    given, limits = state.raw, state.settings.limits
    if (inner := _inner_text(given, tool, limits)) is None:
        raise error
    arguments = parse(inner, limits)
    state.coercions = ("(root): string -> object",)
    note(state, "coerced", state.coercions)
    return arguments


def _inner_text(given: object, tool: Tool, limits: Limits) -> str | None:
    """The inner text of arguments that were encoded twice, if coercion is on; else `None`."""
    if not isinstance(given, str | bytes) or len(given) > limits.argument_bytes or not _coerces(tool, limits):
        return None
    if given.lstrip()[:1] not in ('"', b'"'):
        return None
    try:
        inner: Any = strict_json(given.encode() if isinstance(given, str) else given)
    except ValueError:
        return None
    return inner if isinstance(inner, str) and inner.lstrip().startswith("{") else None


def note(state: CallState, what: str, changes: Sequence[str]) -> None:
    """Emits a note, `"coerced: a: string "1" -> number 1"`, and adds it to the result's metadata, as a list.

    `what` is `"coerced"` or `"repaired"`, also the key in the metadata; `changes` has one line for each change.
    """
    if state.settings.emit is not None:
        from pegboard.dispatch.events import CallUpdated, emit  # loaded with the first observer

        emit(state, CallUpdated, note=f"{what}: {'; '.join(changes)}")
    state.context.actions.show(None, {what: list(changes)})


async def prepare(state: CallState, tool: Tool, function: Preparer, arguments: JsonObject) -> JsonObject:
    """What the tool's `prepare_arguments` makes of a copy of the parsed arguments. It may block: it runs in a thread.

    Raises `invalid_arguments` if it fails or returns no JSON object, and `tool_failure` if it takes too long.
    """
    most_nodes = state.settings.limits.argument_nodes
    state.mark_prepared()
    make = partial(function, _plain_object(arguments, most_nodes))
    try:
        return _plain_object(await _call_author(state, make, function, "preparing its arguments"), most_nodes)
    except (Exception, SystemExit) as error:
        if isinstance(error, CallError) and error.kind != "invalid_arguments":
            raise
        reason = error.text if isinstance(error, ToolError) else "it can't read them."
        text = f"Invalid arguments for {tool.name}: {reason}\nCorrect them and call the tool again."
        raise CallError("invalid_arguments", text, detail=detail_of(error)) from error


async def validate(
    state: CallState, tool: Tool, arguments: Mapping[str, Any], *, parsed: bool = True
) -> Mapping[str, Any]:
    """The arguments, if they are valid; converts invalid ones first if coercion is on.

    `parsed` says whether they are plain JSON for sure. The tool's own `check` and `format_validation_error` may block,
    and so run in a thread. Raises `invalid_arguments`, with every problem, and `tool_failure` if the check takes too
    long.
    """
    problems = tool.validator.problems(arguments, is_json=parsed)
    if problems and _coerces(tool, state.settings.limits) and (converted := coerce(tool, arguments)) is not None:
        arguments, changes = converted
        state.coercions = (*state.coercions, *changes)
        note(state, "coerced", state.coercions)
        problems = ()
    if tool.checks is not None and not problems:
        check = partial(own_problems, tool.checks, arguments)
        problems = await _call_author(state, check, tool.checks, "its check of the arguments")
    if problems:
        await refuse_arguments(state, tool, problems)
    return arguments


def coerce(tool: Tool, arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]] | None:
    """The arguments converted to the tool's schema, and the changes, `"path: from -> to"`; `None` for a loss of data.

    Linear in the size of the arguments, within a budget of some 100 ms. Never raises. At most 20 changes are listed,
    then the number of further ones.
    """
    from pegboard.schema.messages import best_fit  # loaded only for invalid arguments

    if json_problems(arguments):
        return None
    value, changes = best_fit(arguments, tool.spec.input_schema_text)
    if not is_object(value) or json_problems(value) or not tool.validator.accepts(value):
        return None
    more = len(changes) - MOST_PROBLEMS
    return value, changes if more <= 0 else (*changes[:MOST_PROBLEMS], f"and {more} more")


def _coerces(tool: Tool, limits: Limits) -> bool:
    return limits.coerce if tool.policy.coerce is None else tool.policy.coerce


async def _call_author(state: CallState, ask: Callable[[], Any], asked: Callable[..., Any], what: str) -> Any:
    """Calls a function of the tool's author, in a thread; raises `CallError` beyond the time limit of callbacks."""
    if not may_block(asked):
        return ask()
    limits, name = state.settings.limits, state.call.name
    try:
        return await within(limits.callback_timeout, state.runtime.threads.run_for(name, ask), grace=limits.grace)
    except LimitExpiredError:
        text = f"{name} was not run: {what} took longer than {limits.callback_timeout:g} s."
        raise CallError("tool_failure", text) from None


async def refuse_arguments(state: CallState, tool: Tool, problems: tuple[str, ...]) -> NoReturn:
    """Raises `arguments_error`, worded within a time limit."""
    write = tool.format_validation_error
    if write is None:
        raise arguments_error(tool, problems)
    try:
        error = await _call_author(state, partial(arguments_error, tool, problems), write, "wording the problems")
    except CallError:
        error = arguments_error(tool.evolve(format_validation_error=None), problems)
    raise error


def arguments_error(tool: Tool, problems: tuple[str, ...]) -> CallError:
    """The error for invalid arguments, worded by the tool's `format_validation_error` if it has one."""
    most = 1000  # characters per problem; a union of a thousand members would fill pages
    problems = tuple(each if len(each) <= most else f"{each[:most]}..." for each in problems)
    detail = None
    if tool.format_validation_error is not None:
        try:
            return CallError("invalid_arguments", f"{tool.format_validation_error(problems)}", problems=problems)
        except Exception as error:  # noqa: BLE001  fall back to our text
            detail = detail_of(error)
    listed = "\n".join("- " + "\n  ".join(problem.splitlines()) for problem in problems)  # one may quote the arguments
    text = f"Invalid arguments for {tool.name}:\n{listed}\nCorrect them and call the tool again."
    return CallError("invalid_arguments", text, detail=detail, problems=problems)


_OTHER_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name", "toolName"),
    "id": ("call_id", "toolCallId", "toolUseId", "id"),  # OpenAI's items have an id besides the call's
    "arguments": ("arguments", "input", "args"),
    "provider_executed": ("providerExecuted", "provider_executed"),
    "provider_metadata": ("providerMetadata", "provider_metadata"),
}
"""Alternative keys of a call's attributes in a mapping; the first that exists counts."""

_HOLDERS: Final = ("function", "custom", "functionCall", "toolUse")
"""Keys under which a mapping may nest name and arguments."""

_A_CALL: Final = "a call is an object with name, arguments and id."
_NO_CALL: Final = CallFault("unknown_tool", f"This is not a tool call: {_A_CALL}")
_NO_NAME: Final = CallFault("unknown_tool", f"The call has no tool name: {_A_CALL}")


def parse_call(raw: object, find: Callable[[str], Tool], limits: Limits = DEFAULT_LIMITS) -> ToolCall:
    """Parser of tool calls in several formats. Never raises: a call that can't run is marked invalid, with its error.

    A valid call has its arguments as a mapping, validated by the tool's schema. (The tool's own check, conversions and
    repairs are left to dispatch.) An invalid one has the given arguments if they are text or JSON. A call that the
    provider has executed isn't validated, and one that is marked invalid stays so.

    `raw` is what `ToolRegistry.parse` takes; `find` returns the tool of a name, or raises `CallError`.
    """
    try:
        call = _read_call(raw)
        if call.error is not None or call.provider_executed:
            return attrs.evolve(call, arguments=_copy_arguments(call.arguments, limits))
        return _validate_call(call, find, limits)
    except Exception:  # noqa: BLE001  a host's object may raise anything
        return ToolCall("", error=_NO_CALL)


def _validate_call(call: ToolCall, find: Callable[[str], Tool], limits: Limits) -> ToolCall:
    try:
        tool = find(call.name)
        call = attrs.evolve(call, title=tool.spec.title or call.title, dynamic=tool.origin.toolset is not None)
        inner = _inner_text(call.arguments, tool, limits)
        arguments = parse(call.arguments if inner is None else inner, limits)
        if tool.prepare_arguments is not None:  # which dispatch calls, once
            return attrs.evolve(call, arguments=arguments)
        if tool.validator.accepts(arguments) or (_coerces(tool, limits) and coerce(tool, arguments) is not None):
            return attrs.evolve(call, arguments=arguments)
        error = arguments_error(tool, tool.validator.problems(arguments))
    except CallError as raised:
        error = raised
    except Exception as raised:  # noqa: BLE001  such as of a schema that is compiled only now
        error = CallError("tool_failure", f"{call.name[:80]} can't be called: {type(raised).__name__}.")
    fault = CallFault(error.kind, error.text, error.problems)
    return attrs.evolve(call, arguments=_copy_arguments(call.arguments, limits), error=fault)


def _copy_arguments(given: Any, limits: Limits) -> Any:
    """The arguments of an invalid or executed call: text as it is, a JSON mapping as a copy, else `{}`."""
    if isinstance(given, str | bytes):
        return given
    try:
        return parse(given, limits)
    except CallError:
        return {}


def _read_call(raw: object) -> ToolCall:
    if isinstance(raw, ToolCall):
        facts = attrs.asdict(raw, recurse=False)
    elif isinstance(raw, Mapping):
        mapping = cast("Mapping[str, Any]", raw)
        held = [cast("Mapping[str, Any]", mapping[key]) for key in _HOLDERS if isinstance(mapping.get(key), Mapping)]
        if held and not mapping.keys() & {"name", "toolName"}:
            mapping = {**mapping, **held[0]}
        keys = {each.name: _OTHER_KEYS.get(each.name, (each.name,)) for each in attrs.fields(ToolCall)}
        facts = {name: next((mapping[key] for key in among if key in mapping), None) for name, among in keys.items()}
    else:
        return ToolCall("", error=_NO_CALL)
    name, title, arguments, id_ = facts["name"], facts["title"], facts["arguments"], facts["id"]
    name = name if isinstance(name, str) else ""
    return ToolCall(
        name,
        {} if arguments is None else arguments,
        id_ if isinstance(id_, str) else f"{id_}" if type(id_) is int else "",  # some providers number their calls
        title=title if isinstance(title, str) else None,
        dynamic=facts["dynamic"] is True,
        error=_read_fault(facts["error"]) if name else _NO_NAME,
        provider_executed=facts["provider_executed"] is True,
        provider_metadata=facts["provider_metadata"],
    )


def _read_fault(given: Any) -> CallFault | None:
    if given is None or isinstance(given, CallFault):
        return given
    try:
        return CallFault.from_json(given)
    except ValueError:  # an unreadable error still marks the call as invalid
        return CallFault("invalid_arguments", "The call was marked invalid.")


_ALWAYS_PARSED: Final = 4096  # bytes up to which each access parses the text again: some 10 us for a kibibyte
_GROWTH: Final = 16  # beyond that, once it has grown by a sixteenth: all parses read some 16 times the text


@frozen
class Partial:
    """Partial arguments of a call that is still streamed.

    Attributes:
        value: The members so far, with a string up to its last character. `{}` if there are none yet.
        complete: Whether the text is complete and valid for a call.
    """

    value: dict[str, Any]
    complete: bool = False


def parse_partial(
    text: str | bytes,
    *,
    most_bytes: int = DEFAULT_LIMITS.argument_bytes,
    most_nodes: int = DEFAULT_LIMITS.argument_nodes,
) -> Partial:
    """Parser of an incomplete JSON object. Never raises; anything that can't be parsed gives `{}`.

    An incomplete token (a name, `tru`) is left out until it is complete; a number or string may still grow. Text
    beyond the limits gives `{}`.

    Args:
        text: The beginning of a JSON object, cut anywhere, also inside a character.
        most_bytes: Maximum length.
        most_nodes: Maximum number of values.
    """
    with suppress(CallError, TypeError):
        return Partial(parse_arguments(text, most_bytes=most_bytes, most_nodes=most_nodes), complete=bool(text.strip()))
    with suppress(CallError, TypeError, ValueError):
        data = text.encode() if isinstance(text, str) else text
        if len(data) <= most_bytes and not (len(data) > most_nodes and _is_too_wide(data, most_nodes)):
            if _INCOMPLETE_NUMBER.search(data) and not _STRINGS.sub(b'"', data).endswith(b'"'):
                data = _INCOMPLETE_NUMBER.sub(b"", data)  # so that the digits before it stay
            begun = from_json(data, allow_inf_nan=False, cache_mode="none", partial_mode="trailing-strings")
            return Partial(_plain_object(begun, most_nodes))
    return Partial({})


@define
class ArgumentsSoFar:
    """Buffer of streamed arguments, with an incremental parser.

    Reading `partial` after each piece takes linear time in all: beyond four kibibytes it may lag by a sixteenth of
    the text.

    Attributes:
        most_bytes: Maximum length; one byte more is stored, so that the call is refused for its length.
        most_nodes: Maximum number of values in `partial`.
    """

    most_bytes: int = DEFAULT_LIMITS.argument_bytes
    most_nodes: int = DEFAULT_LIMITS.argument_nodes
    _data: bytearray = field(factory=bytearray, init=False)
    _shown: Partial = field(factory=lambda: Partial({}), init=False)
    _read: int = field(default=0, init=False)

    def feed(self, piece: str | bytes) -> None:
        """Adds a piece."""
        room = self.most_bytes + 1 - len(self._data)  # the extra byte makes the text too long to run
        if room > 0:
            data = piece.encode(errors="surrogatepass") if isinstance(piece, str) else piece
            self._data += data[:room]

    @property
    def text(self) -> bytes:
        """The text so far; after the last piece, the call's `arguments`."""
        return bytes(self._data)

    @property
    def partial(self) -> Partial:
        """The arguments so far; parsed again if the text has grown enough since the last access."""
        length = len(self._data)
        if length - self._read > (0 if length <= _ALWAYS_PARSED else self._read // _GROWTH):
            self._read = length
            self._shown = self.exact()
        return self._shown

    def exact(self) -> Partial:
        """The arguments so far, parsed from all of the text."""
        return parse_partial(self.text, most_bytes=self.most_bytes, most_nodes=self.most_nodes)
