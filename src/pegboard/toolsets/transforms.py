"""Transforms: functions that change the tools of every source, static or a toolset, before names are settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial, reduce
from typing import Any, ClassVar, Final, TypeAlias

from pegboard.errors import RegistrationError, cause_of
from pegboard.threads import run_in_thread
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.spec import Origin, ToolAnnotations
from pegboard.tools.tool import Tool
from pegboard.toolsets.toolset import Step, Toolset, ToolsetResult, WrapperToolset, ask_all
from pegboard.toolsets.wrappers import ToolsetBase, wrap

ToolTransform: TypeAlias = Callable[[ToolsetBase], Toolset]
"""Transform of the tools of one source: gets it as a toolset with the wrappers as methods, and returns a toolset.

It is plain, called once for each source, and only builds wrappers. The `name` of what it gets says which source it is:
a toolset's own name, the name of the plugin for its static tools, or `"host"` for those of the host.
"""

NamedTransform: TypeAlias = tuple[str, ToolTransform, Origin]  # with what registered it

_CAUTIONS: Final = ("destructive_hint", "open_world_hint", "edit_hint")  # true is stricter
_RELIEFS: Final = ("read_only_hint", "idempotent_hint")  # false is stricter


class Transforms:
    """The transforms of a catalogue, around its tools.

    Args:
        transforms: In the order in which they are applied.
        static: The static tools.
        held: Static tools that others of their names keep out; of one plugin and name, the latest counts.
        taken: Names that several plugins bring and none gets.
    """

    def __init__(
        self, transforms: Sequence[NamedTransform], static: Iterable[Tool], held: Iterable[Tool], taken: frozenset[str]
    ) -> None:
        self.static: Final = [*_sources(static, are_held=False), *_sources(held, are_held=True)]
        self._taken = taken
        self._around = cache(partial(_transformed_by, transforms))

    async def ask(
        self, toolsets: Sequence[WrapperToolset], context: ReadonlyContext, seconds: float
    ) -> tuple[list[ToolsetResult], dict[str, Tool | None]]:
        """The transformed offers of `static` and of these toolsets; and the names that are taken, as `resolve_names`.

        A source whose transform fails has no tools, and a problem. Static tools that aren't offered keep their names.
        """
        offers = await ask_all([self._around(each) for each in (*self.static, *toolsets)], context, seconds)
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


class _StaticTools:
    """The static tools of one plugin, or of the host, as a toolset; either those registered, or those held back."""

    is_checked: ClassVar = True

    def __init__(self, name: str, tools: Mapping[str, Tool], *, are_held: bool) -> None:
        self.name = name
        self.by_name = tools
        self.are_held = are_held

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
    of_owner: dict[str, dict[str, Tool]] = {}
    for tool in tools:
        of_owner.setdefault(tool.origin.plugin or "host", {})[tool.name] = tool
    return [_StaticTools(owner, own, are_held=are_held) for owner, own in of_owner.items()]


def _transformed_by(transforms: Sequence[NamedTransform], source: Any) -> WrapperToolset:
    return reduce(_transformed, transforms, source)


def _transformed(source: Any, transform: NamedTransform) -> WrapperToolset:
    """A source with one more transform; a plugin's can't make a tool less strict, or bring another."""
    if transform[2].plugin is None:
        return _Transformed(source, transform)
    marked = WrapperToolset(source, Step("marked", lambda tool: tool.evolve(untransformed=tool)))
    return WrapperToolset(_Transformed(marked, transform), Step("transformed", _tightened))


class _Transformed(WrapperToolset):
    """Wrapper that a transform makes of a toolset, at the first query."""

    def __init__(self, inner: Toolset, transform: NamedTransform) -> None:
        super().__init__(inner)
        self._by = transform
        self._made: WrapperToolset | None = None
        self._notes: frozenset[str] = frozenset()  # of the inner toolset

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """What the transform makes of the inner toolset's offer; raises what it raises."""
        if self._made is None:
            name, function, origin = self._by
            try:
                made: Any = await run_in_thread(function, wrap(WrapperToolset(self.inner, self._note)))
                if not isinstance(made, Toolset):
                    raise TypeError(f"it has to return a toolset, not {type(made).__name__}")  # noqa: TRY301  as below
            except Exception as error:
                why = f"transform {name!r} of {origin} failed, so these tools aren't offered: {cause_of(error)}"
                raise RegistrationError(why) from error
            self._made = WrapperToolset(made)
        offer = await self._made.tools(context)
        # That this source has no tool of a name to change is nothing to note: another may have it.
        problems = (each for each in offer.problems if not each.note or each.cause in self._notes)
        return ToolsetResult(offer, problems, offer.dropped)

    async def _note(self, offer: ToolsetResult, _context: ReadonlyContext) -> ToolsetResult:
        self._notes = frozenset(each.cause for each in offer.problems if each.note)
        return offer


def _tightened(tool: Tool) -> Tool:
    """A tool as a plugin's transform has changed it, but no less strict in what it says of its effects, and as before.

    Raises:
        RegistrationError: The transform has brought it.
    """
    before = tool.untransformed
    if before is None:
        raise RegistrationError("a plugin's transform only changes tools; register new ones")
    own, new = before.spec, tool.spec
    hints = {name: _stricter(name, own.annotations, new.annotations) for name in (*_CAUTIONS, *_RELIEFS)}
    confirms = own.requires_confirmation or new.requires_confirmation
    spec = new.evolve(annotations=ToolAnnotations(**hints), requires_confirmation=confirms, permission=own.permission)
    dropped = {
        name: function
        for name, function in before.by_arguments.items()
        if hints.get(f"{name}_hint") is not (f"{name}_hint" in _CAUTIONS)
    }
    changed = {name: each for name, each in tool.by_arguments.items() if name in before.by_arguments}
    asks = tool.confirms or (None if confirms else before.confirms)
    return tool.evolve(
        spec=spec,
        origin=before.origin,
        policy=before.policy,
        confirms=None if own.requires_confirmation and before.confirms is None else asks,
        by_arguments={**dropped, **changed},
        untransformed=before.untransformed,
    )


def _stricter(name: str, own: ToolAnnotations, new: ToolAnnotations) -> bool | None:
    strictness = (False, None, True) if name in _CAUTIONS else (True, None, False)
    return max(getattr(own, name), getattr(new, name), key=strictness.index)
