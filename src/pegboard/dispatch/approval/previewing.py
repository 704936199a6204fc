"""`preview_of`: what a call would do, asked of code that isn't trusted to answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from pegboard.dispatch.approval.visible import cut, visible
from pegboard.dispatch.cancellation import cancels_the_call
from pegboard.threads import off_loop
from pegboard.tools.tool import Preview, Tool

PREVIEW_SECONDS: Final = 10.0
MOST_SUMMARY: Final = 1_000
MOST_DETAILS: Final = 50_000


async def preview_of(
    tool: Tool,
    arguments: str,
    *,
    seconds: float = PREVIEW_SECONDS,
    observe: Callable[[str, BaseException], None] | None = None,
) -> Preview | None:
    """What the tool shows of a call, with nothing hidden in it.

    It is worked out in a thread of its own: it may read files, and the tools' threads may all be waiting for a person.

    Args:
        tool: Its `preview` is asked.
        arguments: As JSON text; the preview gets a copy of its own.
        seconds: How long it may take; a thread that takes longer is left to itself.
        observe: Told of a preview that raised, hung or gave nonsense.

    Returns:
        The preview; `None` where there is none: then the arguments have to do.
    """
    if tool.preview is None:
        return None
    try:
        async with asyncio.timeout(seconds):
            return await off_loop(_previewed, tool.preview, arguments)
    except BaseException as error:  # a preview's SystemExit costs only the preview
        if cancels_the_call(error):
            raise
        if observe is not None:
            observe(f"preview of {tool.name}", error)
        return None


def shown_preview(given: Any) -> Preview | None:
    """A preview with hidden characters written out; the summary is one line of at most 1,000 characters.

    The details may have 50,000 characters, and say so where there are more. A text is the summary.

    Raises:
        TypeError: It is something else.
    """
    if given is None:
        return None
    preview: Any = Preview(given) if isinstance(given, str) else given
    texts: list[Any] = [preview.summary, preview.details] if isinstance(preview, Preview) else [given]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"a preview is a Preview of texts, a text or None, not {type(given).__name__}")
    summary = visible(preview.summary[:MOST_SUMMARY]) + ("..." if len(preview.summary) > MOST_SUMMARY else "")
    return Preview(summary, visible(cut(preview.details, MOST_DETAILS), newlines=True))


def _previewed(preview: Callable[[Any], Any], arguments: str) -> Preview | None:
    return shown_preview(preview(json.loads(arguments)))
