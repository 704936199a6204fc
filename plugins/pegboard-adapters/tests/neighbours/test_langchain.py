"""LangChain's own loop runs pegboard's tools, and pegboard runs LangChain's."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel, field_validator

from pegboard import ImageContent, ReadonlyContext, ToolRegistry
from pegboard_adapters.langchain import from_langchain, to_langchain


class Custom(InjectedToolArg):
    """An injection that only its program knows."""


class Scripted(BaseChatModel):
    """A model that calls the given tools at once, and then repeats what it got."""

    calls: list[tuple[str, dict[str, Any]]]
    offered: list[Any] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        self.offered[:] = [convert_to_openai_tool(each) for each in tools]
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        if any(isinstance(message, ToolMessage) for message in messages):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("done"))])
        calls = [
            {"name": name, "args": arguments, "id": f"call{at}", "type": "tool_call"}
            for at, (name, arguments) in enumerate(self.calls)
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])


async def answers(agent: Any, config: dict[str, Any], given: Any = None) -> tuple[list[ToolMessage], Any]:
    """The messages of tools, and what the agent waits for."""
    state = await agent.ainvoke({"messages": [HumanMessage("go")]} if given is None else given, config)
    return [each for each in state["messages"] if isinstance(each, ToolMessage)], state.get("__interrupt__")


def config(session: str = "s", user: str = "ann") -> dict[str, Any]:
    return {"configurable": {"thread_id": session, "user_id": user}}


async def agent_of(kinds: Any, *calls: tuple[str, dict[str, Any]], saver: bool = False, **options: Any) -> Any:
    tools = to_langchain(await kinds.registry.resolve(), **options)
    return create_agent(Scripted(calls=[*calls]), tools, checkpointer=InMemorySaver() if saver else None)


async def run(kinds: Any, *calls: tuple[str, dict[str, Any]]) -> list[ToolMessage]:
    messages, paused = await answers(await agent_of(kinds, *calls), config())
    assert not paused
    return messages


def test_results_images_and_errors_reach_the_model(kinds: Any) -> None:
    add, draw, find, crash, count, who = asyncio.run(
        run(
            kinds,
            ("add", {"a": 1, "b": 2}),
            ("draw", {}),
            ("find", {"name": "bob"}),
            ("crash", {}),
            ("count", {"to": 3}),
            ("whoami", {}),
        )
    )
    assert (add.content, add.status, add.tool_call_id) == ('{"result": 3}', "success", "call0")
    assert add.artifact["structuredContent"] == {"result": 3}
    assert draw.content[0]["type"] == "image"
    assert draw.content_blocks[0]["mime_type"] == "image/png"
    assert (find.status, find.content) == ("error", "There is no customer 'bob'; try 'ann'.")
    assert crash.status == "error"
    assert "secret" not in str(crash)
    assert count.content == "counted to 3"
    assert who.content == "ann in s"


def test_invalid_arguments_run_nothing(kinds: Any) -> None:
    (message,) = asyncio.run(run(kinds, ("add", {"a": "x", "b": 2})))
    assert message.status == "error"
    assert "must be an integer" in message.content
    assert kinds.ran == []


def test_bad_tools_of_ours_and_of_theirs_affect_only_themselves(kinds: Any, check_theirs: Any) -> None:
    kinds.check_bad(asyncio.run(run(kinds, *kinds.bad_calls)))
    check_theirs("langchain", lambda functions: [*map(tool, functions)], GraphBubbleUp("secret"))


def test_a_recursive_argument_survives_the_conversion(kinds: Any) -> None:
    async def main() -> tuple[Any, ToolMessage]:
        tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
        agent = await agent_of(kinds, ("depth", {"tree": tree} if wrapped else tree))
        messages, _ = await answers(agent, config())
        return messages[0]

    async def offered() -> dict[str, Any]:
        tools = to_langchain(await kinds.registry.resolve())
        return {each["function"]["name"]: each["function"]["parameters"] for each in map(convert_to_openai_tool, tools)}

    schema = asyncio.run(offered())["depth"]
    wrapped = "tree" in schema["properties"]
    root = schema["properties"]["tree"] if wrapped else schema
    assert root["properties"]["children"]["items"]["properties"]["children"]["items"]["properties"]["name"]
    assert asyncio.run(main()).content == '{"result": 3}'


def test_every_schema_has_properties_as_openai_requires(kinds: Any) -> None:
    tools = asyncio.run(kinds.registry.resolve())
    assert all("properties" in convert_to_openai_tool(each)["function"]["parameters"] for each in to_langchain(tools))


def test_what_asks_is_denied_without_a_checkpointer(kinds: Any) -> None:
    (message,) = asyncio.run(run(kinds, ("delete", {"name": "a"})))
    assert message.status == "error"
    assert message.artifact["kind"] == "denied"
    assert kinds.ran == []


@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        (True, True),
        ({"answer": "once"}, True),
        (False, False),
        ({"answer": "reject", "feedback": "keep it"}, False),
        ("yes", False),
        ({"answer": "maybe"}, False),
    ],
)
def test_what_asks_interrupts_a_graph_with_a_checkpointer(kinds: Any, answer: object, ran: bool) -> None:
    async def main() -> ToolMessage:
        agent = await agent_of(kinds, ("delete", {"name": "a"}), saver=True)
        messages, paused = await answers(agent, config())
        assert messages == []
        assert kinds.ran == []
        assert "delete" in paused[0].value["text"]
        messages, paused = await answers(agent, config(), Command(resume=answer))
        assert not paused
        return messages[0]

    message = asyncio.run(main())
    assert kinds.ran == ([("delete", "a")] if ran else [])
    assert message.status == ("success" if ran else "error")
    if isinstance(answer, dict) and "feedback" in answer:
        assert "keep it" in message.content


def test_the_registrys_approver_takes_precedence(kinds: Any) -> None:
    from pegboard import Once

    kinds.registry.approver = lambda request, context: Once()
    (message,) = asyncio.run(run(kinds, ("delete", {"name": "a"})))
    assert message.content == "deleted a"


def test_cancelling_the_agent_cancels_the_tool(kinds: Any) -> None:
    async def main() -> None:
        task = asyncio.create_task(run(kinds, ("wait", {})))
        await kinds.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(kinds.cancelled.wait(), 10)

    asyncio.run(main())


def test_two_users_at_once_are_told_apart(kinds: Any) -> None:
    async def main() -> list[str]:
        agent = await agent_of(kinds, ("whoami", {}))
        each = [answers(agent, config(f"s{n}", f"user{n}")) for n in range(2)]
        return [messages[0].content for messages, _ in await asyncio.gather(*each)]

    assert asyncio.run(main()) == ["user0 in s0", "user1 in s1"]


def test_a_context_may_be_the_hosts_own(kinds: Any) -> None:
    async def main() -> str:
        agent = await agent_of(kinds, ("whoami", {}), context=lambda config: ReadonlyContext(user="bob", session="t"))
        return (await answers(agent, config()))[0][0].content

    assert asyncio.run(main()) == "bob in t"


def test_plain_calls_work_beside_a_running_loop(kinds: Any) -> None:
    async def main() -> Any:
        tools = {each.name: each for each in to_langchain(await kinds.registry.resolve())}
        return tools["add"].invoke({"a": 1, "b": 2}), tools["count"].invoke({"to": 1})

    assert asyncio.run(main()) == ('{"result": 3}', "counted to 1")


# LangChain's tools in pegboard ----------------------------------------------------------------------------------------


async def call(tools: Any, name: str, arguments: dict[str, Any], context: Any = None, **provided: Any) -> Any:
    async with ToolRegistry() as registry:
        for kind in provided.get("provide", ()):
            registry.provide(*kind)
        registry.register(from_langchain(tools, name="lc", trust=True))
        resolved = await registry.resolve()
        assert not resolved.problems, resolved.problems
        return await registry.call(
            name, arguments, context or ReadonlyContext(user="ann", session="s"), resolved=resolved
        )


def test_plain_and_async_tools_run_in_pegboard() -> None:
    @tool
    def double(x: int) -> int:
        """Doubles."""
        return 2 * x

    @tool
    async def triple(x: int) -> int:
        """Triples."""
        return 3 * x

    assert asyncio.run(call([double, triple], "double", {"x": 2})).text == "4"
    assert asyncio.run(call([double, triple], "triple", {"x": 2})).text == "6"


def test_invalid_arguments_of_theirs_run_nothing() -> None:
    class Arguments(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def check(cls, x: int) -> int:
            if x == 13:
                raise ValueError("13 is unlucky")
            return x

    @tool(args_schema=Arguments)
    def double(x: int) -> int:
        """Doubles."""
        return 2 * x

    wrong = asyncio.run(call([double], "double", {"x": "two"}))
    assert wrong.kind == "invalid_arguments"
    unlucky = asyncio.run(call([double], "double", {"x": 13}))
    assert unlucky.is_error
    assert "13 is unlucky" in unlucky.text


def test_their_errors_are_theirs_and_crashes_stay_hidden() -> None:
    @tool
    def find(name: str) -> str:
        """Finds."""
        raise ToolException(f"no {name}")

    @tool
    def crash() -> str:
        """Crashes."""
        raise RuntimeError("secret-path")

    found = asyncio.run(call([find], "find", {"name": "bob"}))
    assert (found.is_error, found.text) == (True, "no bob")
    crashed = asyncio.run(call([crash], "crash", {}))
    assert crashed.is_error
    assert "secret" not in crashed.text


def test_images_and_artifacts_arrive(kinds: Any) -> None:
    import base64

    @tool(response_format="content_and_artifact")
    def draw() -> Any:
        """Draws."""
        data = base64.b64encode(kinds.png).decode()
        url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        return [{"type": "text", "text": "here"}, {"type": "image", "base64": data, "mime_type": "image/png"}, url], {
            "n": 1
        }

    result = asyncio.run(call([draw], "draw", {}))
    assert [type(item).__name__ for item in result.content] == ["TextContent", "ImageContent", "ImageContent"]
    assert result.content[1] == result.content[2] == ImageContent(kinds.png)
    assert result.details == {"n": 1}


def test_state_store_call_id_and_runtime_are_injected_and_hidden() -> None:
    @tool
    def look(
        x: int,
        state: Annotated[dict, InjectedState],
        mood: Annotated[str, InjectedState("mood")],
        store: Annotated[Any, InjectedStore()],
        call_id: Annotated[str, InjectedToolCallId],
        runtime: ToolRuntime,
    ) -> str:
        """Looks."""
        session = runtime.config["configurable"]["thread_id"]
        return f"{x} {state['mood']} {mood} {store is not None} {call_id != ''} {runtime.state['mood']} {session}"

    async def main() -> Any:
        context = ReadonlyContext(user="ann", session="s", state={"mood": "good"})
        return await call([look], "look", {"x": 1}, context, provide=[(BaseStore, InMemoryStore())])

    toolset = from_langchain([look], name="lc")
    (spec,) = (each.spec for each in asyncio.run(toolset.tools(ReadonlyContext())))
    assert [*spec.input_schema["properties"]] == ["x"]
    assert asyncio.run(main()).text == "1 good good True True good s"


def test_a_command_changes_the_state() -> None:
    @tool
    def remember(what: str, call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Remembers."""
        return Command(update={"what": what, "messages": [ToolMessage("kept", tool_call_id=call_id)]})

    async def main() -> Any:
        from pegboard import ToolCall

        registry = ToolRegistry()
        registry.register(from_langchain([remember], trust=True))
        resolved = await registry.resolve()
        return await registry.dispatch([ToolCall("remember", {"what": "x"}, "1")], resolved)

    outcome = asyncio.run(main())
    assert outcome.actions.state_delta == {"what": "x"}
    assert outcome.results[0].text == "kept"


def test_one_that_cannot_be_offered_affects_only_itself() -> None:
    @tool
    def odd(x: int, secret: Annotated[str, Custom()]) -> str:
        """Is odd."""
        return ""

    @tool
    def fine() -> str:
        """Is fine."""
        return "fine"

    result = asyncio.run(from_langchain([odd, "no tool", fine], name="lc").tools(ReadonlyContext()))
    assert [each.name for each in result] == ["fine"]
    assert [problem.tool for problem in result.problems] == ["odd", "no tool"]
    assert "injected" in result.problems[0].cause


def test_a_single_tool_is_taken_as_it_is() -> None:
    @tool
    def one() -> str:
        """Is one."""
        return "one"

    assert asyncio.run(call(one, "one", {})).text == "one"


def test_classes_with_run_and_arun_are_tools() -> None:
    class Shout(BaseTool):
        name: str = "shout"
        description: str = "Shouts."

        def _run(self, word: str) -> str:
            return word.upper()

    assert asyncio.run(call([Shout()], "shout", {"word": "hi"})).text == "HI"


def test_the_example_of_the_readme_runs(example: Any) -> None:
    names = example("LangChain")
    assert asyncio.run(names["main"](Scripted(calls=[("delete", {"name": "a.txt"})]))) == "deleted a.txt"
