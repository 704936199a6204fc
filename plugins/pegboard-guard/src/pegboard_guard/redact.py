"""Redaction of secrets in texts and JSON data: values of secret keys, and what looks like a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define

from pegboard.toolsets.predicates import matcher

REDACTED: Final = "[redacted]"
CUT: Final = "..."
KEYS: Final = (
    "*token*",
    "*password*",
    "*passwd*",
    "*passphrase*",
    "*pwd*",
    "*secret*",
    "*api_key*",
    "*access_key*",
    "*private_key*",
    "*authorization*",
    "*credential*",
    "*cookie*",
    "*signature*",
    "*bearer*",
    "auth",
    "pass",
    "sig",
)
"""Keys whose values are secrets. Case, `_`, `-`, `.` and spaces make no difference: `apiKey` is `api_key`."""

_MOST_INNER: Final = 20_000
_MOST_DEPTH: Final = 32
_MOST_BEFORE: Final = 200
_MOST_NUMBER: Final = 1e30
_SEPARATORS: Final = re.compile(r"[_\-.\s]")
_FORMATS: Final = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
    r"\bsk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and others that took it over
    r"\b(?:sk|rk|pk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}",  # Stripe
    r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",  # AWS
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",  # GitLab
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"\bxapp-[A-Za-z0-9-]{10,}",
    r"\bAIza[A-Za-z0-9_-]{30,}",  # Google
    r"\bya29\.[A-Za-z0-9_-]{16,}",
    r"\bGOCSPX-[A-Za-z0-9_-]{16,}",
    r"\bhf_[A-Za-z0-9]{20,}",  # Hugging Face
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[A-Za-z0-9_-]{20,}",
    r"\bdo[opr]_v1_[a-f0-9]{32,}",  # DigitalOcean
    r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",  # JSON Web Tokens
    r"(?i:\bbearer\s{1,5}(?=\S*[0-9._~+/=-])|\b(?:bearer|basic)\s{1,5}(?=\S{8}))[A-Za-z0-9._~+/=-]+",
    r"(?<=://)[^\s/@:]{0,200}:[^\s/?#]{1,200}(?=@)",  # user:password@host
)


@define
class _Room:
    """Size budget in characters; negative once something was cut off."""

    left: int

    def spend(self, text: str) -> str:
        """Spends the length of the text, and returns it."""
        self.left -= len(text) + 1
        return text

    def limit(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, as long as there is room."""
        for item in items:
            if self.left < 0:
                return
            yield item


class Redactor:
    """Redacts the values of secret keys, and what looks like a secret.

    Args:
        keys: Further patterns of keys.
        values: Further regular expressions; what they match in texts is redacted.

    Raises:
        ValueError: One of `values` isn't a regular expression.
    """

    def __init__(self, keys: Iterable[str] = (), values: Iterable[str] = ()) -> None:
        self.keys: tuple[str, ...] = (*KEYS, *keys)
        # Compiled here, while the plugin is loaded: off the loop.
        self._values = [_compile(value, number) for number, value in enumerate(values)]
        self._values.append(re.compile("|".join(_FORMATS), re.DOTALL))
        self._named = _name_pattern(self.keys)
        self._secret = [matcher(_plain(key)) for key in self.keys]

    def is_secret(self, key: str) -> bool:
        """Whether the value of this key is redacted."""
        names = {_plain(key), _plain(_SEPARATORS.split(key)[-1])}  # `DB_PASS` is a `pass`
        return any(matches(name) for matches in self._secret for name in names)

    def text(self, text: str, most: int = 200) -> str:
        """A text with secrets redacted, cut to `most` characters."""
        text, was_cut = _cut(text, most)
        for value in self._values:
            text = value.sub(REDACTED, text)
        text = self._named.sub(lambda match: f"{match[1] or match[2]}{REDACTED}", text)
        for _ in range(_MOST_OPTIONS):
            text = _OPTION.sub(rf"\1{REDACTED}", text)
        return text + CUT if was_cut else text

    def data(self, value: Any, most: int = 2000) -> tuple[Any, bool]:
        """JSON data with secrets redacted; the value of a secret key as a whole.

        Args:
            value: The data.
            most: How many characters of keys and texts there may be; the rest is cut off.

        Returns:
            The data, and whether anything was cut off.
        """
        room = _Room(most)
        return self._data(value, room, _MOST_DEPTH), room.left < 0

    def _data(self, value: Any, room: _Room, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, room, depth)
        room.left -= 1
        if value is None or isinstance(value, bool) or _is_plain_number(value):
            return value
        if depth == 0:
            room.left = -1
            return CUT
        if isinstance(value, Mapping):
            return dict(self._members(value, room, depth))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, list | tuple):
            return list(self._items(value, room, depth))  # pyright: ignore[reportUnknownArgumentType]
        return f"({type(value).__name__})"

    def _items(self, values: Sequence[Any], room: _Room, depth: int) -> Iterator[Any]:
        """The items; a text that is a secret because of those before it, as in `["--password", "x"]`, is redacted."""
        before, is_pair = "", len(values) == 2  # a name and its value
        for item in room.limit(values):
            if isinstance(item, str) and len(item) <= _MOST_INNER:
                line = before + item
                hides = (is_pair and self.is_secret(before.strip())) or not self.text(line, len(line)).endswith(item)
                before = f"{line[-_MOST_BEFORE:]} "
                if hides and item and self.text(item, len(item)) == item:
                    yield room.spend(REDACTED)
                    continue
            yield self._data(item, room, depth - 1)

    def _text(self, value: str, room: _Room, depth: int) -> str:
        inner = _inner(value) if depth else None
        if inner is None:
            return room.spend(self.text(value, max(room.left, 0)))
        return json.dumps(self._data(inner, room, depth - 1))

    def _members(self, value: Mapping[Any, Any], room: _Room, depth: int) -> Iterator[tuple[str, Any]]:
        for key in room.limit(value):
            name = str(key)
            shown = room.spend(self.text(name, max(room.left, 0)))
            yield shown, REDACTED if self.is_secret(name) else self._data(value[key], room, depth - 1)


_HEADER: Final = r"(\b(?:(?:proxy-)?authorization|(?:set-)?cookie)\s{0,5}:\s{0,5})[^\r\n]+?(?=[\"'](?:\s|\Z)|[\r\n]|\Z)"
"""A header whose value is a secret up to the end of the line, as it may have several parts."""

_QUOTED: Final = "|".join(
    rf"\\{{1,3}}{each}[^{each}]*(?:{each}|\Z)|{each}(?:[^{each}\\]|\\[\s\S]?)*(?:{each}|\Z)" for each in "\"'"
)
_VALUE: Final = rf"""{_QUOTED}|(?:bearer|basic|token)\s{{1,5}}\S+|[^\s"'&,;}}\]]+"""
_ON: Final = r"\b[^\n;|&]{0,200}?\s"
_OPTION: Final = re.compile(
    rf"""(\bcurl{_ON}(?:-[A-Za-z]{{0,5}}u|--(?:proxy-)?user)[\s=]{{0,5}}(?:(?=["'])|[^\s:"']{{1,200}}:)"""
    rf"|\b(?:mysql\w*|mariadb[\w-]*|mongo\w*|sshpass|(?:un)?zip|7za?|(?:docker|podman)\s{{1,5}}login){_ON}-p\s{{0,5}}"
    rf"|\b(?:curl{_ON}-b|redis-cli{_ON}-a|ldap\w+{_ON}-w)\s{{0,5}}"
    rf"|-pass(?:in|out)?\s{{1,5}}pass:)(?!\[redacted\]|[\"']\[redacted\])(?:{_VALUE})",
    re.IGNORECASE,
)
"""Options of commands with a secret as their value: `curl -u user:password`, `mysql -pPASSWORD`."""

_MOST_OPTIONS: Final = 4  # of one command


def _compile(value: str, number: int) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except re.error as error:
        # Without the value, which may be a secret itself.
        raise ValueError(f"redact_values[{number}] isn't a regular expression: {error}") from None


def _name_pattern(keys: Iterable[str]) -> re.Pattern[str]:
    """`password: x`, `"apiKey": "x"`, `--token x`, `?secret=x`, in the middle of a text."""
    words = "|".join(sorted((word for key in keys if (word := _word(key))), key=len, reverse=True))
    end = r"""[\w.-]{0,40}[\\"']{0,4}"""
    named = rf"(?:{words}){end}\s{{0,5}}(?:=>|:=|:|=)\s{{0,5}}"
    option = rf"(?<![\w-])--[\w-]{{0,40}}(?:{words})[\w-]{{0,40}}\s{{1,5}}"
    return re.compile(rf"{_HEADER}|({named}|{option})(?:{_VALUE})", re.IGNORECASE)


def _is_plain_number(value: Any) -> bool:
    """Whether this is a number that JSON can represent in a few characters."""
    return isinstance(value, int | float) and abs(value) < _MOST_NUMBER  # false for NaN


def _inner(text: str) -> Any:
    """The object or array in a JSON text, such as the body of a request; `None` for other texts."""
    if len(text) > _MOST_INNER or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _plain(key: str) -> str:
    return _SEPARATORS.sub("", key.casefold())


def _word(pattern: str) -> str:
    """The regular expression for a key pattern in a text; empty unless it has exactly one word."""
    parts = [part for part in pattern.split("*") if part]
    if len(parts) != 1 or "?" in pattern:
        return ""
    word = r"[_\-. ]?".join(re.escape(piece) for piece in _SEPARATORS.split(parts[0]) if piece)
    return word if "*" in pattern else rf"(?<![A-Za-z]){word}\b"


def _cut(text: str, most: int) -> tuple[str, bool]:
    """The beginning of a long text, up to the last space: half a secret would no longer look like one."""
    if len(text) <= most:
        return text, False
    kept = text[:most]
    return kept[: len(kept) - len(kept.split()[-1])] if kept.split() and not kept[-1].isspace() else kept, True
