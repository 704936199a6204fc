"""`Exporter`: adapter to one provider's wire format, pure data, no SDK."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from pegboard.errors import ExportError
from pegboard.messages import Delta, ModelResponse
from pegboard.request.model_request import ModelRequest
from pegboard.schema.converter import JsonRecord
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject


@frozen
class Loss(JsonRecord):
    """One thing that an export drops, changes, or can't do at all.

    Attributes:
        tool: The tool's name.
        path: Where in the spec, as a JSON pointer from the spec's JSON (`"/inputSchema/properties/count"`).
        keyword: The keyword or fact at fault (`"minimum"`, `"$ref"`, `"name"`).
        what: What the export did with it, for people (`"moved into the description"`).
        refused: Whether the tool can't be sent to the provider at all.
    """

    tool: str
    path: str
    keyword: str
    what: str
    refused: bool = False


@frozen
class ExportedTools:
    """Tools in a provider's wire format.

    Attributes:
        entries: The provider's list of tools; shared and cached, so never to be changed. Not always one entry per tool:
            Gemini has one for all functions.
        losses: What the export loses, tool by tool; a refused tool is in no entry.
        names: The names of the tools that are in the entries.
    """

    entries: tuple[JsonObject, ...] = ()
    losses: tuple[Loss, ...] = ()
    names: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def refused(self) -> frozenset[str]:
        """The names of the tools that can't be sent to the provider."""
        return frozenset(loss.tool for loss in self.losses if loss.refused)

    def warn(self, provider: str) -> None:
        """Logs the tools that can't be sent to the provider, each with its reason once per process."""
        for loss in self.losses:
            if loss.refused:
                _warn(loss.tool, provider, loss.what)


@lru_cache(1_000)
def _warn(*facts: str) -> None:
    logging.getLogger("pegboard").warning("tool %s isn't sent to %s: %s", *facts)


class ResponseReader(Protocol):
    """Parser of one streamed answer, chunk by chunk."""

    def feed(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        """Parses one chunk (an event of the stream, as JSON data); returns its deltas.

        Never raises: an unreadable chunk is skipped, and an error marks the response.
        """
        ...

    def response(self, *, broken: str | None = None) -> ModelResponse:
        """The answer as received so far.

        Args:
            broken: Why the stream ended early, for the operator; the answer is then interrupted and not complete, as
                after a stream without its provider's end mark.
        """
        ...


@runtime_checkable
class Exporter(Protocol):
    """Adapter to one provider's wire format: writes requests, parses answers. Plugins register theirs by name.

    Where the provider has response formats, `response_format(request)` returns the members of the body for the
    request's `output`, or `None` if this request can't have one. Where the tools that can be sent depend on the model,
    `tools_of(request)` returns what `tools` returns for this request.
    """

    @property
    def name(self) -> str:
        """The name it is registered by, such as `"anthropic"`; the key of provider options and metadata."""
        ...

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The provider's list of these tools.

        Args:
            specs: The tools in order, each name once.
            strict: Whether the provider enforces the schemas, for tools that don't set `strict` themselves. A tool
                whose schema can't be strict is exported without, with a loss.
        """
        ...

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        ...

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of the provider's request. The caller may change it, except for the tools' entries in it.

        Tools that can't be sent to the provider are left out; `tools` lists them, and `ExportedTools.warn` logs them.

        Raises:
            ExportError: The request can't be written for this provider at all.
        """
        ...

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """Parses the body of an answer, given as JSON data.

        An unreadable call is marked invalid, never dropped; arguments that a strict schema made null are removed where
        they are optional in the tool's own schema, by `request`.

        Raises:
            ModelError: The body is not an answer, or is the provider's error.
        """
        ...

    def reader(self, request: ModelRequest | None = None) -> ResponseReader:
        """A parser for one streamed answer."""
        ...


def checked_exporter(name: str, found: Any) -> Exporter:
    """The exporter that was registered under a name, made if that was a factory.

    Raises:
        ExportError: It is not an exporter and doesn't make one.
    """
    if isinstance(found, type) or (callable(found) and not isinstance(found, Exporter)):
        found = found()
    if not isinstance(found, Exporter):
        raise ExportError(f"an exporter must be registered under this name, got {found!r:.100}", exporter=name)
    return found
