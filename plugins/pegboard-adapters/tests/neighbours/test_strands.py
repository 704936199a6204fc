"""Strands's own loop runs pegboard's tools, and pegboard runs Strands's."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from strands import Agent, ToolContext, tool as strands_tool
from strands.models import Model
from strands.tools.tools import PythonAgentTool
from strands.types.exceptions import EventLoopException
from strands.types.tools import AgentTool

import pegboard
from pegboard import (
    AudioContent,
    FileContent,
    ImageContent,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    ToolRegistry,
    tool,
)
from pegboard_adapters.strands import from_strands, to_strands

ANN = ReadonlyContext(user="ann", session="s", state={"mood": "good", "list": [1], "old": 1})


class Scripted(Model):
    """A model that makes these calls at once, and then ends."""

    def __init__(self, *calls: tuple[str, Any]) -> None:
        self.calls, self.offered = calls, []

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, tool_specs: Any = None, *_: Any, **__: Any) -> Any:
        import json

        self.offered.append(tool_specs)
        yield {"messageStart": {"role": "assistant"}}
        if any("toolResult" in block for block in messages[-1]["content"]):
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        for at, (name, arguments) in enumerate(self.calls):
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"call{at}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


async def agent_of(kinds: Any, *calls: tuple[str, Any], state: Any = None, **options: Any) -> Agent:
    tools = to_strands(await kinds.registry.resolve(), **options)
    return Agent(model=Scripted(*calls), tools=[*tools], callback_handler=None, state=state)


def results(agent: Agent) -> list[Any]:
    found = [block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block]
    return sorted(found, key=lambda each: each["toolUseId"])


FOR_ANN = {"user_id": "ann", "session_id": "s"}


def run(kinds: Any, *calls: tuple[str, Any], **options: Any) -> list[Any]:
    async def main() -> list[Any]:
        agent = await agent_of(kinds, *calls, **options)
        await agent.invoke_async("go", invocation_state=dict(FOR_ANN))
        return results(agent)

    return asyncio.run(main())


def test_results_images_and_errors_reach_the_model(kinds: Any) -> None:
    add, draw, find, crash, count, who = run(
        kinds,
        ("add", {"a": 1, "b": 2}),
        ("draw", {}),
        ("find", {"name": "bob"}),
        ("crash", {}),
        ("count", {"to": 3}),
        ("whoami", {}),
    )
    assert (add["status"], add["content"]) == ("success", [{"text": '{"result": 3}'}])
    assert draw["content"] == [{"image": {"format": "png", "source": {"bytes": kinds.png}}}]
    assert (find["status"], find["content"]) == ("error", [{"text": "There is no customer 'bob'; try 'ann'."}])
    assert crash["status"] == "error"
    assert "secret" not in str(crash)
    assert count["content"] == [{"text": "counted to 3"}]
    assert who["content"] == [{"text": "ann in s"}]


def test_documents_are_documents_and_other_media_a_note(kinds: Any) -> None:
    @tool(read_only=True)
    def files() -> pegboard.ToolResult:
        """Gives files."""
        content = [FileContent("a.pdf", b"%PDF", "application/pdf"), AudioContent(b"wave", "audio/wav")]
        return pegboard.ToolResult(content)

    kinds.registry.register(files)
    (answer,) = run(kinds, ("files", {}))
    document, note = answer["content"]
    assert document["document"]["format"] == "pdf"
    assert document["document"]["source"] == {"bytes": b"%PDF"}
    assert "audio/wav of 4 bytes" in note["text"]


@pytest.mark.parametrize("arguments", [{"a": "x", "b": 2}, [1, 2], "no object"])
def test_invalid_arguments_run_nothing(kinds: Any, arguments: Any) -> None:
    (answer,) = run(kinds, ("add", arguments))
    assert answer["status"] == "error"
    assert kinds.ran == []


def test_bad_tools_of_ours_and_of_theirs_affect_only_themselves(kinds: Any, check_theirs: Any) -> None:
    kinds.check_bad(run(kinds, *kinds.bad_calls))
    check_theirs("strands", lambda functions: [*map(strands_tool, functions)], EventLoopException(OSError("secret")))


def test_a_recursive_argument_is_kept(kinds: Any) -> None:
    async def main() -> Any:
        tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
        agent = await agent_of(kinds, ("depth", tree))
        await agent.invoke_async("go")
        (spec,) = (each for each in agent.model.offered[0] if each["name"] == "depth")
        return results(agent)[0], spec

    answer, spec = asyncio.run(main())
    assert answer["content"] == [{"text": '{"result": 3}'}]
    assert "$ref" in str(spec["inputSchema"]["json"])


def test_progress_is_streamed(kinds: Any) -> None:
    async def main() -> list[Any]:
        agent = await agent_of(kinds, ("count", {"to": 2}))
        events = [event async for event in agent.stream_async("go")]
        return [event["tool_stream_event"]["data"] for event in events if "tool_stream_event" in event]

    first, second = asyncio.run(main())
    assert (first["progress"], first["total"], second["message"]) == (1, 2, "step 2")


@pytest.mark.parametrize(
    ("response", "ran"),
    [
        (True, True),
        ("y", True),
        ({"answer": "once"}, True),
        (False, False),
        ("n", False),
        ({"answer": "reject", "feedback": "keep it"}, False),
        ({"answer": "maybe"}, False),
    ],
)
def test_what_asks_interrupts_the_agent(kinds: Any, response: Any, ran: bool) -> None:
    async def main() -> Any:
        agent = await agent_of(kinds, ("delete", {"name": "a"}), ("add", {"a": 1, "b": 2}))
        paused = await agent.invoke_async("go")
        assert paused.stop_reason == "interrupt"
        (asked,) = paused.interrupts
        assert "delete" in asked.reason["text"]
        assert ("delete", "a") not in kinds.ran
        answer = {"interruptResponse": {"interruptId": asked.id, "response": response}}
        assert (await agent.invoke_async([answer])).stop_reason == "end_turn"
        return results(agent)[0]

    answer = asyncio.run(main())
    assert kinds.ran.count(("delete", "a")) == ran
    assert kinds.ran.count(("add", 1, 2)) == 1
    assert answer["status"] == ("success" if ran else "error")
    if "keep it" in str(response):
        assert "keep it" in str(answer)


def test_a_question_from_inside_is_another_interrupt(kinds: Any) -> None:
    @tool(destructive=True, requires_confirmation=True)
    async def wipe(context: pegboard.ToolContext) -> str:
        """Wipes."""
        context.state["n"] = context.state.get("n", 0) + 1
        await context.ask("format", ["disk"])
        kinds.ran.append("wipe")
        return "wiped"

    kinds.registry.register(wipe)
    kinds.registry.permissions = Permissions(rules=[Rule("format", "*", "ask")])

    async def main() -> Agent:
        agent = await agent_of(kinds, ("wipe", {}))
        paused = await agent.invoke_async("go")
        for _ in range(2):
            assert kinds.ran == []
            (asked,) = (each for each in paused.interrupts if each.response is None)
            answer: Any = {"interruptResponse": {"interruptId": asked.id, "response": True}}
            paused = await agent.invoke_async([answer])
        assert paused.stop_reason == "end_turn"
        return agent

    agent = asyncio.run(main())
    assert kinds.ran == ["wipe"]
    assert agent.state.get() == {"n": 1}


def test_the_registrys_approver_takes_precedence(kinds: Any) -> None:
    kinds.registry.approver = lambda request, context: Once()
    (answer,) = run(kinds, ("delete", {"name": "a"}))
    assert answer["content"] == [{"text": "deleted a"}]


def test_direct_calls_run_unless_they_ask(kinds: Any) -> None:
    agent = asyncio.run(agent_of(kinds))
    assert agent.tool.add(a=1, b=2)["content"] == [{"text": '{"result": 3}'}]
    with pytest.raises(RuntimeError, match="interrupt"):
        agent.tool.delete(name="a")
    assert kinds.ran == [("add", 1, 2)]


def test_the_agents_state_goes_both_ways(kinds: Any) -> None:
    @tool
    def remember(context: pegboard.ToolContext) -> str:
        """Remembers."""
        context.state["list"].append(2)
        context.state["new"] = context.state["mood"]
        del context.state["old"]
        return "remembered"

    kinds.registry.register(remember)

    async def main() -> Any:
        agent = await agent_of(kinds, ("remember", {}), state=dict(ANN.state))
        await agent.invoke_async("go")
        return agent.state.get()

    assert asyncio.run(main()) == {"mood": "good", "list": [1, 2], "new": "good"}


def test_cancelling_the_agent_cancels_the_tool(kinds: Any) -> None:
    async def main() -> None:
        agent = await agent_of(kinds, ("wait", {}))
        task = asyncio.create_task(agent.invoke_async("go"))
        await kinds.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


def test_two_users_at_once_are_told_apart(kinds: Any) -> None:
    async def one(n: int) -> str:
        agent = await agent_of(kinds, ("whoami", {}))
        context = ReadonlyContext(user=f"user{n}", session=f"s{n}")
        await agent.invoke_async("go", invocation_state={"context": context})
        return results(agent)[0]["content"][0]["text"]

    async def main() -> list[str]:
        return [*await asyncio.gather(*(one(n) for n in range(2)))]

    assert asyncio.run(main()) == ["user0 in s0", "user1 in s1"]


def test_a_call_without_an_agent_runs_unless_it_asks(kinds: Any) -> None:
    async def main() -> list[Any]:
        tools = {each.tool_name: each for each in to_strands(await kinds.registry.resolve())}
        calls = [("draw", None), ("delete", {"name": "a"})]
        uses: list[Any] = [{"toolUseId": "1", "name": name, "input": arguments} for name, arguments in calls]
        return [[event async for event in tools[use["name"]].stream(use, {})][-1].tool_result for use in uses]

    drawn, deleted = asyncio.run(main())
    assert (drawn["status"], deleted["status"]) == ("success", "error")
    assert kinds.ran == []


def test_a_context_may_be_the_hosts_own(kinds: Any) -> None:
    (who,) = run(kinds, ("whoami", {}), context=lambda state: ReadonlyContext(user="bob", session=state["session_id"]))
    assert who["content"] == [{"text": "bob in s"}]


# Strands's tools in pegboard ------------------------------------------------------------------------------------------


async def call(tools: Any, name: str, arguments: dict[str, Any], **options: Any) -> Any:
    approver, context = options.pop("approver", None), options.pop("context", ANN)
    async with ToolRegistry(approver=approver) as registry:
        registry.register(from_strands(tools, **{"trust": True, **options}))
        resolved = await registry.resolve(context)
        assert not resolved.problems, resolved.problems
        return await registry.dispatch([pegboard.ToolCall(name, arguments, "1")], resolved, context)


def result(*arguments: Any, **options: Any) -> Any:
    return asyncio.run(call(*arguments, **options)).results[0]


class Even(BaseModel):
    """A number."""

    x: int

    @field_validator("x")
    @classmethod
    def check(cls, x: int) -> int:
        if x % 2:
            raise ValueError("it is odd")
        return x


@strands_tool
def double(x: int) -> int:
    """Doubles."""
    return 2 * x


@strands_tool(context=True)
async def triple(x: int, tool_context: ToolContext) -> dict[str, Any]:
    """Triples."""
    return {"x": 3 * x, "who": tool_context.invocation_state["context"].user, "id": tool_context.tool_use["toolUseId"]}


def test_decorated_functions_run_in_pegboard() -> None:
    assert result([double, triple], "double", {"x": 2}).text == "4"
    assert result([double, triple], "triple", {"x": 2}).text == '{"x": 6, "who": "ann", "id": "1"}'
    assert result(double, "double", {"x": "two"}).kind == "invalid_arguments"


def test_their_errors_are_theirs_and_crashes_stay_hidden() -> None:
    @strands_tool
    def find() -> dict[str, Any]:
        """Finds."""
        return {"status": "error", "content": [{"text": "no such thing"}]}

    @strands_tool
    def crash(kind: str) -> str:
        """Crashes."""
        raise (ValueError if kind == "value" else RuntimeError)("secret-path")

    found = result([find], "find", {})
    assert (found.is_error, found.text) == (True, "no such thing")
    for kind in ("value", "runtime"):
        crashed = result([crash], "crash", {"kind": kind})
        assert crashed.is_error
        assert "secret" not in crashed.text


def test_what_only_their_validation_refuses_is_an_error_that_says_why() -> None:
    @strands_tool
    def halve(number: Even) -> int:
        """Halves."""
        return 1

    refused = result([halve], "halve", {"number": {"x": 3}})
    assert refused.is_error
    assert "it is odd" in refused.text


def test_images_documents_and_data_arrive(kinds: Any) -> None:
    @strands_tool
    def draw() -> dict[str, Any]:
        """Draws."""
        image = {"format": "png", "source": {"bytes": kinds.png}}
        document = {"format": "pdf", "name": "a", "source": {"bytes": b"%PDF"}}
        content = [{"text": "here"}, {"json": {"a": 1}}, {"image": image}, {"document": document}, {"video": {}}]
        return {"status": "success", "content": content}

    content = result([draw], "draw", {}).content
    assert (content[0].text, content[1].text) == ("here", '{"a":1}')
    assert content[2] == ImageContent(kinds.png)
    assert (content[3].data, content[3].mime_type) == (b"%PDF", "application/pdf")
    assert content[4].text == '{"video":{}}'


def test_partial_results_are_progress() -> None:
    @strands_tool
    async def steps() -> Any:
        """Takes steps."""
        yield "one"
        yield {"two": 2}
        yield "three"

    seen: list[Any] = []

    async def main() -> Any:
        async with ToolRegistry() as registry:
            registry.register(from_strands([steps], trust=True))
            context = pegboard.ToolContext(ANN, listener=seen.append)
            return await registry.call("steps", {}, context, resolved=await registry.resolve())

    assert asyncio.run(main()).text == "three"
    assert seen[:2] == ["one", {"two": 2}]


class Raw(AgentTool):
    """A tool that yields plain values, the last of which is its result."""

    tool_name, tool_type = "raw", "raw"
    tool_spec: Any = {"name": "raw", "description": "Is raw.", "inputSchema": {"type": "object", "properties": {}}}

    async def stream(self, tool_use: Any, invocation_state: Any, **_: Any) -> Any:
        yield "step"
        yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": "raw"}]}


class Plain(Raw):
    async def stream(self, tool_use: Any, invocation_state: Any, **_: Any) -> Any:
        yield "plain"


class Mixed(Raw):
    async def stream(self, tool_use: Any, invocation_state: Any, **_: Any) -> Any:
        yield {"status": "success", "content": ["text", {"image": {"source": {}}}]}


@pytest.mark.parametrize(("kind", "text"), [(Raw, "raw"), (Plain, "plain"), (Mixed, 'text\n{"image":{"source":{}}}')])
def test_tools_of_other_classes_run_and_may_have_a_schema_without_json(kind: type[Raw], text: str) -> None:
    assert result([kind()], "raw", {}).text == text


def test_modules_are_tools() -> None:
    module = ModuleType("package.shout")
    module.TOOL_SPEC = {  # type: ignore[attr-defined]
        "name": "shout",
        "description": "Shouts.",
        "inputSchema": {"json": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}},
    }

    def shout(tool: Any, **state: Any) -> Any:
        text = f"{tool['input']['word'].upper()} {state['agent'].state.get('mood')}"
        return {"toolUseId": tool["toolUseId"], "status": "success", "content": [{"text": text}]}

    module.shout = shout  # type: ignore[attr-defined]
    assert result(module, "shout", {"word": "hi"}).text == "HI good"
    sys.modules["shout"] = module
    try:
        assert result(["shout"], "shout", {"word": "hi"}).text == "HI good"
    finally:
        del sys.modules["shout"]


def test_their_changes_of_the_agents_state_are_ours() -> None:
    @strands_tool
    def remember(agent: Agent) -> str:
        """Remembers."""
        agent.state.set("new", agent.state.get("mood"))
        agent.state.delete("old")
        return "remembered"

    outcome = asyncio.run(call([remember], "remember", {}))
    assert dict(outcome.actions.state_delta) == {"new": "good", "old": pegboard.REMOVED}
    assert ANN.state["old"] == 1
    context = ReadonlyContext(state={"mood": "good", "old": object()})  # which has no JSON form
    outcome = asyncio.run(call([remember], "remember", {}, context=context))
    assert dict(outcome.actions.state_delta) == {"new": "good", "old": pegboard.REMOVED}


@pytest.mark.parametrize("approved", [True, False])
def test_their_interrupts_are_questions(approved: bool) -> None:
    ran: list[Any] = []

    @strands_tool(context=True)
    def wipe(disk: str, tool_context: ToolContext) -> str:
        """Wipes."""
        first = tool_context.interrupt("wipe", reason={"disk": disk})
        second = tool_context.interrupt("really")
        ran.append((first, second))
        return "wiped"

    asked: list[Any] = []

    def answer(request: Any, context: Any) -> Any:
        asked.append((request.hint, request.metadata))
        return Once() if approved else Reject("no")

    wiped = result([wipe], "wipe", {"disk": "c"}, approver=answer)
    assert (wiped.text == "wiped") == approved
    assert ran == ([("y", "y")] if approved else [])
    assert asked[0][0] == "wipe asks: wipe"


def test_interrupts_without_end_are_an_error() -> None:
    @strands_tool(context=True)
    def nag(tool_context: ToolContext) -> str:
        """Nags."""
        for step in range(100):
            tool_context.interrupt(f"step {step}")
        return "done"

    nagged = result([nag], "nag", {}, approver=lambda request, context: Once())
    assert nagged.is_error
    assert "again and again" in nagged.text


def test_their_agent_has_no_model() -> None:
    @strands_tool
    def ask(agent: Agent) -> str:
        """Asks its agent."""
        return str(agent("hi"))

    assert result([ask], "ask", {}).kind == "tool_failure"


def test_one_that_cannot_be_offered_affects_only_itself() -> None:
    class Bad(Raw):
        tool_name = "bad"
        tool_spec: Any = {"name": "bad", "description": "", "inputSchema": {"json": {"type": 3}}}

    items = ["missing_package.x", ModuleType("empty"), 3, Bad(), double]
    offered = asyncio.run(from_strands(items).tools(ANN))
    assert [each.name for each in offered] == ["double"]
    causes = {problem.tool: problem.cause for problem in offered.problems}
    assert sorted(map(str, causes)) == ["bad", "empty", "int", "missing_package.x"]
    assert "No module named 'missing_package'" in causes["missing_package.x"]


def test_the_package_of_a_modules_function_tells_its_trust() -> None:
    import attrs

    spec: Any = {"name": "made", "description": "Makes.", "inputSchema": {"json": {"type": "object"}}}

    def made(tool: Any, **_: Any) -> Any:
        return {"status": "success", "content": [{"text": "made"}]}

    made.__module__ = attrs.__name__
    tools = [PythonAgentTool("made", spec, made)]
    assert result(tools, "made", {}, trust=["attrs"]).text == "made"
    assert "approval" in result(tools, "made", {}, trust=["strands-agents"]).text


def test_the_example_of_the_readme_runs(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calculator = ModuleType("calculator")
    vars(calculator)["calculator"] = double
    for name, module in (("strands_tools", ModuleType("strands_tools")), ("strands_tools.calculator", calculator)):
        monkeypatch.setitem(sys.modules, name, module)
    names = example("Strands")
    assert "done" in asyncio.run(names["main"](Scripted(("delete", {"name": "a.txt"}))))
