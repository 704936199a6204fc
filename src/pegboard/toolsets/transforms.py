"""Transforms: functions that change the tools of every source, static or a toolset, before names are resolved."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any, ClassVar, Final, TypeAlias

from pegboard.errors import RegistrationError, cause_of
from pegboard.threads import run_in_thread
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.signature import takes_context
from pegboard.tools.spec import Origin, ToolAnnotations
from pegboard.tools.tool import Tool
from pegboard.toolsets.toolset import ToolChange, Toolset, ToolsetResult, WrapperToolset, ask_all
from pegboard.toolsets.wrappers import ToolsetBase, wrap
from pegboard.typing import JsonMapping, frozen

ToolTransform: TypeAlias = Callable[[ToolsetBase], Toolset]
"""Transform of the tools of one source: gets it as a toolset with the wrappers as methods, and returns a toolset.

It is plain, called once for each source and its tools, and only builds wrappers. The `name` of what it gets says which
source it is: a toolset's own name, the name of the plugin for its static tools, or `"host"` for those of the host.
"""

NamedTransform: TypeAlias = tuple[str, ToolTransform, Origin]  # with what registered it

_CAUTIONS: Final = ("destructive_hint", "open_world_hint", "edit_hint")  # true is stricter
_RELIEFS: Final = ("read_only_hint", "idempotent_hint")  # false is stricter


class Transforms:
    """The transforms of a catalogue, applied to its sources; those that `earlier` has, by the same ones, are reused."""

    def __init__(  # noqa: PLR0913, PLR0917  the parts of a catalogue
        self,
        transforms: Sequence[NamedTransform],  # in the order in which they are applied
        static: Iterable[Tool],
        held: Iterable[Tool],  # static tools that others of their names keep out; of one plugin, the latest counts
        toolsets: Iterable[Toolset],
        taken: frozenset[str],  # names that several plugins bring and none gets
        earlier: Transforms | None = None,
    ) -> None:
        self.static: Final = (*_sources(static, are_held=False), *_sources(held, are_held=True))
        self.transforms, self._taken = transforms, taken
        known = earlier.wrapped if earlier is not None and earlier.transforms == transforms else {}
        self.wrapped: dict[Any, WrapperToolset] = {}
        for each in (*self.static, *toolsets):
            self.wrapped[each] = known.get(each) or _transform(each, transforms)
        self._found = set[str | None]()  # names that some source lacked, and another had

    async def ask(
        self, toolsets: Sequence[WrapperToolset], context: ReadonlyContext, seconds: float
    ) -> tuple[list[ToolsetResult], dict[str, Tool | None]]:
        """The transformed offers of `static` and of these toolsets; and `taken` for `resolve_names`.

        A source whose transform fails has no tools, and a problem. Static tools that aren't offered keep their names.
        """
        sources = [self.wrapped.get(each) or _transform(each, self.transforms) for each in (*self.static, *toolsets)]
        offers = self._with_notes_once(await ask_all(sources, context, seconds))
        static = [*zip(self.static, offers, strict=False)]  # toolsets' offers follow
        before = Counter(name for source in self.static for name in source.by_name)
        now = Counter(name for source, offer in static for name in source.own_names(offer))
        freed = {name for name, count in before.items() if count > 1 and now[name] == 1}  # all but one were renamed
        taken: dict[str, Tool | None] = dict.fromkeys(self._taken - freed)
        for source, offer in static:
            if not source.are_held:
                names = source.own_names(offer).difference(tool.name for tool in offer)
                taken |= {name: source.by_name[name] for name in names}
        return [*(source.without_held_back(offer, freed) for source, offer in static), *offers[len(static) :]], taken

    def _with_notes_once(self, offers: list[ToolsetResult]) -> list[ToolsetResult]:
        """The offers with one note on a name that a transform lists and no source has; each noted what it lacks."""
        notes = [each for offer in offers for each in offer.problems if each.note and each.tool]
        if not notes:
            return offers
        by_name = {each.tool: each for each in sorted(notes, key=lambda each: len(each.cause))}  # near misses are last
        known = {name for offer in offers for tool in offer for name in (tool.name, *tool.former_names)}
        gone = (each for offer in offers for each in (*offer.dropped, *offer.problems) if each not in notes)
        self._found |= by_name.keys() & {*known, *(each.tool for each in gone)}
        is_complete = len(offers) >= len(self.wrapped) and not any(offer.has_failed for offer in offers)
        kept = [each for name, each in by_name.items() if is_complete and name not in self._found]
        left_out = [each for each in notes if each not in kept]
        return [
            ToolsetResult(each, [one for one in each.problems if one not in left_out], each.dropped) for each in offers
        ]


@frozen
class _StaticTools:
    """The static tools of one plugin, or of the host, as a toolset; either those registered, or those held back."""

    is_checked: ClassVar = True
    name: str
    own: tuple[Tool, ...]
    are_held: bool

    @cached_property
    def by_name(self) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in self.own}

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:  # noqa: ARG002  the same for every context
        return ToolsetResult(self.by_name.values())

    def own_names(self, offer: ToolsetResult) -> set[str]:
        """The names that an offer of this source, transformed, hasn't renamed; those of hidden tools, too."""
        present = {tool.name for tool in offer}
        return {*self.by_name}.difference(name for tool in offer for name in tool.former_names if name not in present)

    def without_held_back(self, offer: ToolsetResult, freed: Collection[str]) -> ToolsetResult:
        """An offer of this source, transformed, without the tools that others of their names still keep out."""
        if not self.are_held:
            return offer
        tools = (tool for tool in offer if tool.name not in self.by_name or tool.name in freed)
        return ToolsetResult(tools, offer.problems)


def _sources(tools: Iterable[Tool], *, are_held: bool) -> list[_StaticTools]:
    of_owner: dict[str, list[Tool]] = {}
    for tool in tools:
        of_owner.setdefault(tool.origin.plugin or "host", []).append(tool)
    return [_StaticTools(owner, tuple(own), are_held) for owner, own in of_owner.items()]


async def _detach_notes(offer: ToolsetResult, _context: ReadonlyContext) -> ToolsetResult:
    """The offer of a source; its own notes name no tool, so that they aren't taken for those of a transform."""
    problems = (each.evolve(tool=None) if each.note else each for each in offer.problems)
    return ToolsetResult(offer, problems, offer.dropped)


def _transform(source: Any, transforms: Sequence[NamedTransform]) -> WrapperToolset:
    return reduce(_transform_once, transforms, WrapperToolset(source, _detach_notes))


def _transform_once(source: WrapperToolset, transform: NamedTransform) -> WrapperToolset:
    """A source with one more transform; a plugin's can't make a tool less strict, or bring another."""
    _, _, origin = transform
    if origin.plugin is None:
        return _Transformed(source, transform)
    marked = WrapperToolset(source, ToolChange("marked", lambda tool: tool.evolve(untransformed=tool)))
    return WrapperToolset(_Transformed(marked, transform), ToolChange("transformed", _tighten))


class _Transformed(WrapperToolset):
    """Wrapper that a transform makes of a toolset, once, at the first query."""

    def __init__(self, inner: Toolset, transform: NamedTransform) -> None:
        super().__init__(inner)
        self._by = transform
        self._made: WrapperToolset | None = None
        self._lock = threading.Lock()

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """What the transform makes of the inner toolset's offer; raises what it raises."""
        return await (self._made or await run_in_thread(self._make)).tools(context)

    def _make(self) -> WrapperToolset:
        name, function, origin = self._by
        with self._lock:  # of two resolutions one calls it
            if self._made is None:
                try:
                    toolset: Any = function(wrap(self.inner))
                    if not isinstance(toolset, Toolset):
                        raise TypeError(f"it has to return a toolset, not {type(toolset).__name__}")  # noqa: TRY301  as below
                except Exception as error:
                    why = f"transform {name!r} of {origin} failed, so these tools aren't offered: {cause_of(error)}"
                    raise RegistrationError(why) from error
                self._made = WrapperToolset(toolset)
            return self._made


def _tighten(tool: Tool) -> Tool:
    """A tool as a plugin's transform has changed it, but nowhere less strict than before.

    Its texts, schema and handler may be others. What rules, approvers and other calls go by stays as it was, or gets
    stricter: names, tags and permissions that it had, hints, confirmation, concurrency, and functions of the arguments.
    Raises `RegistrationError` if the transform has brought the tool.
    """
    before = tool.untransformed
    if before is None:
        raise RegistrationError("a plugin's transform only changes tools; register new ones")
    own, new = before.spec, tool.spec
    hints = {name: _stricter(name, own.annotations, new.annotations) for name in (*_CAUTIONS, *_RELIEFS)}
    is_weaker = own.concurrency.mode != "shared" and new.concurrency.mode != "exclusive"
    spec = new.evolve(
        annotations=ToolAnnotations(**hints),
        tags=(*own.tags, *new.tags),
        requires_confirmation=own.requires_confirmation or new.requires_confirmation,
        concurrency=own.concurrency if is_weaker else new.concurrency,
        permission=own.permission,
        permission_arguments=own.permission_arguments,
    )
    others = {**tool.by_arguments, "concurrency": None}  # of the concurrency, only the own function counts
    functions = {
        name: _join(function, others.get(name), strict=name == "destructive")
        for name, function in before.by_arguments.items()
        if hints.get(f"{name}_hint") is not (f"{name}_hint" in _CAUTIONS)  # else it is the strictest for all arguments
    }
    asks_always = any(each.confirms is None and each.spec.requires_confirmation for each in (before, tool))
    return before.evolve(
        spec=spec,
        handler=tool.handler,
        confirms=None if asks_always else _join(before.confirms, tool.confirms, strict=True),
        by_arguments=functions,
        asks={**tool.asks, **before.asks},
        former_names=tool.former_names,
        instructions=tool.instructions,
        offered=before.offered and tool.offered,
    )


def _join(*functions: Callable[..., Any] | None, strict: bool) -> Callable[..., Any] | None:
    """A function of the arguments with the stricter answer of several: `strict`, or what is no bool, if any."""
    present = [each for each in dict.fromkeys(functions) if each is not None]
    if len(present) < 2:
        return present[0] if present else None

    def answer(arguments: JsonMapping, context: ReadonlyContext) -> Any:
        given = [each(arguments, **({"context": context} if takes_context(each) else {})) for each in present]
        return next((each for each in given if each is strict or not isinstance(each, bool)), not strict)

    return answer


def _stricter(name: str, own: ToolAnnotations, new: ToolAnnotations) -> bool | None:
    strictness = (False, None, True) if name in _CAUTIONS else (True, None, False)
    return max(getattr(own, name), getattr(new, name), key=strictness.index)
