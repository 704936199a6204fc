from __future__ import annotations

import asyncio

import pytest

from pegboard import ModelConfig, ModelRequest, NamedTool, Problem, ToolCall
from pegboard.errors import InvalidNameError
from pegboard.messages import Message, ModelResponse
from pegboard.request import StreamingModel
from pegboard.toolsets import resolve_tools
from toolsets.samples import make_tool

PROBLEMS = [Problem(str(number)) for number in range(3)]


def resolved(*tools):
    return asyncio.run(resolve_tools(tools))


USER = Message.user("a")


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        *((given, (USER,)) for given in ("a", ["a"], USER, [USER])),
        (("a", Message.user("b")), (USER, Message.user("b"))),
        ([ToolCall("add")], (Message.user(ToolCall("add")),)),
    ],
)
def test_messages_have_shorthands(given, messages):
    assert ModelRequest(given).messages == messages


def test_something_that_is_no_message_is_refused():
    with pytest.raises(TypeError, match="messages: parts of a message must be"):
        ModelRequest([5])


@pytest.mark.parametrize(("given", "parts"), [("a", ("a",)), (["a", "b"], ("a", "b")), (None, ()), ((), ())])
def test_instructions_are_one_text_or_several(given, parts):
    assert ModelRequest(instructions=given).instructions == parts


def test_the_system_text_leaves_out_what_is_empty():
    assert ModelRequest(instructions=["a", "", "b"]).system == "a\n\nb"


def test_instructions_arent_duplicated():
    request = ModelRequest(instructions="a")
    assert request.with_instructions("b", "a", "b", "").instructions == ("a", "b")
    assert request.with_instructions("a") is request


def test_the_conversation_goes_on():
    request = ModelRequest("a").with_messages("b", Message.assistant("c"))
    assert [(message.role, message.text) for message in request.messages] == [
        ("user", "a"),
        ("user", "b"),
        ("assistant", "c"),
    ]


def test_a_request_stays_what_it_is():
    request = ModelRequest("a")
    assert request.evolve(model="m").model == "m"
    assert request.model is None
    with pytest.raises(AttributeError):
        request.model = "m"


def test_a_model_is_sent_what_it_may_call():
    """A request that no pipeline has made ready doesn't send what must not be sent either."""
    tools = resolved(make_tool("a"), make_tool("b", deferred=True), make_tool("c").evolve(offered=False))
    assert [tool.name for tool in ModelRequest(tools=tools).offered] == ["a"]
    assert [tool.name for tool in ModelRequest(tools=tools, loads_deferred=True).offered] == ["a", "b"]
    assert ModelRequest().offered == ()


def test_problems_are_kept_through_a_step_that_makes_a_request_anew():
    first, second, third = PROBLEMS
    earlier = ModelRequest("a").with_problems(first, second)
    assert earlier.with_problems() is earlier
    assert ModelRequest("b").keeping_problems(earlier).problems == (first, second)
    assert ModelRequest("b", problems=[third, first]).keeping_problems(earlier).problems == (first, second, third)
    later = earlier.with_problems(third)
    assert later.keeping_problems(earlier) is later


@pytest.mark.parametrize(("given", "stop"), [("END", ("END",)), (["a", "b"], ("a", "b")), ((), ())])
def test_one_text_to_stop_at_is_one_text(given, stop):
    assert ModelConfig(stop=given).stop == stop


def test_options_of_providers_arent_shown():
    assert "secret" not in repr(ModelConfig(provider_options={"openai": {"key": "secret"}}))


def test_a_tool_that_must_be_called_has_a_tools_name():
    assert NamedTool("add").name == "add"
    for name in ("", "a b", "x" * 65, "é"):
        with pytest.raises(InvalidNameError):
            NamedTool(name)


class Whole:
    name = provider = "whole"

    async def respond(self, _request):
        return ModelResponse("a")


class Pieces(Whole):
    async def stream(self, _request):
        yield ModelResponse("a")


def test_a_model_says_by_its_methods_whether_it_streams():
    assert [isinstance(model, StreamingModel) for model in (Whole(), Pieces(), None)] == [False, True, False]
