"""The stage `find`: the tool of a name, and near names."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from pegboard.errors import PluginError, StaleSpecError, did_you_mean, suggest
from pegboard.tools.call import CallError, ToolCall
from pegboard.tools.tool import LateHandler, Tool

if TYPE_CHECKING:
    from pegboard.dispatch.state import CallState  # it loads asyncio, which listing tools doesn't need
    from pegboard.toolsets.resolve import ResolvedTools

SHORTEST: Final = 6
"""Letters and digits that a name needs for a typing slip to differ from another word."""

_LONGEST: Final = 80


def meant_name(name: str, names: Sequence[str]) -> str | None:
    """The name that was meant, or `None` where that isn't sure.

    In this order, each only where exactly one name fits; where several do, none is taken:

    1. the same but for upper and lower case;
    2. the same but for case and what separates words (`readFile`, `read.file` for `read_file`);
    3. one letter more or less, or two neighbours swapped, in a name of six or more letters and digits with the same
       first one. Another letter is another word (`get_user`, `set_user`), and so is another digit; yet a name that is
       as near by such a change counts as a second one.

    Some 10 ms among 10,000 names.

    Args:
        name: As the model wrote it.
        names: Of tools: ASCII letters, digits, `_` and `-`.
    """
    if len(name) > _LONGEST or not name.isascii():
        return None
    lowered = name.lower()
    same = [each for each in names if each.lower() == lowered]
    if same:
        return _only(same)
    word = "".join(filter(str.isalnum, lowered))
    bare = [_bare(each) for each in names]
    same = [names[place] for place, each in enumerate(bare) if each == word != ""]
    if same:
        return _only([each for each in same if _numbers(each) == _numbers(name)])
    return _slip(word, names, bare) if len(word) >= SHORTEST else None


def _slip(word: str, names: Sequence[str], bare: Sequence[str]) -> str | None:
    length = len(word)
    near = [place for place, each in enumerate(bare) if -2 < len(each) - length < 2 and _is_one_change(word, each)]
    return _only([names[place] for place in near]) if all(_is_slip(word, bare[place]) for place in near) else None


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _bare(name: str) -> str:
    """A tool's name without case and what separates words."""
    return name.lower().replace("_", "").replace("-", "")


def _numbers(name: str) -> list[str]:
    """`v1_2` isn't `v12`."""
    import re

    return re.findall("[0-9]+", name)


def _is_one_change(one: str, other: str) -> bool:
    """Whether a single letter differs: it is more, less, another, or swapped with its neighbour."""
    start = _common(one, other)
    rest, others = one[start:], other[start:]
    return rest[1:] == others or rest == others[1:] or rest[1:] == others[1:] or _is_swapped(rest, others)


def _is_slip(one: str, other: str) -> bool:
    """Whether that difference is one that fingers make."""
    start = _common(one, other)
    rest, others = one[start:], other[start:]
    changed = rest[:1] + others[:1]
    same_length = len(one) == len(other)
    return start > 0 and not any(map(str.isdigit, changed)) and (not same_length or _is_swapped(rest, others))


def _is_swapped(rest: str, others: str) -> bool:
    return len(rest) > 1 and rest[:2] == others[1::-1] and rest[2:] == others[2:]


def _common(one: str, other: str) -> int:
    """How many letters at the start are the same."""
    place = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        place += 1
    return place


_MOST_LISTED: Final = 50
_MOST_OF_A_NAME: Final = 80


class UnknownNameError(CallError):
    """No tool of that name: kind `unknown_tool`.

    Attributes:
        available: The names that there are, in order.
    """

    def __init__(self, text: str, available: Sequence[str] = ()) -> None:
        self.available = available
        super().__init__("unknown_tool", text)


def find(state: CallState) -> Awaitable[None] | None:
    """Fills in `state.tool`; a handler that is found late is found once what is given back has been awaited.

    Raises:
        CallError: `unknown_tool`, `not_offered`, or `tool_failure` where the tool's plugin failed; `not_executed` for
            a call that the provider has executed; for a call marked invalid, what it is marked with.
    """
    call = state.call
    if call.error is not None or call.provider_executed:
        raise _not_to_run(call)
    if not isinstance(call.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
        raise UnknownNameError("The call names no tool: its name is no text.")
    tool = state.services.named.get(call.name) or state.services.find(call.name)
    if isinstance(tool.handler, LateHandler):
        return _load(state, tool.handler)
    state.tool = tool
    return None


async def _load(state: CallState, late: LateHandler) -> None:
    try:
        state.tool = await state.services.threads.run(late.load)
    except StaleSpecError as error:
        text = f"{state.call.name} has changed since it was listed and was not run."
        raise CallError("tool_failure", text, detail=str(error)) from error
    except PluginError as error:
        text = f"{state.call.name} can't be run: what brings it failed to load."
        raise CallError("tool_failure", text, detail=str(error)) from error


def _not_to_run(call: ToolCall) -> CallError:
    if call.error is not None:
        return CallError(call.error.kind, call.error.text, problems=call.error.problems)
    return CallError("not_executed", f"{call.name} was not run here: the model's provider has executed it.")


def refuse_registered(name: str, tools: Mapping[str, Tool]) -> NoReturn:
    """Refuses a call to a tool that isn't among those that are registered, or is never offered.

    Raises:
        CallError: `unknown_tool` or `not_offered`.
    """
    offered = sorted(each for each, known in tools.items() if known.offered)
    raise not_offered(name, offered) if name in tools else unknown(name, offered)


def refuse_resolved(name: str, resolved: ResolvedTools, registered: Container[str]) -> NoReturn:
    """Refuses a call to a tool that isn't among those of a request, or is never offered.

    Raises:
        CallError: `not_offered` where there is such a tool, else `unknown_tool`.
    """
    names = [each.name for each in resolved if each.offered]
    exists = resolved.get(name) is not None or name in registered or resolved.was_held_back(name)
    raise not_offered(name, names) if exists else unknown(name, names)


def unknown(name: str, available: Sequence[str]) -> UnknownNameError:
    """No tool of that name: what is available, and up to three near misses."""
    listed = ", ".join(available[:_MOST_LISTED]) or "none"
    more = f" and {len(available) - _MOST_LISTED} more" if len(available) > _MOST_LISTED else ""
    near = did_you_mean(suggest(name, available))
    return UnknownNameError(
        f"No tool is called {name[:_MOST_OF_A_NAME]!r}.{near} Available: {listed}{more}.", available
    )


def not_offered(name: str, offered: Collection[str]) -> CallError:
    """The tool exists, but this request doesn't offer it."""
    listed = ", ".join(list(offered)[:_MOST_LISTED]) or "none"
    more = f" and {len(offered) - _MOST_LISTED} more" if len(offered) > _MOST_LISTED else ""
    return CallError("not_offered", f"{name} is not available for this request. Available: {listed}{more}.")
