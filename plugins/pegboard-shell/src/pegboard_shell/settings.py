"""Settings of the shell tools, and the environment and folder of commands."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import translate
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from attrs import frozen

from pegboard import ToolError
from pegboard.schema.converter import Allowed

Level: TypeAlias = Literal["workspace-write", "read-only", "none"]
"""What commands may change: files below the root, nothing, or anything that the user may."""

INHERITED: Final = (
    *("HOME", "LOGNAME", "USER", "PATH", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "VIRTUAL_ENV", "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME"),
)
"""The environment variables that commands inherit by default."""

_PRESET: Final = {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"} | {
    "GIT_EDITOR": ":",  # `git rebase --continue` keeps the message, and no editor waits for input
    # Git would run programs from the settings of a bare repository, for which files written by the model could pass.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
MOST_SECONDS: Final = 3_600  # of any time limit that the settings or a call may name


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_environment(value: Mapping[Any, Any]) -> bool:
    return all(
        _is_text(name) and "=" not in name and isinstance(text, str) and "\0" not in text
        for name, text in value.items()
    )


_Path: TypeAlias = Annotated[str, Allowed("the path of a folder", _is_text)]
_Shell: TypeAlias = Annotated[
    str, Allowed("the absolute path of a shell", lambda path: _is_text(path) and path.startswith("/"))
]
_Time: TypeAlias = Annotated[
    float,
    Allowed(f"a number of seconds above 0 and at most {MOST_SECONDS:,}", lambda seconds: 0 < seconds <= MOST_SECONDS),
]
_Size: TypeAlias = Annotated[int, Allowed("64 KiB to 1 GiB in bytes", lambda size: 1 << 16 <= size <= 1 << 30)]
_Names: TypeAlias = Annotated[
    tuple[str, ...], Allowed("a list of names of variables", lambda names: all(map(_is_text, names)))
]


@frozen(kw_only=True)
class Settings:
    """Settings of the shell tools.

    Attributes:
        root: The folder that commands run in or below, `~` allowed; `None` is the call's folder, else the process's.
        shell: The absolute path of the shell; `None` is bash if there is one, else sh.
        time_limit: The default time limit of a command, in seconds.
        longest: The longest time limit that a call may ask for, in seconds.
        grace: Seconds between `SIGTERM` and `SIGKILL`.
        output_limit: Bytes of a command's output that are stored, half of them from the beginning.
        inherit: The names of the environment variables that commands inherit; `*` matches anything.
        environment: Further variables for commands.
        sandbox: What commands may change, if the system has a sandbox.
        network: Whether commands in the sandbox have access to the network.
        sessions: How many sessions there may be.
    """

    root: _Path | None = None
    shell: _Shell | None = None
    time_limit: _Time = 120.0
    longest: _Time = 600.0
    grace: Annotated[float, Allowed("a number of seconds from 0 to 60", lambda seconds: 0 <= seconds <= 60)] = 2.0
    output_limit: _Size = 16 << 20
    inherit: _Names = INHERITED
    environment: Annotated[Mapping[str, str], Allowed("a table of texts", _is_environment)] = {}
    sandbox: Level = "workspace-write"
    network: bool = False
    sessions: Annotated[int, Allowed("a number from 1 to 256", lambda number: 1 <= number <= 256)] = 16


def environment_of(settings: Settings, host: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a command: inherited variables, those of `_PRESET`, and those of the settings, which win.

    Relative folders in `PATH` are left out, as commands could write programs there.
    """
    is_inherited = _pattern_of(settings.inherit).match
    environment = {name: value for name, value in host.items() if is_inherited(name)}
    environment |= _PRESET
    environment |= settings.environment
    path = environment.get("PATH", _DEFAULT_PATH).split(":")
    environment["PATH"] = ":".join(folder for folder in path if folder.startswith("/")) or _DEFAULT_PATH
    return environment


@lru_cache(maxsize=16)
def _pattern_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for the names of inherited variables, in which `*` matches anything."""
    return re.compile("|".join(map(translate, names)) or "(?!)")  # the pattern for no names matches nothing


def shell_of(settings: Settings) -> str:
    """The path of the shell."""
    return settings.shell or next((each for each in _SHELLS if os.access(each, os.X_OK)), "/bin/sh")


@frozen
class Folder:
    """The folder that a command runs in, held open so that it can't be replaced.

    Attributes:
        root: The absolute path of the root, links resolved.
        path: The absolute path of the folder, links resolved.
        entry: The path by which a process enters it; valid as long as it is open.
        descriptor: The open file descriptor; the owner closes it.
    """

    root: str
    path: str
    entry: str
    descriptor: int


def root_place(settings: Settings, work_dir: str | None) -> Path:
    """The absolute path of the root, for a call whose folder is `work_dir`; `None` is the process's folder."""
    return Path(work_dir or ".").absolute() / Path(settings.root or ".").expanduser()


def open_folder(settings: Settings, work_dir: str | None, folder: str) -> Folder:
    """Opens the folder that a command runs in.

    Args:
        settings: The settings, with the root.
        work_dir: The call's folder.
        folder: As given by the model, relative to the root.

    Raises:
        ToolError: It isn't there, isn't a folder, or isn't below the root.
    """
    try:
        unresolved = root_place(settings, work_dir)
        root = unresolved.resolve()
        path = (root / folder).resolve()
        if not path.is_relative_to(root):
            hint = f"Use a folder inside {root}. The command itself may use files elsewhere."
            raise ToolError(f"The folder {folder!r:.200} isn't below the working folder.", hint=hint)
        inner = path.relative_to(root)
        named = Path(os.path.normpath(unresolved / folder))
        if named not in (root / inner, Path(os.path.normpath(unresolved)) / inner):
            hint = f"Use its real path: {str(inner)!r:.200}."  # the link could be changed while the user is asked
            raise ToolError(f"The folder {folder!r:.200} is behind a link.", hint=hint)
        descriptor = _open_below(root, inner.parts)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = "Run ls to see the folders. Leave out folder to use the working folder."
        raise ToolError(f"The folder {folder!r:.200} can't be entered: {reason}.", hint=hint) from None
    # Entering by the descriptor is safe from links, and runs no code in a fork; not all systems have such a path.
    entry = f"/proc/self/fd/{descriptor}" if Path("/proc/self/fd").is_dir() else str(path)
    return Folder(str(root), str(path), entry, descriptor)


def _open_below(root: Path, parts: tuple[str, ...]) -> int:
    """Opens the folder part by part, never through a link, and returns its descriptor."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, flags)
    for part in parts:
        try:
            inner = os.open(part, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder
