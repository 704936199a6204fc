"""Makes installed distributions: folders of metadata, as an installer leaves them."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

OLD = 1_600_000_000
"""Seconds: a time that is long past."""

SECONDS = 120.0
"""The time limit of a load, which is 10 s by default: too few where other tests keep the machine busy."""

GREETER = """
from pegboard import hookimpl, tool

@tool(read_only=True)
def {name}(who: str = "you") -> str:
    '''Greets.'''
    return f"hello {{who}}"

@hookimpl
def pegboard_register_tools(register):
    register({name})
"""


def install(
    root: Path,
    name: str = "demo",
    version: str = "1.0",
    entry_points: str | bytes | None = "[pegboard]\ndemo = demo_tools\n",
    *,
    metadata: str | bytes | None = None,
    record: str | bytes | None = "",
    editable: bool = False,
    kind: str = "dist-info",
) -> Path:
    """Makes the metadata folder of one distribution; `None` leaves a file out."""
    folder = root / f"{name.replace('-', '_')}-{version}.{kind}"
    folder.mkdir(parents=True)
    said = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nRead me" if metadata is None else metadata
    parts = {
        "METADATA" if kind == "dist-info" else "PKG-INFO": said,
        "entry_points.txt": entry_points,
        "RECORD": f"{folder.name}/METADATA,,\n{record}" if isinstance(record, str) else record,
        "direct_url.json": json.dumps({"url": "file:///x", "dir_info": {"editable": True}}) if editable else None,
    }
    for file, content in parts.items():
        if content is not None:
            (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def write(path: Path, text: str = "") -> Path:
    """Writes a file, its folders too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def own_keyring(monkeypatch) -> dict[tuple[str, str], str]:
    """Puts a keyring of the test's own in place of the package: (service, name) -> key."""
    keys: dict[tuple[str, str], str] = {}
    package = types.ModuleType("keyring")
    package.get_password = lambda *key: keys.get(key)
    package.set_password = lambda service, name, secret: keys.__setitem__((service, name), secret)
    package.delete_password = lambda *key: keys.pop(key)
    monkeypatch.setitem(sys.modules, "keyring", package)
    return keys
