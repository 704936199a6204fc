"""`pegboard.toml`: the files of the user, the project and `--config`, and the environment, merged into a `Config`.

`{ env = "NAME" }` and `{ keyring = "NAME" }` can replace any value in a plugin's settings. They are resolved when the
settings are passed to the plugin; caches, snapshots and `registry config` have the reference only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from attrs import converters, evolve, field

from pegboard.errors import HIDDEN, ConfigError, cause_of, near_or_known, tuple_of
from pegboard.files import (
    CONFIG_NAME,
    OTHERS_WRITE,
    os_error_text,
    others_can_write,
    parse_toml,
    project_file,
    read_bounded,
    read_state,
    user_folder,
    write_state,
)
from pegboard.tools.spec import ConflictPolicy, Policy, is_valid_name
from pegboard.typing import frozen


def normalised(name: str) -> str:
    """A distribution's name, normalised for comparison (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).strip("-").lower()


def is_named(plugin: str, distribution: str | None, names: Collection[str]) -> bool:
    """Whether a plugin, or its distribution, is among these names."""
    return plugin in names or (distribution is not None and normalised(distribution) in map(normalised, names))


PluginSettings: TypeAlias = Mapping[str, Any]  # the table `[plugins.NAME]` of one plugin
_NOTHING: Final[Mapping[str, Any]] = {}
_MAX_BYTES: Final = 256 * 1024
_MOST_TRUSTED: Final = 100_000_000
_CONFLICTS: Final = get_args(ConflictPolicy)
_TRUSTED: Final = "trusted.json"
_QUOTED: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|(["']).*""", re.DOTALL)
"""A quoted part, or an unclosed quote with everything after it, which keeps the match linear."""
OF_EXECUTORS: Final = ("kind", "codec")  # what is ours in `[executors.NAME]`; the rest are the executor's settings
_PLACEMENT: Final = ("executor", "queue", "sends")
_OF_TABLES: Final = ("plugins", "executors", "tools")
_SWITCH: Final = {"": True, "1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


def autoload_in(environ: Mapping[str, str]) -> bool:
    """Whether `PEGBOARD_AUTOLOAD` allows loading plugins; raises `ConfigError` if it is neither 0 nor 1."""
    switch = environ.get("PEGBOARD_AUTOLOAD", "").strip().lower()
    if switch not in _SWITCH:
        raise ConfigError(f"{switch!r} is neither 0 nor 1", file="environment", key="PEGBOARD_AUTOLOAD")
    return _SWITCH[switch]


@frozen
class Ignored:
    """A setting of an untrusted project's configuration that was ignored.

    Attributes:
        file: The path of the configuration.
        key: The dotted key; `""` for the whole file.
        wrong: The error in it, or `None` if it only lacks trust.
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
        block: Names of plugins, or of distributions, that are never loaded, without duplicates.
        project_block: The same of an untrusted project: it applies only to plugins that register nothing but tools.
        untrusted: Names of plugins, or of distributions, whose tools' claims count only if they add caution.
        enable: Names of the only plugins, or distributions, that are loaded; `None` for all.
        rename: `"tool"` or `"plugin:tool"` -> its name in the registry.
        prefix: Plugin -> prefix of the names of its tools.
        conflicts: What happens when two plugins register the same name; `None`: the name stays with the distribution
            that it was accepted for, and is held back if that is neither.
        where: The predicate that every resolution starts with, as text, or `None`.
        plugins: Plugin, or distribution -> its settings.
        executors: Executor -> its settings: its `kind`, if that has another name, the `codec` of what it sends, and the
            arguments of what makes it.
        tools: Pattern of tool names -> the `executor`, `queue` and `sends` of these tools; the last one that has it
            counts.
        lock: The settings of the plugin that checks definitions by a lock file; with `required = true`, no tool is
            offered without it.
        autoload: Whether installed plugins are loaded at all.
        files: The files that were read, in order.
        narrowing: Those of them that aren't trusted.
        looked_at: Every file whose creation, change or removal would change this value, `files` included.
        ignored: What was ignored of an untrusted project's file.
        selections: Name -> the tools that `-T` with this name selects, as for `-T`.
    """

    block: tuple[str, ...] = field(default=(), converter=tuple_of("block", str))
    project_block: tuple[str, ...] = field(default=(), converter=tuple_of("project_block", str))
    untrusted: tuple[str, ...] = field(default=(), converter=tuple_of("untrusted", str))
    enable: tuple[str, ...] | None = field(default=None, converter=converters.optional(tuple_of("enable", str)))
    rename: Mapping[str, str] = _NOTHING
    prefix: Mapping[str, str] = _NOTHING
    conflicts: ConflictPolicy | None = None
    where: str | None = None
    plugins: Mapping[str, PluginSettings] = _NOTHING
    executors: Mapping[str, Mapping[str, Any]] = _NOTHING
    tools: Mapping[str, Mapping[str, Any]] = _NOTHING
    lock: Mapping[str, Any] = _NOTHING
    autoload: bool = True
    files: tuple[str, ...] = ()
    narrowing: tuple[str, ...] = ()
    looked_at: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    selections: Mapping[str, str] = _NOTHING

    def settings(self, plugin: str, distribution: str | None = None) -> PluginSettings:
        """The settings of a plugin; those under its distribution's name take precedence. Empty if there are none."""
        own = normalised(distribution) if distribution else None
        named = (settings for name, settings in self.plugins.items() if own is not None and normalised(name) == own)
        return next(named, self.plugins.get(plugin, _NOTHING))

    def placed(self, policy: Policy, name: str) -> Policy:
        """The policy of a plugin's tool of this name, with what `tools` says of it."""
        for pattern, facts in self.tools.items():
            if fnmatchcase(name, pattern.replace("[", "[[]")):  # as in predicates, only `*` and `?` are special
                policy = evolve(policy, **facts)
        return policy


NO_CONFIG: Final = Config()  # the configuration without any file


def read_config(file: str) -> bytes | None:
    """The bytes of a configuration file, or `None` if it doesn't exist.

    Raises `ConfigError` if it can't be read, or is larger than 256 KiB.
    """
    try:
        return read_bounded(file, _MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"can't be read: {os_error_text(error)}", file=file) from None


def parse_config(content: bytes, file: str, wrong: list[ConfigError] | None = None) -> dict[str, Any]:
    """Parses and checks the content of a configuration file, TOML; errors have the path `file`.

    Raises `ConfigError` if it isn't TOML, or a key is unknown or of the wrong type. `wrong`, if given, collects errors
    of single keys, which are then left out.
    """
    try:
        table = parse_toml(content)
    except ValueError as error:
        raise ConfigError(str(error), file=file) from None
    values: dict[str, Any] = {}
    for key, value in table.items():
        try:
            if key not in _CHECKS:
                raise _WrongValueError(f"unknown key.{near_or_known(key, _CHECKS)}", key)  # noqa: TRY301  as its checks do
            values[key] = _CHECKS[key](value, key)
        except _WrongValueError as error:
            cause, place = error.args
            if wrong is None:
                raise ConfigError(cause, file=file, key=place) from None
            wrong.append(ConfigError(cause, file=file, key=place))
    for key in values.keys() & {"plugins", "executors", "lock"}:
        values[key] = _resolve_paths(values[key], Path(file).parent)
    return values


class _WrongValueError(Exception):
    """A value in a configuration file is wrong; its arguments are the reason and its key."""


def _of_type(kind: type, wanted: str, value: Any, key: str) -> Any:
    if not isinstance(value, kind):
        raise _WrongValueError(f"expected {wanted}, found {type(value).__name__}", key)
    return value


def _text(value: Any, key: str) -> str:
    if not _of_type(str, "a string", value, key).strip():
        raise _WrongValueError("must not be empty", key)
    return value


def _names(value: Any, key: str) -> tuple[str, ...]:
    items: list[Any] = _of_type(list, "a list of plugin names", value, key)
    return tuple(dict.fromkeys(_text(item, f"{key}[{index}]") for index, item in enumerate(items)))


_table: Final[Callable[[Any, str], dict[str, Any]]] = partial(_of_type, dict, "a table")


def _texts(value: Any, key: str) -> dict[str, str]:
    return {part: _text(each, f"{key}.{part}") for part, each in _table(value, key).items()}


def _tool_names(value: Any, key: str) -> dict[str, str]:
    """A table whose values are tool names or prefixes of tool names."""
    names = _texts(value, key)
    for part, name in names.items():
        if not is_valid_name(name):
            allowed = "use A-Z, a-z, 0-9, '_' and '-', a letter or '_' first, at most 64 characters"
            raise _WrongValueError(f"{name!r} isn't valid in a tool's name: {allowed}", f"{key}.{part}")
    return names


def _renames(value: Any, key: str) -> dict[str, str]:
    names, first = _tool_names(value, key), dict[str, str]()
    for tool, name in names.items():
        if first.setdefault(name, tool) != tool:
            raise _WrongValueError(f"{first[name]!r} is also renamed to {name!r}", f"{key}.{tool}")
    return names


def _policy(value: Any, key: str) -> str:
    if (text := _text(value, key)) not in _CONFLICTS:
        raise _WrongValueError(f"{text!r} is not a conflict policy.{near_or_known(text, _CONFLICTS)}", key)
    return text


def _predicate(value: Any, key: str) -> str:
    """A predicate's text in which brackets and quotes match, so that it can't close the brackets around it."""
    text = _text(value, key)
    bare = _QUOTED.sub(r"\1", text)  # brackets count outside quotes only (`"` as in JSON, `'` without escapes)
    depths = [0, *accumulate((character == "(") - (character == ")") for character in bare)]
    if re.search("[\"']", bare) or min(depths) or depths[-1]:
        raise _WrongValueError(f"brackets or quotes don't match in {text!r}", key)
    return text


def _tables(value: Any, key: str) -> dict[str, dict[str, Any]]:
    return {name: _table(each, f"{key}.{name}") for name, each in _table(value, key).items()}


def _executors(value: Any, key: str) -> dict[str, dict[str, Any]]:
    tables = _tables(value, key)
    for name, table in tables.items():
        _texts({own: table[own] for own in OF_EXECUTORS if own in table}, f"{key}.{name}")
    return tables


def _placements(value: Any, key: str) -> dict[str, dict[str, Any]]:
    tables = _tables(value, key)
    for pattern, table in tables.items():
        for name, each in table.items():
            place = f"{key}.{pattern}.{name}"
            if name not in _PLACEMENT:
                raise _WrongValueError(f"unknown key.{near_or_known(name, _PLACEMENT)}", place)
            try:
                Policy(**{name: each})
            except (TypeError, ValueError) as error:
                raise _WrongValueError(str(error), place) from None
    return tables


def _lock(value: Any, key: str) -> dict[str, Any]:
    table = _table(value, key)
    _of_type(bool, "true or false", table.get("required", False), f"{key}.required")
    return table


def _resolve_paths(value: Any, folder: Path) -> Any:
    """Resolves texts that begin with `./` or `../` against the folder of their file."""
    if isinstance(value, dict):
        return {key: _resolve_paths(each, folder) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_resolve_paths(each, folder) for each in cast("list[Any]", value)]
    if isinstance(value, str) and value.startswith(("./", "../")):
        return os.path.normpath(folder / value)
    return value


_CHECKS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "block": _names,
    "untrusted": _names,
    "enable": _names,
    "rename": _renames,
    "prefix": _tool_names,
    "conflicts": _policy,
    "where": _predicate,
    "plugins": _tables,
    "executors": _executors,
    "tools": _placements,
    "lock": _lock,
    "selections": _texts,
}


def trust_file() -> Path:
    """The file of trusted digests: `trusted.json` in the user's state folder, as platformdirs names it."""
    return Path(user_folder("state"), _TRUSTED)


def trust(file: str | Path) -> str:
    """Trusts a file with its present content; returns the digest of that, `"sha256:..."`.

    Raises `ConfigError` if the file can't be read, or the decision can't be stored.
    """
    path = str(Path(file).resolve())
    try:
        digest = _digest(read_bounded(path, _MOST_TRUSTED))
        write_state(_TRUSTED, {"files": {**_load_trust(), path: digest}})
    except OSError as error:
        raise ConfigError(f"can't be trusted: {os_error_text(error)}", file=str(file)) from None
    return digest


def distrust(file: str | Path) -> bool:
    """Revokes trust; returns whether the file was trusted. Raises `ConfigError` if the decision can't be stored."""
    trusted = _load_trust()
    if trusted.pop(str(Path(file).resolve()), None) is None:
        return False
    try:
        write_state(_TRUSTED, {"files": trusted})
    except OSError as error:
        raise ConfigError(f"trust can't be revoked: {os_error_text(error)}", file=str(file)) from None
    return True


def is_trusted(file: str | Path, content: bytes) -> bool:
    """Whether the user has trusted the file with this content."""
    return _load_trust().get(str(Path(file).resolve())) == _digest(content)


def may_bind(file: str | Path, content: bytes | None = None) -> bool:
    """Whether a file named by settings may decide what runs: it isn't part of a project, or is trusted as it is.

    A file below a `pegboard.toml` (other than the user's own) or in a git checkout is part of a project. Raises
    `OSError` if the content isn't given and can't be read.
    """
    places, own = {Path(file).absolute(), Path(file).resolve()}, Path(user_folder("config"), CONFIG_NAME)
    marks = {folder / mark for place in places for folder in place.parents for mark in (CONFIG_NAME, ".git")}
    if not any(mark.exists() for mark in marks - {own}):
        return True
    return is_trusted(file, read_bounded(str(file), _MOST_TRUSTED) if content is None else content)


def _digest(content: bytes) -> str:
    import hashlib

    return "sha256:" + hashlib.sha256(content).hexdigest()


def _load_trust() -> dict[str, str]:
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
    """Reads and merges all configuration, later files overriding earlier ones: the user's, the project's, `explicit`.

    Blocked plugins and predicates accumulate. Until it is trusted, a project's file may only remove tools, by `where`
    and by `block` of plugins that register nothing but tools, and trust, by `untrusted`. The rest of it, and its
    errors, are in `Config.ignored`.

    Args:
        user: Whether to read the user's own file (`pegboard.toml` in platformdirs' user config folder).
        project: The project's file; `"search"` finds the nearest in the current folder and above it.
        explicit: A file that the user names (`--config`); trusted like the user's own.
        environ: Environment with `PEGBOARD_BLOCK` (names, comma-separated) and `PEGBOARD_AUTOLOAD` (`0` or `1`);
            the process's by default.

    Raises:
        ConfigError: A file other than an untrusted project's can't be read, isn't TOML, has an unknown key or a value
            of the wrong type, or can be written by others; `explicit` is missing; a variable is invalid.
    """
    environ = os.environ if environ is None else environ
    own, local = Path(user_folder("config"), CONFIG_NAME) if user else None, None if project == "search" else project
    if project == "search":
        with suppress(OSError):  # the current folder was removed
            local = project_file(str(Path.cwd()), environ)
    if explicit is not None and not explicit.exists():
        raise ConfigError("no such file", file=str(explicit.absolute()))
    sources: dict[Path, tuple[str, bool]] = {}  # each once, with whether it binds without trust
    for file, binds in ((own, True), (local, False), (explicit, True)):
        if file is not None and (binds or Path(file).resolve() not in sources):
            sources.pop(Path(file).resolve(), None)
            sources[Path(file).resolve()] = (str(Path(file).absolute()), binds)
    config = Config(autoload=autoload_in(environ))
    for file, binds in sources.values():
        config = _with_file(config, file, binds=binds)
    names = environ.get("PEGBOARD_BLOCK", "").split(",")
    return _with(config, "block", tuple(name.strip() for name in names if name.strip()))


_NARROWING: Final = {"block": "project_block", "untrusted": "untrusted", "where": "where"}  # of an untrusted project


def _with_file(config: Config, file: str, *, binds: bool) -> Config:
    """Merges a file, if it exists; one that neither binds nor is trusted may only narrow."""
    looked_at = (*config.looked_at, file, *(() if binds else (str(trust_file()),)))
    config = evolve(config, looked_at=tuple(dict.fromkeys(looked_at)))
    wrong = list[ConfigError]()
    try:
        content = read_config(file)
        if content is None:
            return config
        if binds and others_can_write(file):
            raise ConfigError(OTHERS_WRITE, file=file)  # noqa: TRY301  as what reading it raises
        binds = binds or is_trusted(file, content)
        narrowing = config.narrowing if binds else (*config.narrowing, file)
        config = evolve(config, files=(*config.files, file), narrowing=narrowing)
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
    """Merges a value with that of earlier files."""
    earlier = getattr(config, key)
    if earlier is not None and key not in ("enable", "conflicts"):
        if key == "where":
            value = f"({earlier}) and ({value})"
        elif key in _OF_TABLES:
            value = {**earlier, **{name: {**earlier.get(name, {}), **each} for name, each in value.items()}}
        elif isinstance(value, dict):
            value = {**earlier, **cast("dict[str, Any]", value)}
        else:
            value = tuple(dict.fromkeys((*earlier, *value)))
    return evolve(config, **{key: value})


SERVICE: Final = "pegboard"  # the service in the keyring under which secrets are stored
_KEYS: Final = "keys.json"
_SECRET_NAME: Final = re.compile(
    r"(?i)key|token(?!s$)|secret|pass(?:w|p|c|$)|pwd|credential|auth|cookie|bearer|private|signature|dsn|webhook"
)
_SECRET_VALUE: Final = re.compile(
    r"\b(?:[sprh][kf][-_]|gh[opsu]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|eyJ)[\w-]{6}|://[^/\s]*@|-----BEGIN|"
    r"^(?=\S*\d)(?=\S*[A-Za-z])[\w+=-]{24,}$|(?i:\b(?:bearer|basic)\s+\S|"
    r"(?:pass(?:word|wd|phrase)?|secret|token|api[_-]?key|authorization|cookie|\bsig(?:nature)?)[\"']?\s*[:=]\s*\S|"
    r"\s-u\s*[^\s:]+:\S|\b(?:mysql|mariadb|sshpass)\b.*\s-p)"
)


def reference(value: Any) -> tuple[str, str] | None:
    """`("env", "NAME")` or `("keyring", "NAME")` if a value is a reference to a secret."""
    if not isinstance(value, Mapping) or len(cast("Mapping[str, Any]", value)) != 1:
        return None
    ((kind, name),) = cast("Mapping[str, Any]", value).items()
    return (kind, name) if kind in ("env", "keyring") and isinstance(name, str) else None


def with_secrets(settings: Mapping[str, Any], missing: list[str], secrets: list[str]) -> dict[str, Any]:
    """Resolves references to secrets; a setting whose secret is missing is left out.

    `missing` collects a sentence for each missing secret, `secrets` those found, for `hide` in the plugin's errors.
    """

    def resolved(path: str, value: Any) -> Any:
        if (found := reference(value)) is not None:
            if (secret := _secret(path, *found, missing)) is not None:
                secrets.append(secret)
            return secret
        if isinstance(value, Mapping):
            given = cast("Mapping[str, Any]", value)
            return {key: new for key, each in given.items() if (new := resolved(f"{path}.{key}", each)) is not None}
        if isinstance(value, list):
            items = (resolved(f"{path}[{place}]", each) for place, each in enumerate(cast("list[Any]", value)))
            return [item for item in items if item is not None]
        return value

    return {key: value for key, each in settings.items() if (value := resolved(key, each)) is not None}


def lacks_secrets(settings: Mapping[str, Any]) -> bool:
    """Whether settings refer to a missing secret."""
    with_secrets(settings, missing := [], [])
    return bool(missing)


def _secret(path: str, kind: str, name: str, missing: list[str]) -> str | None:
    try:
        secret = os.environ.get(name) if kind == "env" else _keyring("get_password", name)
    except ConfigError as error:
        missing.append(f"setting {path!r} is left out: {error}")
        return None
    if secret is None:
        fix = f"the environment has no {name}" if kind == "env" else f"run 'registry keys set {name}'"
        missing.append(f"setting {path!r} is left out: {fix}")
    return secret


def without_secrets(value: Any, name: str = "") -> Any:
    """Settings with secrets, recognised by their name or value, replaced by a placeholder."""
    if reference(value) is not None:
        return value
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        return {key: without_secrets(each, name if _SECRET_NAME.search(name) else key) for key, each in given.items()}
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        # An item after an option is its value: `["--password", "..."]`.
        options = [each if isinstance(each, str) and each.startswith("-") else name for each in ["", *items]]
        return [without_secrets(each, option) for option, each in zip(options, items, strict=False)]
    if isinstance(value, bool | None):
        return value
    return HIDDEN if _SECRET_NAME.search(name) or (isinstance(value, str) and _SECRET_VALUE.search(value)) else value


def _keyring(method: str, *arguments: str) -> Any:
    """Calls a method of the system's keyring; raises `ConfigError` if it fails, or the package isn't installed."""
    try:
        import keyring  # pyright: ignore[reportMissingImports]  slow to import
    except ImportError:
        raise ConfigError("needs the package keyring: pip install 'pegboard[keyring]'", file="keyring") from None
    try:
        return getattr(keyring, method)(SERVICE, *arguments)  # pyright: ignore[reportUnknownArgumentType]
    except Exception as error:
        raise ConfigError(f"{method} failed: {cause_of(error)}", file="keyring") from error


def key_names() -> list[str]:
    """The names of the keys that were set; they are stored in a file, as a keyring can't list them."""
    names: Any = read_state(_KEYS).get("names")
    return sorted(map(str, names)) if isinstance(names, list) else []  # pyright: ignore[reportUnknownArgumentType]


def set_key(name: str, secret: str) -> None:
    """Stores a key in the keyring.

    Raises `ConfigError` if the keyring isn't installed, or fails, and `OSError` if the name can't be stored.
    """
    _keyring("set_password", name, secret)
    write_state(_KEYS, {"names": sorted({*key_names(), name})})


def remove_key(name: str) -> bool:
    """Removes a key from the keyring; returns whether there was one. Raises as `set_key` does."""
    if exists := _keyring("get_password", name) is not None:
        _keyring("delete_password", name)
    write_state(_KEYS, {"names": [each for each in key_names() if each != name]})
    return exists
