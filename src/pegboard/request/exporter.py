"""`Exporter`: one provider's wire format, both ways, pure data, no SDK; and one tool as an entry in its list."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast, runtime_checkable

import attrs
from attrs import define, field, frozen

from pegboard.dialects.dialect import Change, Dialect
from pegboard.dialects.keywords import short_descriptions
from pegboard.errors import ExportError, cause_of
from pegboard.messages import Delta, ModelResponse
from pegboard.request.model_request import ModelRequest
from pegboard.schema.converter import JsonRecord
from pegboard.schema.json import json_text
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import LONG_RUNNING
from pegboard.tools.visible import visible_json
from pegboard.typing import JsonMapping, JsonObject, JsonSchema


@frozen
class Loss(JsonRecord):
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


@frozen
class ExportedTools:
    """Tools as one provider's list has them.

    Attributes:
        entries: What the provider's list holds; shared and kept, so never to be changed. Not always one a tool:
            Gemini has one for all functions.
        losses: What is lost on the way to the provider, tool by tool; a refused tool is in no entry.
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

        Never raises: a chunk that can't be read is passed over, and an error marks the response.
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
    """Writes requests in one provider's words, and reads its answers. Plugins register theirs by name.

    Where the provider has response formats, `response_format(request)` gives what a body has for the request's
    `output`, or `None` where that can't be had of this request.
    """

    @property
    def name(self) -> str:
        """What it is found by, such as `"anthropic"`; the key of provider options and metadata."""
        ...

    def tools(self, specs: Sequence[ToolSpec], *, strict: bool | None = None) -> ExportedTools:
        """The provider's list of these tools.

        Args:
            specs: In their order, each name once.
            strict: Whether the provider shall hold calls to the schemas, for tools without a word of their own.
                Where a schema can't be strict, the tool is exported plainly, with a loss.
        """
        ...

    def check(self, spec: ToolSpec, *, strict: bool | None = None) -> tuple[Loss, ...]:
        """Every loss and every refusal of one tool."""
        ...

    def request(self, request: ModelRequest) -> JsonObject:
        """The body of the provider's request. It is the caller's own, but for the tools' entries in it.

        Tools that the provider can't be given are left out; `tools` lists them.

        Raises:
            ExportError: The request can't be written for this provider at all.
        """
        ...

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> ModelResponse:
        """An answer, from its body as JSON data.

        A call that can't be read is marked invalid, never lost; arguments that a strict schema made null are left out
        where the tool's own schema, by `request`, has them optional.

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


def passthrough(options: JsonMapping, keys: Sequence[str]) -> JsonObject:
    """The options of a provider, the caller's own.

    Args:
        options: By provider.
        keys: What the provider is called there, the most general first: the later key's value stands.
    """
    found: JsonObject = {}
    for key in keys:
        given = options.get(key)
        if isinstance(given, Mapping):
            found.update(copy.deepcopy(dict(cast("Mapping[str, Any]", given))))
    return found


def hosted_type(spec: ToolSpec, families: Sequence[str]) -> str | None:
    """What the provider calls a tool that it hosts (`"web_search"` of `"openai.web_search"`).

    Args:
        spec: A provider tool.
        families: What may stand before the dot.

    Returns:
        `None` where it is another provider's.
    """
    family, _, kind = (spec.provider_id or "").partition(".")
    return kind if kind and family in families else None


INPUT: str = "/inputSchema"
_MOST_EXAMPLES = 5


@frozen
class ConvertedSchema:
    """A tool's input schema in a provider's words.

    Attributes:
        schema: The schema, the caller's own.
        strict: Whether it is written by the strict dialect.
        losses: What was lost on the way; refused where the provider can't be given the tool.
    """

    schema: JsonSchema
    strict: bool
    losses: tuple[Loss, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the provider can't be given the tool."""
        return any(loss.refused for loss in self.losses)


def convert_schema(spec: ToolSpec, plain: Dialect, strictly: Dialect | None, strict: bool | None) -> ConvertedSchema:
    """A tool's input schema as a provider takes it.

    Args:
        spec: The tool.
        plain: What the provider takes of any tool.
        strictly: What it takes of tools that it holds calls to, or `None` where it has no such thing.
        strict: Whether that is wanted; where it can't be, the tool is written plainly, with a loss.
    """
    fallen_back: tuple[Loss, ...] = ()
    if strict:
        why = "the provider doesn't hold calls to schemas"
        if strictly is not None:
            rewritten = strictly.rewrite(spec.input_schema)
            if not rewritten.refused:
                return ConvertedSchema(rewritten.schema, strict=True, losses=losses_of(spec, rewritten.changes))
            faults = [change for change in rewritten.changes if change.refused][:3]
            words = (f"{change.path or 'the root'}: {change.keyword} {change.what}" for change in faults)
            why = f"can't be strict: {'; '.join(words)}"
        fallen_back = (Loss(spec.name, "/strict", "strict", f"exported without: {why}"),)
    rewritten = plain.rewrite(spec.input_schema)
    losses = (*fallen_back, *losses_of(spec, rewritten.changes))
    return ConvertedSchema(rewritten.schema, strict=False, losses=losses)


def output_schema(request: ModelRequest, plain: Dialect, strictly: Dialect | None = None) -> JsonSchema | None:
    """The schema of a request's `output` as a response format takes it; `None` where it has none that it takes.

    Args:
        request: The request.
        plain: What the provider takes of any tool.
        strictly: What it takes of response formats, where that is less.
    """
    if request.output is None:
        return None
    converted = convert_schema(request.output, plain, strictly, strict=strictly is not None)
    return None if converted.refused or converted.strict is (strictly is None) else converted.schema


def losses_of(spec: ToolSpec, changes: Iterable[Change], root: str = INPUT) -> tuple[Loss, ...]:
    """What a rewritten schema lost, as losses of its tool."""
    return tuple(
        Loss(spec.name, root + change.path, change.keyword, change.what, refused=change.refused) for change in changes
    )


def description_of(spec: ToolSpec, *, examples: bool = False, grammar: bool = False) -> str:
    """A tool's description, with what the provider has no field for.

    Args:
        spec: The tool.
        examples: Whether its examples stand in it.
        grammar: Whether its grammar stands in it.
    """
    parts = [spec.description]
    if spec.long_running and LONG_RUNNING not in spec.description:  # a raw spec's, which no definition has seen
        parts.append(LONG_RUNNING)
    if examples and spec.examples:
        parts.append(
            "\n".join(["Examples:", *(visible_json(json_text(each)) for each in spec.examples[:_MOST_EXAMPLES])])
        )
    if grammar and spec.grammar is not None:
        parts.append(f"The input must fit this {spec.grammar.syntax} grammar:\n{spec.grammar.definition}")
    return "\n\n".join(part for part in parts if part)


MOST_DESCRIPTION: Final = 20_000
"""Characters of a tool's description, of its examples, and of each description in its schemas, that are exported: they
go out with every request."""


def _shortened(spec: ToolSpec) -> tuple[ToolSpec, tuple[Loss, ...]]:
    """The tool as it is exported, with descriptions cut to `MOST_DESCRIPTION`."""
    changed: dict[str, Any] = {}
    losses: list[Loss] = []
    if len(spec.description) > MOST_DESCRIPTION:
        short = short_descriptions(MOST_DESCRIPTION)({"description": spec.description})
        changed["description"] = short.schema["description"]
        losses += losses_of(spec, short.changes, "/description")
    if spec.examples and len(json_text(spec.examples)) > MOST_DESCRIPTION:
        changed["examples"] = ()
        losses.append(Loss(spec.name, "/examples", "examples", f"left out: over {MOST_DESCRIPTION:,} characters"))
    for name, root, text in (
        ("input_schema", INPUT, spec.input_schema_text),
        ("output_schema", "/outputSchema", spec.output_schema_text),
    ):
        if text is not None and len(text) > MOST_DESCRIPTION:
            short = short_descriptions(MOST_DESCRIPTION)(getattr(spec, name))
            if short.changes:
                changed[name] = short.schema
                losses += losses_of(spec, short.changes, root)
    return (spec.evolve(**changed) if changed else spec), tuple(losses)


MOST_KEPT: Final = 20_000
"""Tools whose export one exporter keeps; beyond it, it begins anew."""


TAKEN: Final = "another tool has this name; the first is exported"


@frozen
class Entry:
    """One tool in a provider's words.

    Attributes:
        entry: What the provider's list holds of it, shared and never changed; `None` where the provider can't be given
            the tool.
        losses: What is lost on the way to it.
        behind: An entry of another kind right behind it, shared and never changed, or `None`.
    """

    entry: JsonObject | None
    losses: tuple[Loss, ...] = ()
    behind: JsonObject | None = None


WriteEntry: TypeAlias = Callable[[ToolSpec, bool | None], Entry]
"""Writes one tool; gets the strictness of the request, for tools without one of their own."""


@define(eq=False)
class Entries:
    """Writes tools, each once for as long as it stays the same.

    Attributes:
        write: Writes one.
        entry_name: What an entry is called at the provider, `None` where it has no name, or need have none of its own.
    """

    write: WriteEntry
    entry_name: Callable[[JsonObject], str | None] = field(default=lambda _entry: None, kw_only=True)
    _kept: dict[tuple[ToolSpec, bool | None], Entry] = field(
        factory=dict[tuple[ToolSpec, "bool | None"], Entry], init=False
    )

    def one(self, spec: ToolSpec, strict: bool | None = None) -> Entry:
        """One tool, written now or before; refused where writing it fails, which costs no other tool."""
        return self.written(spec, strict if spec.strict is None else spec.strict)

    def written(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """The same, whatever the tool itself says of strictness."""
        written = self._kept.get((spec, strict))
        if written is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            try:
                short, losses = _shortened(spec)
                written = self.write(short, strict)
            except BaseException as error:  # noqa: BLE001  (a schema that a step can't rewrite, a plugin's own exporter)
                written = refusal(spec, "", "tool", f"the exporter failed with {cause_of(error)}")
            else:
                written = attrs.evolve(written, losses=(*losses, *written.losses)) if losses else written
            self._kept[spec, strict] = written
        return written

    def exported(self, specs: Sequence[ToolSpec], strict: bool | None = None) -> ExportedTools:
        """The tools in their order; of two of one name, here or at the provider, the first."""
        choose = self.chooser(specs, strict)
        names: dict[str, None] = {}
        called: set[str] = set()
        entries: list[JsonObject] = []
        losses: list[Loss] = []
        for spec in specs:
            if spec.name in names:
                losses.append(Loss(spec.name, "/name", "name", TAKEN))
                continue
            written = choose(spec)
            name = None if written.entry is None else self.entry_name(written.entry)
            if name in called:
                written = refusal(spec, "/name", "name", f"the provider calls another tool {name!r}, too")
            losses += written.losses
            if written.entry is not None:
                names[spec.name] = None
                called.update(() if name is None else (name,))
                entries += [written.entry] if written.behind is None else [written.entry, written.behind]
        return ExportedTools(tuple(entries), tuple(losses), frozenset(names))

    def chooser(self, _specs: Sequence[ToolSpec], strict: bool | None) -> Callable[[ToolSpec], Entry]:
        """What writes each of the tools of one list."""
        return lambda spec: self.one(spec, strict)


def refusal(spec: ToolSpec, path: str, keyword: str, what: str) -> Entry:
    """A tool that the provider can't be given."""
    return Entry(None, (Loss(spec.name, path, keyword, what, refused=True),))
