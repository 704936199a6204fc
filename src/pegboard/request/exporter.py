"""`Exporter`: one provider's wire format, both ways; pure data, no SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from pegboard.errors import ExportError
from pegboard.messages.response import Delta, ModelResponse
from pegboard.request.model_request import ModelRequest
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject


@frozen
class Loss:
    """One thing that an export drops, changes, or can't do at all.

    Attributes:
        tool: The tool's name.
        path: Where in the spec, as a JSON pointer from the spec's JSON (`"/inputSchema/properties/count"`).
        keyword: The keyword or fact at fault (`"minimum"`, `"$ref"`, `"name"`).
        what: What became of it, for people (`"moved into the description"`).
        refused: Whether the provider can't be given the tool at all.
    """

    tool: str
    path: str
    keyword: str
    what: str
    refused: bool = False

    def to_json(self) -> JsonObject:
        """`{"tool", "path", "keyword", "what"}`."""
        return {"tool": self.tool, "path": self.path, "keyword": self.keyword, "what": self.what}


@frozen
class ExportedTools:
    """Tools as one provider's list has them.

    Attributes:
        entries: What the provider's list holds; shared and kept, so never to be changed. Not always one a tool:
            Gemini has one for all functions.
        losses: What the provider can't be told, tool by tool; a refused tool is in no entry.
        names: The names of the tools that are in the entries.
    """

    entries: tuple[JsonObject, ...] = ()
    losses: tuple[Loss, ...] = ()
    names: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def refused(self) -> frozenset[str]:
        """The names of the tools that the provider can't be given."""
        return frozenset(loss.tool for loss in self.losses if loss.refused)


class ResponseReader(Protocol):
    """Reads one streamed answer, chunk by chunk."""

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Takes in one chunk (an event of the stream, as JSON data) and gives what came with it.

        Never raises: a chunk that can't be read is passed over, and one that says an error marks the response.
        """
        ...

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer from all that has come.

        Args:
            broken: Why the stream ended early, for the operator; the answer then is interrupted, and not complete.
                A stream that ended without its provider's end mark is so too.
        """
        ...


@runtime_checkable
class Exporter(Protocol):
    """Writes requests in one provider's words, and reads its answers. Plugins register theirs by name."""

    @property
    def name(self) -> str:
        """What it is found by, such as `"anthropic"`; the key of provider options and metadata."""
        ...

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The provider's list of these tools.

        Args:
            specs: In their order, each name once.
            strict: Whether the provider shall hold calls to the schemas, for tools that say nothing of it themselves.
                Where it can't be told a schema strictly, the tool is exported plainly, and a loss says so.
        """
        ...

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        ...

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of the provider's request. It is the caller's own, but for the tools' entries in it.

        Tools that the provider can't be given are left out; `tools` says which.

        Raises:
            ExportError: The request can't be said to this provider at all.
        """
        ...

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """An answer, from its body as JSON data.

        A call that can't be read is marked invalid, never lost; arguments that a strict schema made null are left out
        where `request` tells that the tool's own schema has them optional.

        Raises:
            ModelError: It is no answer, or the provider's error.
        """
        ...

    def reader(self, request: ModelRequest | None = None) -> ResponseReader:
        """What reads a streamed answer."""
        ...


def checked_exporter(name: str, found: Any) -> Exporter:
    """What was registered under a name, as an exporter.

    Args:
        name: The name, for the error.
        found: An exporter, or a class or function that makes one.

    Raises:
        ExportError: It is none, and makes none.
    """
    if isinstance(found, type) or (callable(found) and not isinstance(found, Exporter)):
        found = found()
    if not isinstance(found, Exporter):
        raise ExportError(f"what is registered is no exporter, but {found!r:.100}", exporter=name)
    return found


__all__ = ["ExportedTools", "Exporter", "Loss", "ResponseReader", "checked_exporter"]
