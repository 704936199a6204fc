"""Settings of the shell tools, and the environment and the folder that commands get by them."""

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
"""What commands may change: what is below the root, nothing, or whatever the user may."""

INHERITED: Final = (
    *("HOME", "LOGNAME", "USER", "PATH", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "VIRTUAL_ENV", "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME"),
)
"""The variables of the host that commands get by default."""

_FIXED: Final = {"TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"} | {
    # Files that a model has written are no repository, whose settings git would run, unless they lie in a .git.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_SHELLS: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
MOST_SECONDS: Final = 3_600


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
        root: The folder that commands run in or below, `~` allowed; `None` is the call's, else the process's own.
        shell: The absolute path of what runs command lines; `None` is bash where there is one, else sh.
        time_limit: Seconds that a command may take, where the call doesn't say.
        longest: Seconds that a call may ask for at most.
        grace: Seconds between asking a command to end and killing it.
        output_limit: Bytes of output that are kept of a command, half of them of its beginning.
        inherit: The names of the variables that commands get from the host's environment; `*` stands for anything.
        environment: Variables that commands get besides.
        sandbox: What commands may change, where the system has a sandbox.
        network: Whether commands in the sandbox reach the network.
        sessions: How many sessions may be kept.
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


def environment_by(settings: Settings, host: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a command: what is inherited by name, what keeps programs from asking, what the user sets.

    Relative folders in `PATH` are left out: there, a file that a command has written could pass for a program.
    """
    is_inherited = _names_of(settings.inherit).match
    environment = {name: value for name, value in host.items() if is_inherited(name)}
    environment |= _FIXED
    environment |= settings.environment
    path = environment.get("PATH", _DEFAULT_PATH).split(":")
    environment["PATH"] = ":".join(folder for folder in path if folder.startswith("/")) or _DEFAULT_PATH
    return environment


@lru_cache(maxsize=16)
def _names_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """What matches the names that are inherited."""
    return re.compile("|".join(map(translate, patterns)) or "(?!)")


def shell_by(settings: Settings) -> str:
    """What runs command lines."""
    return settings.shell or next((each for each in _SHELLS if os.access(each, os.X_OK)), "/bin/sh")


@frozen
class Folder:
    """The folder that a command runs in, held open: whatever is put in its place is another folder.

    Attributes:
        root: The absolute path of the root, links resolved.
        path: The absolute path of the folder, links resolved.
        entry: What leads to it as long as it is held open.
        descriptor: Holds it open; the owner closes it.
    """

    root: str
    path: str
    entry: str
    descriptor: int


def root_place(settings: Settings, work_dir: str | None) -> Path:
    """The absolute path of the root, for a call whose folder is `work_dir`; `None` is the process's own."""
    return Path(work_dir or ".").absolute() / Path(settings.root or ".").expanduser()


def open_folder(settings: Settings, work_dir: str | None, folder: str) -> Folder:
    """The folder that a command runs in.

    Args:
        settings: Have the root.
        work_dir: The call's folder.
        folder: As the model names it, relative to the root.

    Raises:
        ToolError: It isn't there, isn't a folder, or isn't below the root.
    """
    try:
        given = root_place(settings, work_dir)
        root, named = given.resolve(), Path(os.path.normpath(given / folder))
        path = (root / folder).resolve()
        if not path.is_relative_to(root):
            hint = f"Name one relative to {root}; a command may still name files elsewhere."
            raise ToolError(f"The folder {folder!r:.200} isn't below the working folder.", hint=hint)
        inner = path.relative_to(root)
        if named not in (root / inner, Path(os.path.normpath(given)) / inner):
            # A link that is turned while a person is asked would lead the command elsewhere.
            raise ToolError(f"The folder {folder!r:.200} lies behind a link.", hint=f"Name it {str(inner)!r:.200}.")
        opened = _opened_below(root, inner.parts)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = "Run ls to see which folders there are; without a folder, it is the working folder."
        raise ToolError(f"The folder {folder!r:.200} can't be entered: {reason}.", hint=hint) from None
    # Where the system has it: no other way to enter a folder is safe from links, and runs no code in a fork.
    entry = f"/proc/self/fd/{opened}" if Path("/proc/self/fd").is_dir() else str(path)
    return Folder(str(root), str(path), entry, opened)


def _opened_below(root: Path, parts: tuple[str, ...]) -> int:
    """A descriptor of the folder, opened part by part and never through a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    opened = os.open(root, flags)
    for part in parts:
        try:
            inner = os.open(part, flags, dir_fd=opened)
        finally:
            os.close(opened)
        opened = inner
    return opened
