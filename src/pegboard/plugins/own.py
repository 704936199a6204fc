"""Which pegboard this is: what it keeps between runs holds for that one only."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

UNKNOWN: Final = "0+unknown"
_PACKAGE: Final = Path(__file__).resolve().parent.parent


def own_version() -> str:
    """The version of the installed pegboard, read off the name of its metadata folder; `"0+unknown"` if it has none."""
    folder = metadata_folder()
    return UNKNOWN if folder is None else folder.name.removeprefix("pegboard-").removesuffix(".dist-info")


def metadata_folder() -> Path | None:
    """The metadata of pegboard: beside the package, or, for an editable install, elsewhere on `sys.path`."""
    for path in (str(_PACKAGE.parent), *sys.path):
        try:
            names = os.listdir(path or ".")  # noqa: PTH208  ten times as fast, over all of site-packages
        except OSError:
            continue
        for name in names:
            if name.startswith("pegboard-") and name.endswith(".dist-info"):
                return Path(path, name)
    return None


def own_files() -> tuple[str, ...]:
    """The files that change when pegboard does: its metadata, and its code where that can be edited in place."""
    folder = metadata_folder()
    if folder is not None and folder.parent == _PACKAGE.parent:
        return (str(folder / "METADATA"),)
    code = sorted(map(str, _PACKAGE.rglob("*.py")))
    return (*code, str(folder / "METADATA")) if folder else tuple(code)


def own_key() -> str:
    """A text that changes when pegboard does."""
    from zlib import crc32

    from pegboard.plugins.snapshot import stamp_of

    stamps = b"\0".join(stamp_of(os.fsencode(file)) for file in own_files())
    return f"{own_version()} {crc32(stamps):08x}"
