"""pegboard's tools in a chain of llm, with a model that makes given calls."""

from __future__ import annotations

import asyncio
import json

import llm
import pytest

from pegboard import FileContent, ImageContent, Later, LinkContent, Once, ToolRegistry, ToolResult, tool
from pegboard_llm import llm_plugin
from pegboard_llm.offer import llm_tools


class Scripted(llm.Model):
    """Model that makes these calls, and then answers."""

    model_id = "scripted"
    supports_tools = True

    def __init__(self, *calls):
        self.calls = [*calls]

    def execute(self, prompt, stream, response, conversation):
        if not any(message.role == "tool" for message in prompt.messages):
            for number, (name, arguments) in enumerate(self.calls):
                response.add_tool_call(llm.ToolCall(name, arguments, f"call-{number}"))
        yield "done"


@tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@tool(read_only=True)
def picture() -> ToolResult:
    """A picture, a file, a text file and a link."""
    parts = [ImageContent(b"png"), FileContent("x.pdf", b"pdf", "application/pdf"), FileContent("x.txt", "a text")]
    return ToolResult([*parts, LinkContent("https://example.com/", "a page")])


@tool(read_only=True)
def facts() -> ToolResult:
    """Data only."""
    return ToolResult(structured_content={"n": 1})


@tool(destructive=True)
def erase(name: str) -> str:
    """Erases."""
    return f"erased {name}"


@tool
def clash(llm_tool_call: str) -> str:
    """Has a parameter that llm doesn't pass on."""
    return llm_tool_call


def tools_of(**options):
    registry = ToolRegistry()
    registry.register(add, picture, facts, erase, clash)
    return llm_tools(registry, asyncio.run(registry.resolve()), **options)


def results(tools, *calls):
    """The results of these calls in a chain, in order."""
    response = [*Scripted(*calls).chain("go", tools=tools).responses()][-1]
    return response.prompt.tool_results


def test_every_tool_is_offered_with_its_schema_but_one_whose_argument_llm_takes():
    tools = {each.name: each for each in tools_of()}
    assert [*tools] == ["add", "erase", "facts", "picture"]
    assert tools["add"].description == "Adds."
    assert tools["add"].input_schema["required"] == ["a"]
    assert tools["facts"].input_schema["properties"] == {}
    json.dumps([each.input_schema for each in tools.values()])
    assert all(each.hash() for each in tools.values())


def test_a_chain_gets_results_flagged_errors_and_attachments():
    added, wrong, unread, seen, data = results(
        tools_of(),
        ("add", {"a": 2}),
        ("add", {"a": "x"}),
        ("add", {"a": 1, "self": 2}),
        ("picture", {}),
        ("facts", {}),
    )
    assert (added.output, added.exception) == ('{"result": 3}', None)
    assert "Invalid arguments for add" in wrong.output
    assert type(wrong.exception).__name__ == type(unread.exception).__name__ == "ToolCallError"
    assert seen.output == "a text\nhttps://example.com/"
    assert [(each.type, each.content) for each in seen.attachments] == [
        ("image/png", b"png"),
        ("application/pdf", b"pdf"),
    ]
    assert json.loads(data.output) == {"n": 1}


def test_a_call_that_asks_pauses_the_chain_and_an_approver_answers_it_later():
    answers = {}
    tools = tools_of(approver=lambda request, context: answers.get(request.digest, Later()))
    calls = ("add", {"a": 1}), ("erase", {"name": "x"})
    with pytest.raises(llm.PauseChain, match="erase") as raised:
        results(tools, *calls)
    pause = raised.value
    assert pause.tool_call.name == "erase"
    assert [each.output for each in pause.tool_results] == ['{"result": 2}']
    answers[pause.request.digest] = Once()
    assert [each.output for each in results(tools, *calls)] == ['{"result": 2}', "erased x"]


async def test_an_async_chain_runs_calls_concurrently():
    together = asyncio.Barrier(2)

    @tool(read_only=True)
    async def meet(name: str) -> str:
        await asyncio.wait_for(together.wait(), 60)
        return name

    class Asynchronous(llm.AsyncModel):
        model_id, supports_tools = "scripted", True

        async def execute(self, prompt, stream, response, conversation):
            if not any(message.role == "tool" for message in prompt.messages):
                for name in "ab":
                    response.add_tool_call(llm.ToolCall("meet", {"name": name}, name))
            yield "done"

    registry = ToolRegistry()
    registry.register(meet)
    chain = Asynchronous().chain("go", tools=llm_tools(registry, await registry.resolve()))
    *_, last = [each async for each in chain.responses()]
    assert [each.output for each in last.prompt.tool_results] == ["a", "b"]


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "pegboard").mkdir()
    return tmp_path / "pegboard" / "pegboard.toml"


def offered():
    tools = []
    llm_plugin.register_tools(tools.append)
    return tools


@pytest.fixture
def peg(install):
    """A plugin of pegboard, and one of llm."""
    code = """
        from pegboard import hookimpl, tool

        @tool
        def peg() -> str:
            return "pegged"

        @hookimpl
        def pegboard_register_tools(register):
            register(peg)
        """
    install("peg-tools", code, "pegs", group="pegboard")
    install("llm-tools-own", "@llm.hookimpl\ndef register_tools(register): register(lambda: 1, name='own')")


@pytest.mark.slow
def test_the_installed_tools_are_offered_but_for_those_of_llm(config, peg):
    config.write_text('enable = ["pegs", "llm"]\n')
    assert [each.name for each in offered()] == ["peg"]


@pytest.mark.slow
@pytest.mark.usefixtures("peg")
def test_settings_choose_what_is_offered_and_wrong_ones_offer_nothing(config, capsys):
    config.write_text('enable = ["pegs"]\n[plugins.llm.offer]\nwhere = "not plugin:pegs"\n')
    assert offered() == []
    config.write_text('enable = ["pegs"]\n[plugins.llm.offer]\nnosuch = 1\n')
    assert offered() == []
    assert "can't be offered to llm: plugins.llm.offer.nosuch: unknown key" in capsys.readouterr().err
