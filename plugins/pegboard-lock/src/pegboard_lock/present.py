"""What is there now, for the commands; and locks made of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from pegboard import Problem, ReadonlyContext, ResolvedTools, Tool
from pegboard.threads import run_in_thread
from pegboard.toolsets import identity_of, resolve_tools
from pegboard.typing import JsonObject
from pegboard_lock.check import Comparison, Present
from pegboard_lock.code import join_code
from pegboard_lock.lock_file import Lock, entry_of

if TYPE_CHECKING:
    from pegboard.cli import Session


@frozen(eq=False)
class Found:
    """What a command has found.

    Attributes:
        present: The tools and toolsets.
        failures: Why toolsets gave no answer.
        unqueried: The plugins whose toolsets weren't queried.
    """

    present: Present
    failures: tuple[str, ...] = ()
    unqueried: tuple[str, ...] = ()


def find_static(session: Session, lock: Lock) -> Found:
    """The tools that are known without importing a plugin."""
    identities: dict[str, Any] = {}
    for each in session.registry.contributions.catalogue.published.values():
        given = {name for tool in each.tools if (name := tool.origin.toolset) is not None}
        if not each.failed:  # else it isn't known of a toolset without tools whether it has some
            given |= each.identities.keys()
        identities |= {name: each.identities.get(name) for name in given}
    unqueried, failures = tuple(session.unqueried()), _failures_of_plugins(session, lock, identities.keys())
    silent = None if unqueried else frozenset(failures)
    present = Present(session.static_tools(), identities, frozenset(identities), silent)
    return Found(present, () if unqueried else tuple(failures.values()), unqueried)


def _failures_of_plugins(session: Session, lock: Lock, names: Collection[str]) -> dict[str, str]:
    """Why plugins don't give toolsets that the lock has of them, by the toolset's name."""
    plugins = {each.name: each for each in session.registry.plugins()}
    failures: dict[str, str] = {}
    for entry in lock.tools.values():
        toolset, plugin = entry["toolset"], plugins.get(entry["plugin"] or "")
        if toolset and toolset not in names and plugin is not None and plugin.status in ("quarantined", "partial"):
            failures[toolset] = f"toolset {toolset!r}: plugin {plugin.name!r} is {plugin.status}: {plugin.cause}"
    return failures


class _Source:
    """A registered toolset: its tools are kept as they are before transforms, if `whole` with what it holds back."""

    def __init__(self, inner: Any, whole: bool) -> None:
        self.inner = inner
        self.name: str = inner.name
        self._list = inner.all_tools if whole else inner.tools
        self.given: Sequence[Tool] = ()

    @property
    def identity(self) -> Any:
        return self.inner.identity

    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        self.given = await self._list(context)
        return self.given


def find_live(session: Session, lock: Lock, *, whole: bool = True) -> Found:
    """The tools of now, after querying every toolset; `whole`: also those that toolsets hold back themselves."""
    registry = session.registry
    registry.contributions.is_checked()  # so that servers know that a lock is in effect

    async def resolve() -> ResolvedTools:
        for load in registry.contributions.unloaded("register_toolsets", "register_transforms"):
            await run_in_thread(load)
        catalogue = registry.contributions.catalogue
        limit = registry.limits.toolset_timeout
        own: Any = {"conflicting": catalogue.conflicting, "toolset_timeout": limit, "transforms": catalogue.transforms}
        return await resolve_tools(catalogue.ordered, [_Source(each, whole) for each in catalogue.toolsets], **own)

    resolved = session.run(resolve)
    sources: Any = resolved.toolsets if registry.contributions.catalogue.has_transforms else ()
    definitions = {each.name: {tool.name: tool.spec.digest for tool in each.given} for each in sources}
    failed = [each for each in (*registry.problems(), *resolved.problems) if _is_of_toolset(each)]
    names = {toolset.name for toolset in resolved.toolsets}
    silent = {name for name in names if any(each.subject == f"toolset {name!r}" for each in failed)}
    failures = _failures_of_plugins(session, lock, names)
    identities = {each.name: identity_of(each) for each in resolved.toolsets}
    known, unknown = frozenset(names - silent), frozenset(silent | failures.keys())
    present = Present(resolved.tools, identities, known, unknown, definitions)
    return Found(present, (*map(str, failed), *failures.values()))


def _is_of_toolset(problem: Problem) -> bool:
    return not problem.note and problem.tool is None and (problem.subject or "").startswith("toolset ")


def find_known(session: Session, lock: Lock) -> Found:
    """The tools that are known without asking servers; where tools are transformed, toolsets are queried for that."""
    return find_live(session, lock, whole=False) if session.is_live else find_static(session, lock)


def find_for(session: Session, lock: Lock) -> Found:
    """The tools to compare with a lock: toolsets are queried with `--live`, or if it has some that published none."""
    found = None if session.options.live else find_static(session, lock)
    toolsets = {entry["toolset"] for entry in lock.tools.values()} | lock.toolsets.keys()
    if found is None or (found.unqueried and toolsets - {None} - found.present.toolsets):
        return find_live(session, lock)
    return find_known(session, lock)


def lock_of(comparison: Comparison, present: Present) -> Lock:
    """A lock with everything that is there; of toolsets and files that aren't known now, it keeps what it had."""
    before, missing = comparison.lock, comparison.missing(present)
    tools = {tool.name: entry_of(tool, comparison.codes.name_of(tool)) for tool in present.tools}
    used = {entry["distribution"] for entry in tools.values()}
    kept = {name: each for name, each in before.tools.items() if name not in tools and name not in missing}
    codes = {each["distribution"] for each in kept.values()} & before.distributions.keys()
    here = {name: comparison.entry_of_toolset(name, present.identities.get(name)) for name in present.toolsets}
    for name in here.keys() & present.definitions.keys():
        here[name]["definitions"] = dict(present.definitions[name])
    toolsets = {name: entry for name, entry in before.toolsets.items() if not present.knows(name)}
    return Lock(
        {**kept, **tools},
        {**{name: before.distributions[name] for name in codes}, **distributions_of(comparison, used)},
        {**toolsets, **here},
    )


def distributions_of(comparison: Comparison, names: Iterable[str | None]) -> Mapping[str, JsonObject]:
    """The entries of distributions and files, with what the lock knows of other wheel tags."""
    entries: dict[str, JsonObject] = {}
    for name in sorted(name for name in names if name is not None):
        entry = comparison.codes.entry(name)
        locked: Any = comparison.lock.distributions.get(name, {}).get("code")
        entries[name] = {**entry, "code": join_code(locked, entry["code"])}
    return entries


def take_names(comparison: Comparison, present: Present, names: Iterable[str]) -> Lock:
    """The lock with the present entries of tools, distributions and toolsets of these names, and no other change.

    Raises:
        LookupError: A name is none of those; its argument is the name.
    """
    lock, whole = comparison.lock, lock_of(comparison, present)
    tools, distributions, toolsets = dict(lock.tools), dict(lock.distributions), dict(lock.toolsets)
    by_name = {tool.name: tool for tool in present.tools}
    for name in names:
        if name in whole.tools or name in lock.tools:
            _take(name, whole.tools, tools)
            if name in by_name:
                _pin(by_name[name], present, toolsets)
            if (entry := tools.get(name)) is not None:
                for key, table, own in (
                    ("distribution", whole.distributions, distributions),
                    ("toolset", whole.toolsets, toolsets),
                ):
                    if entry[key] is not None and entry[key] in table:
                        own.setdefault(entry[key], table[entry[key]])
        elif name in whole.distributions or name in lock.distributions:
            _take(name, distributions_of(comparison, whole.distributions.keys() & {name}), distributions)
        elif name in whole.toolsets or name in lock.toolsets:
            _take(name, whole.toolsets, toolsets)
        else:
            raise LookupError(name)
    return evolve(lock, tools=tools, distributions=distributions, toolsets=toolsets)


def _take(name: str, source: Mapping[str, JsonObject], target: dict[str, JsonObject]) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _pin(tool: Tool, present: Present, toolsets: dict[str, JsonObject]) -> None:
    """Takes what a toolset lists as a tool, where it is locked as a plugin transforms it."""
    toolset = tool.origin.toolset or ""
    own, entry = present.definitions.get(toolset, {}), toolsets.get(toolset, {})
    if "definitions" in entry:
        given = {name: own[name] for name in (tool.name, *tool.former_names) if name in own}
        toolsets[toolset] = {**entry, "definitions": {**entry["definitions"], **given}}
