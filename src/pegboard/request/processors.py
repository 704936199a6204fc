"""The built-in request processors, and their order."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import is_
from typing import Any, Final, TypeAlias, cast

import attrs
from attrs import define, field, frozen

from pegboard.callbacks import Callback, by_name, quick
from pegboard.errors import RegistrationError
from pegboard.messages import CallPart, Message, Part, ResultPart
from pegboard.request.model_request import ModelRequest, NamedTool, ProcessorProblem
from pegboard.request.pipeline import Processor, Runner, answered, built_in
from pegboard.timeout import cancels_the_call
from pegboard.tools.call import ToolCall
from pegboard.tools.content import TextContent, ToolResult, writable
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.spec import BYTES_A_TOKEN, HOST, Origin, ToolSpec
from pegboard.tools.tool import Tool
from pegboard.tools.visible import revealed
from pegboard.toolsets.resolve import SEARCHES, ResolvedTools
from pegboard.toolsets.toolset import Toolset, error_text, toolset_name, with_instructions


async def _tool_requests(request: ModelRequest, context: ReadonlyContext, runner: Runner) -> ModelRequest:
    """Lets the tools process the request that do so, in their order, those that no model is offered among them.

    A deferred tool does so once it was found. What a tool does wrong costs only its own part.
    """
    for tool in () if request.tools is None else request.tools.tools:
        if tool.process_request is None or (tool.spec.deferred and not request.loads_deferred):
            continue
        if request.tools is None or tool.name not in request.tools:  # an earlier one has taken it out
            continue
        try:
            link = Callback(by_name(tool.process_request, ("request", "context", "services")))
            request = answered(await runner.ask(link, request, context, runner.services), request, tool.origin)
        except BaseException as error:  # whatever a tool raises
            if cancels_the_call(error):
                raise
            problem = ProcessorProblem("tool_requests", error_text(error), tool.origin, tool.name, error)
            request = request.with_problems(problem)
    return request


_INSTRUCTIONS: Final = "instructions"
_MOST_CHARACTERS: Final = 100_000  # of the instructions of one tool or toolset


async def _instructions(request: ModelRequest, context: ReadonlyContext, runner: Runner) -> ModelRequest:
    """Adds the instructions of the toolsets that have a tool in the request, and of the tools in it.

    Each is added once, behind those of the request. A deferred tool's are added once it was found. What one of them
    does wrong costs only its own.
    """
    if request.tools is None:
        return request
    tools = [tool for tool in request.tools.tools if request.loads_deferred or not tool.spec.deferred]
    present = _present(request.tools.toolsets, tools)
    asked = [_said(origin, each, context, runner) for origin, toolset in present for each in with_instructions(toolset)]
    asked += [_said(tool.origin, tool, context, runner) for tool in tools if tool.instructions is not None]
    given = await asyncio.gather(*asked) if asked else []
    parts = [part for each in given if not isinstance(each, ProcessorProblem) for part in each]
    problems = [each for each in given if isinstance(each, ProcessorProblem)]
    return request.with_instructions(*parts).with_problems(*problems)


def _present(toolsets: Iterable[Toolset], tools: Iterable[Tool]) -> Iterator[tuple[Origin, Toolset]]:
    """The toolsets that have a tool there, with who brought them."""
    there = {(tool.origin.plugin, tool.origin.toolset) for tool in tools}
    named = {name for _, name in there}
    for toolset in toolsets:
        origin: Origin = getattr(toolset, "origin", HOST)
        name = toolset_name(toolset)
        # The host's toolsets may pass on tools in plugins' names.
        if (origin.plugin, name) in there or (origin.plugin is None and name in named):
            yield origin, toolset


async def _said(
    origin: Origin, by: Tool | Toolset, context: ReadonlyContext, runner: Runner
) -> tuple[str, ...] | ProcessorProblem:
    tool = by.name if isinstance(by, Tool) else None
    try:
        given: Any = getattr(by, "instructions", None)
        if callable(given):
            given = await runner.ask(Callback(by_name(given, ("context",))), context)
        return _checked(given, foreign=tool is None or origin != HOST)
    except BaseException as error:
        if cancels_the_call(error):
            raise
        cause = error_text(error) if isinstance(by, Tool) else f"toolset {toolset_name(by)!r}: {error_text(error)}"
        return ProcessorProblem(_INSTRUCTIONS, cause, origin, tool, error)


def _checked(given: Any, *, foreign: bool) -> tuple[str, ...]:
    parts = (given,) if isinstance(given, str) else () if given is None else given
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in cast("Iterable[Any]", parts)):
        raise TypeError(f"instructions have to be a text or a list of texts, not {type(given).__name__}")
    texts = cast("Iterable[str]", parts)
    if sum(map(len, texts)) > _MOST_CHARACTERS:
        raise ValueError(f"instructions may have {_MOST_CHARACTERS:,} characters, and have more")
    return tuple(writable(revealed(text) if foreign else text) for text in texts)


_Rank: TypeAlias = Callable[[Tool], Any]
"""What a tool is worth: the higher, the sooner it is kept; anything that can be compared."""

FRAME_BYTES: Final = 60
"""Of what stands round each entry, at any provider."""


def _estimated_tokens(spec: ToolSpec) -> int:
    """About how many tokens a model is sent of a spec: a quarter of its bytes as compact JSON."""
    examples = sum(len(str(example)) for example in spec.examples)
    size = len(spec.name) + len(spec.description.encode()) + len(spec.input_schema_text.encode()) + examples
    return -(-(size + FRAME_BYTES) // BYTES_A_TOKEN)


@frozen
class BudgetTools:
    """Leaves out tools where all of them together would take more than so many tokens.

        registry.pipeline = registry.pipeline.replace("budget_tools", BudgetTools(8000, pinned=["search"]))

    Attributes:
        tokens: How many tokens the tools may take, estimated at four bytes a token; `None` is any number.
        pinned: The names of tools that stay, whatever they take; so does the one that the request demands.
        rank: Which are kept first; in the order in which they are offered by default, and where two rank the same.
    """

    tokens: int | None = None
    pinned: Collection[str] = field(default=(), kw_only=True)
    rank: _Rank | None = field(default=None, kw_only=True)

    @quick
    def __call__(self, request: ModelRequest) -> ModelRequest | None:
        """Leaves out tools where all would take more tokens than there are for them; off where no number is given."""
        if self.tokens is None or request.tools is None:
            return None
        # Those that the provider loads when it needs them take none.
        sizes = {tool: _estimated_tokens(tool.spec) for tool in request.offered if not tool.spec.deferred}
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
_NOTE: Final = "\n[... {:,} characters of this old result are left out; call {} again to see them ...]\n"
_MOST_OF_A_NAME: Final = 64


@frozen
class LimitResults:
    """Cuts the texts of old results: a note takes the place of the middle. Media stay.

    Which rounds are old moves on by `stride` rounds at a time, so that providers' caches of what was sent before
    stay good in between. The conversation itself, which the host keeps, isn't changed.

        registry.pipeline = registry.pipeline.replace("limit_results", LimitResults(keep=5, most=2000))

    Attributes:
        keep: How many of the newest rounds (answers that call tools) keep their results whole, at least.
        most: How many characters an older result may have, the note included, at least 200; `None` is any number.
        stride: By how many rounds what is old moves on, at least 1.
    """

    keep: int = field(default=20, validator=attrs.validators.ge(0))
    most: int | None = field(default=8_000, validator=attrs.validators.optional(attrs.validators.ge(LEAST)))
    stride: int = field(default=10, validator=attrs.validators.ge(1))

    @quick
    def __call__(self, request: ModelRequest) -> ModelRequest | None:
        """Cuts the texts of old results, of all but the newest rounds, where they are long."""
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
    if message.role != "tool" or not any(len(part.result.text) > most for part in message.results):
        return message
    parts = [_shortened_result(part, most) if isinstance(part, ResultPart) else part for part in message.parts]
    return message.evolve(parts=parts)


def _shortened_result(part: ResultPart, most: int) -> ResultPart:
    text, result = part.result.text, part.result
    if len(text) <= most:
        return part
    media = tuple(item for item in result.content if not isinstance(item, TextContent))
    content = (TextContent(_shortened(text, most, part.name)), *media)
    # Some providers are sent the data in place of the text, so it goes too.
    return attrs.evolve(part, result=attrs.evolve(result, content=content, structured_content=None))


def _shortened(text: str, most: int, tool: str) -> str:
    """The beginning and the end of a text, and a note between them: at most so many characters together."""
    tool = tool[:_MOST_OF_A_NAME]
    note = _NOTE.format(len(text), tool)
    room = most - len(note)
    head, tail = text[: room - room // 2], text[len(text) - room // 2 :]
    return head + _NOTE.format(len(text) - len(head) - len(tail), tool) + tail


UNOFFERED = "it only processes requests; no model is offered it"
SEARCHED = "the provider searches the deferred tools itself"
DEFERRED = "it is deferred: offered once a search has found it (pip install pegboard-search)"


@quick
def _pack_tools(request: ModelRequest) -> ModelRequest:
    """Leaves in what is sent: each name once, no deferred tool unless the provider loads it, none that isn't offered.

    Of two tools of one name the first is sent, and a problem of the resolved tools names the other. A tool choice that
    can't be met is loosened to `"auto"`, as providers refuse it, with a problem.
    """
    if request.tools is None:
        return request
    packed = _packed(request.tools.distinct(), request)
    if packed is not request.tools:
        request = request.evolve(tools=packed)
    choice = request.tool_choice
    if isinstance(choice, NamedTool) and choice.name not in packed:
        cause = f"tool {choice.name!r} had to be called and isn't offered; the model is left to decide"
    elif choice == "required" and not packed.tools:
        cause = "a tool had to be called and none is offered; the model is left to decide"
    else:
        return request
    return request.evolve(tool_choice="auto").with_problems(ProcessorProblem("pack_tools", cause))


def _packed(tools: ResolvedTools, request: ModelRequest) -> ResolvedTools:
    unoffered = {tool.name: UNOFFERED for tool in tools if not tool.offered}
    tools = tools.without("pack", unoffered)
    deferred = tuple(tool for tool in tools if tool.spec.deferred)
    if request.loads_deferred:
        searching = (tool for tool in tools if deferred and SEARCHES in tool.spec.meta)
        return tools.without("pack", {tool.name: SEARCHED for tool in searching})
    return tools.without("pack", {tool.name: DEFERRED for tool in deferred}).finding(deferred)


@quick
def _repair_history(request: ModelRequest) -> ModelRequest | None:
    """Gives every call exactly one result, right behind it and in call order; drops results that no call asked for.

    A call without a result gets an error result: `cut_off` where its message's metadata has `"complete": False`, else
    what the call is marked with, or `not_executed`. Of several results of one call the last is the one. An id that
    calls share is made distinct. A call that its provider has executed needs no result of ours, and gets none. Messages
    with nothing in them go.
    """
    messages = _rebuilt(request.messages)
    unchanged = len(messages) == len(request.messages) and all(map(is_, messages, request.messages))
    return None if unchanged else request.evolve(messages=messages)


def _rebuilt(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, every call with one result; the message objects stay where there is nothing to repair."""
    hosted = {call.id for message in messages for call in message.calls if call.provider_executed}
    history = _History(ids=hosted)  # a provider's ids can't be changed
    for message in messages:
        history.add(message)
    return tuple(history.messages())


@define(eq=False)
class _Answer:
    """A message; of an answer with calls also these, each with its result, and the message that had their results."""

    message: Message
    slots: list[_Slot] = field(factory=list["_Slot"])
    results: Message | None = None


@define(eq=False)
class _Slot:
    """One call that wants a result."""

    call: ToolCall
    answer: _Answer
    result: ResultPart | None = None


@define(eq=False)
class _History:
    answers: list[_Answer] = field(factory=list[_Answer])
    # Of the last message that has the id: its calls by name, and under `None` all. Those that have their result leave a
    # queue when they come to its head, but for the last.
    latest: dict[str, dict[str | None, deque[_Slot]]] = field(factory=dict[str, "dict[str | None, deque[_Slot]]"])
    ids: set[str] = field(kw_only=True)
    counts: Counter[str] = field(factory=Counter[str])

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._add_answer(message)
            return
        rest: list[Part] = []
        for part in message.parts:
            if isinstance(part, ResultPart):
                self._settle(part, message if message.role == "tool" else None)
            elif not isinstance(part, CallPart):
                rest.append(part)
        if rest:  # beside results it is the user's
            role = "user" if message.role == "tool" else message.role
            unchanged = role == message.role and len(rest) == len(message.parts)
            self.answers.append(_Answer(message if unchanged else message.evolve(role=role, parts=rest)))

    def _add_answer(self, message: Message) -> None:
        """An answer: its calls want results, those that are in it, where they don't belong, among them."""
        hosted = {call.id for call in message.calls if call.provider_executed}
        answer = _Answer(message)
        parts: list[Part] = []
        moved: list[ResultPart] = []
        queues: dict[str, dict[str | None, deque[_Slot]]] = {}
        for part in message.parts:
            if isinstance(part, ResultPart) and part.call_id not in hosted:
                moved.append(part)
            elif isinstance(part, CallPart) and not part.call.provider_executed:
                parts.append(repaired := self._distinct(part))
                answer.slots.append(slot := _Slot(repaired.call, answer))
                for name in (None, part.call.name):
                    queues.setdefault(part.call.id, {}).setdefault(name, deque()).append(slot)
            else:
                parts.append(part)
        for each in hosted:
            self.latest.pop(each, None)
        self.latest.update(queues)
        if len(parts) < len(message.parts) or not all(map(is_, parts, message.parts)):
            answer.message = message.evolve(parts=parts)
        if parts:
            self.answers.append(answer)
        for part in moved:
            self._settle(part, None)

    def _distinct(self, part: CallPart) -> CallPart:
        """The part, under an id that no earlier call has."""
        name = part.call.id
        fresh = name
        while not fresh or fresh in self.ids:
            self.counts[name] += 1
            fresh = f"{name or 'call'}_{self.counts[name] + bool(name)}"
        self.ids.add(fresh)
        return part if fresh == name else CallPart(attrs.evolve(part.call, id=fresh))

    def _settle(self, part: ResultPart, message: Message | None) -> None:
        """Gives a result to its call; one that no call asked for is dropped.

        That is the first call without one, if it can be one of the same name; else the last.
        """
        if (queues := self.latest.get(part.call_id)) is None:
            return
        first = _head(queues[None])
        named = _head(queues.get(part.name, queues[None]))
        slot = first if named.result is not None and first.result is None else named
        slot.result = part
        slot.answer.results = slot.answer.results or message

    def messages(self) -> Iterator[Message]:
        """All messages, results behind their calls."""
        for answer in self.answers:
            yield answer.message
            if answer.slots:
                yield _results(answer)


def _head(slots: deque[_Slot]) -> _Slot:
    while len(slots) > 1 and slots[0].result is not None:
        slots.popleft()
    return slots[0]


def _results(answer: _Answer) -> Message:
    """The results of an answer, each under its call's id and name."""
    complete = answer.message.metadata.get("complete") is not False
    parts: list[ResultPart] = []
    for slot in answer.slots:
        call, part = slot.call, slot.result or ResultPart.of(slot.call, _missing(slot.call, complete=complete))
        same = (part.call_id, part.name) == (call.id, call.name)
        parts.append(part if same else attrs.evolve(part, call_id=call.id, name=call.name))
    known = answer.results or Message("tool")
    same = len(known.parts) == len(parts) and all(map(is_, parts, known.parts))
    return known if same else known.evolve(parts=parts)


def _missing(call: ToolCall, *, complete: bool) -> ToolResult:
    if not complete:
        return ToolResult.error("cut_off", f"{call.name} was not run: the answer that called it was cut off.")
    if call.error is not None:
        return ToolResult.error(call.error.kind, call.error.text)
    text = f"{call.name} was not run, or its result was lost. Call it again if it is still needed."
    return ToolResult.error("not_executed", text)


DEFAULT_PIPELINE: Final = built_in(
    ("tool_requests", _tool_requests),
    ("instructions", _instructions),
    # here stands what plugins and the host bring
    ("repair_history", _repair_history),
    ("limit_results", LimitResults()),
    ("budget_tools", BudgetTools()),
    ("pack_tools", _pack_tools),
)


def check_processor(name: str, thing: Any) -> None:
    """Refuses what can't be registered as a processor.

    Raises:
        RegistrationError: A built-in one has the name, or the function takes something that there isn't, or is none.
    """
    if name in DEFAULT_PIPELINE:
        raise RegistrationError(
            f"processor {name!r} is taken: pegboard has one; registry.pipeline.replace puts another there"
        )
    Processor.of(name, thing, HOST)
