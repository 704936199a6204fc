"""`background_tools`: `spawn_agent`, `send_agent_input`, `wait_agents` and `close_agent`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, Final
from uuid import uuid4

from attrs import define, field

from pegboard import Tool, ToolContext, ToolError, ToolRegistry, ToolResult
from pegboard.json import is_object
from pegboard_agents.agent import DEPTH, SECONDS, AnyAgent, check_agents, list_agents
from pegboard_agents.agent_call import check_depth
from pegboard_agents.background import GRACE_SECONDS, BackgroundAgent
from pegboard_agents.crew import Crew, is_owner
from pegboard_agents.run import inside, new_session
from pegboard_agents.stored import read_agent, store_agent

MOST_AGENTS: Final = 6
"""Agents that work, or wait for a person, at once: of one session, with those that they start themselves."""

MOST_REMEMBERED: Final = 200  # agents that have ended, in this process
MOST_WAITING: Final = 1_000  # agents that wait for a person, in this process
LONGEST_WAIT: Final = 3_600
_ID: Final = {"type": "string", "description": "Id of the agent, as spawn_agent returned it."}


def background_tools(
    agents: Sequence[AnyAgent],
    *,
    keep: bool = False,
    most: int = MOST_AGENTS,
    depth: int = DEPTH,
    timeout: float = SECONDS,
) -> tuple[Tool, ...]:
    """Tools by which a model runs agents beside its own work: register all of them.

    An agent has the rules, the working folder and the tools of the call that starts it, and a session of its own. Its
    events are partial results of that call. It ends with its caller's turn.

    Args:
        agents: The agents, of any kind; an object's `run` can't take `call`.
        keep: Whether they outlive their caller's turn, and end at their time limit or with the registry. After that
            turn nobody is asked: an agent that has to ask waits until a later turn calls `wait_agents`.
        most: How many may work, or wait for a person, at once: of one session, with those that they start themselves.
        depth: How deep agents may call agents, these included.
        timeout: Seconds that an agent may work on one input, the time for approvals included.

    Raises:
        ValueError: No agents, two of one name, or a number out of range.
        TypeError: One isn't an agent.
    """
    if depth < 1 or most < 1 or not (isfinite(timeout) and timeout > 0):
        raise ValueError(f"depth, most and timeout must be above 0, got {depth!r}, {most!r} and {timeout!r}")
    known = {agent.name: agent for agent in check_agents(agents)}
    return _Background(known, keep, most, depth, timeout).tools()


@define(eq=False)
class _Background:
    """The agents that some tools have started, in this process."""

    agents: Mapping[str, AnyAgent]
    keep: bool
    most: int
    depth: int
    seconds: float
    _known: dict[str, BackgroundAgent] = field(factory=dict[str, BackgroundAgent], init=False)

    def tools(self) -> tuple[Tool, ...]:
        """The tools."""
        lines = list_agents({name: agent.description for name, agent in self.agents.items()})
        agent = _text("Name of the agent.", enum=list(self.agents))
        task = _text("The complete task, with everything the agent needs: it doesn't see this conversation.")
        how = (
            "Set it to true to stop what the agent is doing. Otherwise it reads the message as soon as it has finished "
        )
        interrupt = {"type": "boolean", "description": f"{how}its present step.", "default": False}
        ids = {"type": "array", "items": _ID, "minItems": 1, "maxItems": 50, "description": "Ids of the agents."}
        until = "all: wait until all have ended. any: wait until one has ended, or has a question for the user."
        wait_for = {"enum": ["all", "any"], "description": until, "default": "all"}
        limits = {"minimum": 0, "maximum": LONGEST_WAIT, "default": 60}
        seconds = {"type": "number", "description": "How long to wait, in seconds.", **limits}
        lasts = "" if self.keep else " It ends with your turn."
        return (
            _tool(
                self.spawn_agent,
                "Start an agent",
                "Start an agent that works in the background, while you continue. Returns its id. Call wait_agents to "
                f"get its answer.{lasts} Agents:\n{lines}",
                {"agent": agent, "request": task},
            ),
            _tool(
                self.send_agent_input,
                "Send a message to an agent",
                "Send a message to an agent that you started. An agent that has ended continues its conversation, also "
                "one of an earlier turn.",
                {"id": _ID, "message": _text("The message."), "interrupt": interrupt},
            ),
            _tool(
                self.wait_agents,
                "Wait for agents",
                "Wait for agents that you started. Returns the answers of those that have ended, and the state of the "
                "others. If an agent has a question for the user, this asks it.",
                {"ids": ids, "wait_for": wait_for, "seconds": seconds},
                read_only=True,
                timeout=LONGEST_WAIT + 60,
            ),
            _tool(
                self.close_agent,
                "End an agent",
                "End an agent that you started, with all agents that it has started. Returns its last answer, or what "
                "it has written so far.",
                {"id": _ID},
                idempotent=True,
            ),
        )

    # The tools -----------------------------------------------------------------------------------------------------

    async def spawn_agent(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Starts an agent."""
        agent = self.agents[arguments["agent"]]
        check_depth(agent.name, inside.get(), self.depth)
        id_, session = f"{agent.name}-{uuid4().hex[:12]}", new_session(agent, context.session)
        record = self._new(context, id_, agent, session)
        self._start(context, record, partial(record.send, context, arguments["request"]))
        self._known[record.id] = record
        self._store(context, record)
        text = f"{record.id} is working. Its id is {record.id}. Call wait_agents with this id to get its answer."
        return _result(text, [record])

    async def send_agent_input(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Gives an agent a message."""
        record = self._find(context, arguments["id"])
        status, interrupt = record.status, arguments.get("interrupt", False)
        if status == "ended" or interrupt:
            check_depth(record.agent.name, inside.get(), self.depth)
        send = partial(record.send, context, arguments["message"], interrupt=interrupt)
        if status == "ended" or (status == "waiting" and interrupt):
            self._start(context, record, send)
        else:
            send()
        self._store(context, record)
        if status == "waiting" and not interrupt:
            return _result(f"{record.report}\nIt reads your message after the answer.", [record])
        did = {"ended": "continues", "waiting": "dropped its question and continues"}.get(status, "got your message")
        return _result(f"{record.id} {did}.", [record])

    async def wait_agents(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Waits for agents."""
        notes = self._take_answer(context)
        records = [self._find(context, each) for each in dict.fromkeys(arguments["ids"])]
        seconds, wants_any = arguments.get("seconds", 60), arguments.get("wait_for") == "any"
        if context.remaining is not None:
            seconds = min(seconds, max(context.remaining - 1, 0))

        def asks(record: BackgroundAgent) -> bool:
            return record.waits is not None and not _is_asked(context, record)

        def is_enough(record: BackgroundAgent) -> bool:
            return wants_any and (record.status == "ended" or asks(record))

        with context.unlocked():
            await _wait_for(records, seconds, is_enough)
        for each in records:
            each.take_report()
            fatal, each.fatal = each.fatal, None
            if fatal is not None:
                raise fatal
        asking = next(filter(asks, records), None)
        if asking is not None and not (wants_any and any(each.status == "ended" for each in records)):
            self._suspend(context, asking, records)
        for each in records:
            self._store(context, each)
        return _result("\n\n".join((*notes, *(each.report for each in records))), records)

    async def close_agent(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Ends an agent."""
        record = self._find(context, arguments["id"])
        below = Crew.of(context).below(record) if context.provides(ToolRegistry) else ()
        ending = [each for each in (record, *below) if each.status != "ended"]
        for each in ending:
            each.stop("close_agent was called")
        with context.unlocked():
            await asyncio.gather(*(each.wait_end(GRACE_SECONDS + 1) for each in ending))
        record.take_report()
        self._store(context, record)
        return _result(record.report, [record])

    # Questions to the user -----------------------------------------------------------------------------------------

    def _suspend(self, context: ToolContext, asks: BackgroundAgent, records: Sequence[BackgroundAgent]) -> None:
        """Suspends the call until the question of an agent is answered."""
        waits = asks.waits
        assert waits is not None
        agents = {each.id: each.to_stored().to_json() for each in records}
        stored = {"agents": agents, "asks": asks.id, "key": waits.key}
        hint, asks.asked_by = f"{asks.id}: {waits.hint}", (context.message, context.call_id)
        context.suspend(hint, waits.payload, stored=stored, request=waits.request)

    def _take_answer(self, context: ToolContext) -> list[str]:
        """Gives an agent the answer to the question by which the call was suspended; returns notes for the model."""
        answer = context.confirmation
        stored = None if answer is None else answer.stored
        if not is_object(stored) or not is_object(agents := stored.get("agents")):
            return []
        for id_, each in agents.items():  # perhaps of another process
            self._recall(context, id_, each)
        record = self._find(context, str(stored.get("asks")))
        if (waits := record.waits) is None or waits.key != stored.get("key"):
            return [f"The answer of the user wasn't used: {record.id} doesn't wait for it any more."]
        self._start(context, record, partial(record.start, context, stored=waits.stored, answer=answer))
        return []

    # What is known -------------------------------------------------------------------------------------------------

    def _new(self, context: ToolContext, id_: str, agent: AnyAgent, session: str) -> BackgroundAgent:
        owner = context.user, context.session
        return BackgroundAgent(id_, agent, owner, session, keep=self.keep, seconds=self.seconds)

    def _start(self, context: ToolContext, record: BackgroundAgent, start: Callable[[], None]) -> None:
        """Starts an agent, which ends with its caller's turn.

        Raises:
            ToolError: Too many agents work, or `start` raises it.
        """
        crew = Crew.of(context) if context.provides(ToolRegistry) else Crew()
        busy = [each for each in crew.beside(context) if each is not record]
        if len(busy) >= self.most:
            text = f"{record.agent.name} was not run: {self.most} agents are working or waiting, which is the limit"
            own = ", ".join(each.id for each in busy if is_owner(context, each))
            raise ToolError(f"{text} ({own or 'none of them is yours'}). Wait for one, or close one.")
        start()
        crew.add(context, record)
        for status, most in (("ended", MOST_REMEMBERED), ("waiting", MOST_WAITING)):
            idle = [each for each in list(self._known.values()) if each.status == status]
            for each in idle[: max(len(idle) - most, 0)]:
                self._known.pop(each.id, None)
                each.stop("it was forgotten")

    def _find(self, context: ToolContext, id_: str) -> BackgroundAgent:
        """The agent of this id that the session has started.

        Raises:
            ToolError: There is none.
        """
        record = self._recall(context, id_)
        if record is None:
            own = [each.id for each in list(self._known.values()) if is_owner(context, each)]
            there_are = f"There are {', '.join(own)}." if own else "Start one with spawn_agent."
            raise ToolError(f"There is no agent {id_!r:.80} here. {there_are}")
        self._known.pop(id_, None)
        self._known[id_] = record  # as the last one: others are forgotten first
        record.check_loop()
        return record

    def _recall(self, context: ToolContext, id_: str, stored: Any = None) -> BackgroundAgent | None:
        """The agent of this id, in its latest state: of this process, of the session's state, or as stored elsewhere.

        `None` if it isn't known, belongs to another session, or can't be read.
        """
        record, read = self._known.get(id_), read_agent(context.state, id_, stored)
        if record is not None and not is_owner(context, record):
            return None
        if read is None or (agent := self.agents.get(read.agent)) is None:
            return record
        record = self._known[id_] = record or self._new(context, id_, agent, read.session)
        record.restore(read)
        if record.status == "waiting" and record.turn is None and context.provides(ToolRegistry):
            Crew.of(context).add(context, record)
        return record

    def _store(self, context: ToolContext, record: BackgroundAgent) -> None:
        """Stores an agent in the session's state, so that it can be resumed in another process."""
        store_agent(context.state, record.id, record.to_stored())


async def _wait_for(
    records: Sequence[BackgroundAgent], seconds: float, is_enough: Callable[[BackgroundAgent], bool]
) -> None:
    """Waits until none of the agents works, or one is enough, for so many seconds at most."""
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    while (left := due - loop.time()) > 0 and not any(map(is_enough, records)):
        changes = [asyncio.wrap_future(each.changed) for each in records if each.status == "working"]
        if not changes:
            return
        await asyncio.wait(changes, timeout=left, return_when=asyncio.FIRST_COMPLETED)


def _is_asked(context: ToolContext, record: BackgroundAgent) -> bool:
    """Whether another call of the same message asks the question of an agent."""
    message, call = record.asked_by
    return message is not None and message == context.message and call != context.call_id


def _result(text: str, records: Sequence[BackgroundAgent]) -> ToolResult:
    agents = [
        {"id": each.id, "agent": each.agent.name, "status": each.status, "isError": each.failed} for each in records
    ]
    return ToolResult(text, {"agents": agents})  # pyright: ignore[reportArgumentType]  converted


def _text(description: str, **facts: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **facts}


def _tool(handler: Any, title: str, description: str, properties: Mapping[str, Any], **options: Any) -> Tool:
    """The tool of a method; the arguments without a default are required."""
    required = [name for name, each in properties.items() if "default" not in each]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    facts: dict[str, Any] = {
        "title": title,
        "description": description,
        "tags": ("needs-turn",),
        "open_world": True,
        **options,
    }
    return Tool.from_schema(handler.__name__, schema, handler, **facts)
