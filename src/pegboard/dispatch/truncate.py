"""What the model gets of a result that is too long: a part, and words that say how to read on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs
from attrs import frozen

from pegboard.dispatch.work import Work
from pegboard.schema.problems import counted
from pegboard.tools.content import Content, FileContent, LinkContent, TextContent, ToolResult
from pegboard.tools.policy import ResultLimits

if TYPE_CHECKING:
    from pegboard.dispatch.cut import Cut, Place
    from pegboard.dispatch.kept import Kept, KeptResults

MOST_ITEMS: Final = 1_000
"""Pieces of content in one result."""

_AT_ONCE: Final = 200_000
"""Characters that may be looked at on the event loop."""


@frozen
class Keeper:
    """Where the full text of a result goes.

    Attributes:
        kept: Keeps it; `None` keeps none.
        session: Who may read it.
        reader: The name of the tool that reads it, where the model has one.
    """

    kept: KeptResults | None = None
    session: str | None = None
    reader: str | None = None


def limits_of(work: Work) -> ResultLimits:
    """What the result of this call is held to: its tool's own limits, else the registry's."""
    own = work.tool.policy.result_limits if work.tool is not None else None
    return work.around.limits.results if own is None else own


def is_within(result: ToolResult, limits: ResultLimits) -> bool:
    """Whether a result surely stays as it is; a look that is cheap and bounded."""
    content = result.content
    if len(content) == 1 and type(content[0]) is TextContent and len(content[0].text) <= limits.small:
        return True
    return "truncated" in result.metadata or _fits(content, limits)


def _fits(content: tuple[Content, ...], limits: ResultLimits) -> bool:
    if len(content) > MOST_ITEMS:
        return False
    texts = [text for item in content if (text := _text_of(item)) is not None]
    if not _do_texts_fit(texts, limits):
        return False
    return limits.media_bytes is None or sum(map(_weight, content)) <= limits.media_bytes


def _do_texts_fit(texts: list[str], limits: ResultLimits) -> bool:
    length = sum(map(len, texts)) + len(texts)
    if length <= limits.small:
        return True
    if length > _AT_ONCE or limits.count_tokens is not None:
        return False
    from pegboard.dispatch.cut import cut

    return cut(_joined(texts), limits) is None


async def hold_to_limits(work: Work, result: ToolResult) -> ToolResult:
    """The result, or what stays of it. Whatever is too long is cut off the loop, as that writes a file."""
    limits = limits_of(work)
    if is_within(result, limits):
        return result
    return await work.around.threads.run(truncated, result, limits, keeper_of(work))


def keeper_of(work: Work) -> Keeper:
    """Where the full text of this call's result goes."""
    kept, offered = work.around.kept, work.context.offered
    reader = None if kept is None else kept.reader
    is_offered = not offered or any(tool.name == reader for tool in offered)
    return Keeper(kept, work.context.session, reader if is_offered else None)


def truncated(result: ToolResult, limits: ResultLimits, keeper: Keeper) -> ToolResult:
    """What stays of a result. Blocks, as it writes the full text into a file.

    All texts are cut as one text, which then stands where the first of them stood. Pictures, sounds and files beyond
    their limit become attachments. Structured content stays as it is: it is for the host, the text is for the model.

    Args:
        result: Left as it is where its `metadata` says `truncated`.
        limits: What may stay.
        keeper: Where the full text goes.
    """
    if "truncated" in result.metadata:
        return result
    from pegboard.dispatch.cut import cut

    content, moved = _sorted_out(result.content, limits)
    texts = [text for item in content if (text := _text_of(item)) is not None]
    whole = _joined(texts)
    done = cut(whole, limits)
    if done is None and not moved:
        return result
    facts: dict[str, object] = {"truncated": True}
    if done is not None:
        where = None if keeper.kept is None else keeper.kept.keep(whole, session=keeper.session)
        content = _with_text(content, _told(done, where, keeper.reader))
        facts |= {"lines": done.whole.lines, "bytes": done.whole.bytes}
        if where is not None:
            facts |= {"kept": where.id, "file": where.path}
    return attrs.evolve(
        result,
        content=(*content, *_apology(moved, limits)),
        metadata={**result.metadata, **facts},
        attachments=(*result.attachments, *moved),
    )


def cut_short(text: str, limits: ResultLimits) -> str:
    """An error's text within the limits; the rest is not kept. Quick for texts of any length."""
    if len(text) <= limits.small:
        return text
    from pegboard.dispatch.cut import cut

    most = limits.bytes or _AT_ONCE
    done = cut(TextContent(text[: most + 1]).text, attrs.evolve(limits, keep="head", count_tokens=None))
    return text if done is None else f"{done.head}{_line_end(done.head)}[The rest is left out.]"


# Content that is no text ----------------------------------------------------------------------------------------------


def _text_of(item: Content) -> str | None:
    if isinstance(item, TextContent):
        return item.text
    return f"{item.uri}:\n{item.data}" if isinstance(item, FileContent) and isinstance(item.data, str) else None


def _weight(item: Content) -> int:
    """The bytes that content other than text counts for."""
    if isinstance(item, LinkContent):
        return len(item.uri) + len(item.name)
    return 0 if isinstance(item, TextContent) or isinstance(item.data, str) else len(item.data)


def _sorted_out(content: tuple[Content, ...], limits: ResultLimits) -> tuple[tuple[Content, ...], tuple[Content, ...]]:
    """What stays, and what is too much; each in its order."""
    most = math.inf if limits.media_bytes is None else limits.media_bytes
    stays: list[Content] = []
    moved: list[Content] = []
    for item in content:
        weight = _weight(item)
        if _text_of(item) is not None or (weight <= most and len(stays) < MOST_ITEMS):
            most -= weight
            stays.append(item)
        else:
            moved.append(item)
    return tuple(stays), tuple(moved)


def _apology(moved: tuple[Content, ...], limits: ResultLimits) -> Iterable[TextContent]:
    if moved:
        files = f"{counted(len(moved), 'file')} ({_bytes(sum(map(_weight, moved)))})"
        most = "" if limits.media_bytes is None else f" of at most {_bytes(limits.media_bytes)}"
        yield TextContent(f"[Left out here: {files}. A result takes {MOST_ITEMS} pieces{most}.]")


# Text -----------------------------------------------------------------------------------------------------------------


def _joined(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def _with_text(content: tuple[Content, ...], text: str) -> tuple[Content, ...]:
    """The text in the place of the first, and none of the others."""
    first = next(place for place, item in enumerate(content) if _text_of(item) is not None)
    others = [item for item in content[first:] if _text_of(item) is None]
    return (*content[:first], TextContent(text), *others)


def _told(done: Cut, kept: Kept | None, reader: str | None) -> str:
    """What stays, and between its parts what was left out and how to read it."""
    head = f"{done.head}{_line_end(done.head)}" if done.head else ""
    tail = f"\n{done.tail}" if done.tail else ""
    return f"{head}[{_left_out(done)} {_how_to_read(done.gap, kept, reader)}]{tail}"


def _left_out(done: Cut) -> str:
    shown, whole = done.shown, done.whole
    sizes = f"{_bytes(shown.bytes)} of {_bytes(whole.bytes)}"
    if done.head and done.tail:
        return f"{_stretch(done)} left out here; {sizes} are shown."
    part = "beginning" if done.head else "end"
    if done.gap.byte or done.end.byte or not shown.lines:
        return f"Only the {part} is shown: {sizes}, {counted(whole.lines, 'line')} in all."
    part = "first" if done.head else "last"
    return f"Only the {part} {shown.lines} of {whole.lines} lines are shown ({sizes})."


def _stretch(done: Cut) -> str:
    if done.gap.byte or done.end.byte:
        return f"A part of {counted(done.whole.lines, 'line')} is"
    return f"Lines {done.gap.line} to {done.end.line - 1} of {done.whole.lines} are"


def _how_to_read(gap: Place, kept: Kept | None, reader: str | None) -> str:
    if kept is None:
        return "The rest was not kept; ask for less at once."
    if reader is None:
        return f"The full text is in {kept.path}; what is left out begins at {_named(gap)}."
    byte = f", byte={gap.byte}" if gap.byte else ""
    return f'Read the rest with {reader}(id="{kept.id}", line={gap.line}{byte}).'


def _named(place: Place) -> str:
    return f"line {place.line}, byte {place.byte}" if place.byte else f"line {place.line}"


def _line_end(text: str) -> str:
    return "" if text.endswith("\n") else "\n"


def _bytes(size: int) -> str:
    """In the unit that people would choose."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1024:.1f} KiB" if size < 1_000_000 else f"{size / 1024 / 1024:.1f} MiB"


__all__ = ["Keeper", "cut_short", "hold_to_limits", "is_within", "keeper_of", "limits_of", "truncated"]
