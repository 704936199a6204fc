"""Approval requests and answers: what a person is asked, and `Once`, `Always`, `Reject` or `Later`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import attrs
from attrs import field, frozen

from pegboard.errors import PendingError, log_failure, tuple_of
from pegboard.json import json_problems, json_text, strict_json
from pegboard.schema.converter import JsonRecord, json_key, read_table
from pegboard.text import visible
from pegboard.threads import run_in_thread
from pegboard.timeout import cancels_the_call
from pegboard.tools.call import ToolCall
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.handler import Preview
from pegboard.tools.signature import takes_context
from pegboard.tools.spec import HOST
from pegboard.tools.tool import Tool
from pegboard.typing import JsonMapping, JsonObject


def parse_untrusted(text: str | bytes, most: int, what: str) -> Any:
    """Parses JSON from a source that isn't trusted, of at most `most` bytes; errors name it `what`.

    Raises:
        PendingError: It is too long, or isn't strict JSON: duplicate keys, NaN, infinities, lone surrogates.
    """
    try:
        data = text.encode() if isinstance(text, str) else text
        if len(data) > most:
            raise PendingError(f"not {what}: {len(data):,} bytes, at most {most:,} are taken")
        value = strict_json(data)
        json_text(value)  # 1e400 is read as an infinity
    except ValueError as error:
        raise PendingError(f"not {what}: {error}") from None
    return value


MOST_PATTERNS: Final = 200
MOST_PATTERN: Final = 4_096
MOST_FEEDBACK: Final = 20_000
LONGEST_SECONDS: Final = 366 * 24 * 3600.0


def _check_json(_self: object, _attribute: object, value: Any) -> None:
    if faults := json_problems(value):
        raise ValueError(f"a payload must be JSON: {faults[0]}")


def _patterns(value: Iterable[str] | str | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    patterns = (value,) if isinstance(value, str) else tuple_of("patterns", str)(value)
    if not (0 < len(patterns) <= MOST_PATTERNS and all(0 < len(each) <= MOST_PATTERN for each in patterns)):
        most = f"1 to {MOST_PATTERNS} texts of 1 to {MOST_PATTERN:,} characters"
        raise ValueError(f"patterns must be {most}; None takes exactly what was asked")
    return patterns


def _check_seconds(_self: object, _attribute: object, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < value <= LONGEST_SECONDS):
        raise ValueError(f"seconds must be more than 0 and at most a year, got {value!r:.80}")


def _check_feedback(_self: object, _attribute: object, value: Any) -> None:
    if value is not None and not (isinstance(value, str) and len(value) <= MOST_FEEDBACK):
        raise ValueError(f"feedback must be a string of at most {MOST_FEEDBACK:,} characters, got {value!r:.80}")


@frozen
class _Answer:
    def to_json(self) -> JsonObject:
        """`{"answer": "once"}`, and what else is set: `payload`; `patterns` and `seconds`; `feedback`."""
        hidden = ("rejected_with",)  # of the registry only
        facts = attrs.asdict(self, recurse=False, filter=lambda each, it: it is not None and each.name not in hidden)
        patterns = {"patterns": [*facts["patterns"]]} if "patterns" in facts else {}
        return {"answer": type(self).__name__.lower(), **facts, **patterns}


@frozen
class Once(_Answer):
    """Yes, this time.

    Attributes:
        payload: JSON data for the tool, which finds it in `context.confirmation`; or `None`.
    """

    payload: Any = field(default=None, validator=_check_json)


@frozen
class Always(_Answer):
    """Yes, and from now on, for this user in this session and for the tool as it is defined now.

    Attributes:
        patterns: What is allowed, as patterns of the permission; `None`: exactly what was asked.
        seconds: For how long; `None` for as long as the session lasts.
    """

    patterns: tuple[str, ...] | None = field(default=None, converter=_patterns)
    seconds: float | None = field(default=None, validator=_check_seconds)


@frozen
class Reject(_Answer):
    """No; what else waits in this session is rejected with it.

    Attributes:
        feedback: What the model should do instead; without it the turn ends.
        rejected_with: Set by the registry: the tool with whose rejection this call was rejected, or `None`.
    """

    feedback: str | None = field(default=None, validator=_check_feedback)
    rejected_with: str | None = field(default=None, metadata=json_key(""))


@frozen
class Later(_Answer):
    """The answer comes in another turn or process; until then the call is suspended."""


Answer: TypeAlias = Once | Always | Reject | Later  # what an approver answers
_KINDS: Final = {each.__name__.lower(): each for each in (Once, Always, Reject, Later)}


def answer_from_json(data: JsonMapping) -> Answer:
    """Reads what an answer's `to_json` writes, from a source that isn't trusted.

    Raises:
        PendingError: It isn't an answer.
    """
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        raise PendingError(f"an answer is an object, not {data!r:.80}")
    facts = dict(data)
    word = facts.pop("answer", None)
    if not isinstance(word, str) or word not in _KINDS:
        raise PendingError(f"unknown answer {word!r:.80}; expected one of {', '.join(_KINDS)}")
    try:
        return read_table(_KINDS[word], facts, "")
    except ValueError as error:
        raise PendingError(f"not an answer: {error}") from None


MOST_SHOWN: Final = 2_000  # characters of a value that isn't JSON; of a longer one only its type is shown

Subject: TypeAlias = Literal["call", "permission", "question"]
"""What is asked about: the whole call before it runs; a permission, or a question, from inside it."""


def new_id() -> str:
    """An id that can't be guessed: 160 random bits."""
    import secrets

    return secrets.token_hex(20)


@frozen
class ApprovalRequest(JsonRecord):
    """Request for a person's approval, with all that helps to decide.

    Only `preview` and `to_text()` are made for showing. Everything else is as the model, the tool or the host wrote
    it, so that it can be compared; show it through `pegboard.text.visible`.

    Attributes:
        call: The call; its arguments are those that would run, as JSON text, which can't change.
        digest: Of tool and arguments; approvals are bound to it.
        permission: What is asked for, such as `"edit"`.
        patterns: What it is asked for, such as paths or a command.
        always: What an answer "always" would allow: exactly this, as text. Empty if it would allow no more than "once".
        wider: Patterns that would allow more than this: a host may offer them, and answer `Always(patterns)`.
        reason: Why it is asked: the rule, or what the tool's spec declares.
        subject: `"call"`, or from inside the call `"permission"` or `"question"`.
        hint: The question, in the tool's words, or `""`.
        payload: JSON data for the person, or `None`.
        preview: What the call would do, or `None` if the tool has no preview.
        presets: Arguments that the model neither sees nor chooses, by the tool's own names.
        tool: The tool, or `None` if it isn't available.
        metadata: Facts for the user interface, from the tool.
        user: The user's id, or `None`.
        session: The conversation's id, or `None`.
        agent: The agent that makes the call, where agents call agents: the context's `branch`; or `None`.
        id: Of the request; can't be guessed.
    """

    call: ToolCall
    digest: str
    permission: str
    patterns: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()
    reason: str = ""
    subject: Subject = "call"
    hint: str = ""
    payload: Any = None
    preview: Preview | None = None
    presets: JsonMapping = field(factory=dict[str, Any])
    tool: Tool | None = field(default=None, repr=False, metadata=json_key(""))
    metadata: Mapping[str, Any] = field(factory=dict[str, Any], repr=False, metadata=json_key(""))
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    id: str = field(factory=new_id)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that would run, parsed anew each time."""
        return json.loads(self.arguments_text)

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON text."""
        assert isinstance(self.call.arguments, str)
        return self.call.arguments

    def to_text(self) -> str:
        """The complete request as text for a person, with hidden characters written out.

        Text of several lines by the model or the tool is indented, so that it can't pass for one of the other lines.
        """
        head = self.call.name
        if self.tool is not None and self.tool.spec.title is not None:
            head = f"{visible(self.tool.spec.title, again=True)} ({head})"
        lines = [
            (": " if self.hint else "", self.hint),
            ("\nasked by the agent ", self.agent or ""),
            ("\nbrought by ", "" if self.tool is None else _source(self.tool)),
            ("\npermission: ", self.permission),
            *(("\nfor: ", pattern) for pattern in self.patterns),
            ("\nasked because ", self.reason),
            ("\nalways allows: ", self._always_in_words() if self.always else ""),
            *(("\nmore would be allowed by: ", pattern) for pattern in self.wider),
            ("\nbesides its arguments: ", json.dumps(self.presets, ensure_ascii=False) if self.presets else ""),
        ]
        body = [_pretty(self.arguments)] if self.arguments else []
        if self.payload is not None:
            body.append(_pretty(self.payload))
        if self.preview is not None:
            preview = self.preview.summary, self.preview.details
            body += [part for part in preview if part and part not in self.patterns]
        if self.metadata:
            body.append(_pretty(self._metadata()))
        facts = "".join(label + visible(text) for label, text in lines if text)
        return "\n".join([head + facts, *(f"  {line}" for part in body for line in part.split("\n"))])

    def _always_in_words(self) -> str:
        """What "always" allows, in words; `always` has the text for it, as `Evaluation.exact` writes it."""
        spec = None if self.tool is None else self.tool.spec
        if self.subject == "permission" or (spec and self.permission not in (spec.permission, spec.name)):
            return "exactly this, in any call"
        if spec is None and not self.always[0].startswith('{"arguments":'):
            return "the same, whatever the other arguments"
        if spec is None or not spec.permission_arguments or "command" in spec.permission_arguments.values():
            return "exactly this"
        known = spec.input_schema.get("properties", {}).keys()
        if spec.input_schema.get("additionalProperties") is False and known <= spec.permission_arguments.keys():
            return "exactly this"
        return f"this {' and '.join(spec.permission_arguments)}, whatever the other arguments"

    def to_json(self) -> JsonObject:
        """All facts as JSON; what isn't JSON becomes text."""
        data = super().to_json()
        data["call"]["arguments"] = self.arguments
        if self.tool is not None:
            spec, former = self.tool.spec, list(self.tool.former_names)
            shown = {"name": spec.name, "title": spec.title, "description": spec.description, "digest": spec.digest}
            data["tool"] = {**shown, "origin": str(self.tool.origin), "formerNames": former}
        return {**data, "metadata": self._metadata()} if self.metadata else data

    @staticmethod
    def write_data(value: Any) -> Any:
        """The value if it is JSON, else a short text of it."""
        if not json_problems(value):
            return value
        with suppress(Exception):  # the `repr` of a tool's value may fail
            text = repr(value)
            if len(text) <= MOST_SHOWN:
                return text
        return f"a {type(value).__name__}"

    def _metadata(self) -> JsonObject:
        return {str(name): self.write_data(value) for name, value in self.metadata.items()}


def _source(tool: Tool) -> str:
    """The origin of a tool and its own name; nothing for a tool of the host's under its own name."""
    own = tool.former_names[:1]
    if tool.origin == HOST and not own:
        return ""
    return f"{tool.origin}{f' as {own[0]}' if own else ''}"


def _pretty(data: JsonObject) -> str:
    return visible(json.dumps(data, ensure_ascii=False, indent=2), newlines=True)


PREVIEW_SECONDS: Final = 10.0
MOST_SUMMARY: Final = 1_000
MOST_DETAILS: Final = 50_000  # maximum characters of the details of a preview


async def preview_of(
    tool: Tool, arguments: str, context: ReadonlyContext, *, seconds: float = PREVIEW_SECONDS
) -> Preview | None:
    """The tool's preview of a call, with hidden characters written out.

    It runs in a thread of its own: it may read files, and the tools' threads may all be waiting for a person.

    Args:
        tool: Its `preview` is called.
        arguments: As JSON text; the preview gets a copy of its own.
        context: Of the request, for a preview that takes it.
        seconds: Time limit; a thread that takes longer is abandoned.

    Returns:
        The preview, or `None` if there is none, or it failed, took too long, is too long or invalid.
    """
    preview = tool.preview
    if preview is None:
        return None
    try:
        more = {"context": context} if takes_context(preview) else {}
        async with asyncio.timeout(seconds):
            return await run_in_thread(lambda: escape_preview(preview(json.loads(arguments), **more)))
    except BaseException as error:  # a preview's SystemExit costs only the preview
        if cancels_the_call(error):
            raise
        log_failure(f"preview of {tool.name}", error)
        return None


def escape_preview(given: Any) -> Preview | None:
    """A preview with hidden characters written out; the summary is one line. A text is the summary.

    Raises `TypeError` for something else, `ValueError` if it is too long: a person must not approve what is only shown
    in part.
    """
    if given is None:
        return None
    preview: Any = Preview(given) if isinstance(given, str) else given
    texts: list[Any] = [preview.summary, preview.details] if isinstance(preview, Preview) else [given]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"a preview is a Preview of texts, a text or None, not {type(given).__name__}")
    if len(preview.summary) > MOST_SUMMARY or len(preview.details) > MOST_DETAILS:
        raise ValueError(f"a preview has at most {MOST_SUMMARY:,} characters of summary, {MOST_DETAILS:,} of details")
    return Preview(visible(preview.summary), visible(preview.details, newlines=True))
