"""smolagents' own agents run pegboard's tools, and pegboard runs smolagents'."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest
from attrs import frozen
from PIL import Image
from smolagents import AgentLogger, AgentToolExecutionError, CodeAgent, LogLevel, Tool, ToolCallingAgent
from smolagents.local_python_executor import FinalAnswerException
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, Model, get_tool_json_schema
from smolagents.tools import tool as smol_tool

from pegboard import ImageContent, Once, ReadonlyContext, Tool as PegboardTool, ToolError, ToolRegistry, tool
from pegboard_adapters.smolagents import from_smolagents, to_smolagents

ANN = ReadonlyContext(user="ann", session="s")


class Scripted(Model):
    """A model that makes one call in each step, or writes one piece of code, and then ends."""

    def __init__(self, *steps: Any) -> None:
        super().__init__(model_id="scripted")
        self.steps = [*steps]

    def generate(self, messages: Any, **options: Any) -> ChatMessage:
        step = self.steps.pop(0) if self.steps else ("final_answer", {"answer": "done"})
        if isinstance(step, str):
            return ChatMessage(role="assistant", content=f"<code>{step}</code>```py\n{step}\n```")
        name, arguments = step
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call{len(self.steps)}", type="function", function=function)
        return ChatMessage(role="assistant", content="", tool_calls=[call])


def tools_of(kinds: Any, context: Any = ANN) -> dict[str, Any]:
    return {each.name: each for each in to_smolagents(asyncio.run(kinds.registry.resolve()), context=context)}


def run(kinds: Any, *calls: tuple[str, Any], context: Any = ANN) -> list[str]:
    """What the model reads of each of these calls: its observation, or its error."""
    tools = [*tools_of(kinds, context).values()]
    agent = ToolCallingAgent(tools=tools, model=Scripted(*calls), verbosity_level=LogLevel.OFF)
    agent.run("go")
    steps = [step for step in agent.memory.steps if getattr(step, "model_output_message", None)][: len(calls)]
    return [step.observations if step.error is None else step.error.message for step in steps]


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
    assert add == "{'result': 3}"
    assert draw == "Stored 'image.png' in memory."
    assert "There is no customer 'bob'; try 'ann'." in find
    assert "Error" in crash
    assert "secret" not in crash
    assert count == "counted to 3"
    assert who == "ann in s"


def test_code_gets_data_and_may_give_arguments_by_position(kinds: Any) -> None:
    tools = [*tools_of(kinds).values()]
    code = "total = add(1, b=2)['result']\nfinal_answer(total + 1)"
    agent = CodeAgent(tools=tools, model=Scripted(code), verbosity_level=LogLevel.OFF)
    assert agent.run("go") == 4
    with pytest.raises(Exception, match="takes 2 arguments, not 3"):
        tools_of(kinds)["add"](1, 2, 3)


def test_an_image_is_pillows_and_other_media_are_named(kinds: Any) -> None:
    from pegboard import AudioContent, TextContent, ToolResult

    @tool(read_only=True)
    def media() -> ToolResult:
        """Gives media."""
        return ToolResult((TextContent("here"), AudioContent(b"123"), ImageContent(b"no image")))

    kinds.registry.register(media)
    tools = tools_of(kinds)
    assert tools["draw"]().size == (1, 1)
    assert tools["media"]() == "here\n[audio/wav, 3 bytes]\n[image/png, 8 bytes]"


@pytest.mark.parametrize("arguments", [{"a": "x", "b": 2}, {"a": 1}, {"a": 1, "b": 2, "c": 3}])
def test_invalid_arguments_run_nothing(kinds: Any, arguments: Any) -> None:
    (text,) = run(kinds, ("add", arguments))
    assert "rror" in text or "should be" in text or "is required" in text or "not in" in text
    assert kinds.ran == []
    with pytest.raises(ToolError):  # without smolagents' own check
        tools_of(kinds)["add"](**arguments)
    assert kinds.ran == []


def test_bad_tools_of_ours_and_of_theirs_affect_only_themselves(kinds: Any, check_theirs: Any) -> None:
    kinds.check_bad(run(kinds, *kinds.bad_calls))
    check_theirs("smolagents", lambda functions: [*map(smol_tool, functions)], FinalAnswerException("secret"))


def test_a_recursive_argument_is_written_out(kinds: Any) -> None:
    tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
    schema = get_tool_json_schema(tools_of(kinds)["depth"])["function"]["parameters"]
    assert "$ref" not in json.dumps(schema)
    wrapped = "tree" in schema["properties"]
    root = schema["properties"]["tree"] if wrapped else schema
    assert root["properties"]["children"]["items"]["properties"]["name"]["type"] == "string"
    (text,) = run(kinds, ("depth", {"tree": tree} if wrapped else tree))
    assert text == "{'result': 3}"


@frozen
class Point:
    """A point."""

    x: int
    y: int


def test_optional_nullable_and_mixed_arguments_are_kept(kinds: Any) -> None:
    @tool(read_only=True)
    def many(
        point: Point | None = None,
        mode: Literal["a", "b"] = "a",
        size: float | str = 1.0,
        limit: int | None = 5,
        anything: object = None,
    ) -> str:
        """Has many arguments."""
        return f"{point} {mode} {size} {limit}"

    kinds.registry.register(many)
    offered = tools_of(kinds)["many"]
    schema = get_tool_json_schema(offered)["function"]["parameters"]
    assert schema.get("required", []) == []
    assert schema["properties"]["point"]["properties"]["x"]["type"] == "integer"
    assert schema["properties"]["mode"]["enum"] == ["a", "b"]
    assert set(schema["properties"]["size"]["type"]) >= {"number", "string"}
    texts = run(
        kinds,
        ("many", {}),
        ("many", {"mode": None, "limit": None}),  # smolagents' word for one that isn't given; and a value
        ("many", {"point": {"x": 1, "y": 2}, "size": 2}),
        ("many", {"point": None, "size": "xl", "anything": [1]}),
    )
    assert texts == [
        "None a 1.0 5",
        "None a 1.0 None",
        "Point(x=1, y=2) a 2.0 5",
        "None a xl 5",
    ]


def test_what_asks_is_denied_unless_the_registry_has_an_approver(kinds: Any) -> None:
    (text,) = run(kinds, ("delete", {"name": "a"}))
    assert "approv" in text
    assert kinds.ran == []
    kinds.registry.approver = lambda request, context: Once()
    assert run(kinds, ("delete", {"name": "a"})) == ["deleted a"]


def test_names_become_identifiers_and_one_of_two_equal_ones_is_left_out(
    kinds: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def text() -> str:
        """Gives a text."""
        return "text"

    kinds.registry.register(
        *(PegboardTool.from_function(text, name=name, read_only=True) for name in ("a-b", "a_b", "class"))
    )
    with caplog.at_level(logging.WARNING):
        tools = tools_of(kinds)
    assert tools["a_b"]() == tools["class_"]() == "text"
    assert "a_b" in caplog.text


def test_an_agent_runs_beside_a_running_loop(kinds: Any) -> None:
    async def main() -> list[str]:
        resolved = await kinds.registry.resolve()
        agent = ToolCallingAgent(
            tools=to_smolagents(resolved), model=Scripted(("count", {"to": 2})), verbosity_level=LogLevel.OFF
        )
        agent.run("go")  # as a notebook does
        return [step.observations for step in agent.memory.steps if getattr(step, "observations", None)]

    assert asyncio.run(main())[0] == "counted to 2"


def test_two_users_at_once_are_told_apart(kinds: Any) -> None:
    def who(n: int) -> str:
        return run(kinds, ("whoami", {}), context=lambda: ReadonlyContext(user=f"user{n}", session=f"s{n}"))[0]

    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(who, range(2))] == ["user0 in s0", "user1 in s1"]


def test_one_that_smolagents_cannot_take_is_left_out(kinds: Any, caplog: pytest.LogCaptureFixture) -> None:
    levels = {
        f"l{n}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/l{n + 1}"} for key in "abc"}}
        for n in range(9)
    }
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/l0"}}, "$defs": {**levels, "l9": {}}}
    kinds.registry.register(PegboardTool.from_schema("enormous", schema, lambda arguments: ""))
    kinds.registry.register(PegboardTool.provider("web", "openai.web_search"))  # a provider runs it
    assert not {"enormous", "web"} & tools_of(kinds).keys()
    assert "enormous can't be offered to smolagents" in caplog.text


# smolagents' tools in pegboard ----------------------------------------------------------------------------------------


async def call(tools: Any, name: str, arguments: Any = None) -> Any:
    async with ToolRegistry() as registry:
        registry.register(from_smolagents(tools, trust=True))
        resolved = await registry.resolve()
        assert not resolved.problems, resolved.problems
        return await registry.call(name, arguments, resolved=resolved)


@smol_tool
def shout(text: str, times: int = 1) -> str:
    """Writes in capitals.

    Args:
        text: The text.
        times: How often.
    """
    if text == "crash":
        raise RuntimeError("secret-path")
    return " ".join([text.upper()] * (times or 1))


class Draw(Tool):
    """Draws a square."""

    name = "draw"
    description = "Draws a square."
    inputs = {
        "color": {"type": "string", "description": "Its color."},
        "like": {"type": "image", "description": "A pattern.", "nullable": True},
        "extra": {"type": "any", "description": "Anything.", "nullable": True},
    }
    output_type = "image"

    def __init__(self) -> None:
        super().__init__()
        self.set_up = 0

    def setup(self) -> None:
        self.set_up += 1

    def forward(self, color: str, like: Any = None, extra: Any = None) -> Any:
        if color == "no":
            raise AgentToolExecutionError("no such color", AgentLogger(level=LogLevel.OFF))
        picture = Image.new("RGB", (2, 2), color)
        return ["here", picture] if extra else picture


def test_functions_and_classes_run_in_pegboard() -> None:
    assert asyncio.run(call(shout, "shout", {"text": "hi"})).text == "HI"
    assert asyncio.run(call([shout], "shout", {"text": "hi", "times": 2})).text == "HI HI"
    draw = Draw()
    (content,) = asyncio.run(call([draw], "draw", {"color": "red", "like": "a.png"})).content
    assert isinstance(content, ImageContent)
    assert Image.open(io.BytesIO(content.data)).size == (2, 2)
    mixed = asyncio.run(call([draw], "draw", {"color": "red", "extra": {"n": 1}})).content
    assert [type(item).__name__ for item in mixed] == ["TextContent", "ImageContent"]
    assert draw.set_up == 1


def test_a_tool_is_set_up_once_by_calls_at_once() -> None:
    draw = Draw()

    async def main() -> None:
        async with ToolRegistry() as registry:
            registry.register(from_smolagents([draw], trust=True))
            await asyncio.gather(*(registry.call("draw", {"color": "red"}) for _ in range(4)))

    asyncio.run(main())
    assert draw.set_up == 1


def test_invalid_arguments_of_theirs_run_nothing() -> None:
    for arguments in ({}, {"text": 1}, {"text": "a", "times": "two"}, {"text": "a", "other": 1}):
        assert asyncio.run(call(shout, "shout", arguments)).kind == "invalid_arguments"


def test_their_errors_are_theirs_and_crashes_stay_hidden() -> None:
    crashed = asyncio.run(call(shout, "shout", {"text": "crash"}))
    assert crashed.is_error
    assert "secret" not in crashed.text
    assert asyncio.run(call(Draw(), "draw", {"color": "no"})).text == "no such color"


def test_one_that_cannot_be_offered_affects_only_itself() -> None:
    result = asyncio.run(from_smolagents(["no tool", shout]).tools(ANN))
    assert [each.name for each in result] == ["shout"]
    assert [problem.tool for problem in result.problems] == ["no tool"]


def test_a_collection_is_taken_as_it_is() -> None:
    from smolagents import ToolCollection

    assert asyncio.run(call(ToolCollection([shout]), "shout", {"text": "a"})).text == "A"


def test_the_example_of_the_readme_runs(example: Any) -> None:
    names = example("smolagents")
    assert asyncio.run(names["main"](Scripted(("add", {"a": 1, "b": 2}), ("shout", {"text": "a"})))) == "done"
