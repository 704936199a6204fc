"""Tool definitions as a server lists them, their conversion to tools, and the file of the accepted ones."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any, Final, cast

from attrs import define, field, frozen

from pegboard import Origin, Policy, Problem, Tool, ToolAnnotations, ToolContext, ToolSpec
from pegboard.callbacks import CallableKind
from pegboard.errors import PegboardError
from pegboard.files import read_private, user_folder, write_private
from pegboard.json import digest_of
from pegboard.text import visible
from pegboard.tools import HOST, Handler, mapped_name
from pegboard.toolsets import error_text
from pegboard.typing import JsonObject
from pegboard_mcp.differences import differences
from pegboard_mcp.settings import ServerSettings, is_among

MOST_DEFINITION: Final = 500_000
"""Characters of one tool's definition."""

MOST_INSTRUCTIONS: Final = 20_000
_MOST_FILE: Final = 128 * 1024 * 1024
_FORMAT: Final = 1
_TEXTS: Final = ("instructions", "serverInfo")
_FACTS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons")
_UNTRUSTED: Final = Origin(trusted=False)


@frozen(eq=False)
class Definition:
    """A tool's definition as its server wrote it.

    Attributes:
        facts: Its members that are used, by MCP's names.
    """

    facts: JsonObject

    @property
    def name(self) -> str:
        """The server's name for the tool."""
        return self.facts["name"]

    @cached_property
    def digest(self) -> str:
        """`"sha256:..."` over all facts."""
        return digest_of(self.facts)

    def lines(self) -> list[str]:
        """The definition as lines of JSON, with invisible characters escaped."""
        return [visible(line) for line in json.dumps(self.facts, indent=2, ensure_ascii=False).splitlines()]


@define(eq=False)
class Definitions:
    """The definitions of a server's tools.

    Attributes:
        tools: By the server's own names.
        problems: What is wrong with others, each with the tool's name if it has one.
        instructions: The server's instructions for the model.
        server: The name in its `serverInfo`; `""` if it isn't known.
        is_unseen: Whether they were accepted on first use, without a review by the user.
    """

    tools: dict[str, Definition] = field(factory=dict[str, Definition])
    problems: list[tuple[str | None, str]] = field(factory=list[tuple[str | None, str]])
    instructions: str = ""
    server: str = ""
    is_unseen: bool = False

    @classmethod
    def of(cls, listed: Iterable[Any], most: int, instructions: str = "", server: str = "") -> Definitions:
        """Reads a server's list; an invalid tool is left out, with a problem."""
        definitions = cls(instructions=instructions[:MOST_INSTRUCTIONS], server=server)
        for number, each in enumerate(listed):
            if number == most:
                text = f"it lists more than {most:,} tools (most_tools); the others are left out"
                definitions.problems.append((None, text))
                break
            definitions._add(number, each)
        return definitions

    def _add(self, number: int, listed: Any) -> None:
        given = cast("JsonObject", listed) if isinstance(listed, dict) else {}
        name = given.get("name")
        if not isinstance(name, str) or not name:
            self.problems.append((None, f"tool {number} of its list has no name"))
            return
        facts = {key: value for key in _FACTS if (value := given.get(key)) is not None}
        try:
            size = len(json.dumps(facts))
        except (ValueError, RecursionError) as error:
            self.problems.append((name, f"left out, as it can't be written as JSON: {error}"))
            return
        if size > MOST_DEFINITION:
            text = f"left out, as its definition has {size:,} characters; at most {MOST_DEFINITION:,} are allowed"
            self.problems.append((name, text))
        elif name in self.tools:
            if facts != self.tools[name].facts:
                self.problems.append((name, "listed twice with different definitions; the first is used"))
        else:
            self.tools[name] = Definition(facts)

    def changes_to(self, other: Definitions) -> Changes:
        """The differences of `other` from this."""
        return Changes(
            tuple(name for name in other.tools if name not in self.tools),
            tuple(name for name in self.tools if name not in other.tools),
            {
                name: differences(own.facts, new.facts)
                for name, own in self.tools.items()
                if (new := other.tools.get(name)) is not None and new.digest != own.digest
            },
            self.instructions != other.instructions,
            (self.server, other.server) if self.server and other.server and self.server != other.server else None,
        )

    def lines(self) -> Iterable[str]:
        """The instructions and definitions as lines."""
        if self.instructions:
            yield from ("instructions:", *visible(self.instructions, newlines=True).splitlines())
        for name in sorted(self.tools):
            yield from (f"{visible(name)}:", *self.tools[name].lines())

    def diff(self, other: Definitions) -> Iterable[str]:
        """The lines of a unified diff, tool by tool."""
        changes = self.changes_to(other)
        if changes.server is not None:
            yield from (f"{sign}serverInfo: {visible(name)}" for sign, name in zip("-+", changes.server, strict=True))
        if changes.instructions:
            old, new = (visible(each.instructions, newlines=True).splitlines() for each in (self, other))
            yield from difflib.unified_diff(old, new, "instructions accepted", "instructions now", lineterm="")
        for name in sorted({*changes.added, *changes.removed, *changes.changed}):
            tools = self.tools.get(name), other.tools.get(name)
            old, new = ([] if each is None else each.lines() for each in tools)
            label = visible(name)
            yield from difflib.unified_diff(old, new, f"{label} accepted", f"{label} now", lineterm="")


@frozen
class Changes:
    """Changes of a server since its tools were accepted.

    Attributes:
        added: New tools, by name.
        removed: Tools that are not listed any more.
        changed: Tools whose definition changed, and how.
        instructions: Whether the instructions changed.
        server: The name in its `serverInfo` before and now, if it changed: then all its tools are held back.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: Mapping[str, str] = field(factory=dict[str, str])
    instructions: bool = False
    server: tuple[str, str] | None = None

    def causes(self) -> Iterable[tuple[str | None, str]]:
        """What is held back and why, each with the tool's name if it is about one."""
        if self.server is not None:
            before, now = (repr(visible(name)[:80]) for name in self.server)
            yield (
                None,
                f"all its tools are held back: it was the server {before} when it was accepted, and is {now} now",
            )
        if self.instructions:
            yield None, "its instructions are held back: they have changed since they were accepted"
        for names, text in (
            (self.changed, "is held back: it has changed since it was accepted"),
            (self.added, "is held back: it is new since the server's tools were accepted"),
            (self.removed, "is gone: the server doesn't list it any more"),
        ):
            for name in names:
                how = self.changed.get(name)
                yield name, f"tool {visible(name)[:80]!r} {text}{f' ({how})' if how else ''}"


@frozen(eq=False)
class Accepted:
    """File in the user's state folder with the accepted definitions of a server.

    Attributes:
        path: The path of the file. A server that is reached in another way has another file.
        reached_by: `ServerSettings.reached_by` of the server; `None` if it isn't known.
    """

    path: str
    reached_by: JsonObject | None = None

    @classmethod
    def of(cls, name: str, settings: ServerSettings) -> Accepted:
        """The file of a server."""
        reached_by = settings.reached_by
        file = f"{name}-{digest_of(reached_by).partition(':')[2][:16]}.json"
        return cls(os.path.join(user_folder("state"), "mcp", file), reached_by)  # noqa: PTH118  a text is wanted

    def read(self) -> Definitions | None:
        """The accepted definitions, or `None`.

        No tools, with a problem, if the file is unreadable or not private, or if they were accepted of a server of
        this name that is reached in another way.
        """
        try:
            data: Any = json.loads(read_private(self.path, _MOST_FILE))
            before: Any = data.get("reachedBy")
            is_other = self.reached_by is not None and before not in (None, self.reached_by)
            if data["format"] == _FORMAT and not is_other:
                read = Definitions.of(data["tools"], len(data["tools"]), *(data.get(key) or "" for key in _TEXTS))
                read.is_unseen = data.get("unseen") is True
                return read
        except FileNotFoundError:
            if not self._has_others():
                return None
            is_other = True
        except (OSError, ValueError, TypeError, LookupError, RecursionError, AttributeError):
            is_other = False
        if is_other:
            text = "its tools are held back: the command, URL, or names of variables or headers by which it is reached"
            text += " have changed since they were accepted, or were accepted for another server of this name"
            return Definitions(problems=[(None, text)])
        text = f"what was accepted can't be read, or isn't private ({self.path}): accept it anew"
        return Definitions(problems=[(None, text)])

    def _has_others(self) -> bool:
        """Whether tools were accepted of a server of this name that was reached in another way."""
        folder, file = os.path.split(self.path)
        name, _, own = file.rpartition("-")
        others = re.compile(rf"{re.escape(name)}-[0-9a-f]{{16}}\.json")
        try:
            return bool(others.fullmatch(f"{name}-{own}")) and any(map(others.fullmatch, os.listdir(folder)))  # noqa: PTH208
        except OSError:
            return False

    def write(self, name: str, definitions: Definitions) -> None:
        """Stores the accepted definitions.

        Raises:
            OSError: The file can't be written.
        """
        tools = [each.facts for each in definitions.tools.values()]
        facts = {"format": _FORMAT, "server": name, "unseen": definitions.is_unseen, "reachedBy": self.reached_by}
        texts = dict(zip(_TEXTS, (definitions.instructions, definitions.server), strict=True))
        write_private(self.path, json.dumps({**facts, **texts, "tools": tools}, indent=1).encode())


Call = Callable[[str, Mapping[str, Any], ToolContext], Awaitable[Any]]
"""Calls the server's tool of a name with arguments."""


def tools_of(
    server: str, settings: ServerSettings, definitions: Iterable[Definition], call: Call
) -> tuple[list[Tool], list[Problem]]:
    """The offered tools of these definitions, and the problems of refused ones."""
    tools: list[Tool] = []
    problems: list[Problem] = []
    for definition in definitions:
        if settings.offers(definition.name):
            try:
                tools.append(_tool(server, settings, definition, call))
            except (PegboardError, ValueError, TypeError, RecursionError) as error:
                text = f"tool {visible(definition.name)[:80]!r} is refused: {error_text(error)}"
                problems.append(Problem(text, definition.name, error=error))
    return tools, problems


def object_schema(written: Any) -> JsonObject:
    """A tool's schema as its server wrote it, with `"type": "object"`, which many leave out at the root.

    Raises:
        ValueError: It is not a schema, or accepts no object.
    """
    if written is None:
        return {"type": "object"}
    if not isinstance(written, dict) or not _accepts_objects(written):
        raise ValueError("its inputSchema or outputSchema is not the JSON Schema of an object")
    return {**cast("JsonObject", written), "type": "object"}


def _accepts_objects(schema: Any) -> bool:
    """Whether a schema may accept an object, by its `type` and by the schemas of which it is composed."""
    if not isinstance(schema, dict):
        return schema is True
    given = cast("JsonObject", schema)
    kind = given.get("type")
    if kind is not None and kind != "object" and not (isinstance(kind, list) and "object" in kind):
        return False
    return all(
        some(_accepts_objects(each) for each in given[key])
        for key, some in (("anyOf", any), ("oneOf", any), ("allOf", all))
        if isinstance(given.get(key), list)
    )


def _tool(server: str, settings: ServerSettings, definition: Definition, call: Call) -> Tool:
    """The tool of a definition; its schemas are checked as those of every toolset's tools are."""
    facts, own = definition.facts, definition.name
    name = mapped_name(settings.with_prefix(server, settings.rename.get(own, own)))
    annotations = facts.get("annotations", {})
    for key in ("title", "description"):
        if not isinstance(facts.get(key, ""), str):
            raise ValueError(f"{key} isn't a text")  # noqa: TRY004  data from outside
    schema = object_schema(facts.get("inputSchema"))
    output = object_schema(written) if (written := facts.get("outputSchema")) else None
    if "x-mcp-header" in json.dumps(schema):  # else listing loads no SDK
        from mcp.shared.inbound import find_invalid_x_mcp_header

        if (fault := find_invalid_x_mcp_header(schema)) is not None:
            raise ValueError(fault)
    if not isinstance(annotations, Mapping):
        raise ValueError("annotations isn't an object")  # noqa: TRY004  likewise
    hints = cast("Mapping[str, Any]", annotations)
    title: Any = facts.get("title") or hints.get("title")
    icons = facts.get("icons")
    spec = ToolSpec(
        name,
        facts.get("description", ""),
        schema,
        output,
        title=title if isinstance(title, str) else None,
        annotations=ToolAnnotations.from_json(hints),
        requires_confirmation=is_among(own, settings.confirm),
        original_name=None if name == own else own,
        provider_options={"mcp": {"icons": icons}} if isinstance(icons, list) else {},
    )
    handler = Handler(partial(call, own), lambda: _bind, CallableKind.ASYNC)
    return Tool(
        spec,
        handler,
        HOST if settings.trusted else _UNTRUSTED,
        Policy(timeout=settings.most_timeout or settings.timeout),
    )


def _bind(context: ToolContext, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (arguments, context), {}
