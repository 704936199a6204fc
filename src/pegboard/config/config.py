"""`pegboard.toml`: what the user, the project, `--config` and the environment say, as one `Config`; secrets in it.

`{ env = "NAME" }` and `{ keyring = "NAME" }` may stand in place of any value in a plugin's settings. They are replaced
as the settings are handed to the plugin; caches, snapshots and `registry config` have the reference only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from attrs import evolve, frozen

from pegboard.errors import HIDDEN, ConfigError, cause_of, near_or_known
from pegboard.files import (
    CONFIG_NAME,
    OTHERS_WRITE,
    others_can_write,
    project_file,
    read_bounded,
    read_state,
    reason,
    toml_of,
    user_folder,
    write_state,
)
from pegboard.tools.spec import ConflictPolicy, is_valid_name


def normalised(name: str) -> str:
    """A distribution's name as names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).strip("-").lower()


def is_named(plugin: str, distribution: str | None, names: Collection[str]) -> bool:
    """Whether a plugin is among these names: by its own, or by that of the distribution that brings it."""
    if plugin in names:
        return True
    return distribution is not None and normalised(distribution) in set(map(normalised, names))


PluginSettings: TypeAlias = Mapping[str, Any]
_NOTHING: Final[Mapping[str, Any]] = {}
_MAX_BYTES: Final = 256 * 1024
_MOST_TRUSTED: Final = 100_000_000
_CONFLICTS: Final = get_args(ConflictPolicy)
_TRUSTED: Final = "trusted.json"
_QUOTED: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|(["']).*""", re.DOTALL)
"""What is quoted, or a quote that isn't closed, with all that follows: no place is read twice."""
_SWITCH: Final = {"": True, "1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


def autoload_in(environ: Mapping[str, str]) -> bool:
    """Whether `PEGBOARD_AUTOLOAD` lets plugins be loaded; raises `ConfigError` where it is neither 0 nor 1."""
    switch = environ.get("PEGBOARD_AUTOLOAD", "").strip().lower()
    if switch not in _SWITCH:
        raise ConfigError(f"{switch!r} is neither 0 nor 1", file="environment", key="PEGBOARD_AUTOLOAD")
    return _SWITCH[switch]


@frozen
class Ignored:
    """Something that a project's configuration wanted and didn't get, as it isn't trusted.

    Attributes:
        file: The path of the configuration.
        key: The dotted key; `""` for all of it.
        wrong: What is wrong with it, or `None` where trust would do.
    """

    file: str
    key: str
    wrong: ConfigError | None = None

    def __str__(self) -> str:
        if self.wrong is not None:
            return f"{self.wrong} (ignored)"
        return f"{self.file}: {self.key} is ignored until you trust the file (registry config trust)"


@frozen
class Config:
    """Configuration, merged from the user's file, the project's, the one given and the environment.

    Attributes:
        block: The names of plugins that are never loaded, each once; a distribution's name stands for its plugins.
        project_block: The same by a project that isn't trusted: it counts only for plugins that bring nothing but
            tools.
        untrusted: The names of plugins, or of distributions, whose tools' claims count only where they add caution.
        enable: The names of the only plugins that are loaded, or of their distributions; `None` for all.
        rename: `"tool"` or `"plugin:tool"` -> its name in the registry.
        prefix: Plugin -> what stands before the names of its tools.
        conflicts: What happens when two plugins bring the same name; `None` where the name stays with the distribution
            that it was accepted for, and is held back where that is neither.
        where: The text of the predicate that every resolution starts with, or `None`.
        plugins: Plugin, or distribution -> its settings.
        autoload: Whether installed plugins are loaded at all.
        files: The files that were read, in order.
        looked_at: Every file whose change, coming or going would change this value, the ones above included.
        ignored: What an untrusted project wanted and didn't get.
        selections: Name -> the tools that `-T` with this name means, as `-T` takes them.
    """

    block: tuple[str, ...] = ()
    project_block: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    enable: tuple[str, ...] | None = None
    rename: Mapping[str, str] = _NOTHING
    prefix: Mapping[str, str] = _NOTHING
    conflicts: ConflictPolicy | None = None
    where: str | None = None
    plugins: Mapping[str, PluginSettings] = _NOTHING
    autoload: bool = True
    files: tuple[str, ...] = ()
    looked_at: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    selections: Mapping[str, str] = _NOTHING

    def settings(self, plugin: str, distribution: str | None = None) -> PluginSettings:
        """The settings of one plugin; those under its distribution's name count first. Empty where there are none."""
        own = normalised(distribution) if distribution else None
        named = (settings for name, settings in self.plugins.items() if own is not None and normalised(name) == own)
        return next(named, self.plugins.get(plugin, _NOTHING))


NO_CONFIG: Final = Config()


def read_config(file: str) -> bytes | None:
    """The bytes of a configuration file, or `None` where there is none.

    Raises:
        ConfigError: It is there and can't be read, or is larger than 256 KiB.
    """
    try:
        return read_bounded(file, _MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"can't be read: {reason(error)}", file=file) from None


def parse_config(content: bytes, file: str, wrong: list[ConfigError] | None = None) -> dict[str, Any]:
    """The values of a configuration file by key, all of the right type.

    Args:
        content: TOML.
        file: Its path, for errors.
        wrong: Gets what is wrong with keys, which are left out; by default that is raised.

    Raises:
        ConfigError: It isn't TOML, or a key is unknown or of the wrong type.
    """
    try:
        table = toml_of(content)
    except ValueError as error:
        raise ConfigError(str(error), file=file) from None
    values: dict[str, Any] = {}
    for key, value in table.items():
        try:
            if key not in _CHECKS:
                raise ConfigError(f"unknown key.{near_or_known(key, _CHECKS)}", file=file, key=key)  # noqa: TRY301  as its checks do
            values[key] = _CHECKS[key](value, key, file)
        except ConfigError as error:
            if wrong is None:
                raise
            wrong.append(error)
    return values


def _wrong(wanted: str, value: object, key: str, file: str) -> ConfigError:
    return ConfigError(f"expected {wanted}, found {type(value).__name__}", file=file, key=key)


def _text(value: Any, key: str, file: str) -> str:
    if not isinstance(value, str):
        raise _wrong("a string", value, key, file)
    if not value.strip():
        raise ConfigError("empty", file=file, key=key)
    return value


def _names(value: Any, key: str, file: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _wrong("a list of plugin names", value, key, file)
    names = (_text(item, f"{key}[{index}]", file) for index, item in enumerate(value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return tuple(dict.fromkeys(names))


def _table(value: Any, key: str, file: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong("a table", value, key, file)
    return value  # pyright: ignore[reportUnknownVariableType]


def _texts(value: Any, key: str, file: str) -> dict[str, str]:
    return {part: _text(each, f"{key}.{part}", file) for part, each in _table(value, key, file).items()}


def _tool_names(value: Any, key: str, file: str) -> dict[str, str]:
    """A table whose values are tool names, or the beginnings of such."""
    names = _texts(value, key, file)
    for part, name in names.items():
        if not is_valid_name(name):
            raise ConfigError(
                f"{name!r} can't stand in a tool's name: use A-Z, a-z, 0-9, '_' and '-', a letter or '_' first, "
                "at most 64",
                file=file,
                key=f"{key}.{part}",
            )
    return names


def _renames(value: Any, key: str, file: str) -> dict[str, str]:
    names = _tool_names(value, key, file)
    first: dict[str, str] = {}
    for tool, name in names.items():
        if first.setdefault(name, tool) != tool:
            raise ConfigError(f"{first[name]!r} is renamed to {name!r} too", file=file, key=f"{key}.{tool}")
    return names


def _policy(value: Any, key: str, file: str) -> str:
    text = _text(value, key, file)
    if text not in _CONFLICTS:
        cause = f"{text!r} is no way to settle conflicts.{near_or_known(text, _CONFLICTS)}"
        raise ConfigError(cause, file=file, key=key)
    return text


def _predicate(value: Any, key: str, file: str) -> str:
    """A predicate's text that stands alone: put in brackets, it can't reach out of them.

    What is in the brackets is validated when it is parsed, once the plugins' own predicates are known.
    """
    text = _text(value, key, file)
    if not _stands_alone(text):
        raise ConfigError(f"brackets or quotes don't match in {text!r}", file=file, key=key)
    return text


def _stands_alone(text: str) -> bool:
    """Whether brackets match outside quotes, as the predicate language quotes (`"` as in JSON, `'` without escapes)."""
    bare = _QUOTED.sub(r"\1", text)
    depths = [0, *accumulate((character == "(") - (character == ")") for character in bare)]
    return not re.search("[\"']", bare) and min(depths) == depths[-1] == 0


def _plugins(value: Any, key: str, file: str) -> dict[str, dict[str, Any]]:
    tables = {plugin: _table(each, f"{key}.{plugin}", file) for plugin, each in _table(value, key, file).items()}
    return cast("dict[str, dict[str, Any]]", _placed(tables, Path(file).parent))


def _placed(value: Any, folder: Path) -> Any:
    """Settings in which a text that begins with `./` or `../` is a path from the folder of their file."""
    if isinstance(value, dict):
        return {key: _placed(each, folder) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_placed(each, folder) for each in cast("list[Any]", value)]
    if isinstance(value, str) and value.startswith(("./", "../")):
        return os.path.normpath(folder / value)
    return value


_CHECKS: Final[Mapping[str, Callable[[Any, str, str], Any]]] = {
    "block": _names,
    "untrusted": _names,
    "enable": _names,
    "rename": _renames,
    "prefix": _tool_names,
    "conflicts": _policy,
    "where": _predicate,
    "plugins": _plugins,
    "selections": _texts,
}


def trust_file() -> Path:
    """Where trust is kept: `trusted.json` in the user's state folder, as platformdirs names it."""
    return Path(user_folder("state"), _TRUSTED)


def trust(file: str | Path) -> str:
    """Trusts a configuration file as it is now; once it changes it is untrusted again.

    Returns:
        The digest of its content, `"sha256:..."`.

    Raises:
        ConfigError: The file can't be read, or the decision can't be kept.
    """
    path = str(Path(file).resolve())
    try:
        digest = _digest(read_bounded(path, _MOST_TRUSTED))
        write_state(_TRUSTED, {"files": {**_trusted(), path: digest}})
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
        write_state(_TRUSTED, {"files": trusted})
    except OSError as error:
        raise ConfigError(f"trust can't be taken back: {reason(error)}", file=str(file)) from None
    return True


def is_trusted(file: str | Path, content: bytes) -> bool:
    """Whether the user has trusted the file with exactly this content."""
    return _trusted().get(str(Path(file).resolve())) == _digest(content)


def may_bind(file: str | Path, content: bytes | None = None) -> bool:
    """Whether a file that settings name may decide what runs: it came with no project, or was trusted as it is.

    What lies below a `pegboard.toml`, but the user's own, or in a git checkout came with a project. Its content is
    read where it isn't given, and `OSError` raised where it can't be.
    """
    places, own = {Path(file).absolute(), Path(file).resolve()}, Path(user_folder("config"), CONFIG_NAME)
    marks = {folder / mark for place in places for folder in place.parents for mark in (CONFIG_NAME, ".git")}
    if not any(mark.exists() for mark in marks - {own}):
        return True
    return is_trusted(file, read_bounded(str(file), _MOST_TRUSTED) if content is None else content)


def _digest(content: bytes) -> str:
    import hashlib

    return "sha256:" + hashlib.sha256(content).hexdigest()


def _trusted() -> dict[str, str]:
    """Path -> digest."""
    files = read_state(_TRUSTED).get("files")
    return files if isinstance(files, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def load_config(
    *,
    user: bool = True,
    project: Path | Literal["search"] | None = None,
    explicit: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Reads and merges all configuration, later over earlier: the user's, the project's, the one given.

    Blocked plugins and predicates add up. Until it is trusted, a project's file may only take tools away, by `where`
    and by `block` of plugins that bring nothing but tools, and trust, by `untrusted`. What it didn't get, or
    has wrong, stands in `Config.ignored`.

    Args:
        user: Whether the user's own file is read (`pegboard.toml` in platformdirs' user config folder).
        project: The project's file; `"search"` looks for the nearest in the current folder and above it.
        explicit: A file that the user names (`--config`); it binds like the user's own.
        environ: Where `PEGBOARD_BLOCK` (names, comma-separated) and `PEGBOARD_AUTOLOAD` (`0` or `1`) are read;
            the process's by default.

    Raises:
        ConfigError: A file other than an untrusted project's can't be read, isn't TOML, or has a key that is unknown
            or of the wrong type, or others can write it; the file given is missing; a variable isn't understood.
    """
    environ = os.environ if environ is None else environ
    own = Path(user_folder("config"), CONFIG_NAME) if user else None
    local = _searched(environ) if project == "search" else project
    if explicit is not None and not explicit.exists():
        raise ConfigError("no such file", file=str(explicit.absolute()))
    sources: dict[Path, tuple[str, bool]] = {}  # each once, and whether it binds in any case
    for file, binds in ((own, True), (local, False), (explicit, True)):
        place = None if file is None else Path(file).resolve()
        if file is not None and place is not None and (binds or place not in sources):
            sources.pop(place, None)
            sources[place] = (str(Path(file).absolute()), binds)
    config = Config(autoload=autoload_in(environ))
    for file, binds in sources.values():
        config = _with_file(config, file, binds=binds)
    names = environ.get("PEGBOARD_BLOCK", "").split(",")
    return _with(config, "block", tuple(name.strip() for name in names if name.strip()))


def _searched(environ: Mapping[str, str]) -> str | None:
    try:
        folder = Path.cwd()
    except OSError:  # the current folder was removed
        return None
    return project_file(str(folder), environ)


_NARROWING: Final = {"block": "project_block", "untrusted": "untrusted", "where": "where"}
"""What an untrusted project may say -> where it counts."""
_REPLACED: Final = ("enable", "conflicts")


def _with_file(config: Config, file: str, *, binds: bool) -> Config:
    """The configuration with what a file adds, if it is there; one that doesn't bind is trusted first, or narrows."""
    looked_at = (*config.looked_at, file, *(() if binds else (str(trust_file()),)))
    config = evolve(config, looked_at=tuple(dict.fromkeys(looked_at)))
    wrong = list[ConfigError]()
    try:
        content = read_config(file)
        if content is None:
            return config
        if binds and others_can_write(file):
            raise ConfigError(OTHERS_WRITE, file=file)  # noqa: TRY301  as what reading it raises
        config = evolve(config, files=(*config.files, file))
        binds = binds or is_trusted(file, content)
        values = parse_config(content, file, None if binds else wrong)
    except ConfigError as error:
        if binds:
            raise
        values = dict[str, Any]()
        wrong.append(error)
    ignored = [Ignored(file, error.key, error) for error in wrong]
    for key, value in values.items():
        if binds:
            config = _with(config, key, value)
        elif key in _NARROWING:
            config = _with(config, _NARROWING[key], value)
        else:
            parts = [f"{key}.{part}" for part in value] if isinstance(value, dict) else [key]  # pyright: ignore[reportUnknownVariableType]
            ignored += [Ignored(file, part) for part in parts]
    return evolve(config, ignored=(*config.ignored, *ignored))


def _with(config: Config, key: str, value: Any) -> Config:
    """The configuration with a value over that of earlier files, or, where both count, beside it."""
    earlier = getattr(config, key)
    if earlier is not None and key not in _REPLACED:
        if key == "where":
            value = f"({earlier}) and ({value})"
        elif key == "plugins":
            value = {**earlier, **{name: {**earlier.get(name, {}), **each} for name, each in value.items()}}
        elif isinstance(value, dict):
            value = {**earlier, **cast("dict[str, Any]", value)}
        else:
            value = tuple(dict.fromkeys((*earlier, *value)))
    return evolve(config, **{key: value})


# Secrets --------------------------------------------------------------------------------------------------------------

SERVICE: Final = "pegboard"  # what the keyring knows the keys under
_KEYS: Final = "keys.json"
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
    names: Any = read_state(_KEYS).get("names")
    return sorted(map(str, names)) if isinstance(names, list) else []  # pyright: ignore[reportUnknownArgumentType]


def set_key(name: str, secret: str) -> None:
    """Keeps a key in the keyring.

    Raises:
        ConfigError: There is no keyring.
        OSError: The name can't be kept.
    """
    keyring().set_password(SERVICE, name, secret)
    write_state(_KEYS, {"names": sorted({*key_names(), name})})


def remove_key(name: str) -> bool:
    """Removes a key from the keyring; gives whether there was one."""
    was_there = keyring().get_password(SERVICE, name) is not None
    if was_there:
        keyring().delete_password(SERVICE, name)
    write_state(_KEYS, {"names": [each for each in key_names() if each != name]})
    return was_there
