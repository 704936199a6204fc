"""The built-in request processors, and their order."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import is_
from typing import Any, Final, TypeAlias, cast

import attrs
from attrs import define, field, frozen

from pegboard.callbacks import Callback, accept_keywords, nonblocking
from pegboard.errors import RegistrationError, at_least, tuple_of
from pegboard.messages import CallPart, Message, Part, ResultPart
from pegboard.request.model_request import ModelRequest, NamedTool, processor_problem
from pegboard.request.pipeline import Processor, Runner, answered, built_in
from pegboard.text import escape_hidden
from pegboard.timeout import cancels_the_call
from pegboard.tools.call import ToolCall
from pegboard.tools.content import TextContent, ToolResult, encodable_text
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.limits import BYTES_A_TOKEN
from pegboard.tools.spec import HOST, Origin, Problem, ToolSpec
from pegboard.tools.tool import Tool
from pegboard.toolsets.filters import error_text
from pegboard.toolsets.resolve import SEARCHES
from pegboard.toolsets.toolset import Toolset, toolset_name, toolsets_with_instructions


async def _tool_requests(request: ModelRequest, context: ReadonlyContext, runner: Runner) -> ModelRequest:
    """Calls `process_request` of the tools that have it, in order, of deferred ones once found; skips what fails."""
    for tool in () if request.tools is None else request.tools.tools:
        if tool.process_request is None or (tool.spec.deferred and not request.loads_deferred):
            continue
        if tool.name not in (request.tools or ()):  # an earlier one has removed it
            continue
        try:
            link = Callback(accept_keywords(tool.process_request, ("request", "context", "services")))
            request = answered(await runner.ask(link, request, context, runner.context), request, tool.origin)
        except BaseException as error:  # whatever a tool raises
            if cancels_the_call(error):
                raise
            problem = processor_problem("tool_requests", error_text(error), tool.origin, tool.name, error)
            request = request.with_problems(problem)
    return request


_MOST_CHARACTERS: Final = 100_000  # of the instructions of one tool or toolset


async def _instructions(request: ModelRequest, context: ReadonlyContext, runner: Runner) -> ModelRequest:
    """Adds the instructions of the toolsets that have a tool in the request, and of its tools, once, after its own.

    Those of a deferred tool are added once a search has found it; what fails is skipped.
    """
    if request.tools is None:
        return request
    tools = [tool for tool in request.tools.tools if request.loads_deferred or not tool.spec.deferred]
    speakers = _speakers(request.tools.toolsets, tools)
    given = await asyncio.gather(*(_ask(origin, each, context, runner) for origin, each in speakers))
    parts = [part for each in given if not isinstance(each, Problem) for part in each]
    return request.with_instructions(*parts).with_problems(*[each for each in given if isinstance(each, Problem)])


def _speakers(toolsets: Iterable[Toolset], tools: Sequence[Tool]) -> Iterator[tuple[Origin, Tool | Toolset]]:
    """The toolsets with instructions that have a tool there, and the tools with instructions; with their origins."""
    there = {(tool.origin.plugin, tool.origin.toolset) for tool in tools}
    named = {name for _, name in there}
    for toolset in toolsets:
        origin: Origin = getattr(toolset, "origin", HOST)
        name = toolset_name(toolset)
        # The host's toolsets may pass on tools in plugins' names.
        if (origin.plugin, name) in there or (origin.plugin is None and name in named):
            yield from ((origin, each) for each in toolsets_with_instructions(toolset))
    yield from ((tool.origin, tool) for tool in tools if tool.instructions is not None)


async def _ask(
    origin: Origin, by: Tool | Toolset, context: ReadonlyContext, runner: Runner
) -> tuple[str, ...] | Problem:
    """The instructions of a tool or toolset, or the problem if asking for them fails."""
    tool = by.name if isinstance(by, Tool) else None
    try:
        given: Any = getattr(by, "instructions", None)
        if callable(given):
            given = await runner.ask(Callback(accept_keywords(given, ("context",))), context)
        return _check(given, foreign=tool is None or origin != HOST)
    except BaseException as error:
        if cancels_the_call(error):
            raise
        cause = error_text(error) if isinstance(by, Tool) else f"toolset {toolset_name(by)!r}: {error_text(error)}"
        return processor_problem("instructions", cause, origin, tool, error)


def _check(given: Any, *, foreign: bool) -> tuple[str, ...]:
    parts = (given,) if isinstance(given, str) else () if given is None else given
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in cast("Iterable[Any]", parts)):
        raise TypeError(f"instructions must be a text or a list of texts, got {type(given).__name__}")
    texts = cast("Iterable[str]", parts)
    if (length := sum(map(len, texts))) > _MOST_CHARACTERS:
        raise ValueError(f"instructions may have {_MOST_CHARACTERS:,} characters, got {length:,}")
    return tuple(encodable_text(escape_hidden(text) if foreign else text) for text in texts)


_FRAME_BYTES: Final = 60  # around each entry, at any provider


def _estimate_tokens(spec: ToolSpec) -> int:
    """The approximate number of tokens of a tool in a request: a quarter of its bytes as compact JSON."""
    examples = sum(len(str(example)) for example in spec.examples)
    size = len(spec.name) + len(spec.description.encode()) + len(spec.input_schema_text.encode()) + examples
    return -(-(size + _FRAME_BYTES) // BYTES_A_TOKEN)


@frozen
class BudgetTools:
    """Processor that leaves out tools where all of them would exceed a token budget.

        registry.pipeline = registry.pipeline.replace("budget_tools", BudgetTools(8000, pinned=["search"]))

    Attributes:
        tokens: The budget, estimated at four bytes per token; `None` is no limit.
        pinned: The names of tools that always stay, as does the one that the tool choice names.
        rank: Gives the rank of a tool: the highest are kept first. By default, and among equals, in the order offered.
    """

    tokens: int | None = None
    pinned: tuple[str, ...] = field(default=(), kw_only=True, converter=tuple_of("pinned", str))
    rank: Callable[[Tool], Any] | None = field(default=None, kw_only=True)

    @nonblocking
    def __call__(self, request: ModelRequest) -> ModelRequest | None:
        """Leaves out tools beyond the token budget; off by default."""
        if self.tokens is None or request.tools is None:
            return None
        # Deferred ones, which the provider loads on demand, take none.
        sizes = {tool: _estimate_tokens(tool.spec) for tool in request.offered if not tool.spec.deferred}
        if sum(sizes.values()) <= self.tokens:
            return None
        pinned = {*self.pinned}
        if isinstance(request.tool_choice, NamedTool):
            pinned.add(request.tool_choice.name)
        left = self.tokens - sum(size for tool, size in sizes.items() if tool.name in pinned)
        reasons: dict[str, str] = {}
        ranked = [tool for tool in sizes if tool.name not in pinned]
        for tool in ranked if self.rank is None else sorted(ranked, key=self.rank, reverse=True):
            needed = sizes[tool]
            if needed <= left:
                left -= needed
            else:
                of = f"{max(left, 0):,} of {self.tokens:,}"
                reasons[tool.name] = f"it takes about {needed:,} tokens, and {of} are left"
        return request.evolve(tools=request.tools.without("budget", reasons))


LEAST: Final = 200
_NOTE: Final = "\n[... {:,} characters of this old result are omitted; call {} again to see them ...]\n"
_MOST_OF_A_NAME: Final = 64


@frozen
class LimitResults:
    """Processor that cuts the texts of old results: a note replaces the middle. Media stay.

    The boundary of old rounds moves by `stride` rounds at a time, so that providers' prompt caches stay valid in
    between. The host's own conversation isn't changed.

        registry.pipeline = registry.pipeline.replace("limit_results", LimitResults(keep=5, most=2000))

    Attributes:
        keep: The minimum number of newest rounds (answers that call tools) whose results stay whole.
        most: Characters of an older result, the note included, at least 200; `None` is no limit.
        stride: Rounds by which the boundary moves, at least 1.
    """

    keep: int = field(default=20, validator=at_least(0))
    most: int | None = field(default=8_000, validator=at_least(LEAST, or_none=True))
    stride: int = field(default=10, validator=at_least(1))

    @nonblocking
    def __call__(self, request: ModelRequest) -> ModelRequest | None:
        """Cuts long texts of results, except in the newest rounds."""
        messages = request.messages
        rounds = [place for place, message in enumerate(messages) if message.role == "assistant" and message.calls]
        old = max(len(rounds) - self.keep, 0) // self.stride * self.stride
        if self.most is None or not old:
            return None
        old_end = rounds[old] if old < len(rounds) else len(messages)
        changed = [_cut(message, self.most) for message in messages[:old_end]]
        if all(map(is_, changed, messages)):
            return None
        return request.evolve(messages=(*changed, *messages[old_end:]))


def _cut(message: Message, most: int) -> Message:
    if message.role != "tool":
        return message
    parts = [_shorten_result(part, most) if isinstance(part, ResultPart) else part for part in message.parts]
    return _with_parts(message, "tool", parts)


def _shorten_result(part: ResultPart, most: int) -> ResultPart:
    text, result = part.result.text, part.result
    if len(text) <= most:
        return part
    media = (item for item in result.content if not isinstance(item, TextContent))
    content = (TextContent(_shorten(text, most, part.name)), *media)
    # Some exporters send the data instead of the text, so it is dropped too.
    return attrs.evolve(part, result=attrs.evolve(result, content=content, structured_content=None))


def _shorten(text: str, most: int, tool: str) -> str:
    """The beginning and the end of a text, and a note between them, at most `most` characters in total."""
    tool = tool[:_MOST_OF_A_NAME]
    note = _NOTE.format(len(text), tool)
    room = most - len(note)
    head, tail = text[: room - room // 2], text[len(text) - room // 2 :]
    return head + _NOTE.format(len(text) - len(head) - len(tail), tool) + tail


UNOFFERED = "it only processes requests; no model is offered it"
SEARCHED = "the provider searches the deferred tools itself"
DEFERRED: Final = "it is deferred: offered once a search has found it (pip install pegboard-search)"
"""Why a deferred tool isn't offered."""


@nonblocking
def _pack_tools(request: ModelRequest) -> ModelRequest:
    """Leaves only the tools that are sent: offered ones, each name once, deferred ones only if the provider loads them.

    Of two tools with the same name the first is sent; a problem of the resolved tools names the other. A tool choice
    that can't be met, which providers refuse, becomes `"auto"`, with a problem.
    """
    if request.tools is None:
        return request
    tools = request.tools.distinct()
    tools = tools.without("pack", {tool.name: UNOFFERED for tool in tools if not tool.offered})
    deferred = [tool for tool in tools if tool.spec.deferred]
    if request.loads_deferred:
        searching = (tool.name for tool in tools if deferred and SEARCHES in tool.spec.meta)
        tools = tools.without("pack", dict.fromkeys(searching, SEARCHED))
    else:
        tools = tools.without("pack", {tool.name: DEFERRED for tool in deferred}).finding(deferred)
    if tools is not request.tools:
        request = request.evolve(tools=tools)
    choice = request.tool_choice
    if isinstance(choice, NamedTool) and choice.name not in tools:
        cause = f"tool_choice names {choice.name!r}, which isn't offered; 'auto' is used instead"
    elif choice == "required" and not tools.tools:
        cause = "tool_choice is 'required', and no tool is offered; 'auto' is used instead"
    else:
        return request
    return request.evolve(tool_choice="auto").with_problems(processor_problem("pack_tools", cause))


@nonblocking
def _repair_history(request: ModelRequest) -> ModelRequest | None:
    """Gives every call exactly one result, right after it and in call order; drops results without a call.

    A call without a result gets an error result: `cut_off` if its message's metadata has `"complete": False`, else the
    call's own fault, or `not_executed`. Of several results of one call the last one counts. Duplicate ids are made
    distinct. Calls that the provider has executed get no result here. Empty messages are dropped.
    """
    messages = _rebuilt(request.messages)
    unchanged = len(messages) == len(request.messages) and all(map(is_, messages, request.messages))
    return None if unchanged else request.evolve(messages=messages)


def _rebuilt(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, every call with one result; messages without a fault are the same objects."""
    executed = [_provider_calls(message) for message in messages]
    taken = set[str]().union(*executed)  # these can't be changed
    counts: Counter[str] = Counter()
    waiting: dict[str, _Waiting] = {}  # by id, as the calls had them in the last message with that id
    rebuilt: list[Message | list[_Slot]] = []  # the calls of an answer stand for the message of their results
    for message, hosted in zip(messages, executed, strict=True):
        is_answer = message.role == "assistant"
        parts: list[Part] = []
        given: list[ResultPart] = []
        slots: list[_Slot] = []
        new: dict[str, _Waiting] = {}
        for part in message.parts:
            if isinstance(part, ResultPart) and not (is_answer and part.call_id in hosted):
                given.append(part)
            elif not isinstance(part, CallPart) or (is_answer and part.call.provider_executed):
                parts.append(part)
            elif is_answer:
                call = _distinct(part.call, taken, counts)
                parts.append(part if call is part.call else CallPart(call))
                slots.append(slot := _Slot(call, message))
                for name in (None, part.call.name):
                    new.setdefault(part.call.id, {}).setdefault(name, deque()).append(slot)
        if parts:  # next to results they are the user's
            rebuilt.append(_with_parts(message, "user" if message.role == "tool" else message.role, parts))
        if slots:
            rebuilt.append(slots)
        waiting.update({call_id: {} for call_id in hosted if is_answer} | new)
        for part in given:
            _give(part, waiting.get(part.call_id), message)
    return tuple(each if isinstance(each, Message) else _results(each) for each in rebuilt)


def _provider_calls(message: Message) -> set[str]:
    """The ids of the calls that the provider has executed."""
    return {part.call.id for part in message.parts if isinstance(part, CallPart) and part.call.provider_executed}


def _distinct(call: ToolCall, taken: set[str], counts: Counter[str]) -> ToolCall:
    """The call, under an id that no earlier one has."""
    fresh = call.id
    while not fresh or fresh in taken:
        counts[call.id] += 1
        fresh = f"{call.id or 'call'}_{counts[call.id] + bool(call.id)}"
    taken.add(fresh)
    return call if fresh == call.id else attrs.evolve(call, id=fresh)


@define(eq=False)
class _Slot:
    """A call of an answer, its result, and the first message of role `"tool"` that had one."""

    call: ToolCall
    answer: Message
    result: ResultPart | None = None
    given: Message | None = None


_Waiting: TypeAlias = dict[str | None, deque[_Slot]]
"""The calls of one id: by name, and under `None` all. At its head, one with a result goes, unless it is the last."""


def _give(part: ResultPart, waiting: _Waiting | None, message: Message) -> None:
    """Gives a result to the first call of its id without one, preferably of its name; else to the last, if any."""
    if waiting:
        first, named = _head(waiting[None]), _head(waiting.get(part.name, waiting[None]))
        slot = first if named.result is not None and first.result is None else named
        slot.result = part
        slot.given = slot.given or (message if message.role == "tool" else None)


def _head(slots: deque[_Slot]) -> _Slot:
    while len(slots) > 1 and slots[0].result is not None:
        slots.popleft()
    return slots[0]


def _results(slots: Sequence[_Slot]) -> Message:
    """The results of an answer's calls in their order, each under its call's id and name."""
    parts: list[Part] = []
    for slot in slots:
        call = slot.call
        part = slot.result or ResultPart.of(call, _missing(call, slot.answer))
        same = (part.call_id, part.name) == (call.id, call.name)
        parts.append(part if same else attrs.evolve(part, call_id=call.id, name=call.name))
    return _with_parts(next((slot.given for slot in slots if slot.given is not None), Message("tool")), "tool", parts)


def _with_parts(message: Message, role: str, parts: Sequence[Part]) -> Message:
    """The message with this role and these parts; the same object if it has them already."""
    same = role == message.role and len(parts) == len(message.parts) and all(map(is_, parts, message.parts))
    return message if same else message.evolve(role=role, parts=parts)


def _missing(call: ToolCall, answer: Message) -> ToolResult:
    if answer.metadata.get("complete") is False:
        return ToolResult.error("cut_off", f"{call.name} was not run: your message was cut off after this call.")
    if call.error is not None:
        return ToolResult.error(call.error.kind, call.error.text)
    text = f"{call.name} was not run, or its result was lost. Call it again if it is still needed."
    return ToolResult.error("not_executed", text)


DEFAULT_PIPELINE: Final = built_in(
    ("tool_requests", _tool_requests),
    ("instructions", _instructions),
    # registered processors go here
    ("repair_history", _repair_history),
    ("limit_results", LimitResults()),
    ("budget_tools", BudgetTools()),
    ("pack_tools", _pack_tools),
)


def check_processor(name: str, thing: Any) -> None:
    """Raises `RegistrationError` for a processor that can't be registered, or has the name of a built-in one."""
    if name in DEFAULT_PIPELINE:
        raise RegistrationError(f"processor {name!r} is built in: rename it, or use registry.pipeline.replace")
    Processor.of(name, thing, HOST)
