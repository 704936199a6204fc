"""What a call elsewhere tells and asks, brought to its `ToolContext`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import attrs
from attrs import frozen

from pegboard.dispatch.executors.confirming import confirmation_to_json
from pegboard.dispatch.executors.executor import Answer, Talk
from pegboard.dispatch.executors.reading import FLAG, LIST, NOTHING, OBJECT, TEXT, WHOLE, Types, read
from pegboard.tools.content import content_from_json
from pegboard.tools.context import Told, ToolContext
from pegboard.tools.stores import MemoryEntry
from pegboard.typing import JsonObject


def talk_of(context: ToolContext) -> Talk:
    """The talk of one call: what it tells reaches the context's listener, what it asks is asked of the context."""
    answers = {question: partial(answer, _Asked(context)) for question, answer in _ANSWERS.items()}
    return Talk(None if context.listener is None else partial(_tell, context), answers)


def _tell(context: ToolContext, thing: object) -> None:
    if isinstance(thing, Told):
        context.actions.tell(thing.title, thing.facts)
    if context.listener is not None:
        context.listener(thing)


@frozen
class _Asked:
    """Answers the questions of one call. Each takes JSON data, looks at it with care, and gives JSON data."""

    context: ToolContext

    async def ask(self, facts: JsonObject) -> None:
        given = read(facts, _ASK, "permission", "patterns")
        for name in ("patterns", "always"):
            _check_texts(given.get(name, []), name)
        permission, patterns = given.pop("permission"), given.pop("patterns")
        await self.context.ask(permission, patterns, **given)

    async def request_confirmation(self, facts: JsonObject) -> JsonObject:
        hint = read(facts, {"hint": TEXT}, "hint")["hint"]
        return confirmation_to_json(await self.context.request_confirmation(hint, facts.get("payload")))

    async def call(self, facts: JsonObject) -> JsonObject:
        given = read(facts, {"name": TEXT, "arguments": TEXT + OBJECT}, "name", "arguments")
        return (await self.context.call(**given)).to_data()

    async def search_memory(self, facts: JsonObject) -> list[JsonObject]:
        given = read(facts, {"query": TEXT, "limit": WHOLE, "session_only": FLAG}, "query")
        return [_entry(entry) for entry in await self.context.memory.search(**given)]

    async def add_to_memory(self, facts: JsonObject) -> JsonObject:
        given = read(facts, {"text": TEXT, "author": TEXT + NOTHING, "metadata": OBJECT}, "text")
        return _entry(await self.context.memory.add(**given))

    async def save_artifact(self, facts: JsonObject) -> int:
        name = read(facts, {"name": TEXT}, "name")["name"]
        return await self.context.artifacts.save(name, content_from_json(facts.get("content")))

    async def load_artifact(self, facts: JsonObject) -> JsonObject:
        given = read(facts, {"name": TEXT, "version": WHOLE + NOTHING}, "name")
        return (await self.context.artifacts.load(**given)).to_json()

    async def list_artifacts(self, _facts: JsonObject) -> list[str]:
        return list(await self.context.artifacts.list())

    async def delete_artifact(self, facts: JsonObject) -> None:
        await self.context.artifacts.delete(read(facts, {"name": TEXT}, "name")["name"])


def _check_texts(values: list[Any], name: str) -> None:
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name}: expected a list of texts")


def _entry(entry: MemoryEntry) -> JsonObject:
    return {**attrs.asdict(entry, recurse=False), "metadata": dict(entry.metadata)}


_ASK: Final[Mapping[str, Types]] = {"permission": TEXT, "patterns": LIST, "always": LIST, "metadata": OBJECT}
_ANSWERS: Final[Mapping[str, Any]] = {
    "ask": _Asked.ask,
    "request_confirmation": _Asked.request_confirmation,
    "call": _Asked.call,
    "memory.search": _Asked.search_memory,
    "memory.add": _Asked.add_to_memory,
    "artifacts.save": _Asked.save_artifact,
    "artifacts.load": _Asked.load_artifact,
    "artifacts.list": _Asked.list_artifacts,
    "artifacts.delete": _Asked.delete_artifact,
}
"""What may be asked, by its name on the line; this is all that a child process can make its parent do."""


__all__ = ["Answer", "talk_of"]
