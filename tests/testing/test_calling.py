"""`call_tool`: one call as a model's call runs."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import FatalToolError, ReadonlyContext, RegistrationError, ToolContext, tool
from pegboard.errors import RunningLoopError
from pegboard.testing import call_tool


@tool
def forecast(city: str, context: ToolContext, days: int = 1) -> str:
    """Says what the weather will be like."""
    return f"{city}, {days}, {context.user}"


def test_arguments_are_json_a_mapping_or_names() -> None:
    assert call_tool(forecast, '{"city": "Oslo"}').text == "Oslo, 1, None"
    assert call_tool(forecast, {"city": "Oslo"}).text == "Oslo, 1, None"
    assert call_tool(forecast, city="Oslo", days=2).text == "Oslo, 2, None"
    assert call_tool(forecast, {"city": "Oslo", "days": 3}, days=2).text == "Oslo, 2, None"


def test_text_and_names_together_are_refused() -> None:
    with pytest.raises(TypeError, match="give one of the two"):
        call_tool(forecast, "{}", city="Oslo")


def test_the_context_reaches_the_tool() -> None:
    assert call_tool(forecast, {"city": "Oslo"}, ReadonlyContext(user="ada")).text == "Oslo, 1, ada"


def test_a_plain_function_is_called_through_the_stages() -> None:
    def double(n: int) -> int:
        """Doubles."""
        return 2 * n

    assert call_tool(double, n=2).structured_content == {"result": 4}
    result = call_tool(double, n="two")
    assert (result.is_error, result.kind) == (True, "invalid_arguments")


def test_an_async_tool_is_awaited() -> None:
    @tool
    async def wait() -> str:
        """Waits."""
        await asyncio.sleep(0)
        return "done"

    assert call_tool(wait).text == "done"


def test_what_holds_several_tools_is_refused() -> None:
    class Two:
        one = staticmethod(forecast)

        @tool
        def two(self) -> str:
            """Does."""
            return ""

    with pytest.raises(RegistrationError, match="holds forecast, two: pass one of them"):
        call_tool(Two())


def test_a_fatal_error_surfaces() -> None:
    @tool
    def end() -> str:
        """Ends."""
        raise FatalToolError("over")

    with pytest.raises(FatalToolError, match="over"):
        call_tool(end)


def test_inside_a_loop_it_says_what_to_write() -> None:
    async def inside() -> None:
        call_tool(forecast, city="Oslo")

    with pytest.raises(RunningLoopError, match=r"await registry\.call"):
        asyncio.run(inside())


def test_what_would_ask_a_person_is_allowed() -> None:
    """A test of a tool is about the tool."""

    @tool(destructive=True, requires_confirmation=True)
    async def wipe(context: ToolContext) -> str:
        """Wipes."""
        await context.ask("disk", ["*"])
        return "wiped"

    assert call_tool(wipe).text == "wiped"
