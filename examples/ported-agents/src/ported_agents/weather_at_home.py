"""A chat whose client runs some of the tools: the client-side tools of the ai-sdk's chatbot, on pegboard.

`weather_in` runs on the server. `ask_yes_or_no` and `where_is_the_user` have no handler: their calls end the turn, the
client shows a question or asks the browser, and sends the results. The server stores a chat as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from pegboard import Message, Model, ModelRequest, Tool, ToolRegistry, TurnOutcome, run_turn, tool


@tool(read_only=True)
async def weather_in(city: str) -> str:
    """Show the weather in a city to the user."""
    return {"Oslo": "rain", "Rome": "sun"}.get(city, "clouds")


YES_OR_NO = Tool.from_schema(
    "ask_yes_or_no",
    {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
    description="Ask the user for confirmation.",
)
WHERE = Tool.from_schema(
    "where_is_the_user", None, description="Get the user's city. Ask for confirmation before you call this tool."
)


@define
class Chat:
    """The server's side of one chat. The client's requests call `send` and `add_results`.

    Attributes:
        model: The model.
        stored: The last turn, as JSON text; `None` before the first.
    """

    model: Model
    stored: str | None = None
    _registry: ToolRegistry = field(factory=ToolRegistry, init=False)

    def __attrs_post_init__(self) -> None:
        self._registry.register(weather_in, YES_OR_NO, WHERE)

    async def send(self, text: str) -> dict[str, Any]:
        """Runs a turn with the user's message."""
        before: tuple[Message, ...] = () if self.stored is None else TurnOutcome.loads(self.stored).messages
        return self._shown(await run_turn(self.model, ModelRequest(before).with_messages(text), self._registry))

    async def add_results(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Resumes with results of the client's tools; the turn still waits for missing ones.

        Args:
            results: The results by the id of the call.
        """
        assert self.stored is not None, "there is no turn yet"
        before = TurnOutcome.loads(self.stored)
        turn = run_turn(self.model, ModelRequest(), self._registry, resume=before, tool_results=results)
        return self._shown(await turn)

    def _shown(self, outcome: TurnOutcome) -> dict[str, Any]:
        """The response to the client: the answer, or the calls that it has to run."""
        self.stored = outcome.dumps()
        calls = [{"id": call.id, "name": call.name, "input": call.arguments} for call in outcome.for_host]
        return {"state": outcome.ended, "text": outcome.text, "calls": calls}
