"""`parse_call`: what a model's answer holds becomes a `ToolCall`, whatever it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from pegboard.dispatch.find import not_offered, unknown
from pegboard.dispatch.limits import DEFAULT_LIMITS, CallError, Limits
from pegboard.dispatch.parse import take_arguments
from pegboard.dispatch.validate import coerces, refusal
from pegboard.tools.call import CallFault, ToolCall

if TYPE_CHECKING:
    from pegboard.tools.tool import Tool
    from pegboard.toolsets.resolve import ResolvedTools

Finder: TypeAlias = "Callable[[str], Tool]"
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


def parse_call(raw: object, tools: Finder | ResolvedTools, limits: Limits = DEFAULT_LIMITS) -> ToolCall:
    """A call as dispatch takes it. Never raises: one that can't run is marked invalid, with its error.

    A valid call has its arguments as a mapping, judged by the tool's schema. (The tool's own check, conversions and
    repairs are for dispatch.) Its title is the tool's, and it is `dynamic` where the tool comes from a toolset. An
    invalid one keeps the arguments that were written, where they are text or JSON. A call that the provider has
    executed is judged by nobody here, and one that is marked already keeps its mark.

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
        return _judged(call, _finder(tools), limits)
    except Exception:  # noqa: BLE001  a host's object may do anything when it is looked at
        return ToolCall("", error=_NO_CALL)


def _judged(call: ToolCall, find: Finder, limits: Limits) -> ToolCall:
    try:
        tool = find(call.name)
        call = attrs.evolve(call, title=tool.spec.title or call.title, dynamic=tool.origin.toolset is not None)
        return attrs.evolve(call, arguments=_fitting(call.arguments, tool, limits))
    except CallError as error:
        fault = CallFault(error.kind, error.text, error.problems)
    except Exception as error:  # noqa: BLE001  a schema that nobody has looked at before
        fault = CallFault("tool_failure", f"{call.name[:_MOST_OF_A_NAME]} can't be called: {type(error).__name__}.")
    return attrs.evolve(call, arguments=_kept(call.arguments, limits), error=fault)


def _fitting(given: object, tool: Tool, limits: Limits) -> dict[str, Any]:
    """The arguments, where they fit the schema, or dispatch may convert them so that they do."""
    arguments = _taken(given, limits)
    if tool.validator.accepts(arguments):
        return arguments
    if coerces(tool, limits):
        from pegboard.dispatch.coerce import coerced

        if coerced(tool, arguments) is not None:
            return arguments
    raise refusal(tool, tool.validator.problems(arguments))


def _taken(given: object, limits: Limits) -> dict[str, Any]:
    return take_arguments(given, most_bytes=limits.argument_bytes, most_nodes=limits.argument_nodes)


def _kept(given: Any, limits: Limits) -> Any:
    """The arguments of a call that won't run: text as it is, a mapping of JSON as a copy, `{}` for anything else."""
    if isinstance(given, str | bytes):
        return given
    try:
        return _taken(given, limits)
    except CallError:
        return {}


def _finder(tools: Finder | ResolvedTools) -> Finder:
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


__all__ = ["Finder", "parse_call"]
