"""The stages `parse`, `validate` and `revalidate`: arguments from JSON text to validated data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

import attrs
from attrs import define, field, frozen
from jiter import from_json

from pegboard.callbacks import may_block
from pegboard.dispatch.events import note
from pegboard.dispatch.find import not_offered, unknown
from pegboard.dispatch.state import CallState
from pegboard.dispatch.timeout import LimitExpiredError, within
from pegboard.errors import detail_of
from pegboard.schema.json import MAX_DEPTH, MAX_DIGITS, MOST_PROBLEMS, is_object, is_unicode, json_faults, problem
from pegboard.tools.call import CallError, CallFault, ToolCall
from pegboard.tools.handler import Checker, ErrorWriter
from pegboard.tools.spec import DEFAULT_LIMITS, Limits
from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from pegboard.toolsets.resolve import ResolvedTools

_INFINITY: Final = float("inf")
_TOO_LARGE: Final = 10**MAX_DIGITS
_TOO_SMALL: Final = -_TOO_LARGE


class _NotPlainError(Exception):
    """A value that isn't a plain JSON object.

    Attributes:
        problems: Why, as `"path: reason"`.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(*problems)


class _FaultError(Exception):
    """Something in it is no JSON; `json_faults` finds what."""


def _plain_object(given: object, *, most_nodes: int) -> dict[str, Any]:
    """A copy of a mapping, as deep as it goes, of JSON's own types only. A tuple becomes a list.

    Some 3 us for what a model usually writes, which is less than to look at it twice.

    Args:
        given: Anything. The outermost may be any mapping; what is in it has to be of JSON's own types, exactly.
        most_nodes: How many values it may hold.

    Raises:
        NotPlainError: It isn't a mapping, holds what isn't JSON, holds too much, or holds itself.
        Exception: Whatever a mapping of another type raises when it is read.
    """
    members = cast("dict[Any, Any]", given) if type(given) is dict else _members_in(given, most_nodes)
    left = [most_nodes]
    try:
        return _copied(members, MAX_DEPTH, left)
    except _FaultError:
        if left[0] < 0:
            raise _NotPlainError(_too_many_in(most_nodes)) from None
        faults = json_faults(members, most_nodes) or (
            problem((), "must be JSON"),
        )  # it may have been repaired meanwhile
        raise _NotPlainError(*faults) from None


def _members_in(given: object, most_nodes: int) -> dict[Any, Any]:
    """What a mapping of another type gives when it is read, once."""
    if not isinstance(given, Mapping):
        raise _NotPlainError(problem((), f"expected a JSON object, found {_named(given)}"))
    mapping = cast("Mapping[Any, Any]", given)
    members: dict[Any, Any] = {}
    for count, key in enumerate(mapping):
        if count >= most_nodes:
            raise _NotPlainError(_too_many_in(most_nodes))
        members[key] = mapping[key]
    return members


_FLAT: Final = frozenset({bool, type(None)})


def _copied(value: Any, levels: int, left: list[int]) -> Any:  # noqa: C901  in one frame, for each value
    kind = cast("type[Any]", type(value))
    if kind is dict or kind is list or kind is tuple:
        left[0] -= len(value)
        if levels == 0 or left[0] < 0:  # one that holds itself uses up the levels
            raise _FaultError
        if kind is not dict:
            return [item if type(item) in _FLAT else _copied(item, levels - 1, left) for item in value]
        copy: dict[str, Any] = dict(value)
        for key, item in copy.items():
            if type(key) is not str or not (key.isascii() or is_unicode(key)):
                raise _FaultError
            if type(item) is str and item.isascii():  # what most are
                continue
            if type(item) not in _FLAT:
                copy[key] = _copied(item, levels - 1, left)
        return copy
    if kind is str:
        if value.isascii() or is_unicode(value):
            return value
    elif (kind is int and _TOO_SMALL < value < _TOO_LARGE) or (kind is float and -_INFINITY < value < _INFINITY):
        return value  # a number that JSON can write, and Python too
    raise _FaultError


def _too_many_in(most_nodes: int) -> str:
    return problem((), f"holds more than {most_nodes:,} values")


_NAMES: Final[dict[type[Any], str]] = {
    str: "a string",
    list: "an array",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _named(value: object) -> str:
    """A JSON value by its kind; anything else by the name of its type."""
    return _NAMES.get(type(value), type(value).__name__)


_MARKS: Final = bytes.maketrans(b"123456789E[", b"000000000e{")
"""Brings out what depth needs (brackets), and what a number beyond a double's range needs: an exponent (a digit before
an e), or very many digits."""

_MANY_DIGITS: Final = b"0" * 200
_MOST_REASON: Final = 200


def parse(state: CallState) -> None:
    """Fills in `state.arguments`, which are the call's own and plain JSON afterwards; blank text means `{}`.

    Raises:
        CallError: `invalid_arguments`, with the reason.
    """
    given = state.call.arguments
    limits = state.services.limits
    kind = type(given)
    state.parsed = True
    if kind is str or kind is bytes:
        state.arguments = parse_arguments(given, most_bytes=limits.argument_bytes, most_nodes=limits.argument_nodes)  # pyright: ignore[reportArgumentType]  its type has been looked at
        return
    if kind is dict:
        try:
            state.arguments = _copied(given, MAX_DEPTH, [limits.argument_nodes])
        except _FaultError:
            pass  # worded below
        else:
            return
    state.arguments = _take_arguments(given, limits)


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
    if _is_too_wide(data, most_nodes):
        _refuse(_too_many(most_nodes))
    try:
        value = from_json(data, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
    except ValueError as error:
        if not data.strip():
            return {}
        _refuse(f"not JSON: {str(error)[:_MOST_REASON]}")
    if not is_object(value):
        _refuse(f"expected a JSON object, found {_named(value)}")
    # What a look at the text can't rule out is looked for in the value.
    marks = data.translate(_MARKS)
    brackets = marks.count(b"{")
    if (
        brackets > MAX_DEPTH
        or b"0e" in marks
        or _MANY_DIGITS in marks
        or (len(data) > most_nodes and brackets + data.count(b",") > most_nodes)
    ) and (reason := _excess_of(value, most_nodes)) is not None:
        _refuse(reason)
    return value


def _take_arguments(given: object, limits: Limits) -> dict[str, Any]:
    """What a host passes on as arguments, whatever it is: text of a type of its own, a mapping, or neither.

    A mapping is copied, as deep as it goes: what is judged, approved and run stays the same, and a tool that changes
    its arguments changes no others.

    Raises:
        CallError: `invalid_arguments`, with the reasons.
    """
    most_bytes, most_nodes = limits.argument_bytes, limits.argument_nodes
    try:
        if isinstance(given, str):
            return parse_arguments(str.__str__(given), most_bytes=most_bytes, most_nodes=most_nodes)
        if isinstance(given, bytes):
            return parse_arguments(b"".join((given,)), most_bytes=most_bytes, most_nodes=most_nodes)
        return _plain_object(given, most_nodes=most_nodes)
    except _NotPlainError as error:
        raise _refused(error.problems) from None
    except CallError:
        raise
    except Exception as error:  # a mapping of the host's own may do anything when it is read
        raise _refused((problem((), "they can't be read"),), detail=detail_of(error)) from error


def _excess_of(value: Any, most_nodes: int) -> str | None:
    """What there is too much of in a parsed value: levels, values, or a number's size."""
    left = most_nodes + 1
    for level, row in enumerate(_rows(value), 1):
        left -= len(row)
        if left < 0:
            return _too_many(most_nodes)
        if level > MAX_DEPTH and any(type(item) is dict or type(item) is list for item in row):
            return f"nested deeper than {MAX_DEPTH} levels"
        if any(type(item) is float and item - item != 0 for item in row):
            return "a number is too large"
    return None


def _too_many(most_nodes: int) -> str:
    return f"it holds more than {most_nodes:,} values"


def _is_too_wide(data: bytes, most_nodes: int) -> bool:
    """Whether a JSON text shows by its commas that it holds more values; in linear time, before any is made."""
    if len(data) <= most_nodes or data.count(b",") <= most_nodes:
        return False
    import re

    # A string that isn't closed goes on to the end: nothing is looked at twice.
    bare = re.sub(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', b"", data, flags=re.DOTALL)
    return bare.count(b",") > most_nodes


def _rows(value: Any) -> Iterator[list[Any]]:
    """The values of each level, from the root down."""
    row: list[Any] = [value]
    while row:
        yield row
        row = [member for item in row for member in _members(item)]


def _members(item: Any) -> Sequence[Any]:
    if type(item) is dict:
        return item.values()  # pyright: ignore[reportReturnType, reportUnknownVariableType]  only iterated
    return item if type(item) is list else ()  # pyright: ignore[reportUnknownVariableType]


def _refused(problems: Sequence[str], *, detail: str | None = None) -> CallError:
    """The error of a call whose arguments can't be taken, whatever its tool wants.

    Args:
        problems: `"path: reason"` each.
        detail: For the operator.
    """
    listed = (
        f" {problems[0].removeprefix('(root): ')}." if len(problems) == 1 else "".join(f"\n- {p}" for p in problems)
    )
    end = " " if len(problems) == 1 else "\n"
    text = f"The arguments were refused:{listed}{end}Send one JSON object that fits the tool's schema."
    return CallError("invalid_arguments", text, detail=detail, problems=tuple(problems))


def _refuse(reason: str) -> NoReturn:
    raise _refused((problem((), reason),))


_MOST_OF_A_PROBLEM = 1000
"""Characters of one problem that the model reads; a union of a thousand members would fill pages."""


def validate(state: CallState) -> Awaitable[None] | None:
    """Judges `state.arguments`; converts them first where they may be and have to be.

    What the tool's author has written, its check and its wording, may block, and so is asked in a thread.

    Raises:
        CallError: `invalid_arguments`, with every problem; `tool_failure`, where the tool's check takes too long.
    """
    tool = state.tool
    assert tool is not None
    # The short way is for plain JSON; the judge looks at anything else with more care.
    problems = () if state.parsed and tool.validator.accepts(state.arguments) else _judged(state, tool)
    if problems:
        return refused(state, tool, problems)
    return None if tool.checks is None else _check(state, tool, tool.checks)


def revalidate(state: CallState) -> Awaitable[None] | None:
    """Judges again what a callback changed."""
    return validate(state) if state.changed else None


def _coerces(tool: Tool, limits: Limits) -> bool:
    """Whether arguments of this tool may be converted."""
    return limits.coerce if tool.policy.coerce is None else tool.policy.coerce


def _judged(state: CallState, tool: Tool) -> tuple[str, ...]:
    """What the schema finds wrong, once what may be converted has been."""
    problems = tool.validator.problems(state.arguments)
    if problems and _coerces(tool, state.services.limits):
        from pegboard.dispatch.coerce import coerced  # loaded only where arguments don't fit

        converted = coerced(tool, state.arguments)
        if converted is not None:
            state.arguments, state.coercions = converted.arguments, (*state.coercions, *converted.changes)
            note(state, "coerced", state.coercions)
            return ()
    return problems


async def _check(state: CallState, tool: Tool, check: Checker) -> None:
    try:
        problems = await _asked(state, lambda: _own_problems(check(state.arguments)), check)
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
    return await within(limits.callback_timeout, state.services.threads.run(ask), grace=limits.grace)


def _own_problems(found: Iterable[str] | None) -> tuple[str, ...]:
    """What the tool's own check has found; it may go on without end."""
    if isinstance(found, str):
        return (found,)
    return tuple(f"{problem}" for problem in islice(found or (), MOST_PROBLEMS))


def refused(state: CallState, tool: Tool, problems: tuple[str, ...]) -> Awaitable[None]:
    """Refuses the arguments, at once or, where the tool has words of its own for it, when awaited.

    Raises:
        CallError: `invalid_arguments`, which lists what is wrong.
    """
    if tool.format_validation_error is None:
        raise refusal(tool, problems)
    return _refused_in_its_words(state, tool, problems, tool.format_validation_error)


async def _refused_in_its_words(state: CallState, tool: Tool, problems: tuple[str, ...], write: ErrorWriter) -> None:
    try:
        error = await _asked(state, partial(refusal, tool, problems), write)
    except LimitExpiredError:
        error = refusal(tool.evolve(format_validation_error=None), problems)
    raise error


def refusal(tool: Tool, problems: tuple[str, ...]) -> CallError:
    """The error that lists what is wrong with the arguments, in the tool's own words where it has some."""
    problems = tuple(_cut(problem) for problem in problems)
    detail = None
    if tool.format_validation_error is not None:
        try:
            return CallError("invalid_arguments", f"{tool.format_validation_error(problems)}", problems=problems)
        except Exception as error:  # noqa: BLE001  its wording failed; the problems are still what they are
            detail = detail_of(error)
    listed = "\n".join(f"- {problem}" for problem in problems)
    text = f"Invalid arguments for {tool.name}:\n{listed}\nCorrect them and call the tool again."
    return CallError("invalid_arguments", text, detail=detail, problems=problems)


def _cut(problem: str) -> str:
    return problem if len(problem) <= _MOST_OF_A_PROBLEM else f"{problem[:_MOST_OF_A_PROBLEM]}..."


_Finder: TypeAlias = "Callable[[str], Tool]"
"""Gives the tool of a name, or raises `CallError`."""

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": ("name",),
    "arguments": ("arguments", "input", "args"),
    "id": ("id",),
    "title": ("title",),
    "dynamic": ("dynamic",),
    "error": ("error",),
    "provider_executed": ("providerExecuted", "provider_executed"),
    "provider_metadata": ("providerMetadata", "provider_metadata"),
}
"""Where a mapping may have what a call knows; the first that is there counts."""

_MOST_OF_A_NAME: Final = 80

_NO_CALL: Final = CallFault(
    "unknown_tool", "This is no call of a tool: a call is an object with name, arguments and id."
)

_MARKED: Final = CallFault("invalid_arguments", "The call was marked invalid.")
_NO_NAME: Final = CallFault("unknown_tool", "The call names no tool: a call is an object with name, arguments and id.")


def parse_call(raw: object, tools: _Finder | ResolvedTools, limits: Limits = DEFAULT_LIMITS) -> ToolCall:
    """A call as dispatch takes it. Never raises: one that can't run is marked invalid, with its error.

    A valid call has its arguments as a mapping, judged by the tool's schema. (The tool's own check, conversions and
    repairs are for dispatch.) Its title is the tool's, and it is `dynamic` where the tool comes from a toolset. An
    invalid one keeps the arguments that were written, where they are text or JSON. A call that the provider has
    executed is not validated here, and one that is marked already keeps its mark.

    Args:
        raw: A `ToolCall`, or a mapping `{"id", "name", "arguments"}`, with `input` or `args` for `arguments` too, as
            text or as an object; `ToolCall.to_json` writes one, and MCP's `{"name", "arguments"}` is one.
        tools: Those of the request that the call answers, or what gives the tool of a name.
        limits: What the arguments may use.
    """
    try:
        facts = _facts(raw)
        if facts is None:
            return ToolCall("", error=_NO_CALL)
        call = _call(facts)
        if call.error is not None or call.provider_executed:
            return attrs.evolve(call, arguments=_kept(call.arguments, limits))
        return _judged_call(call, _finder(tools), limits)
    except Exception:  # noqa: BLE001  a host's object may do anything when it is looked at
        return ToolCall("", error=_NO_CALL)


def _judged_call(call: ToolCall, find: _Finder, limits: Limits) -> ToolCall:
    try:
        tool = find(call.name)
        call = attrs.evolve(call, title=tool.spec.title or call.title, dynamic=tool.origin.toolset is not None)
        return attrs.evolve(call, arguments=_fitting(call.arguments, tool, limits))
    except CallError as error:
        fault = CallFault(error.kind, error.text, error.problems)
    except Exception as error:  # noqa: BLE001  a schema that was never compiled before
        fault = CallFault("tool_failure", f"{call.name[:_MOST_OF_A_NAME]} can't be called: {type(error).__name__}.")
    return attrs.evolve(call, arguments=_kept(call.arguments, limits), error=fault)


def _fitting(given: object, tool: Tool, limits: Limits) -> dict[str, Any]:
    """The arguments, where they fit the schema, or dispatch may convert them so that they do."""
    arguments = _take_arguments(given, limits)
    if tool.validator.accepts(arguments):
        return arguments
    if _coerces(tool, limits):
        from pegboard.dispatch.coerce import coerced

        if coerced(tool, arguments) is not None:
            return arguments
    raise refusal(tool, tool.validator.problems(arguments))


def _kept(given: Any, limits: Limits) -> Any:
    """The arguments of a call that won't run: text as it is, a mapping of JSON as a copy, `{}` for anything else."""
    if isinstance(given, str | bytes):
        return given
    try:
        return _take_arguments(given, limits)
    except CallError:
        return {}


def _finder(tools: _Finder | ResolvedTools) -> _Finder:
    if callable(tools):
        return tools

    def find(name: str) -> Tool:
        tool = tools.get(name)
        if tool is not None:
            return tool
        raise (not_offered if tools.was_held_back(name) else unknown)(name, tools.names)

    return find


# Reading what was given ----------------------------------------------------------------------------------------------


def _facts(raw: object) -> dict[str, Any] | None:
    """What is known of the call, in ToolCall's words and whatever it is; `None` where it is no call."""
    if isinstance(raw, ToolCall):
        return {name: getattr(raw, name) for name in _KEYS}
    if isinstance(raw, Mapping):
        return {name: _member(cast("Mapping[Any, Any]", raw), keys) for name, keys in _KEYS.items()}
    return None


def _member(raw: Mapping[Any, Any], keys: tuple[str, ...]) -> Any:
    """What stands under the first key that is there; one that can't be read costs the others nothing."""
    for key in keys:
        try:
            if key in raw:
                return raw[key]
        except Exception:  # noqa: BLE001, S112  whatever a mapping of the host's own raises
            continue
    return None


def _call(facts: dict[str, Any]) -> ToolCall:
    name, title, arguments = facts["name"], facts["title"], facts["arguments"]
    named = isinstance(name, str) and name != ""
    return ToolCall(
        name if named else "",
        {} if arguments is None else arguments,
        _id(facts["id"]),
        title=title if isinstance(title, str) else None,
        dynamic=facts["dynamic"] is True,
        error=_fault(facts["error"]) if named else _NO_NAME,
        provider_executed=facts["provider_executed"] is True,
        provider_metadata=facts["provider_metadata"],
    )


def _id(given: Any) -> str:
    """What the answer refers to; some count their calls."""
    return given if isinstance(given, str) else f"{given}" if type(given) is int else ""


def _fault(given: Any) -> CallFault | None:
    if given is None or isinstance(given, CallFault):
        return given
    try:
        return CallFault.from_json(given)
    except Exception:  # noqa: BLE001  a mark that can't be read is a mark
        return _MARKED


_READ_EACH_TIME: Final = 4096
"""Bytes up to which every look reads the text anew: some 10 us for a kibibyte."""

_PART: Final = 16
"""Beyond that, a look reads once a sixteenth has come to what was read: all looks together read 16 times the text."""


@frozen
class Partial:
    """What can be shown of arguments so far.

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

    What was begun and can't be shown yet (a name, a number's fraction, `tru`) is left out; a number may still grow.
    What is more than the limits allow isn't shown at all.

    Args:
        text: The beginning of a JSON object, cut anywhere, inside a character too.
        most_bytes: How long it may be.
        most_nodes: How many values it may hold.
    """
    try:
        value = parse_arguments(text, most_bytes=most_bytes, most_nodes=most_nodes)
    except CallError:
        return Partial(_begun(text, most_bytes, most_nodes))
    return Partial(value, complete=bool(text.strip()))


def _begun(text: str | bytes, most_bytes: int, most_nodes: int) -> dict[str, Any]:
    if not isinstance(text, str | bytes) or len(text) > most_bytes:  # pyright: ignore[reportUnnecessaryIsInstance]  it never raises
        return {}
    try:
        data = text.encode() if isinstance(text, str) else text
        if _is_too_wide(data, most_nodes):
            return {}
        value = from_json(data, allow_inf_nan=False, cache_mode="none", partial_mode="trailing-strings")
    except ValueError:
        return {}
    return value if isinstance(value, dict) and _excess_of(value, most_nodes) is None else {}  # pyright: ignore[reportUnknownVariableType]


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


__all__ = ["ArgumentsSoFar", "Partial", "parse", "parse_arguments", "parse_call", "parse_partial"]
