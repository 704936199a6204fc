"""Where files are: the user's folders and the project's `pegboard.toml`.

The warm command starts with this, so it loads nothing that a bare Python hasn't loaded.
"""

# pathlib costs more than everything else that is done here:
# ruff: noqa: PTH110, PTH111, PTH113, PTH118, PTH120
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from collections.abc import Mapping

APP = "pegboard"
CONFIG_NAME = "pegboard.toml"


_IN_HOME = {
    "linux": {"cache": ".cache", "config": ".config", "state": ".local/state"},
    "darwin": {
        "cache": "Library/Caches",
        "config": "Library/Application Support",
        "state": "Library/Application Support",
    },
}


def user_folder(kind: str) -> str:
    """The user's folder for pegboard's `"cache"`, `"config"` or `"state"`, as platformdirs names it.

    Platformdirs itself is asked only where `known_user_folder` doesn't know: it takes half as long as a bare Python.
    """
    known = known_user_folder(kind)
    if known is not None:
        return known
    import platformdirs

    return getattr(platformdirs, f"user_{kind}_dir")(APP, appauthor=False)


def known_user_folder(kind: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The same, or `None` on systems other than Linux and macOS, and where there is no absolute home folder."""
    in_home = None if hasattr(sys, "getandroidapilevel") else _IN_HOME.get(sys.platform)
    if in_home is None:
        return None
    base = environ.get(f"XDG_{kind.upper()}_HOME", "")
    if not base.startswith("/"):
        home = home_folder(environ)
        if home is None:
            return None
        base = os.path.join(home, in_home[kind])
    return os.path.join(base, APP)


def home_folder(environ: Mapping[str, str] = os.environ) -> str | None:
    """The user's home folder, or `None` where it isn't known."""
    home = environ.get("HOME")
    if home is None:
        home = os.path.expanduser("~")
    return (home.rstrip("/") or "/") if home.startswith("/") else None


def project_file(folder: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The nearest `pegboard.toml` in `folder` or above it; `None` where there is none.

    Looks no further up than the root of a git checkout, the user's home and the root of the file system.

    Args:
        folder: An absolute path.
        environ: Where `HOME` is read.
    """
    home = home_folder(environ)
    top = None if home is None else os.path.realpath(home)
    while True:
        file = os.path.join(folder, CONFIG_NAME)
        if os.path.isfile(file):
            return file
        parent = os.path.dirname(folder)
        if folder in (top, parent) or os.path.exists(os.path.join(folder, ".git")):
            return None
        folder = parent
