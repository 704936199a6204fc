"""`Listing`: what the warm command prints, as ready texts."""

from __future__ import annotations

from collections.abc import Collection

from attrs import frozen


@frozen
class ListedTool:
    """One tool's texts; hidden characters are visible in all of them.

    Attributes:
        name: Its name on the board.
        plugin: Its plugin's name; `""` for the host's.
        summary: One line without tabs.
        listed: Its object in `list --json`, without line ends.
        schema: Its input schema, as it stands in `listed`.
        more: What `show --json` says beyond `listed`: members, each after a comma; `""` for nothing.
        shown: What `show` prints.
    """

    name: str
    plugin: str
    summary: str
    listed: str
    schema: str
    more: str
    shown: str

    @property
    def line(self) -> str:
        """Its line in a plain list: name, plugin and summary, with tabs between."""
        return f"{self.name}\t{self.plugin}\t{self.summary}\n"

    @property
    def full(self) -> str:
        """What `show --json` prints."""
        return full_json(self.listed, self.more)


@frozen
class Listing:
    """All that there is to print.

    Attributes:
        tools: In the board's order, by name.
        problems: The JSON array that stands as `problems` in `list --json`.
        notice: What `list` says on standard error; `""` for nothing, else with a line end.
        version: What `--version` prints, without a line end.
        commands: The names of all commands and a line of help for each, as completion offers them.
    """

    tools: tuple[ListedTool, ...]
    problems: str = "[]"
    notice: str = ""
    version: str = ""
    commands: tuple[tuple[str, str], ...] = ()

    def json(self, names: Collection[str] | None = None) -> str:
        """What `list --json` prints, of all tools or of some; a tool a line."""
        chosen = [tool.listed for tool in self.tools if names is None or tool.name in names]
        return list_json(chosen, self.problems)

    def plain(self, names: Collection[str] | None = None) -> str:
        """What `list` prints where nobody looks at a terminal; a tool a line."""
        return "".join(tool.line for tool in self.tools if names is None or tool.name in names)


def list_json(listed: Collection[str], problems: str) -> str:
    """`list --json` of ready objects: a tool a line, so that lines can be searched and compared."""
    inside = "\n" + ",\n".join(listed) + "\n" if listed else ""
    return f'{{"tools":[{inside}],"problems":{problems}}}\n'


def full_json(listed: str, more: str) -> str:
    """`show --json` of a ready object and what comes on top of it."""
    return f"{listed[:-1]}{more}}}\n"
