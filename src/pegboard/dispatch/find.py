"""The stages `find` and `repair`: lookup by name, and one repair of a wrong name or invalid arguments."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from pegboard.callbacks import Callback, ChainError, maybe_await
from pegboard.errors import PluginError, StaleSpecError, detail_of, did_you_mean, log_failure, suggest
from pegboard.tools.call import CallError, CallFault, ToolCall
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext
from pegboard.tools.handler import LazyHandler
from pegboard.tools.tool import Tool
from pegboard.typing import JsonSchema, frozen

if TYPE_CHECKING:
    from pegboard.dispatch.state import CallState  # it imports asyncio, which listing tools doesn't need

_MOST_LISTED: Final = 50
_MOST_OF_A_NAME: Final = 80


async def find(state: CallState) -> Tool:
    """The called tool, with its handler loaded; raises `CallError` for a call that can't run."""
    call = state.call
    if call.error is not None:
        raise CallError(call.error.kind, call.error.text, problems=call.error.problems)
    if call.provider_executed:
        raise CallError("not_executed", f"{call.name} was not run here: the model's provider has executed it.")
    if not isinstance(call.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
        raise CallError("unknown_tool", "The call has no tool name: its name isn't a string.")
    tool = state.snapshot.named.get(call.name) or state.snapshot.find(call.name)
    lazy = tool.handler
    if not isinstance(lazy, LazyHandler):
        return tool
    try:
        return lazy.complete(tool, await maybe_await(await state.runtime.threads.run(lazy.load)))
    except (StaleSpecError, PluginError) as error:
        why = "it has changed since it was listed" if isinstance(error, StaleSpecError) else "its plugin failed to load"
        raise CallError("tool_failure", f"{call.name} was not run: {why}.", detail=str(error)) from error


def unknown_tool_error(name: str, available: Sequence[str]) -> CallError:
    """The error of an unknown name, with up to three near misses and the available names."""
    near = did_you_mean(suggest(name, available))
    return CallError("unknown_tool", f"No tool is called {name[:_MOST_OF_A_NAME]!r}.{near} {_list_names(available)}")


def not_offered_error(name: str, offered: Collection[str]) -> CallError:
    """The error of a call to a tool that exists but isn't offered in this request."""
    return CallError("not_offered", f"{name} is not available for this request. {_list_names([*offered])}")


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"Available: {', '.join(names[:_MOST_LISTED]) or 'none'}{more}."


_HABITS: Final = r"(?s)(?:.*\bto=)?(?:(?:functions?|tools?|default_api)[.:/])?(?P<name>[\w-]+)(?:<\|.*|:\d+|\(\))?"
"""A name with what some models add to it: `functions.NAME`, `default_api.NAME`, `NAME<|channel|>commentary`."""

_SHORTEST: Final = 6  # letters and digits; in shorter names a typo often gives another word


def meant_name(name: str, names: Sequence[str]) -> str | None:
    """The existing name that a misspelt one stands for, by the rules of docs/reference/calls.md, or `None`.

    A name at the distance of a replaced letter or digit, another word (`get_user`, `set_user`), isn't taken, but makes
    the match ambiguous; so do matches both with and without a habitual addition. Some 10 ms among 10,000 names.
    """
    if len(name) > _MOST_OF_A_NAME or not name.isascii():
        return None
    habit = re.fullmatch(_HABITS, name)
    written = {name} if habit is None else {name, habit["name"]}
    meant = {each for each in (_match(each, names) for each in written) if each is not None}
    return meant.pop() if len(meant) == 1 else None


def _match(name: str, names: Sequence[str]) -> str | None:
    lowered = name.lower()
    meant = [each for each in names if each.lower() == lowered]
    if not meant:
        word = "".join(filter(str.isalnum, lowered))
        bare = [(each, each.lower().replace("_", "").replace("-", "")) for each in names]
        meant = [each for each, letters in bare if letters == word != ""]
        if meant:  # `v1_2` isn't `v12`
            meant = [each for each in meant if re.findall("[0-9]+", each) == re.findall("[0-9]+", name)]
        elif len(word) >= _SHORTEST:
            near = [(each, how) for each, letters in bare if (how := _difference(word, letters)) is not None]
            meant = [each for each, _ in near] if all(how == "slip" for _, how in near) else []
    return meant[0] if len(meant) == 1 else None


def _difference(one: str, other: str) -> str | None:
    """Kind of a difference by one letter (inserted, missing, replaced or swapped): a `"slip"`, as in typing, or not.

    `None` for a larger difference.
    """
    if abs(len(one) - len(other)) > 1:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    start = next((place for place, (mine, its) in pairs if mine != its), min(len(one), len(other)))
    rest, others = one[start:], other[start:]
    swapped = len(rest) > 1 and rest[:2] == others[1::-1] and rest[2:] == others[2:]
    if not (swapped or rest[1:] in (others, others[1:]) or rest == others[1:]):
        return None
    is_slip = start > 0 and (swapped or len(one) != len(other)) and not any(map(str.isdigit, rest[:1] + others[:1]))
    return "slip" if is_slip else "another letter"


@frozen
class RepairRequest:
    """Request to a repairer: a callback that returns another call, other arguments for the same tool, or `None`.

    Attributes:
        call: As the model made it.
        tools: The tools that the call may use.
        schema: The JSON Schema of the named tool's arguments; `None` if there is no such tool.
        instructions: The request's instructions (its system prompt), or `None`.
        messages: The conversation so far, in the host's format.
        error: Why the call can't run.
        context: The context of the request, with its user.
    """

    call: ToolCall
    tools: Sequence[Tool]
    schema: JsonSchema | None
    instructions: str | None
    messages: Sequence[Any]
    error: CallFault
    context: ReadonlyContext = EMPTY_CONTEXT


async def repair(state: CallState, error: CallError) -> None:
    """Replaces the call by the repaired one, to pass the first stages again; else raises the error again.

    Callbacks are called first, in order, then the built-in repair of names; the first answer counts. A call is repaired
    once, and then passes all stages as any call: a repair grants no permission. The detail of the error has the failure
    of a repairer, or the repair of a call that fails again.
    """
    if error.kind not in ("unknown_tool", "invalid_arguments"):
        raise error
    if state.repaired is not None:
        raise _with_detail(error, f"{error.detail or error.text}\nBefore that, the call was repaired: {state.repaired}")
    if repairers := state.snapshot.callbacks.get("repair_call"):
        await _ask_repairers(state, error, repairers)
    else:
        _repair_name(state, error)


async def _ask_repairers(state: CallState, error: CallError, repairers: tuple[Callback, ...]) -> None:
    """Calls each repairer; the first answer is the repaired call."""
    from pegboard.dispatch.callbacks import Chain  # imports asyncio

    call, tools, settings, asker = state.call, state.snapshot.tools, state.settings, state.request
    schema = None if state.tool is None else state.tool.spec.input_schema
    fault = CallFault(error.kind, error.text, error.problems)
    request = RepairRequest(call, tools, schema, settings.instructions, asker.messages, fault, asker)
    chain = Chain(repairers, state.runtime, settings.limits, (ToolCall, Mapping), state, partial(_failure, error))
    for link in chain:
        if (answer := await chain.ask(link, request)) is not None:
            changes, done = {"arguments": answer}, "other arguments"
            if isinstance(answer, ToolCall):  # its id and provider metadata stay
                changes = {"name": answer.name, "arguments": answer.arguments, "title": answer.title}
                done = done if answer.name == call.name else f"{answer.name!r:.80} for {call.name!r:.80}"
            return _replace_call(state, attrs.evolve(call, error=None, **changes), f"by {link.owner}: {done}")
    return _repair_name(state, error)


def _repair_name(state: CallState, error: CallError) -> None:
    """The built-in repair: the tool that a misspelt name stands for, if running it is harmless."""
    call = state.call
    is_text = isinstance(call.name, str)  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
    if not (is_text and state.settings.limits.repair and error.kind == "unknown_tool"):
        raise error
    name = meant_name(call.name, [tool.name for tool in state.snapshot.tools])
    if name is None or _is_delicate(state, state.snapshot.find(name)):
        raise error
    _replace_call(state, attrs.evolve(call, name=name, error=None), f"the name {call.name!r} was taken for {name!r}")


def _is_delicate(state: CallState, tool: Tool) -> bool:
    """Whether a tool must not run by a guess: it may be destructive, or need approval."""
    from pegboard.dispatch.permissions.permissions import policy_of  # listing tools doesn't need it

    permissions = state.settings.current.permissions
    rules = () if permissions is None else policy_of(permissions, tool).rules
    return tool.may_ask or any(rule.action == "ask" for rule in rules)


def _replace_call(state: CallState, call: ToolCall, done: str) -> None:
    """Resets the state to the repaired call, and emits a note."""
    from pegboard.dispatch.arguments import note  # imports asyncio

    note(state, "repaired", (done,))
    state.repaired = done
    state.replace(call)
    if state.made_context is not None:
        state.made_context.tool = call.name


def _failure(error: CallError, link: Callback, failed: BaseException) -> CallError:
    """The call's error, with the failure of its repair in the detail for the operator."""
    log_failure(f"repairer of {link.owner}", failed)
    failure = f"{ChainError(link, failed)}\n{detail_of(failed)}"
    return _with_detail(error, f"The repair failed: {failure}\nIt was to repair: {error.detail or error.text}")


def _with_detail(error: CallError, detail: str) -> CallError:
    return CallError(error.kind, error.text, detail=detail, problems=error.problems)
