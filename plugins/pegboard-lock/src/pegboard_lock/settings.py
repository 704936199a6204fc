"""Settings of the lock, the table `[lock]`, and the classes of drift."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import fields, frozen

from pegboard import Config
from pegboard.errors import ConfigError
from pegboard.schema.converter import read_table

Action: TypeAlias = Literal["hold", "ask", "warn"]
"""What happens to a tool that has drifted: it isn't offered, each call asks, or there is only a problem."""

DriftClass: TypeAlias = Literal[
    "hidden",
    "reach",
    "incompatible",
    "widened",
    "wording",
    "code",
    "added",
    "narrowed",
    "output",
    "policy",
    "version",
    "removed",
]
CLASSES: Final[tuple[DriftClass, ...]] = get_args(DriftClass)
"""The classes of drift, the gravest first."""

LOCK_NAME: Final = "pegboard.lock"


@frozen(kw_only=True)
class LockSettings:
    """Settings of a lock: where it is, and the action for each class of drift.

    Attributes:
        file: The lock file; by default `pegboard.lock` beside the `pegboard.toml` in effect, or in the working folder.
        required: Whether no tool is offered if the tools can't be checked.
        bind_grants: Whether what users have allowed holds only while a tool's code stays the same.
        hidden: More invisible characters, or a name that looks like a locked one.
        reach: Another plugin, server, place of execution, permission, or other hints.
        incompatible: Other arguments, in both ways or without a value that proves one.
        widened: More arguments are accepted.
        wording: Other texts for the model.
        code: Other code under the same definition.
        added: A tool that the lock doesn't have.
        narrowed: Fewer arguments are accepted.
        output: Another schema of the result.
        policy: Other limits.
        version: Another version of a distribution.
        removed: A tool of the lock that isn't there.
    """

    file: str | None = None
    required: bool = False
    bind_grants: bool = False
    hidden: Action = "hold"
    reach: Action = "hold"
    incompatible: Action = "hold"
    widened: Action = "hold"
    wording: Action = "hold"
    code: Action = "hold"
    added: Action = "hold"
    narrowed: Action = "warn"
    output: Action = "warn"
    policy: Action = "warn"
    version: Action = "warn"
    removed: Action = "warn"

    def action(self, kind: DriftClass) -> Action:
        """What happens to a tool with a drift of this class."""
        return getattr(self, kind)

    @property
    def failing(self) -> tuple[DriftClass, ...]:
        """The classes that aren't only reported."""
        return tuple(kind for kind in CLASSES if self.action(kind) != "warn")


assert set(CLASSES) < {each.name for each in fields(LockSettings)}


def read_settings(config: Config | None) -> LockSettings:
    """The settings in a configuration.

    Raises:
        ConfigError: A key or a value in `[lock]` is wrong.
    """
    table: Mapping[str, Any] = {} if config is None else config.lock
    try:
        return read_table(LockSettings, table, "lock")
    except ValueError as error:
        files = () if config is None else config.files
        raise ConfigError(str(error), file=" or ".join(files) or "configuration", key="lock") from None


def lock_path(config: Config | None, settings: LockSettings) -> Path:
    """The path of the lock file, absolute; it need not exist."""
    return _place_of(config, settings).absolute()


def _place_of(config: Config | None, settings: LockSettings) -> Path:
    """As `lock_path`, but relative to the working folder if that is where the lock is."""
    if settings.file is not None:
        return Path(settings.file).expanduser()
    folder = Path(config.files[-1]).parent if config is not None and config.files else Path()
    return folder / LOCK_NAME


def places_of(config: Config | None, settings: LockSettings) -> tuple[Path, ...]:
    """Where locks that hold tools back may be: each, unless one before it is trusted.

    The one in effect comes first, then those beside the other trusted `pegboard.toml`, the user's own last.
    """
    files = () if config is None else [file for file in reversed(config.files[:-1]) if file not in config.narrowing]
    return tuple(dict.fromkeys((_place_of(config, settings), *(Path(file).parent / LOCK_NAME for file in files))))


def base_of(config: Config | None, file: Path) -> Path:
    """The folder that a lock's paths are relative to: of the nearest `pegboard.toml` in effect above it, or its own."""
    folders = () if config is None else [Path(each).parent for each in config.files]
    return next((folder for folder in reversed(folders) if file.is_relative_to(folder)), file.parent)
