"""`kept_result_tool`: the tool by which a model reads on in a result that was cut."""

from __future__ import annotations

from typing import Annotated, Final

from pegboard.dispatch.kept import KeptResults, Page
from pegboard.errors import ToolError
from pegboard.tools.content import TextContent, ToolResult
from pegboard.tools.context import ToolContext
from pegboard.tools.policy import DEFAULT_RESULT_LIMITS, ResultLimits
from pegboard.tools.tool import Tool

_MOST_LINES: Final = 2_000


def kept_result_tool(
    kept: KeptResults, *, name: str = "read_result", limits: ResultLimits = DEFAULT_RESULT_LIMITS
) -> Tool:
    """A tool that reads what was left out of a result; from now on, what says how to read on names it.

    Each session reads its own results only.

    Args:
        kept: What it reads in.
        name: The tool's name.
        limits: How much one call reads at most.
    """

    def read_result(
        context: ToolContext,
        id: str,  # noqa: A002  the word that the model reads
        line: Annotated[int, {"minimum": 1}] = 1,
        byte: Annotated[int, {"minimum": 0}] = 0,
        lines: Annotated[int, {"minimum": 1}] = _MOST_LINES,
    ) -> ToolResult:
        """Reads on in an earlier tool result of which a part was left out.

        Args:
            context: Whose results.
            id: The id that the earlier result names.
            line: The first line to read, from 1.
            byte: Where in that line to begin; only for lines that are too long to be read at once.
            lines: How many lines to read at most.
        """
        most = lines if limits.lines is None else min(lines, limits.lines)
        page_limits = ResultLimits(most, limits.bytes, limits.tokens, "head", limits.count_tokens)
        try:
            page = kept.read(id, line=line, byte=byte, session=context.session, limits=page_limits)
        except LookupError as error:
            raise ToolError(
                f"{error}.", hint="Call the tool that gave the result again, and ask it for less."
            ) from None
        return ToolResult(TextContent(_told(page, id, name)), metadata={"truncated": page.next is not None})

    kept.reader = name
    return Tool.from_function(read_result, name=name, title="Read on", read_only=True, idempotent=True)


def _told(page: Page, key: str, reader: str) -> str:
    """The part, and how to read on."""
    if page.next is None:
        return f"{page.text}{_line_end(page.text)}[The end.]"
    asked = f'id="{key}", line={page.next.line}' + (f", byte={page.next.byte}" if page.next.byte else "")
    return f"{page.text}{_line_end(page.text)}[There are {page.whole.lines} lines. Read on with {reader}({asked}).]"


def _line_end(text: str) -> str:
    return "" if text.endswith("\n") else "\n"


__all__ = ["kept_result_tool"]
