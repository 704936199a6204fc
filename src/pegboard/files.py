"""File locations, bounded reads, and atomic and private writes.

The warm command uses this module, so it imports nothing that a bare Python hasn't loaded.
"""

# pathlib costs more than everything else that is done here:
# ruff: noqa: PTH100, PTH101, PTH103, PTH105, PTH108, PTH110, PTH111, PTH113, PTH116, PTH118, PTH120, PTH123
from __future__ import annotations

import errno
import os
import stat
import sys
import time

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OTHERS_WRITE = "other users can write it, or replace it; keep them out of it and its folders (chown, chmod go-w)"
_MOST_STATE_BYTES = 8 * 1024 * 1024
_STATE_FORMAT = 1
_APP = "pegboard"
CONFIG_NAME = "pegboard.toml"
_IN_HOME = {
    "linux": {"cache": ".cache", "config": ".config", "state": ".local/state"},
    "darwin": {"cache": "Library/Caches", **dict.fromkeys(("config", "state"), "Library/Application Support")},
}
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FIRST_READ = 32 * 1024
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def user_folder(kind: str) -> str:
    """The user's folder for pegboard's `"cache"`, `"config"` or `"state"`, as platformdirs names it.

    Imports platformdirs only where `known_user_folder` gives `None`: that takes half as long as starting Python.
    """
    if (known := known_user_folder(kind)) is not None:
        return known
    import platformdirs

    return getattr(platformdirs, f"user_{kind}_dir")(_APP, appauthor=False)


def known_user_folder(kind: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The user's folder, or `None` on systems other than Linux and macOS, or without an absolute home folder."""
    if hasattr(sys, "getandroidapilevel") or sys.platform not in _IN_HOME:
        return None
    base = environ.get(f"XDG_{kind.upper()}_HOME", "")
    if not base.startswith("/"):
        if (home := _home_folder(environ)) is None:
            return None
        base = os.path.join(home, _IN_HOME[sys.platform][kind])
    return os.path.join(base, _APP)


def _home_folder(environ: Mapping[str, str] = os.environ) -> str | None:
    home = environ["HOME"] if "HOME" in environ else os.path.expanduser("~")
    return (home.rstrip("/") or "/") if home.startswith("/") else None


def project_file(folder: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The nearest `pegboard.toml` in `folder`, an absolute path, or above it; `None` where there is none.

    Looks no further up than the root of a git checkout, the user's home (`HOME`) and the root of the file system.
    """
    home = _home_folder(environ)
    top = None if home is None else os.path.realpath(home)
    while True:
        file = os.path.join(folder, CONFIG_NAME)
        if os.path.isfile(file):
            return file
        parent = os.path.dirname(folder)
        if folder in (top, parent) or os.path.exists(os.path.join(folder, ".git")):
            return None
        folder = parent


def others_can_write(path: str) -> bool:
    """Whether another user can write or replace a file, by the permissions of the file, its folders or a link.

    The owner of the root of the file system and the user's own group are trusted. Raises `OSError` if the file doesn't
    exist, or can't be examined.
    """
    if os.name != "posix":
        return False
    own, target = {0, os.geteuid(), os.stat("/").st_uid}, os.path.realpath(path)
    return _is_shared(os.path.abspath(path), own) or (os.path.exists(target) and _is_shared(target, own))


def _is_shared(place: str, own: set[int], inside: str = "") -> bool:
    facts, folder = os.stat(place), os.path.dirname(place)
    by_others = facts.st_mode & stat.S_IWOTH or (facts.st_mode & stat.S_IWGRP and facts.st_gid != os.getegid())
    if by_others and inside and facts.st_mode & stat.S_ISVTX:  # sticky, as /tmp: only its owner can replace a file
        by_others = os.lstat(inside).st_uid not in own
    return bool(by_others) or facts.st_uid not in own or (folder != place and _is_shared(folder, own, place))


def read_bounded(path: str, limit: int) -> bytes:
    """The bytes of a file; raises `OSError` if it can't be read, or has more than `limit` bytes (`EFBIG`).

    A pipe in the file's place doesn't block: it reads as empty.
    """
    return _read_all(os.open(path, _READ), path, limit)


def _read_all(fd: int, path: str, limit: int) -> bytes:
    data = b""
    try:
        while part := os.read(fd, max(_FIRST_READ, len(data))):
            data += part
            if len(data) > limit:
                raise OSError(errno.EFBIG, f"larger than {limit} bytes", path)
    finally:
        os.close(fd)
    return data


def parse_toml(content: bytes) -> dict[str, Any]:
    """Parses the content of a TOML file; raises `ValueError` with the position if it isn't TOML."""
    import tomllib

    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"not UTF-8 (at line {line})") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {error}") from None
    except RecursionError:
        raise ValueError("nested too deep") from None


def open_private(path: str) -> int:
    """A descriptor for reading a file that only the user can have written or read.

    Raises `OSError` if it can't be opened, isn't a regular file, belongs to another user, or grants others access.
    """
    fd = os.open(path, _READ | _NO_LINK)
    facts = os.fstat(fd)
    is_shared = os.name == "posix" and (facts.st_uid != os.geteuid() or facts.st_mode & 0o077)
    if stat.S_ISREG(facts.st_mode) and not is_shared:
        return fd
    os.close(fd)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    raise PermissionError(errno.EPERM, "not private: it belongs to another user or grants others access", path)


def read_private(path: str, limit: int) -> bytes:
    """The bytes of a file, as `open_private` opens it and `read_bounded` bounds it."""
    return _read_all(open_private(path), path, limit)


def write_atomic(path: str, *parts: bytes, mode: int = 0o666, sync: bool = False) -> None:
    """Writes a file atomically: a reader sees the old content or the new, never a part.

    Args:
        path: The file; its folder exists.
        parts: Its content.
        mode: Its permissions, before the umask.
        sync: Whether it is flushed to the disk: after a crash there is the old file or the new one.

    Raises:
        OSError: It can't be written; no temporary file is left behind.
    """
    draft = f"{path}.{os.getpid()}-{time.monotonic_ns()}.tmp"
    fd = os.open(draft, _CREATE, mode)
    try:
        with open(fd, "wb") as file:
            file.writelines(parts)
            if sync:
                file.flush()
                os.fsync(fd)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    if sync:
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        except OSError:
            pass  # some file systems don't support it, and don't need it
        finally:
            os.close(folder)


def write_private(path: str, *parts: bytes) -> None:
    """Writes a file that only the user can read, atomically, in a folder that only the user can enter.

    The folder is made; an existing one loses the permissions of others. Raises `OSError` if the file can't be written,
    or the folder is another user's.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    facts = os.stat(folder)
    if os.name == "posix" and facts.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "another user's folder", folder)
    if os.name == "posix" and facts.st_mode & 0o077:
        os.chmod(folder, 0o700)
    write_atomic(path, *parts, mode=0o600)


def read_state(name: str) -> dict[str, Any]:
    """The JSON object in a file of the user's state folder; empty where it is missing, broken or not private."""
    import json

    try:
        data: Any = json.loads(read_private(os.path.join(user_folder("state"), name), _MOST_STATE_BYTES))
        return data if data["format"] == _STATE_FORMAT else {}
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return {}


def write_state(name: str, data: Mapping[str, Any]) -> None:
    """Writes a JSON object to a private file of the user's state folder, indented; raises `OSError` if it can't be."""
    import json

    text = json.dumps({"format": _STATE_FORMAT, **data}, indent=2, sort_keys=True) + "\n"
    write_private(os.path.join(user_folder("state"), name), text.encode())


def os_error_text(error: OSError) -> str:
    """Why a file couldn't be read or written, without its path."""
    return error.strerror or str(error)
