"""The stages `parse`, `validate` and `revalidate`: arguments from JSON text to validated data, converted if allowed."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NoReturn, cast

import attrs
from attrs import define, field, frozen
from jiter import from_json

from pegboard.callbacks import may_block
from pegboard.dispatch.events import note
from pegboard.dispatch.state import CallState
from pegboard.errors import detail_of
from pegboard.schema.json import (
    MAX_DEPTH,
    MOST_PROBLEMS,
    NotPlainError,
    is_object,
    json_faults,
    kind_shown,
    plain_copy,
    problem,
    strict_json,
)
from pegboard.timeout import LimitExpiredError, within
from pegboard.tools.call import CallError, CallFault, ToolCall
from pegboard.tools.handler import Checker, own_problems
from pegboard.tools.spec import DEFAULT_LIMITS, Limits
from pegboard.tools.tool import Tool

# Parse ----------------------------------------------------------------------------------------------------------------

_MARKS: Final = bytes.maketrans(b"123456789E[", b"000000000e{")
"""Brings out what depth needs (brackets), and what a number beyond a double's range needs: an exponent (a digit before
an e), or very many digits."""

_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
"""A string that isn't closed goes on to the end: nothing is looked at twice."""


_HALF_A_NUMBER: Final = re.compile(rb"(?<=[0-9])(?:\.|[eE][+-]?)$")

_DICT: Final[type[Any]] = dict


def parse(state: CallState) -> None:
    """Fills in `state.arguments`, which are the call's own and plain JSON afterwards; blank text means `{}`.

    Raises:
        CallError: `invalid_arguments`, with the reason.
    """
    state.parsed = True
    given, limits = state.call.arguments, state.services.limits
    if type(given) is str:  # what models write
        most_bytes, most_nodes = limits.argument_bytes, limits.argument_nodes
        state.arguments = parse_arguments(given, most_bytes=most_bytes, most_nodes=most_nodes)
    else:
        state.arguments = _taken(given, limits)


def parse_arguments(
    text: str | bytes, *, most_bytes: int, most_nodes: int = DEFAULT_LIMITS.argument_nodes
) -> dict[str, Any]:
    """A JSON object's text as a mapping.

    Refuses duplicate keys, NaN and infinities (written out or by overflow), lone surrogates, more than
    64 levels, more than 4,300 digits in one number (jiter's limit, and Python's own), more than `most_bytes`
    bytes, and more than `most_nodes` values.

    Raises:
        CallError: `invalid_arguments`, with the reason.
    """
    if len(text) > most_bytes:  # before anything else is done with it
        unit = "bytes" if isinstance(text, bytes) else "characters"
        _refuse(f"{len(text):,} {unit} of JSON, at most {most_bytes:,} bytes are taken")
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:
        _refuse("the text holds a lone surrogate")
    if len(data) > most_bytes:
        _refuse(f"{len(data):,} bytes of JSON, at most {most_bytes:,} are taken")
    if len(data) > most_nodes and _is_too_wide(data, most_nodes):
        _refuse(_too_many(most_nodes))
    try:
        value: Any = strict_json(data)
    except ValueError as error:
        if not data.strip():
            return {}
        _refuse(f"not JSON: {str(error)[:200]}")
    if type(value) is not _DICT:
        _refuse(f"expected a JSON object, found {kind_shown(value)}")
    # What a look at the text can't rule out is looked for in the value.
    marks = data.translate(_MARKS)
    brackets = marks.count(b"{")
    if (
        brackets > MAX_DEPTH
        or b"0e" in marks
        or b"0" * 200 in marks
        or (len(data) > most_nodes and brackets + data.count(b",") > most_nodes)
    ):
        return _plain_object(value, most_nodes)
    return value


def _taken(given: object, limits: Limits) -> dict[str, Any]:
    """What a host passes on as arguments, whatever it is: text of a type of its own, a mapping, or neither.

    A mapping is copied, as deep as it goes: what is validated, approved and run stays the same, and a tool that changes
    its arguments changes no others.

    Raises:
        CallError: `invalid_arguments`, with the reasons.
    """
    most_bytes, most_nodes = limits.argument_bytes, limits.argument_nodes
    try:
        if isinstance(given, str | bytes):
            return parse_arguments(given, most_bytes=most_bytes, most_nodes=most_nodes)
        return _plain_object(given, most_nodes)
    except CallError:
        raise
    except Exception as error:  # a mapping of the host's own may do anything when it is read
        raise _refused((problem((), "they can't be read"),), detail=detail_of(error)) from error


def _plain_object(given: object, most_nodes: int) -> dict[str, Any]:
    """A copy of any mapping, as deep as it goes; what is in it has to be of JSON's own types.

    Raises:
        CallError: It isn't a mapping, holds what isn't JSON, holds too much, or holds itself.
        Exception: Whatever a mapping of another type raises when it is read.
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
        raise _refused(json_faults(given, most_nodes)) from None


def _is_too_wide(data: bytes, most_nodes: int) -> bool:
    """Whether a JSON text shows by its commas that it holds more values; in linear time, before any is made."""
    if data.count(b",") <= most_nodes:
        return False
    return _STRINGS.sub(b"", data).count(b",") > most_nodes


def _too_many(most_nodes: int) -> str:
    return f"it holds more than {most_nodes:,} values"


def _refused(problems: Sequence[str], *, detail: str | None = None) -> CallError:
    """The error of a call whose arguments can't be taken, whatever its tool wants."""
    if len(problems) == 1:
        listed = f" {problems[0].removeprefix('(root): ')}. "
    else:
        listed = "".join(f"\n- {each}" for each in problems) + "\n"
    text = f"The arguments were refused:{listed}Send one JSON object that fits the tool's schema."
    return CallError("invalid_arguments", text, detail=detail, problems=tuple(problems))


def _refuse(reason: str) -> NoReturn:
    raise _refused((problem((), reason),))


# Validate -------------------------------------------------------------------------------------------------------------


def validate(state: CallState) -> Awaitable[None] | None:
    """Validates `state.arguments`; converts them first where they may be and have to be.

    What the tool's author has written, its check and its wording, may block, and so is asked in a thread.

    Raises:
        CallError: `invalid_arguments`, with every problem; `tool_failure`, where the tool's check takes too long.
    """
    tool = state.tool
    assert tool is not None
    # The short way is for plain JSON; the validator looks at anything else with more care.
    is_valid = state.parsed and tool.validator.accepts(state.arguments)
    problems = () if is_valid else tool.validator.problems(state.arguments)
    if problems and _coerces(tool, state.services.limits):
        converted = coerced(tool, state.arguments)
        if converted is not None:
            state.arguments, changes = converted
            state.coercions = (*state.coercions, *changes)
            note(state, "coerced", state.coercions)
            problems = ()
    if problems:
        return refused(state, tool, problems)
    return None if tool.checks is None else _check(state, tool, tool.checks)


def revalidate(state: CallState) -> Awaitable[None] | None:
    """Validates again what a callback changed."""
    return validate(state) if state.changed else None


def _coerces(tool: Tool, limits: Limits) -> bool:
    return limits.coerce if tool.policy.coerce is None else tool.policy.coerce


async def _check(state: CallState, tool: Tool, check: Checker) -> None:
    try:
        problems = await _asked(state, partial(own_problems, check, state.arguments), check)
    except LimitExpiredError:
        seconds = state.services.limits.callback_timeout
        text = f"{tool.name} was not run: it didn't say within {seconds:g} s whether it takes these arguments."
        raise CallError("tool_failure", text) from None
    if problems:
        await refused(state, tool, problems)


async def _asked(state: CallState, ask: Callable[[], Any], asked: Callable[..., Any]) -> Any:
    """What a function of the tool's author gives, off the loop and within the time of a callback."""
    if not may_block(asked):
        return ask()
    limits = state.services.limits
    return await within(
        limits.callback_timeout, state.services.threads.run_for(state.call.name, ask), grace=limits.grace
    )


async def refused(state: CallState, tool: Tool, problems: tuple[str, ...]) -> None:
    """Refuses the arguments, in words of the tool's own where it has some.

    Raises:
        CallError: `invalid_arguments`, which lists what is wrong.
    """
    write = tool.format_validation_error
    if write is None:
        raise arguments_error(tool, problems)
    try:
        error = await _asked(state, partial(arguments_error, tool, problems), write)
    except LimitExpiredError:
        error = arguments_error(tool.evolve(format_validation_error=None), problems)
    raise error


def arguments_error(tool: Tool, problems: tuple[str, ...]) -> CallError:
    """The error that lists what is wrong with the arguments, in the tool's own words where it has some."""
    most = 1000  # characters that the model reads; a union of a thousand members would fill pages
    problems = tuple(each if len(each) <= most else f"{each[:most]}..." for each in problems)
    detail = None
    if tool.format_validation_error is not None:
        try:
            return CallError("invalid_arguments", f"{tool.format_validation_error(problems)}", problems=problems)
        except Exception as error:  # noqa: BLE001  its wording failed; the problems are still what they are
            detail = detail_of(error)
    listed = "\n".join(f"- {problem}" for problem in problems)
    text = f"Invalid arguments for {tool.name}:\n{listed}\nCorrect them and call the tool again."
    return CallError("invalid_arguments", text, detail=detail, problems=problems)


# Calls as they come -------------------------------------------------------------------------------------------------

_OTHER_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name", "toolName"),
    "id": ("call_id", "toolCallId", "toolUseId", "id"),  # an item of OpenAI's has an id of its own beside the call's
    "arguments": ("arguments", "input", "args"),
    "provider_executed": ("providerExecuted", "provider_executed"),
    "provider_metadata": ("providerMetadata", "provider_metadata"),
}
"""Where a mapping may have what a call knows, if not by its name; the first that is there counts."""

_HOLDERS: Final = ("function", "custom", "functionCall", "toolUse")
"""Where a mapping may have name and arguments, if not directly."""

_A_CALL: Final = "a call is an object with name, arguments and id."
_NO_CALL: Final = CallFault("unknown_tool", f"This is no call of a tool: {_A_CALL}")
_NO_NAME: Final = CallFault("unknown_tool", f"The call names no tool: {_A_CALL}")


def parse_call(raw: object, find: Callable[[str], Tool], limits: Limits = DEFAULT_LIMITS) -> ToolCall:
    """A call as dispatch takes it. Never raises: one that can't run is marked invalid, with its error.

    A valid call has its arguments as a mapping, validated by the tool's schema. (The tool's own check, conversions and
    repairs are for dispatch.) An invalid one keeps the arguments that were written, where they are text or JSON. A call
    that the provider has executed is not validated here, and one that is marked already keeps its mark.

    Args:
        raw: A `ToolCall`, or a mapping `{"id", "name", "arguments"}`, or as the AI SDK, OpenAI, Anthropic, Gemini or
            Bedrock write one; arguments as text or as an object.
        find: Gives the tool of a name, or raises `CallError`.
        limits: What the arguments may use.
    """
    try:
        call = _read_call(raw)
        if call.error is not None or call.provider_executed:
            return attrs.evolve(call, arguments=_kept(call.arguments, limits))
        return _validated_call(call, find, limits)
    except Exception:  # noqa: BLE001  a host's object may do anything when it is looked at
        return ToolCall("", error=_NO_CALL)


def _validated_call(call: ToolCall, find: Callable[[str], Tool], limits: Limits) -> ToolCall:
    try:
        tool = find(call.name)
        call = attrs.evolve(call, title=tool.spec.title or call.title, dynamic=tool.origin.toolset is not None)
        arguments = _taken(call.arguments, limits)
        if tool.validator.accepts(arguments) or (_coerces(tool, limits) and coerced(tool, arguments) is not None):
            return attrs.evolve(call, arguments=arguments)
        error = arguments_error(tool, tool.validator.problems(arguments))
    except CallError as raised:
        error = raised
    except Exception as raised:  # noqa: BLE001  a schema that was never compiled before
        error = CallError("tool_failure", f"{call.name[:80]} can't be called: {type(raised).__name__}.")
    fault = CallFault(error.kind, error.text, error.problems)
    return attrs.evolve(call, arguments=_kept(call.arguments, limits), error=fault)


def _kept(given: Any, limits: Limits) -> Any:
    """The arguments of a call that won't run: text as it is, a mapping of JSON as a copy, `{}` for anything else."""
    if isinstance(given, str | bytes):
        return given
    try:
        return _taken(given, limits)
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
        id_ if isinstance(id_, str) else f"{id_}" if type(id_) is int else "",  # some count their calls
        title=title if isinstance(title, str) else None,
        dynamic=facts["dynamic"] is True,
        error=_fault(facts["error"]) if name else _NO_NAME,
        provider_executed=facts["provider_executed"] is True,
        provider_metadata=facts["provider_metadata"],
    )


def _fault(given: Any) -> CallFault | None:
    if given is None or isinstance(given, CallFault):
        return given
    try:
        return CallFault.from_json(given)
    except ValueError:  # a mark that can't be read is a mark
        return CallFault("invalid_arguments", "The call was marked invalid.")


# Arguments that are still being written -------------------------------------------------------------------------------

_READ_EACH_TIME: Final = 4096  # bytes up to which every look reads the text anew: some 10 us for a kibibyte
_PART: Final = 16
"""Beyond that, a look reads once a sixteenth has come to what was read: all looks together read 16 times the text."""


@frozen
class Partial:
    """Partial arguments of a call whose text is still coming.

    Attributes:
        value: What has come in: members as far as they go, a text up to where it stops. `{}` where nothing of an
            object can be read yet.
        complete: Whether the text is whole, and one that would be run as it is.
    """

    value: dict[str, Any]
    complete: bool = False


def parse_partial(
    text: str | bytes,
    *,
    most_bytes: int = DEFAULT_LIMITS.argument_bytes,
    most_nodes: int = DEFAULT_LIMITS.argument_nodes,
) -> Partial:
    """Reads as much of a JSON object's text as there is. Never raises; of what is no text nothing can be read.

    What was begun and can't be shown yet (a name, `tru`) is left out; what was shown stays, a number may still grow.
    What is more than the limits allow isn't shown at all.

    Args:
        text: The beginning of a JSON object, cut anywhere, inside a character too.
        most_bytes: How long it may be.
        most_nodes: How many values it may hold.
    """
    try:
        value = parse_arguments(text, most_bytes=most_bytes, most_nodes=most_nodes)
    except (CallError, TypeError):
        pass
    else:
        return Partial(value, complete=bool(text.strip()))
    try:
        data = text.encode() if isinstance(text, str) else text
        if len(data) > most_bytes or (len(data) > most_nodes and _is_too_wide(data, most_nodes)):
            return Partial({})
        if _HALF_A_NUMBER.search(data) and not _STRINGS.sub(b'"', data).endswith(b'"'):
            data = _HALF_A_NUMBER.sub(b"", data)  # what was shown of it stays
        begun = from_json(data, allow_inf_nan=False, cache_mode="none", partial_mode="trailing-strings")
        return Partial(_plain_object(begun, most_nodes))
    except (CallError, TypeError, ValueError):
        return Partial({})


@define
class ArgumentsSoFar:
    """Gathers the pieces of streamed arguments; reads them only when asked, and then not all each time.

    Looking after each piece costs time in proportion to the text, not to its square: beyond four kibibytes `partial`
    may be a sixteenth of the text behind.

    Attributes:
        most_bytes: How much is kept; what comes after it only counts, so that the call is refused for its length.
        most_nodes: How many values may be shown.
    """

    most_bytes: int = DEFAULT_LIMITS.argument_bytes
    most_nodes: int = DEFAULT_LIMITS.argument_nodes
    _data: bytearray = field(factory=bytearray, init=False)
    _shown: Partial = field(factory=lambda: Partial({}), init=False)
    _read: int = field(default=0, init=False)

    def feed(self, piece: str | bytes) -> None:
        """Takes in what has come."""
        room = self.most_bytes + 1 - len(self._data)  # the one too many makes the text too long to run
        if room > 0:
            data = piece.encode(errors="surrogatepass") if isinstance(piece, str) else piece
            self._data += data[:room]

    @property
    def text(self) -> bytes:
        """All that has come, for the call's `arguments` once the last piece is there."""
        return bytes(self._data)

    @property
    def partial(self) -> Partial:
        """What can be shown now; reads the text if enough has come to it since the last look."""
        length = len(self._data)
        if length - self._read > (0 if length <= _READ_EACH_TIME else self._read // _PART):
            self._read = length
            self._shown = self.exact()
        return self._shown

    def exact(self) -> Partial:
        """What can be shown of all that has come, read anew."""
        return parse_partial(self.text, most_bytes=self.most_bytes, most_nodes=self.most_nodes)


# Conversions ----------------------------------------------------------------------------------------------------------


def coerced(tool: Tool, arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]] | None:
    """These arguments as the tool's schema takes them, or `None` where they can't be made to fit without a loss.

    Linear in what is given, within a budget of some 100 ms. Never raises.

    Returns:
        The arguments, and what was changed: `"path: from -> to"` each; at most 20, then how many more.
    """
    from pegboard.schema.messages import Coercion  # loaded only where arguments don't fit

    if json_faults(arguments):
        return None
    value, changes = Coercion.of(tool.spec.input_schema).coerced(arguments)
    if not is_object(value) or json_faults(value) or not tool.validator.accepts(value):
        return None
    more = len(changes) - MOST_PROBLEMS
    return value, changes if more <= 0 else (*changes[:MOST_PROBLEMS], f"and {more} more")
