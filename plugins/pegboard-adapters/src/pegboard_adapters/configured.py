"""Toolsets by settings: `[plugins.adapters.langchain] tools = ["module:name", ...]`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

from attrs import frozen

from pegboard import Problem, ReadonlyContext, Tool, Toolset, ToolsetBase, ToolsetResult
from pegboard.errors import cause_of, near_or_known
from pegboard.schema.converter import read_table
from pegboard.text import visible
from pegboard.threads import run_in_thread
from pegboard_adapters.peers import PEERS, check_peer


@frozen
class PeerSettings:
    """The table of one framework.

    Attributes:
        tools: The places of its tools, each `"module:name"`, or a module: what `from_...` of its adapter takes.
        trust: The names of tools and packages that run unasked where they declare no harm.
    """

    tools: tuple[str, ...]
    trust: tuple[str, ...] = ()


def toolsets_from(settings: Mapping[str, Any]) -> list[Toolset]:
    """A toolset for each table of the settings; a table that is wrong is a problem of its toolset."""
    return [ConfiguredToolset(name, table) for name, table in settings.items()]


class ConfiguredToolset(ToolsetBase):
    """Toolset with the tools of one framework that the settings name.

    Args:
        name: The framework's name, the toolset's too: the name of an extra of this package.
        table: Its settings.
    """

    def __init__(self, name: str, table: object) -> None:
        self.name = name
        self.publishes: Sequence[str] = ()
        self._table = table
        self._toolsets: dict[str, Toolset | Problem] = {}

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The tools of all places; a place that can't be imported is a problem.

        Raises:
            ValueError: The settings are wrong.
            PeerError: The framework isn't installed, or is too old.
        """
        table = f"plugins.adapters.{self.name}"
        if self.name not in PEERS:
            raise ValueError(f"{table}: there is no adapter of this name.{near_or_known(self.name, PEERS)}")
        settings = read_table(PeerSettings, self._table, table)
        check_peer(self.name)
        tools: list[Tool] = []
        problems: list[Problem] = []
        for place in settings.tools:
            if place not in self._toolsets:
                loaded = await run_in_thread(self._load, place, settings.trust)
                self._toolsets.setdefault(place, loaded)  # another listing may have loaded it, too
            toolset = self._toolsets[place]
            if isinstance(toolset, Problem):
                problems.append(toolset)
                continue
            try:
                result = await toolset.tools(context)
            except Exception as error:  # noqa: BLE001  one place doesn't affect the others
                problems.append(Problem(f"{place}: {visible(cause_of(error))}", error=error))
                continue
            tools += result
            problems += getattr(result, "problems", ())
        return ToolsetResult(tools, problems)

    async def close(self) -> None:
        """Closes the toolsets of all places."""
        for toolset in self._toolsets.values():
            if (close := getattr(toolset, "close", None)) is not None:
                await close()

    def _load(self, place: str, trust: Collection[str]) -> Toolset | Problem:
        module = self.name.replace("-", "_")
        convert = resolve_name(f"pegboard_adapters.{module}:from_{module}")
        try:
            return convert(_value_of(place), name=self.name, trust=trust)
        except (Exception, SystemExit) as error:  # noqa: BLE001  as above
            return Problem(f"{place}: {visible(cause_of(error))}", error=error)


def _value_of(place: str) -> object:
    """What a place names: `"module:name"`, or the module itself without a name.

    Raises:
        ModuleNotFoundError: The module isn't there, or imports another that isn't; the text says which of both.
    """
    module, colon, _ = place.partition(":")
    try:
        return resolve_name(place if colon else f"{place}:")  # which hides why a module can't be imported without it
    except ModuleNotFoundError as error:
        if error.name is None or f"{module}.".startswith(f"{error.name}."):
            text = f"{error}: install its package, or put its folder on PYTHONPATH"
        else:
            text = f"{module} imports {error.name}, which isn't installed"
        raise ModuleNotFoundError(text, name=error.name) from error
