"""The user's file, the project's, the one given, and the environment -> one `Config`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from attrs import define, field, frozen

from pegboard.config.model import Config, Ignored
from pegboard.config.place import CONFIG_NAME, project_file, user_folder
from pegboard.config.reading import parse_config, read_config
from pegboard.config.trusted import is_trusted, trust_file
from pegboard.errors import ConfigError

_SWITCH: Final = {"": True, "1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


def load_config(
    *,
    user: bool = True,
    project: Path | Literal["search"] | None = None,
    explicit: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Reads and merges all configuration, later over earlier: the user's, the project's, the one given.

    Blocked plugins and predicates add up. A project's file may only narrow (`block`, `where`, and `rename` and
    `prefix` where the user has said nothing) until it is trusted; what it didn't get stands in `Config.ignored`.

    Args:
        user: Whether the user's own file is read (`pegboard.toml` in platformdirs' user config folder).
        project: The project's file; `"search"` looks for the nearest in the current folder and above it.
        explicit: A file that the user names (`--config`); it binds like the user's own.
        environ: Where `PEGBOARD_BLOCK` (names, comma-separated) and `PEGBOARD_AUTOLOAD` (`0` or `1`) are read;
            the process's by default.

    Raises:
        ConfigError: A file can't be read, isn't TOML, or has a key that is unknown or of the wrong type; the file
            given is missing; a variable isn't understood.
    """
    environ = os.environ if environ is None else environ
    merge = _Merge()
    for source in _sources(user=user, project=project, explicit=explicit, environ=environ):
        merge.add(source)
    merge.add_environment(environ)
    return merge.config()


@frozen
class _Source:
    """A file to read: `binds` whatever it says, or only once it is trusted."""

    file: str
    binds: bool
    required: bool = False


def _sources(
    *, user: bool, project: Path | Literal["search"] | None, explicit: Path | None, environ: Mapping[str, str]
) -> list[_Source]:
    """The files in order, each once; one that the user names isn't held to be the project's."""
    found: dict[Path, _Source] = {}
    if user:
        _put(found, user_file(), binds=True)
    local = _searched(environ) if project == "search" else project
    if local is not None and Path(local).resolve() not in found:
        _put(found, local, binds=False)
    if explicit is not None:
        _put(found, explicit, binds=True, required=True)
    return list(found.values())


def _put(found: dict[Path, _Source], file: str | Path, *, binds: bool, required: bool = False) -> None:
    path = Path(file)
    found.pop(path.resolve(), None)
    found[path.resolve()] = _Source(str(path.absolute()), binds, required)


def user_file() -> Path:
    """Where the user's own configuration is, or would be."""
    return Path(user_folder("config"), CONFIG_NAME)


def _searched(environ: Mapping[str, str]) -> str | None:
    try:
        folder = Path.cwd()
    except OSError:  # the current folder was removed
        return None
    return project_file(str(folder), environ)


@define
class _Merge:
    """What has been read so far, open for one merge."""

    values: dict[str, Any] = field(factory=dict[str, Any])
    files: list[str] = field(factory=list[str])
    looked_at: list[str] = field(factory=list[str])
    ignored: list[Ignored] = field(factory=list[Ignored])

    def add(self, source: _Source) -> None:
        self.looked_at.append(source.file)
        if not source.binds:
            self.looked_at.append(str(trust_file()))
        content = read_config(source.file)
        if content is None:
            if source.required:
                raise ConfigError("no such file", file=source.file)
            return
        self.files.append(source.file)
        binds = source.binds or is_trusted(source.file, content)
        for key, value in parse_config(content, source.file).items():
            _TAKEN[key](self, key, value, None if binds else source.file)

    def add_environment(self, environ: Mapping[str, str]) -> None:
        names = environ.get("PEGBOARD_BLOCK", "").split(",")
        self.add_names("block", tuple(name.strip() for name in names if name.strip()), None)
        switch = environ.get("PEGBOARD_AUTOLOAD", "").strip().lower()
        if switch not in _SWITCH:
            raise ConfigError(f"{switch!r} is neither 0 nor 1", file="environment", key="PEGBOARD_AUTOLOAD")
        self.values["autoload"] = _SWITCH[switch]

    def add_names(self, key: str, value: tuple[str, ...], _untrusted: str | None) -> None:
        self.values[key] = tuple(dict.fromkeys((*self.values.get(key, ()), *value)))

    def add_predicate(self, key: str, value: str, _untrusted: str | None) -> None:
        earlier = self.values.get(key)
        self.values[key] = f"({earlier}) and ({value})" if earlier else value

    def add_table(self, key: str, value: dict[str, str], untrusted: str | None) -> None:
        """The later says what holds, except that an untrusted file changes nothing that the user has said."""
        earlier: dict[str, str] = self.values.get(key, {})
        if untrusted is not None:
            self.ignored += [Ignored(untrusted, f"{key}.{part}") for part in value if part in earlier]
        self.values[key] = {**earlier, **value} if untrusted is None else {**value, **earlier}

    def replace(self, key: str, value: Any, untrusted: str | None) -> None:
        if untrusted is None:
            self.values[key] = value
        else:
            self.ignored.append(Ignored(untrusted, key))

    def add_settings(self, key: str, value: dict[str, dict[str, Any]], untrusted: str | None) -> None:
        if untrusted is not None:
            self.ignored += [Ignored(untrusted, f"{key}.{plugin}") for plugin in value]
            return
        earlier: dict[str, dict[str, Any]] = self.values.get(key, {})
        merged = {plugin: {**earlier.get(plugin, {}), **settings} for plugin, settings in value.items()}
        self.values[key] = {**earlier, **merged}

    def config(self) -> Config:
        tables: dict[str, Any] = {
            key: MappingProxyType(self.values.get(key, {})) for key in ("rename", "prefix", "plugins")
        }
        return Config(
            **{**self.values, **tables},
            files=tuple(self.files),
            looked_at=tuple(dict.fromkeys(self.looked_at)),
            ignored=tuple(self.ignored),
        )


_TAKEN: Final[Mapping[str, Callable[[_Merge, str, Any, str | None], None]]] = {
    "block": _Merge.add_names,
    "enable": _Merge.replace,
    "rename": _Merge.add_table,
    "prefix": _Merge.add_table,
    "conflicts": _Merge.replace,
    "where": _Merge.add_predicate,
    "plugins": _Merge.add_settings,
}
