"""What a lock says of one toolset, for toolsets of servers, and how they write to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from attrs import evolve

from pegboard import Config, Tool
from pegboard.config import trust_file
from pegboard.errors import PegboardError
from pegboard.text import visible
from pegboard_lock.check import Comparison, identity_digest
from pegboard_lock.lock_file import Lock, LockError, entry_of, is_binding, read_lock, stamp_of, write_lock
from pegboard_lock.settings import base_of, lock_path, read_settings

_read: Final[dict[Path, tuple[object, Lock | None]]] = {}  # by file: its stamp, and the lock if it binds
_MOST_READ: Final = 16
_checked: Final[WeakValueDictionary[int, Config]] = WeakValueDictionary()


def let_pin(config: Config | None) -> None:
    """Lets the lock in effect accept tools of servers: what a registry with this configuration offers is checked."""
    if config is not None:
        _checked[id(config)] = config


def pins_of(config: Config, toolset: str, identity: Any) -> Mapping[str, str] | None:
    """The digests of the definitions of a toolset's tools in the lock in effect, by name.

    `None` if there is no lock, it can't be used, isn't trusted, doesn't name the toolset, or no registry with this
    configuration checks its tools by it. Empty if the lock has this name for a toolset of another identity.
    """
    if _checked.get(id(config)) is not config:
        return None
    try:
        file = lock_path(config, read_settings(config))
    except PegboardError:
        return None
    stamp = stamp_of(file), stamp_of(trust_file())
    if file not in _read or _read[file][0] != stamp:
        if len(_read) >= _MOST_READ:
            _read.clear()
        _read[file] = stamp, _binding_lock(file)
    lock = _read[file][1]
    pins = None if lock is None else lock.pins(toolset)
    if lock is None or pins is None:
        return None
    is_same = lock.toolsets[toolset].get("identity") == identity_digest(identity, base_of(config, file))
    return pins if is_same else {}


def accept_toolset(config: Config, toolset: str, identity: Any, tools: Sequence[Tool]) -> Path | None:
    """Writes the tools of a toolset to the lock in effect, in place of those that it has of it.

    Of one whose tools are locked as a plugin transforms them, only what is accepted of it is written.

    Args:
        config: The configuration.
        toolset: The toolset's name.
        identity: Its identity, or `None`.
        tools: Its tools, with the origin that they have in a registry.

    Returns:
        The file; `None` if there is no lock, or it has all of this already.

    Raises:
        LockError: There is one that is damaged, has a tool of this name as another's, or can't be written.
        ConfigError: `[lock]` is wrong.
    """
    file = lock_path(config, read_settings(config))
    if not file.exists():
        return None
    lock = read_lock(file)[0]
    comparison = Comparison(lock, base_of(config, file))
    own = {tool.name: entry_of(tool, tool.origin.distribution) for tool in tools}
    entry = comparison.entry_of_toolset(toolset, identity)
    if "definitions" in lock.toolsets.get(toolset, ()):  # its tools are locked as they are transformed
        entry["definitions"] = {name: each["digest"] for name, each in own.items()}
        own = {name: each for name, each in lock.tools.items() if each["toolset"] == toolset}
    others = {name: entry for name, entry in lock.tools.items() if entry["toolset"] != toolset}
    if both := sorted(own.keys() & others.keys()):
        owner = others[both[0]]["toolset"] or others[both[0]]["plugin"] or "the host"
        raise LockError(file, f"tool {visible(both[0])!r} is locked as one of {visible(owner)}; rename or exclude it")
    distributions = dict(lock.distributions)
    for name in {tool.origin.distribution for tool in tools} - {None} - distributions.keys():
        distributions[name or ""] = comparison.codes.entry(name or "")
    toolsets = {**lock.toolsets, toolset: entry}
    new = evolve(lock, tools={**others, **own}, distributions=distributions, toolsets=toolsets)
    if new.to_text() == lock.to_text():
        return None
    write_lock(file, new, whole=False)
    return file


def _binding_lock(file: Path) -> Lock | None:
    try:
        lock, content = read_lock(file)
    except LockError:
        return None
    return lock if is_binding(file, content) else None
