"""Tools in a wire format: entries, by a function for one tool, with their losses and their cache."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import attrs
from attrs import define, field, frozen

from pegboard import ExportedTools, Loss, ModelRequest, ToolSpec
from pegboard.errors import cause_of
from pegboard.json import json_text
from pegboard.text import visible_json
from pegboard.tools import LONG_RUNNING
from pegboard.typing import JsonMapping, JsonObject, JsonSchema
from pegboard_clients.dialects.dialect import Change, Dialect
from pegboard_clients.dialects.keywords import short_descriptions


def passthrough(options: JsonMapping, keys: Sequence[str]) -> JsonObject:
    """A copy of the options of one provider, for the caller to change.

    Args:
        options: By provider.
        keys: The provider's keys there, the most general first: later keys override earlier ones.
    """
    found: JsonObject = {}
    for key in keys:
        given = options.get(key)
        if isinstance(given, Mapping):
            found.update(copy.deepcopy(dict(cast("Mapping[str, Any]", given))))
    return found


def hosted_type(spec: ToolSpec, families: Sequence[str]) -> str | None:
    """The provider's type of a tool that it hosts (`"web_search"` of `"openai.web_search"`).

    Args:
        spec: A provider tool.
        families: The provider's prefixes before the dot.

    Returns:
        `None` for another provider's tool.
    """
    family, _, kind = (spec.provider_id or "").partition(".")
    return kind if kind and family in families else None


INPUT: str = "/inputSchema"
_MOST_EXAMPLES = 5


@frozen
class ConvertedSchema:
    """A tool's input schema in a provider's dialect.

    Attributes:
        schema: The schema; the caller may change it.
        strict: Whether it is written in the strict dialect.
        losses: What was lost; refused if the tool can't be sent to the provider.
    """

    schema: JsonSchema
    strict: bool
    losses: tuple[Loss, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the tool can't be sent to the provider."""
        return any(loss.refused for loss in self.losses)


def convert_schema(spec: ToolSpec, plain: Dialect, strictly: Dialect | None, strict: bool | None) -> ConvertedSchema:
    """Converts a tool's input schema to a provider's dialect.

    Args:
        spec: The tool.
        plain: The dialect for any tool.
        strictly: The dialect for tools whose schema the provider enforces, or `None` if it enforces none.
        strict: Whether to use it; falls back to `plain`, with a loss, where the schema can't be strict.
    """
    fallen_back: tuple[Loss, ...] = ()
    if strict:
        why = "the provider doesn't enforce schemas"
        if strictly is not None:
            rewritten = strictly.rewrite(spec.input_schema)
            if not rewritten.refused:
                return ConvertedSchema(rewritten.schema, strict=True, losses=losses_of(spec, rewritten.changes))
            faults = [change for change in rewritten.changes if change.refused][:3]
            words = (f"{change.path or 'the root'}: {change.keyword} {change.what}" for change in faults)
            why = f"can't be strict: {'; '.join(words)}"
        fallen_back = (Loss(spec.name, "/strict", "strict", f"exported as not strict: {why}"),)
    rewritten = plain.rewrite(spec.input_schema)
    losses = (*fallen_back, *losses_of(spec, rewritten.changes))
    return ConvertedSchema(rewritten.schema, strict=False, losses=losses)


def output_schema(request: ModelRequest, plain: Dialect, strictly: Dialect | None = None) -> JsonSchema | None:
    """The schema of a request's `output` for a response format; `None` if there is none, or it can't be converted.

    Args:
        request: The request.
        plain: The dialect for any tool.
        strictly: The dialect of response formats, where that allows less.
    """
    if request.output is None:
        return None
    converted = convert_schema(request.output, plain, strictly, strict=strictly is not None)
    return None if converted.refused or converted.strict is (strictly is None) else converted.schema


def losses_of(spec: ToolSpec, changes: Iterable[Change], root: str = INPUT) -> tuple[Loss, ...]:
    """The changes of a rewritten schema as losses of its tool."""
    return tuple(
        Loss(spec.name, root + change.path, change.keyword, change.what, refused=change.refused) for change in changes
    )


def description_of(spec: ToolSpec, *, examples: bool = False, grammar: bool = False) -> str:
    """A tool's description, plus what the provider has no field for.

    Args:
        spec: The tool.
        examples: Whether to append its examples.
        grammar: Whether to append its grammar.
    """
    parts = [spec.description]
    if spec.long_running and LONG_RUNNING not in spec.description:  # a raw spec; definitions append it themselves
        parts.append(LONG_RUNNING)
    if examples and spec.examples:
        parts.append(
            "\n".join(["Examples:", *(visible_json(json_text(each)) for each in spec.examples[:_MOST_EXAMPLES])])
        )
    if grammar and spec.grammar is not None:
        parts.append(f"The input must fit this {spec.grammar.syntax} grammar:\n{spec.grammar.definition}")
    return "\n\n".join(part for part in parts if part)


MOST_DESCRIPTION: Final = 20_000
"""Exported characters of a tool's description, of its examples, and of each description in its schemas: they are sent
with every request."""


def _shorten(spec: ToolSpec) -> tuple[ToolSpec, tuple[Loss, ...]]:
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


MOST_CACHED: Final = 20_000
"""Tools whose export one exporter caches; a full cache is emptied."""

TAKEN: Final = "another tool has this name; the first is exported"


@frozen
class Entry:
    """One tool in a provider's wire format.

    Attributes:
        entry: Its entry in the provider's list, shared and never changed; `None` if the tool can't be sent.
        losses: What the export loses.
        behind: An entry of another kind that follows it, shared and never changed, or `None`.
    """

    entry: JsonObject | None
    losses: tuple[Loss, ...] = ()
    behind: JsonObject | None = None


WriteEntry: TypeAlias = Callable[[ToolSpec, bool | None], Entry]
"""Writes one tool; gets the request's `strict`, unless the tool sets its own."""


@define(eq=False)
class Entries:
    """Cache of exported tools, by spec and strictness.

    Attributes:
        write: Writes one.
        entry_name: The provider's name of an entry; `None` if it has no name, or needn't be unique.
    """

    write: WriteEntry
    entry_name: Callable[[JsonObject], str | None] = field(default=lambda _entry: None, kw_only=True)
    _cache: dict[tuple[ToolSpec, bool | None], Entry] = field(
        factory=dict[tuple[ToolSpec, "bool | None"], Entry], init=False
    )

    def one(self, spec: ToolSpec, strict: bool | None = None) -> Entry:
        """The entry of one tool; a tool that fails to be written is refused, without effect on the others."""
        return self.entry(spec, strict if spec.strict is None else spec.strict)

    def entry(self, spec: ToolSpec, strict: bool | None) -> Entry:
        """As `one`, ignoring the tool's own `strict`."""
        written = self._cache.get((spec, strict))
        if written is None:
            if len(self._cache) >= MOST_CACHED:
                self._cache.clear()
            try:
                short, losses = _shorten(spec)
                written = self.write(short, strict)
            except BaseException as error:  # noqa: BLE001  (a schema that a step can't rewrite, a plugin's own exporter)
                written = refusal(spec, "", "tool", f"the exporter failed with {cause_of(error)}")
            else:
                written = attrs.evolve(written, losses=(*losses, *written.losses)) if losses else written
            self._cache[spec, strict] = written
        return written

    def exported(self, specs: Sequence[ToolSpec], strict: bool | None = None) -> ExportedTools:
        """The tools in order; of two with the same name, here or at the provider, the first."""
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
                written = refusal(spec, "/name", "name", f"another tool is called {name!r} at the provider")
            losses += written.losses
            if written.entry is not None:
                names[spec.name] = None
                called.update(() if name is None else (name,))
                entries += [written.entry] if written.behind is None else [written.entry, written.behind]
        return ExportedTools(tuple(entries), tuple(losses), frozenset(names))

    def chooser(self, _specs: Sequence[ToolSpec], strict: bool | None) -> Callable[[ToolSpec], Entry]:
        """The function that writes each tool of one list."""
        return lambda spec: self.one(spec, strict)


def refusal(spec: ToolSpec, path: str, keyword: str, what: str) -> Entry:
    """The entry of a tool that can't be sent to the provider."""
    return Entry(None, (Loss(spec.name, path, keyword, what, refused=True),))
