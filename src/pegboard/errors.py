"""Every exception that pegboard raises, all of them `PegboardError`s; near misses, and error texts without secrets.

Facts are in attributes, so that a program never has to parse a message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    import logging

    import attrs

_Validator: TypeAlias = "Callable[[Any, attrs.Attribute[Any], Any], None]"
_MOST_COMPARED: Final = 200
_MOST_CHARACTERS: Final = 100
MOST_DETAIL: Final = 20_000  # maximum characters of an error's detail
HIDDEN: Final = "(hidden)"  # what stands for a secret in a text
_T = TypeVar("_T")
_R = TypeVar("_R")


def suggest(word: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> tuple[str, ...]:
    """Up to `most` near misses of `word` among `known`, best first; the same input gives the same answer.

    `cutoff`: how similar they are at least, from 0 to 1.

    Some 20 ms among 10,000 names: only the 200 that share most pairs of letters with the word are compared in full.
    """
    import difflib

    lowered: dict[str, str] = {}
    for name in sorted(set(known)):
        lowered.setdefault(name.lower(), name)
    word, names = word[:_MOST_CHARACTERS].lower(), list(lowered)
    if len(names) > _MOST_COMPARED:
        import heapq

        length, pairs = len(word), {word[start : start + 2] for start in range(len(word) - 1)} or {word}
        names = heapq.nlargest(
            _MOST_COMPARED, names, lambda name: sum([pair in name for pair in pairs]) / (length + len(name))
        )
    return tuple(lowered[name] for name in difflib.get_close_matches(word, names, n=most, cutoff=cutoff))


def did_you_mean(near: Sequence[str]) -> str:
    """`" Did you mean 'a' or 'b'?"`, or nothing where there is no near miss."""
    return f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""


def near_or_known(word: object, known: Iterable[str]) -> str:
    """`did_you_mean` of a word's near misses, or the list of known words where there are none."""
    names = [*known]
    return did_you_mean(suggest(str(word), names)) or f" There are {', '.join(names) or 'none'}."


def one_of(*known: str | None) -> _Validator:
    """Validator for attrs: one of these words, else a `ValueError` with near misses."""

    def check(_owner: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value not in known:
            near = near_or_known(value, filter(None, known))
            raise ValueError(f"{attribute.name}: unknown value {value!r:.100}.{near}")

    return check


def instance_of(*kinds: type) -> _Validator:
    """Validator for attrs: an instance of one of these classes, else a `TypeError`."""

    def check(_owner: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, kinds):
            names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
            raise TypeError(f"{attribute.name} must be of type {names}, got {value!r:.100}")

    return check


def at_least(least: float, *, or_none: bool = False, exclusive: bool = False) -> _Validator:
    """Validator for attrs: a number from `least` on, else a `ValueError`; `exclusive` leaves out `least` itself."""

    def check(_owner: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None and or_none:
            return
        number: Any = math.nan if value is None or isinstance(value, bool) else value
        try:
            fits: bool = number > least if exclusive else number >= least
        except TypeError:
            fits = False
        if not fits:
            wanted = f"above {least:,}" if exclusive else f"of at least {least:,}"
            raise ValueError(f"{attribute.name} must be a number {wanted}, got {value!r:.100}")

    return check


def tuple_of(name: str, *kinds: type[_T]) -> Callable[[Iterable[_T]], tuple[_T, ...]]:
    """Converter for attrs: a tuple of instances of these classes, else a `TypeError` that names the attribute."""
    wanted = " or ".join(kind.__name__ for kind in kinds)

    def convert(values: Iterable[_T]) -> tuple[_T, ...]:
        if isinstance(values, str) or not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  a caller may pass anything
            raise TypeError(f"{name} must be a collection of {wanted}, got {values!r:.100}")
        items = tuple(values)
        for item in items:
            if not isinstance(item, kinds):
                raise TypeError(f"{name} must be of type {wanted}, got {item!r:.100}")
        return items

    return convert


def with_name(name: str, convert: Callable[[_T], _R]) -> Callable[[_T], _R]:
    """Converter for attrs: another one, whose `TypeError` or `ValueError` then begins with the attribute's name."""

    def converted(value: _T) -> _R:
        try:
            return convert(value)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name}: {error}") from error

    return converted


class UnknownKeyError(ValueError):
    """A table has an unknown key; `known` are those that it may have."""

    known: Sequence[str] = ()


def check_keys(table: Mapping[str, Any], known: Iterable[str], place: str = "") -> None:
    """Raises `UnknownKeyError` for an unknown key, with near misses."""
    known = [*known]
    for key in table:
        if key not in known:
            text = f"{place}{'.' if place else ''}{key!s:.80}: unknown key.{near_or_known(key, known)}"
            error = UnknownKeyError(text)
            error.known = known
            raise error


def first_party() -> Mapping[str, Mapping[str, str]]:
    """Which first-party package provides what, by kind and name, read from `packages.json`: for hints on installing."""
    import json
    from pathlib import Path

    packages: Any = json.loads(Path(__file__).with_name("packages.json").read_text(encoding="utf-8"))
    return packages


def not_provided(kind: str, name: str, known: Iterable[str]) -> str:
    """`"no installed plugin provides 'openai': pip install pegboard-openai"`; near misses where no package is known.

    A near miss that isn't installed comes with its package; the package's names of other kinds count as near misses.
    `kind`: `"exporters"`, `"models"` or `"executors"`.
    """
    ours = first_party()
    packages, names = ours[kind], sorted(set(known))
    if name in packages:
        return f"no installed plugin provides {name!r}: pip install {packages[name]}"
    elsewhere = {table.get(name) for table in ours.values()}  # a model of 'google' has the exporter 'gemini'
    near = [each for each in packages if packages[each] in elsewhere] or suggest(name, {*names, *packages})
    installs = sorted({packages[each] for each in near if each in packages and each not in names})
    more = f" (pip install {' '.join(installs)})" if installs else ""
    what = {"models": "providers of models"}.get(kind, kind)
    there = f"Known {what}: {', '.join(names)}" if names else f"No {what} are known"
    return f"no installed plugin provides {name!r}.{did_you_mean(near)}{more} {there}"


def checked(what: str, value: Any, *kinds: type) -> Any:
    """The value, if it is of one of these types; else a `TypeError`."""
    if not isinstance(value, kinds):
        raise TypeError(f"{what} must be {' or '.join(kind.__name__ for kind in kinds)}, got {value!r:.100}")
    return value


_SHORTEST_SECRET: Final = 4
_LONG_SECRET: Final = 8


def hide(text: str, secrets: Iterable[str], *, mark: str = HIDDEN) -> str:
    """A text with these secrets replaced by `mark`, also as URLs, JSON and Python's `repr` escape them.

    Where the text was truncated within a secret, its beginning is replaced, too. A secret of fewer than 8 characters
    is replaced only as a whole word, and one of fewer than 4 never: servers that need no key are given a dummy.
    """
    written = {form for each in secrets for form in _spellings(each.strip()) if len(form) >= _SHORTEST_SECRET}
    if not written:
        return text
    import re  # not loaded where there are no secrets

    escape = _escape if "\\" in text else re.escape  # JSON may escape any character
    for form in sorted(written, key=len, reverse=True):  # one may contain another
        pattern = "".join(map(escape, form))
        if len(form) < _LONG_SECRET:
            text = re.sub(rf"(?<!\w){pattern}(?!\w)", lambda _: mark, text)
            continue
        text = re.sub(pattern, lambda _: mark, text)
        beginnings = (form[:length] for length in range(len(form) - 1, _LONG_SECRET - 1, -1))
        if cut := next(filter(text.endswith, beginnings), None):
            text = f"{text.removesuffix(cut)}{mark}"
    return text


def _escape(character: str) -> str:
    r"""A pattern of a character as itself and as JSON may escape it: `\/`, `\u002f`."""
    import json
    import re

    units = character.encode("utf-16-be", "surrogatepass").hex()
    code = "".join(rf"\\u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    return rf"(?:\\?{re.escape(character)}|{re.escape(json.dumps(character)[1:-1])}|{code})"


def _spellings(secret: str) -> tuple[str, ...]:
    import json
    from urllib.parse import quote

    shown = repr(secret)[1:-1], repr(secret.encode(errors="replace"))[2:-1], json.dumps(secret)[1:-1]
    return secret, quote(secret, safe="", errors="replace"), *shown


def cause_of(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """An exception's type and text, in one line of at most 500 characters, with these secrets hidden.

    Only its text where that begins with the setting at fault, by its place in `pegboard.toml`.
    """
    try:
        text = " ".join(hide(str(error), secrets).split())[:500]
    except BaseException:  # noqa: BLE001  its `__str__` may raise anything
        text = ""
    if text.startswith("plugins."):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def operator_log() -> logging.Logger:
    """The logger `pegboard`, for the operator; it is silent until it has a handler."""
    import logging

    log = logging.getLogger("pegboard")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    return log


def log_failure(owner: str, error: BaseException) -> None:
    """Logs a failure for the operator."""
    operator_log().error("%s failed", owner, exc_info=error)


def detail_of(error: BaseException) -> str:
    """The message and the stack, truncated to 20,000 characters."""
    import traceback

    try:
        return "".join(traceback.format_exception(error, limit=50))[:MOST_DETAIL]
    except BaseException as failed:  # noqa: BLE001  its `__str__` may raise anything
        return f"{type(error).__name__} (its text failed: {type(failed).__name__})"


class PegboardError(Exception):
    """Base class of pegboard's exceptions.

    Attributes:
        outcome: The outcome of the turn that it ended, with a complete history; else `None`.
    """

    outcome: Any = None


class DefinitionError(PegboardError):
    """A tool's definition is invalid.

    Attributes:
        tool: The name of the tool being defined, or `""` where it isn't known yet.
        parameter: The path of the parameter or field at fault (`"filters[].op"`), or `""`.
        annotation: The type annotation at fault, or `None`.
        hint: What to do instead.
    """

    def __init__(
        self, message: str, *, tool: str = "", parameter: str = "", annotation: object = None, hint: str = ""
    ) -> None:
        self.message = message
        self.tool = tool
        self.parameter = parameter
        self.annotation = annotation
        self.hint = hint
        place = ": ".join(part for part in (tool and f"tool {tool!r}", parameter and f"{parameter!r}") if part)
        text = ": ".join(part for part in (place, message) if part)
        super().__init__(f"{text.rstrip('.')}. {hint}" if hint and text else text or hint)


class SchemaError(DefinitionError):
    """A JSON Schema is invalid, or the cost of validating by it is unbounded."""


class RegistrationError(PegboardError):
    """Something can't be registered."""


class InvalidNameError(RegistrationError):
    """A name that some provider would refuse.

    Attributes:
        name: The name as given.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        rule = "1 to 64 of A-Z, a-z, 0-9, '_' and '-', a letter or '_' first, and don't begin with 'pegboard_'"
        fix = "Pass name=... with such a name, or pegboard.tools.mapped_name(...) for a foreign one."
        super().__init__(f"{name!a} can't name a tool: names are {rule}. {fix}")


class DuplicateToolError(RegistrationError):
    """A tool's name is taken.

    Attributes:
        name: The name.
        held_by: The owner of the registered tool.
        wanted_by: The owner of the refused one.
    """

    def __init__(self, name: str, *, held_by: str, wanted_by: str) -> None:
        self.name = name
        self.held_by = held_by
        self.wanted_by = wanted_by
        what = f"tool {name!r} from {wanted_by} can't be registered: {held_by} has one of that name already"
        super().__init__(f"{what}. Rename one (name=...), dispose the earlier, or register with on_conflict='replace'.")


class UnknownToolError(PegboardError):
    """No tool of that name.

    Attributes:
        name: The name that was asked for.
        near: Up to three near misses.
    """

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        self.name = name
        self.near = tuple(near)
        super().__init__(f"no tool is called {name!a}.{did_you_mean(self.near)}")


class ExpressionError(PegboardError):
    """A predicate's text doesn't parse.

    Attributes:
        text: The whole text.
        position: Where the fault is, 0-based.
    """

    def __init__(self, message: str, *, text: str, position: int) -> None:
        self.text = text
        self.position = position
        # Shows the text around the fault in one line: it may be long, and may have line breaks.
        start = max(position - 40, 0)
        before, after = ("..." if start else ""), ("..." if len(text) > position + 40 else "")
        shown = "".join(c if c.isprintable() else "?" for c in text[start : position + 40])
        super().__init__(f"{message}\n  {before}{shown}{after}\n  {' ' * (len(before) + position - start)}^")


class PredicateError(PegboardError):
    """A predicate can't be written as text or JSON, or read back from it."""


class ToolsetError(PegboardError):
    """A toolset failed to list its tools.

    Attributes:
        toolset: Its name.
    """

    def __init__(self, toolset: str, cause: str) -> None:
        self.toolset = toolset
        super().__init__(f"toolset {toolset!r} failed: {cause}")


class ConfigError(PegboardError):
    """A configuration file is wrong.

    Attributes:
        file: Its path as text.
        key: The dotted key at fault, or `""`.
    """

    def __init__(self, message: str, *, file: str, key: str = "") -> None:
        self.file = file
        self.key = key
        super().__init__(f"{file}: {key + ': ' if key else ''}{message}")


class PluginError(PegboardError):
    """A plugin failed as a whole.

    Attributes:
        plugin: Its name.
        distribution: The distribution that brought it, or `None`.
        cause: What happened, one line.
    """

    def __init__(self, plugin: str, cause: str, *, distribution: str | None = None) -> None:
        self.plugin = plugin
        self.distribution = distribution
        self.cause = cause
        where = f" (from {distribution})" if distribution else ""
        super().__init__(f"plugin {plugin!r}{where}: {cause}")


class StaleSpecError(PluginError):
    """A tool in a plugin's code differs from its manifest or the cache."""


class ManifestError(PegboardError):
    """A manifest can't be read or written."""


class PendingError(PegboardError):
    """A pending call, or a person's answer to it, can't be read, was changed, or can't be recorded."""


class OperationError(PegboardError):
    """Nothing is pending under that id: unknown, completed already, or not the only one."""


class RunningLoopError(PegboardError):
    """A synchronous entry was used inside a running event loop."""


class ExportError(PegboardError):
    """A request, or a tool in it, can't be written in a provider's format.

    Attributes:
        exporter: The exporter's name, or `""` where none was found.
        tool: The tool's name, or `""` where it isn't about one.
    """

    def __init__(self, message: str, *, exporter: str = "", tool: str = "") -> None:
        self.exporter = exporter
        self.tool = tool
        super().__init__(f"{f'{exporter}: ' if exporter else ''}{f'tool {tool!r}: ' if tool else ''}{message}")


class ProcessorError(PegboardError):
    """A request processor failed, or returned something other than a request.

    Attributes:
        processor: Its name.
    """

    def __init__(self, message: str, *, processor: str) -> None:
        self.processor = processor
        super().__init__(f"request processor {processor!r}: {message}")


class CallbackError(PegboardError):
    """A callback around a model or a turn failed, took too long, or returned something invalid.

    Attributes:
        stage: The stage, such as `"before_model"`.
        owner: What registered the callback.
    """

    def __init__(self, message: str, *, stage: str, owner: str) -> None:
        self.stage = stage
        self.owner = owner
        super().__init__(f"{stage}: {message}")


class ModelError(PegboardError):
    """A model can't be asked, or its provider answered with an error.

    Attributes:
        message: What went wrong, without the provider's name.
        provider: The provider's name, or `""`.
        status: The HTTP status, or `None` where there was no answer.
        code: The provider's error code, or `None`.
        retryable: Whether the same request may succeed later.
        retry_after: Seconds after which it may, or `None` where that isn't known.
        request_id: The provider's id of the request, or `None`.
    """

    def __init__(  # noqa: PLR0913  facts, all by name
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        code: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        self.message = message
        self.provider = provider
        self.status = status
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.request_id = request_id
        super().__init__(f"{provider}: {message}" if provider else message)


class ToolError(PegboardError):
    """Raise it in a tool to return an error text to the model.

    Args:
        text: For the model: what happened and what to do.
        retryable: Whether the same call may succeed later.
        retry_after: Seconds after which it may, or `None` where that isn't known.
        hint: One more sentence for the model, or `None`.
    """

    def __init__(
        self, text: str, *, retryable: bool = False, hint: str | None = None, retry_after: float | None = None
    ) -> None:
        self.text = text
        self.retryable = retryable
        self.retry_after = retry_after
        self.hint = hint
        super().__init__(text)


class FatalToolError(PegboardError):
    """Raise it in a tool to end the turn: every call still gets its result, then this error surfaces."""


class TurnAbortedError(PegboardError):
    """A callback answered `Abort`: the turn ends, after every call has its result.

    Attributes:
        reason: The callback's.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the turn was aborted: {reason}")


class MissingServiceError(PegboardError, LookupError):
    """No service of the requested type is provided, or not in this way.

    Attributes:
        kind: The type.
    """

    def __init__(self, message: str, *, kind: object = None) -> None:
        self.kind = kind
        super().__init__(message)


class ArtifactError(ToolError):
    """An artifact doesn't exist, or can't be stored: its name isn't allowed, or it is too large.

    Attributes:
        name: Its name.
    """

    def __init__(self, text: str, *, name: str = "") -> None:
        self.name = name
        super().__init__(text)


class CallStoppedError(ToolError):
    """The call is over but its tool is still running; raised by `context.check()` to end the tool.

    Attributes:
        kind: `"aborted"` where the call was cancelled, `"timeout"` where its limit has passed.
    """

    def __init__(self, text: str, *, kind: Literal["aborted", "timeout"] = "aborted") -> None:
        self.kind: Literal["aborted", "timeout"] = kind
        super().__init__(text)
