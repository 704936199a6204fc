"""`Catalogue`: immutable snapshot of everything that is registered; `Handle`: undoes one registration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs
from attrs import field

from pegboard.callbacks import CallableKind, Callback
from pegboard.errors import DuplicateToolError, PredicateError, RegistrationError
from pegboard.json import digest_of
from pegboard.schema.converter import JsonRecord, json_key
from pegboard.tools.spec import HOST, ConflictPolicy, Origin, Problem
from pegboard.tools.tool import Tool
from pegboard.typing import frozen

if TYPE_CHECKING:
    from pegboard.toolsets.predicates import Predicate, PredicateFunction, Where
    from pegboard.toolsets.toolset import Toolset
    from pegboard.toolsets.transforms import Transforms


class Handle(AbstractContextManager["Handle"]):
    """Handle of one registration; `dispose()`, or leaving its `with` block, removes exactly what it registered.

    Attributes:
        tools: The tools that it registered, under their final names.
    """

    def __init__(self, undo: Callable[[], None], tools: Sequence[Tool] = ()) -> None:
        self.tools = tuple(tools)
        self._undo: Callable[[], None] | None = undo

    def dispose(self) -> None:
        """Undoes the registration; a second call does nothing."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __exit__(self, *_: object) -> None:
        self.dispose()


Status: TypeAlias = Literal["listed", "loaded", "partial", "quarantined", "blocked", "disabled"]

CALLBACK_STAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "before_tool": ("context", "tool", "arguments"),
    "after_tool": ("context", "tool", "arguments", "result"),
    "on_tool_error": ("context", "tool", "arguments", "error"),
    "wrap_tool": ("context", "tool", "arguments", "call_next"),
    "repair_call": ("request",),
    "approve_call": ("request", "context"),
    "wrap_call": ("call", "context", "call_next"),
    "before_model": ("context", "request"),
    "after_model": ("context", "request", "response", "error"),
    "on_model_error": ("context", "request", "error"),
    "wrap_model": ("context", "request", "call_next"),
    "before_turn": ("context", "request"),
    "resume_turn": ("context", "outcome"),
    "report_turn": ("context", "outcome"),
    "after_turn": ("context", "request", "outcome"),
    "on_stop": ("context", "outcome"),
    "observe": ("event",),
    "check_tools": ("resolved", "config"),
}
"""Callback stages of calls, models, turns and resolutions -> the arguments passed; each is a hook `pegboard_<name>`."""


def limit_of(stage: str, where: Where, custom: Any = None) -> Predicate | None:
    """The predicate that limits a callback to some tools; raises `TypeError` for a stage without a tool."""
    if where is None:
        return None
    if "tool" not in CALLBACK_STAGES[stage]:
        raise TypeError(f"where= selects tools, but {stage} isn't about a tool")
    from pegboard.toolsets.expression import as_predicate

    return as_predicate(where, custom)


TOOL_STAGES: Final = (*tuple(CALLBACK_STAGES)[:7], "observe")  # of tool calls
EXTRAS: Final = ("predicates", "transforms", "processors", "exporters", "executors", "models", "services")
"""What else plugins bring, by name; services by the paths of their types."""


@frozen
class PluginRecord(JsonRecord):
    """Record of one plugin.

    Attributes:
        name: Its entry point's name.
        distribution: The distribution that brought it, or `None` for an object that the host registered.
        version: The distribution's version.
        status: `listed` (known from its manifest or the cache), `loaded`, `partial` (something that it brought was
            refused), `quarantined` (it failed as a whole), `blocked` or `disabled`.
        hooks: The hooks that it implements, sorted.
        tools: The names of its static tools, sorted.
        cause: Why it is neither `listed` nor `loaded`, or `None`.
        offers: The exporters, models, executors and services that it brings once it is loaded, as (kind, name).
        load: Imports it and registers what it brings, if that is still to be done; may be slow, never raises.
    """

    name: str
    distribution: str | None = None
    version: str | None = None
    status: Status = "loaded"
    hooks: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    cause: str | None = None
    offers: frozenset[tuple[str, str]] = field(default=frozenset(), eq=False, repr=False, metadata=json_key(""))
    load: Callable[[], None] | None = field(default=None, eq=False, repr=False, metadata=json_key(""))


@frozen
class PublishedTools:
    """Published tools of the toolsets of a plugin that isn't imported yet; they can be listed, but not called."""

    tools: tuple[Tool, ...] = ()  # without handlers
    files: Mapping[str, str] = field(factory=dict[str, str])  # path -> stamp: they are valid until one changes
    failed: bool = False  # whether a toolset gave none, for a reason that may be temporary
    identities: Mapping[str, Any] = field(factory=dict[str, Any])  # toolset -> its `identity`, as JSON data

    @property
    def untrusted(self) -> PublishedTools:
        """The same tools with an untrusted origin."""
        tools = [tool.evolve(origin=attrs.evolve(tool.origin, trusted=False)) for tool in self.tools]
        return attrs.evolve(self, tools=tuple(tools))


@frozen(eq=False)
class Catalogue:
    """Immutable catalogue of what was contributed, and by which plugin. A change creates a new one.

    Attributes:
        tools: The static tools by name.
        shadowed: Tools that are restored when the one that replaced them is disposed, latest last.
        held_back: Tools that don't get their name; a transform may give them another.
        toolsets: In the order of their registration.
        extras: Predicates, transforms, processors, exporters, executors, models and services: kind -> name -> thing.
        owners: What brought an extra: `"kind:name"` -> origin.
        plugin_callbacks: The plugins' callbacks by stage, in pluggy's order.
        host_callbacks: The host's own, called after the plugins'.
        plugins: Every known plugin by name, in load order.
        problems: What went wrong.
        published: What the toolsets of plugins have published, by plugin.
        required_check: The plugin without whose `check_tools` no tool is offered, or `None`.
    """

    tools: Mapping[str, Tool] = field(factory=dict[str, Tool])
    shadowed: Mapping[str, tuple[Tool, ...]] = field(factory=dict[str, tuple[Tool, ...]])
    held_back: tuple[Tool, ...] = ()
    toolsets: tuple[Toolset, ...] = ()
    extras: Mapping[str, Mapping[str, Any]] = field(factory=dict[str, Mapping[str, Any]])
    owners: Mapping[str, Origin] = field(factory=dict[str, Origin])
    plugin_callbacks: Mapping[str, tuple[Callback, ...]] = field(factory=dict[str, Any])
    host_callbacks: Mapping[str, tuple[Callback, ...]] = field(factory=dict[str, Any])
    plugins: Mapping[str, PluginRecord] = field(factory=dict[str, PluginRecord])
    problems: tuple[Problem, ...] = ()
    published: Mapping[str, PublishedTools] = field(factory=dict[str, PublishedTools])
    required_check: str | None = None
    _latest: list[Transforms] = field(factory=list["Transforms"], alias="latest", repr=False)  # of a registry, one

    @cached_property
    def ordered(self) -> tuple[Tool, ...]:
        """The static tools, sorted by name."""
        return tuple(self.tools[name] for name in sorted(self.tools))

    @cached_property
    def digest(self) -> str:
        """`"sha256:..."` over the digests of all static tools: the same tools give the same in every process."""
        return digest_of([tool.spec.digest for tool in self.ordered])

    @cached_property
    def lazy_plugins(self) -> tuple[PluginRecord, ...]:
        """The plugins that are listed but not imported yet."""
        return tuple(plugin for plugin in self.plugins.values() if plugin.load is not None)

    def unloaded(self, *hooks: str) -> list[PluginRecord]:
        """The plugins that implement one of these hooks (named without `pegboard_`) and aren't imported yet."""
        return [plugin for plugin in self.lazy_plugins if any(f"pegboard_{hook}" in plugin.hooks for hook in hooks)]

    @cached_property
    def has_lazy_callbacks(self) -> bool:
        """Whether a plugin that isn't imported yet has callbacks around tool calls, so that a call has to import it."""
        return bool(self.unloaded(*TOOL_STAGES))

    @cached_property
    def has_checks(self) -> bool:
        """Whether a resolution may be checked, perhaps by a plugin that isn't imported yet."""
        return bool(self.required_check or self.callbacks("check_tools") or self.unloaded("check_tools"))

    @cached_property
    def has_transforms(self) -> bool:
        """Whether something transforms the tools, perhaps a plugin that isn't imported yet."""
        return bool(self.extras.get("transforms") or self.unloaded("register_transforms"))

    @cached_property
    def transforms(self) -> Transforms | None:
        """The registered transforms around the tools, for `resolve_tools`; `None` if there are none."""
        if not self.extras.get("transforms"):
            return None
        from pegboard.toolsets.transforms import Transforms  # loads asyncio, which listing tools doesn't need

        parts = self.ordered, self.alternates, self.toolsets, self.conflicting
        self._latest[:] = [Transforms(self.in_order("transforms"), *parts, *self._latest)]
        return self._latest[0]

    @property
    def alternates(self) -> tuple[Tool, ...]:
        """The tools that others of their names keep out: held back or shadowed."""
        return (*self.held_back, *(tool for stack in self.shadowed.values() for tool in stack))

    def lacks_check(self, name: str) -> str | None:
        """Why the plugin of this name doesn't check resolutions, or `None` if it does."""
        record = self.plugins.get(name)
        if record is None:
            return f"no plugin {name!r} is installed: pip install pegboard-{name}"
        if record.status in ("loaded", "partial") and "pegboard_check_tools" in record.hooks:
            return None
        return f"plugin {name!r} is {record.status}: {record.cause or 'it checks no tools'}"

    def offered(self, kind: str) -> dict[str, str]:
        """The names of a kind that plugins offer that aren't imported yet: name -> plugin."""
        return {name: each.name for each in self.lazy_plugins for of_kind, name in each.offers if of_kind == kind}

    def predicate(self, where: Predicate | PredicateFunction | str) -> Predicate:
        """A predicate from one, from a function, or from a text, which may name registered predicates.

        Raises `ExpressionError` if the text doesn't parse.
        """
        from pegboard.toolsets.expression import as_predicate

        return as_predicate(where, self.extras.get("predicates", {}))

    @property
    def conflicting(self) -> frozenset[str]:
        """The tool names that several plugins bring and none gets."""
        return frozenset(problem.tool for problem in self.problems if problem.tool and problem.tool not in self.tools)

    def callbacks(self, stage: str) -> tuple[Callback, ...]:
        """The callbacks of a stage in the order in which they are called."""
        return self.plugin_callbacks.get(stage, ()) + self.host_callbacks.get(stage, ())

    def in_order(self, kind: str) -> tuple[tuple[str, Any, Origin], ...]:
        """The extras of a kind by name, with their origins: plugins' in load order, then the host's."""
        places: dict[str | None, int] = {name: place for place, name in enumerate(self.plugins)}
        of_kind = self.extras.get(kind, {})
        brought = [(name, thing, self.owners[f"{kind}:{name}"]) for name, thing in of_kind.items()]
        return tuple(sorted(brought, key=lambda each: places.get(each[2].plugin, len(places))))

    def evolve(self, **changes: Any) -> Catalogue:
        """A catalogue with some attributes changed."""
        return attrs.evolve(self, **changes)

    def with_tools(self, tools: Iterable[Tool], on_conflict: ConflictPolicy) -> tuple[Catalogue, list[Tool]]:
        """A catalogue with these tools, name conflicts resolved; and the tools as they are registered or held back.

        Raises `DuplicateToolError` if a name is taken and the policy is `"error"`, or `"prefix"` can't make it free.
        """
        table = _ToolTable(self)
        brought = [table.add(tool, on_conflict) for tool in tools]
        return table.put_into(self), brought

    def without_tools(self, tools: Sequence[Tool]) -> Catalogue:
        """A catalogue without exactly these tools; the tools that they shadowed are restored."""
        table = _ToolTable(self)
        for tool in tools:
            table.remove(tool)
        return table.put_into(self)

    def holding_back(self, tools: Iterable[Tool]) -> Catalogue:
        """A catalogue that holds back these tools, too."""
        return self.evolve(held_back=(*self.held_back, *tools))

    def with_replaced(self, replacements: Mapping[int, Any]) -> Catalogue:
        """A catalogue in which tools and toolsets are replaced by others of the same name: `id(old)` -> new."""

        def now(thing: Any) -> Any:
            return replacements.get(id(thing), thing)

        tools = {name: now(tool) for name, tool in self.tools.items()}
        shadowed = {name: tuple(map(now, stack)) for name, stack in self.shadowed.items()}
        others = {"held_back": tuple(map(now, self.held_back)), "toolsets": tuple(map(now, self.toolsets))}
        return self.evolve(tools=tools, shadowed=shadowed, **others)

    def with_extra(self, kind: str, name: str, thing: Any, owner: Origin) -> Catalogue:
        """A catalogue with one more predicate, transform, processor, exporter or executor.

        Raises `ValueError` if the name is taken, or the thing isn't a valid predicate, transform or processor.
        """
        try:
            if kind == "predicates":
                from pegboard.toolsets.predicates import Custom  # a call without resolved tools needs none

                Custom(thing, name)
            if kind == "transforms" and not (callable(thing) and CallableKind.of(thing) is CallableKind.PLAIN):
                raise RegistrationError(f"transform {name!r} has to be a plain function")  # noqa: TRY301  as the others
            if kind == "processors":
                from pegboard.request.processors import check_processor  # loads all of them

                check_processor(name, thing)
        except (PredicateError, RegistrationError) as error:
            raise ValueError(str(error)) from None
        of_kind = self.extras.get(kind, {})
        if name in of_kind:
            raise ValueError(f"{kind[:-1]} {name!r} is already registered by {self.owners[f'{kind}:{name}']}")
        owners = {**self.owners, f"{kind}:{name}": owner}
        return self.evolve(extras={**self.extras, kind: {**of_kind, name: thing}}, owners=owners)

    def with_problems(self, *problems: Problem) -> Catalogue:
        """A catalogue with these problems added, each once."""
        return self.evolve(problems=tuple(dict.fromkeys((*self.problems, *problems))))

    def with_toolsets(self, toolsets: Sequence[Toolset]) -> Catalogue:
        """A catalogue with these toolsets appended."""
        return self.evolve(toolsets=(*self.toolsets, *toolsets)) if toolsets else self

    def without_toolsets(self, toolsets: Sequence[Toolset]) -> Catalogue:
        """A catalogue without exactly these."""
        return self.evolve(toolsets=tuple(each for each in self.toolsets if all(each is not gone for gone in toolsets)))

    def without_plugin(self, name: str) -> Catalogue:
        """A catalogue without a plugin and what it registered, except callbacks; what it shadowed is restored."""
        own = [tool for tool in (*self.tools.values(), *self.alternates) if tool.origin.plugin == name]
        after = self.without_tools(own)
        for key, owner in self.owners.items():
            if owner.plugin == name:
                after = after.without_extra(*key.split(":", 1))
        return after.without_toolsets(self.toolsets_of(name)).evolve(
            plugins={each: record for each, record in self.plugins.items() if each != name},
            problems=tuple(each for each in after.problems if each.plugin != name),
            published={each: tools for each, tools in self.published.items() if each != name},
        )

    def toolsets_of(self, plugin: str) -> tuple[Toolset, ...]:
        """The toolsets that a plugin has brought."""
        return tuple(each for each in self.toolsets if getattr(each, "origin", HOST).plugin == plugin)

    def without_extra(self, kind: str, name: str, thing: Any = None) -> Catalogue:
        """A catalogue without one extra: only if it is that thing, where one is given."""
        if thing is not None and thing is not self.extras.get(kind, {}).get(name):
            return self
        rest = {key: value for key, value in self.extras.get(kind, {}).items() if key != name}
        owners = {key: value for key, value in self.owners.items() if key != f"{kind}:{name}"}
        return self.evolve(extras={**self.extras, kind: rest}, owners=owners)


EMPTY: Final = Catalogue()


class _ToolTable:
    """Mutable copy of the parts of a catalogue that registering a tool changes."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.tools, self.shadowed = dict(catalogue.tools), dict(catalogue.shadowed)
        self.held_back, self.problems = catalogue.held_back, catalogue.problems

    def put_into(self, catalogue: Catalogue) -> Catalogue:
        shadowed = {name: stack for name, stack in self.shadowed.items() if stack}
        own: Any = {"tools": self.tools, "shadowed": shadowed, "held_back": self.held_back}
        return catalogue.evolve(**own, problems=self.problems)

    def add(self, tool: Tool, policy: ConflictPolicy) -> Tool:
        """Registers one tool, or holds it back; returns it as registered."""
        earlier = self.tools.get(tool.name)
        if tool is earlier:
            tool = tool.evolve()  # a tool registered twice counts as two: each handle removes its own
        if earlier is None:
            self.tools[tool.name] = tool
            return tool
        plugin, held_by = tool.origin.plugin, earlier.origin.plugin
        if held_by is None and plugin is not None:
            # The host's shadows it; it is restored when that one is removed.
            self.shadowed[tool.name] = (tool, *self.shadowed.get(tool.name, ()))
            self.problems += (_name_conflict(tool, by=earlier),)
            return tool
        if plugin is None and held_by is not None:
            policy = "shadow"
        if policy == "prefix":
            from pegboard.tools.spec import mapped_name  # only for conflicts

            named = tool.with_spec(name=mapped_name(f"{plugin or 'host'}_{tool.name}"))
            # If the prefixed name is taken too, a plugin's tool is held back, and a host's is an error.
            return self.add(named, "error" if plugin is None else "keep")
        if policy == "error":
            raise DuplicateToolError(tool.name, held_by=str(earlier.origin), wanted_by=str(tool.origin))
        if policy == "keep":
            self.held_back += (tool,)
            self.problems += (_name_conflict(tool, by=earlier),)
            return tool
        is_anothers = earlier.origin != tool.origin if policy == "replace" else held_by is not None
        if is_anothers:
            self.problems += (_name_conflict(earlier, by=tool),)
        if policy == "shadow":
            self.shadowed[tool.name] = (*self.shadowed.get(tool.name, ()), earlier)
        self.tools[tool.name] = tool
        return tool

    def remove(self, tool: Tool) -> None:
        """Removes exactly this tool; what it shadowed is restored."""
        name, gone = tool.name, [tool]
        stack = [each for each in self.shadowed.get(name, ()) if each is not tool]
        if self.tools.get(name) is tool:
            del self.tools[name]
            if stack:
                self.tools[name] = stack.pop()
                gone.append(self.tools[name])
        self.shadowed[name] = tuple(stack)
        self.held_back = tuple(each for each in self.held_back if each is not tool)
        owners = [each.origin.plugin for each in gone]  # no longer held back
        self.problems = tuple(each for each in self.problems if each.tool != name or each.plugin not in owners)


def _name_conflict(tool: Tool, *, by: Tool) -> Problem:
    fix, plugin = "rename one of the two (name=...)", tool.origin.plugin
    if plugin is not None:
        fix = f'in pegboard.toml, [prefix] {plugin} = "{plugin}_" gives its tools a prefix'
    cause = f"tool {tool.name!r} is held back: {by.origin} has the name; {fix}"
    return Problem(cause, tool.name, plugin=plugin, distribution=tool.origin.distribution)
