"""The lock file: what it holds, and how it is read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from attrs import field, frozen

from pegboard import Tool, ToolSpec
from pegboard.config import distrust, is_trusted, may_bind, trust
from pegboard.errors import PegboardError
from pegboard.files import os_error_text, read_bounded, write_atomic
from pegboard.json import canonical_json, digest_of, is_object, strict_json
from pegboard.text import visible
from pegboard.tools import alike
from pegboard.typing import JsonObject

MOST_BYTES: Final = 16 * 1024 * 1024
FORMAT: Final = 1
_SHOWN: Final = 400  # characters of a fault
_MARKERS: Final = (b"<<<<<<< ", b"=======", b">>>>>>> ")
_ENTRY: Final = frozenset({"digest", "plugin", "distribution", "toolset", "declared_trust", "policy", "spec"})
_NAMES: Final = ("plugin", "distribution", "toolset")
_POLICY: Final = {"memoryLimit": "memory_limit"}


class LockError(PegboardError):
    """A lock can't be compared with the tools: it is missing, damaged or of a later format.

    Attributes:
        file: Its path.
        cause: What is wrong, and what to do.
    """

    def __init__(self, file: Path, cause: str) -> None:
        self.file, self.cause = file, cause
        super().__init__(f"{file}: {cause}")


@frozen(eq=False)
class Lock:
    """What a lock file holds: definitions as they were accepted.

    Attributes:
        tools: Entries of tools by name, as `entry_of` makes them.
        distributions: By name: `{"version": ..., "code": ...}`.
        toolsets: By name: `{"identity": ...}`, with `"code"` if it names some, and `"definitions"` if its tools are
            transformed: the digests of what it lists, by name.
    """

    tools: Mapping[str, JsonObject] = field(factory=dict[str, JsonObject])
    distributions: Mapping[str, JsonObject] = field(factory=dict[str, JsonObject])
    toolsets: Mapping[str, JsonObject] = field(factory=dict[str, JsonObject])

    @cached_property
    def look_alikes(self) -> Mapping[str, str]:
        """The names of the tools, by what they look like."""
        return {alike(name): name for name in self.tools}

    def to_text(self) -> str:
        """The content of the file: the same text for the same lock, on every Python."""
        tables = {"distributions": self.distributions, "toolsets": self.toolsets, "tools": self.tools}
        data: Any = json.loads(canonical_json({"format": FORMAT, **tables}))  # numbers as `1`, not `1.0`
        return json.dumps(data, indent=2, sort_keys=True) + "\n"

    def pins(self, toolset: str) -> Mapping[str, str] | None:
        """The digests of a toolset's tools by name, before transforms; `None` if the lock doesn't name the toolset."""
        if toolset not in self.toolsets:
            return None
        if (own := self.toolsets[toolset].get("definitions")) is not None:
            return own
        return {name: entry["digest"] for name, entry in self.tools.items() if entry["toolset"] == toolset}


def entry_of(tool: Tool, distribution: str | None) -> JsonObject:
    """A tool's entry in a lock.

    Args:
        tool: The tool.
        distribution: The key of its code among the lock's distributions, or `None`.
    """
    origin = tool.origin
    return {
        "digest": tool.spec.digest,
        "plugin": origin.plugin,
        "distribution": distribution,
        "toolset": origin.toolset,
        "declared_trust": origin.trusted,
        "policy": policy_of(tool),
        "spec": tool.spec.to_json(),
    }


def policy_of(tool: Tool) -> JsonObject:
    """Where calls of a tool run, within which limits, and a digest of values that the model doesn't see."""
    policy = {_POLICY.get(name, name): value for name, value in tool.policy.runs.items()}
    return {**policy, "presets": digest_of(dict(tool.presets))} if tool.presets else policy


def parse_lock(content: bytes, file: Path) -> Lock:
    """Reads the content of a lock file, which may come from anybody.

    Raises:
        LockError: It isn't a lock, is damaged, or has a later format.
    """
    if any(line.startswith(_MARKERS) for line in content.splitlines()):
        raise LockError(file, "it has merge markers; resolve the conflict, or run 'registry lock'")
    try:
        return _lock_in(strict_json(content), file)
    except LockError:
        raise
    except (ValueError, RecursionError, PegboardError) as error:
        cause = visible(f"{error!s:.300}")[:_SHOWN]
        raise LockError(file, f"it is damaged: {cause}; restore it, or run 'registry lock'") from None


def _lock_in(data: Any, file: Path) -> Lock:
    """The lock in JSON data; raises `LockError` for another format, and `ValueError` for a fault."""
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004  as every other fault
    table = cast("JsonObject", data)
    form: Any = table.get("format")
    if type(form) is not int or form != FORMAT:
        fix = "a later one: update pegboard-lock" if type(form) is int and form > FORMAT else "not a lock's"
        raise LockError(file, f"its format {form!r:.40} is {fix}; this one reads {FORMAT}")
    lock = Lock(*(_table(table, key) for key in ("tools", "distributions", "toolsets")))
    for name, entry in lock.tools.items():
        _check_entry(name, entry)
    for name, entry in lock.toolsets.items():
        _check_definitions(name, entry.get("definitions", {}))
    return lock


def _table(data: JsonObject, key: str) -> dict[str, JsonObject]:
    table: Any = data.get(key)
    if not isinstance(table, dict) or not all(isinstance(each, dict) for each in cast("JsonObject", table).values()):
        raise ValueError(f"{key} must be an object of objects")
    return cast("dict[str, JsonObject]", table)


def _check_entry(name: str, entry: JsonObject) -> None:
    """Raises `ValueError` for an entry that a lock can't have, or whose digest isn't that of its definition."""
    where = f"tools.{name:.80}"
    if entry.keys() != _ENTRY or not (is_object(entry["policy"]) and is_object(entry["spec"])):
        raise ValueError(f"{where} must have {', '.join(sorted(_ENTRY))}")
    if not all(isinstance(entry[key], str | None) for key in _NAMES) or type(entry["declared_trust"]) is not bool:
        raise ValueError(f"{where}: {', '.join(_NAMES)} must be texts or null, and declared_trust true or false")
    spec = ToolSpec.from_json(entry["spec"])
    if spec.name != name:
        raise ValueError(f"{where} has the definition of {spec.name!r}")
    if spec.digest != entry["digest"]:
        raise ValueError(f"{where}: its digest isn't that of its definition")


def _check_definitions(name: str, definitions: Any) -> None:
    if not (is_object(definitions) and all(isinstance(each, str) for each in definitions.values())):
        raise ValueError(f"toolsets.{name:.80}: definitions must be an object of texts")


def read_lock(file: Path) -> tuple[Lock, bytes]:
    """The lock in a file, and the file's content.

    Raises:
        LockError: There is no file, it is larger than 16 MiB, can't be read, or isn't a lock.
    """
    try:
        content = read_bounded(str(file), MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise LockError(file, "there is no such file; 'registry lock' writes it") from None
    except OSError as error:
        raise LockError(file, f"it can't be read: {os_error_text(error)}") from None
    return parse_lock(content, file), content


def stamp_of(file: Path) -> object:
    """What changes when a file does; `None` if it can't be examined."""
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino


def is_binding(file: Path, content: bytes) -> bool:
    """Whether what a lock lists counts as accepted: it isn't part of a project, or is trusted with this content."""
    return may_bind(file, content)


def write_lock(file: Path, lock: Lock, *, whole: bool) -> bool:
    """Writes a lock, and trusts it with its new content, unless it wasn't trusted before.

    Args:
        file: The lock file.
        lock: What it is to hold.
        whole: Whether the user has accepted all of it, so that it is trusted in any case.

    Returns:
        Whether it is trusted now.

    Raises:
        LockError: It can't be written.
    """
    try:
        before = read_bounded(str(file), MOST_BYTES)
    except OSError:
        before = None
    trusts = whole or before is None or may_bind(file, before)
    content = lock.to_text().encode("ascii")
    if len(content) > MOST_BYTES:
        raise LockError(file, f"it would be larger than {MOST_BYTES:,} bytes")
    try:
        write_atomic(str(file), content)
    except OSError as error:
        raise LockError(file, f"it can't be written: {os_error_text(error)}") from None
    if trusts and not may_bind(file, content):
        trust(file)
    elif not trusts and is_trusted(file, content):
        distrust(file)
    return trusts
