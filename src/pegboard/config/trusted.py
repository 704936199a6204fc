"""Which project configurations the user has trusted: a file's path, and the digest of what stood in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pegboard.config.file import read_bounded, read_private, reason, write_private
from pegboard.config.place import user_folder
from pegboard.config.reading import MAX_BYTES
from pegboard.errors import ConfigError

_FORMAT: Final = 1
_MAX_TRUSTED_BYTES: Final = 1024 * 1024


def trust_file() -> Path:
    """Where it is kept: `trusted.json` in the user's state folder, as platformdirs names it."""
    return Path(user_folder("state"), "trusted.json")


def trust(file: str | Path) -> str:
    """Trusts a configuration file as it is now; once it changes it is untrusted again.

    Returns:
        The digest of what it says, `"sha256:..."`.

    Raises:
        ConfigError: The file can't be read, or the decision can't be kept.
    """
    path = str(Path(file).resolve())
    try:
        digest = _digest(read_bounded(path, MAX_BYTES))
        _keep({**_trusted(), path: digest})
    except OSError as error:
        raise ConfigError(f"can't be trusted: {reason(error)}", file=str(file)) from None
    return digest


def distrust(file: str | Path) -> bool:
    """Takes trust back; gives whether there was any.

    Raises:
        ConfigError: The decision can't be kept.
    """
    path = str(Path(file).resolve())
    trusted = _trusted()
    if trusted.pop(path, None) is None:
        return False
    try:
        _keep(trusted)
    except OSError as error:
        raise ConfigError(f"trust can't be taken back: {reason(error)}", file=str(file)) from None
    return True


def is_trusted(file: str | Path, content: bytes) -> bool:
    """Whether the user has trusted the file with exactly this content."""
    return _trusted().get(str(Path(file).resolve())) == _digest(content)


def _digest(content: bytes) -> str:
    import hashlib

    return "sha256:" + hashlib.sha256(content).hexdigest()


def _trusted() -> dict[str, str]:
    """Path -> digest; nothing where the list is missing, broken or not private: then nothing is trusted."""
    import json

    try:
        data: Any = json.loads(read_private(str(trust_file()), _MAX_TRUSTED_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(data, dict) or data.get("format") != _FORMAT or not isinstance(data.get("files"), dict):  # pyright: ignore[reportUnknownMemberType]
        return {}
    return data["files"]  # pyright: ignore[reportUnknownVariableType]


def _keep(trusted: dict[str, str]) -> None:
    import json

    text = json.dumps({"format": _FORMAT, "files": trusted}, indent=2, sort_keys=True) + "\n"
    write_private(str(trust_file()), text.encode())
