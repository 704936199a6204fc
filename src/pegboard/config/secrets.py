"""Secrets in configuration: read from the environment or the system's keyring, and never shown.

`{ env = "NAME" }` and `{ keyring = "NAME" }` may stand in place of any value in a plugin's settings. They are replaced
as the settings are handed to the plugin; caches, snapshots and `registry config` have the reference only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.errors import HIDDEN, ConfigError, cause_of
from pegboard.files import read_state, write_state

SERVICE: Final = "pegboard"  # what the keyring knows the keys under
_FILE: Final = "keys.json"
_NAMED: Final = re.compile(
    r"key|token(?!s$)|secret|pass(?:w|p|c|$)|pwd|credential|auth|cookie|bearer|private|signature|dsn|webhook",
    re.IGNORECASE,
)
_LOOKS: Final = re.compile(
    r"\b(?:[sprh][kf][-_]|gh[opsu]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|eyJ)[\w-]{6}|://[^/\s]*@|-----BEGIN|"
    r"^(?=\S*\d)(?=\S*[A-Za-z])[\w+=-]{24,}$|(?i:\b(?:bearer|basic)\s+\S|"
    r"(?:pass(?:word|wd|phrase)?|secret|token|api[_-]?key|authorization|cookie|\bsig(?:nature)?)[\"']?\s*[:=]\s*\S|"
    r"\s-u\s*[^\s:]+:\S|\b(?:mysql|mariadb|sshpass)\b.*\s-p)"
)


def reference(value: Any) -> tuple[str, str] | None:
    """`("env", "NAME")` or `("keyring", "NAME")`, where a value stands for a secret."""
    if not isinstance(value, Mapping) or len(cast("Mapping[str, Any]", value)) != 1:
        return None
    ((kind, name),) = cast("Mapping[str, Any]", value).items()
    return (kind, name) if kind in ("env", "keyring") and isinstance(name, str) else None


def with_secrets(settings: Mapping[str, Any], missing: list[str], secrets: list[str]) -> dict[str, Any]:
    """Settings with the secrets that they refer to; a setting whose secret isn't there is left out.

    Args:
        settings: As they stand in the configuration.
        missing: Gets a sentence for each.
        secrets: Gets those that were filled in, for `hide` in what the plugin says.
    """

    def filled(path: str, value: Any) -> Any:
        found = reference(value)
        if found is not None:
            secret = _secret(path, *found, missing)
            if secret is not None:
                secrets.append(secret)
            return secret
        if isinstance(value, Mapping):
            given = cast("Mapping[str, Any]", value)
            return {key: new for key, each in given.items() if (new := filled(f"{path}.{key}", each)) is not None}
        if isinstance(value, list):
            items = (filled(f"{path}[{place}]", each) for place, each in enumerate(cast("list[Any]", value)))
            return [item for item in items if item is not None]
        return value

    return {key: value for key, each in settings.items() if (value := filled(key, each)) is not None}


def lacks_secrets(settings: Mapping[str, Any]) -> bool:
    """Whether settings refer to a secret that isn't there."""
    missing: list[str] = []
    with_secrets(settings, missing, [])
    return bool(missing)


def _secret(path: str, kind: str, name: str, missing: list[str]) -> str | None:
    try:
        secret = os.environ.get(name) if kind == "env" else keyring().get_password(SERVICE, name)
    except Exception as error:  # noqa: BLE001  whatever the system's keyring raises
        missing.append(f"setting {path!r}: the keyring can't be asked for {name!r}: {cause_of(error)}")
        return None
    if secret is None:
        fix = f"the environment has no {name}" if kind == "env" else f"run 'registry keys set {name}'"
        missing.append(f"setting {path!r} is left out: {fix}")
    return secret


def without_secrets(value: Any, name: str = "") -> Any:
    """Settings as they may be shown: texts that are secrets, by their name or their look, hidden."""
    if reference(value) is not None:
        return value
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        return {key: without_secrets(each, name if _NAMED.search(name) else key) for key, each in given.items()}
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        # What stands behind an option belongs to it: `["--password", "..."]`.
        options = [each if isinstance(each, str) and each.startswith("-") else name for each in ["", *items]]
        return [without_secrets(each, option) for option, each in zip(options, items, strict=False)]
    if isinstance(value, bool | None):
        return value
    return HIDDEN if _NAMED.search(name) or (isinstance(value, str) and _LOOKS.search(value)) else value


def keyring() -> Any:
    """The package `keyring`, an extra.

    Raises:
        ConfigError: It isn't installed.
    """
    try:
        import keyring as package  # pyright: ignore[reportMissingImports]  an extra, which takes long to load
    except ImportError:
        raise ConfigError("needs the package keyring: pip install 'pegboard[keyring]'", file="keyring") from None
    return package  # pyright: ignore[reportUnknownVariableType]


def key_names() -> list[str]:
    """The names of the keys that were set; no keyring can list them, so that their names are kept apart."""
    names: Any = read_state(_FILE).get("names")
    return sorted(map(str, names)) if isinstance(names, list) else []  # pyright: ignore[reportUnknownArgumentType]


def set_key(name: str, secret: str) -> None:
    """Keeps a key in the keyring.

    Raises:
        ConfigError: There is no keyring.
        OSError: The name can't be kept.
    """
    keyring().set_password(SERVICE, name, secret)
    write_state(_FILE, {"names": sorted({*key_names(), name})})


def remove_key(name: str) -> bool:
    """Removes a key from the keyring; gives whether there was one."""
    was_there = keyring().get_password(SERVICE, name) is not None
    if was_there:
        keyring().delete_password(SERVICE, name)
    write_state(_FILE, {"names": [each for each in key_names() if each != name]})
    return was_there
