"""What a manifest says of tools that have to do with requests, and what becomes of it before a plugin is imported."""

from __future__ import annotations

import asyncio
import sys

import pytest

from pegboard import ModelRequest, load
from pegboard.errors import ManifestError
from pegboard.plugins.discovery import discover
from pegboard.plugins.manifest import PluginManifest, manifest_text
from pegboard.plugins.request_facts import MOST_CHARACTERS, RequestFacts
from pegboard.request.model_request import ModelRequest as Request
from pegboard.tools.handler import LateHandler
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool

CODE = """
from pegboard import Tool, hookimpl, quick, tool

@tool(instructions="Greet politely.")
def greet(who: str) -> str:
    '''Greets.'''
    return f"hello {who}"

def plain(request, context):
    return request.with_instructions(f"plain for {context.user}")

@quick
def on_the_loop(request):
    return request.with_instructions("quick")

async def later(context, request):
    return request.with_instructions("later")

@hookimpl
def pegboard_register_tools(register):
    register(greet)
    for name, function in (("a", plain), ("b", on_the_loop), ("c", later)):
        register(Tool.processor(name, function))
"""


@pytest.mark.parametrize(
    ("facts", "data"),
    [
        (RequestFacts(), {}),
        (RequestFacts(offered=False, processes=True), {"offered": False, "processes": True}),
        (RequestFacts(instructions="Be kind."), {"instructions": "Be kind."}),
    ],
)
def test_they_come_back_from_json(facts, data):
    assert facts.to_json() == data
    assert RequestFacts.from_json(data, "here") == facts


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ([], "here: expected an object, found list"),
        ({"offerd": True}, "here: 'offerd' is unknown"),
        ({"offered": 1}, "here: offered: expected a bool that fits"),
        ({"processes": None}, "here: processes: expected a bool that fits"),
        ({"instructions": 5}, "here: instructions: expected a str that fits"),
        ({"instructions": "x" * (MOST_CHARACTERS + 1)}, "here: instructions: expected a str that fits"),
    ],
)
def test_what_is_none_is_refused_by_its_place(data, wrong):
    with pytest.raises(ManifestError, match=wrong):
        RequestFacts.from_json(data, "here")


def test_they_are_what_the_tool_says():
    spec = ToolSpec("a")
    assert RequestFacts.of(Tool(spec)) == RequestFacts()
    assert RequestFacts.of(Tool(spec, process_request=print, instructions="x", offered=False)) == RequestFacts(
        offered=False, processes=True, instructions="x"
    )
    assert RequestFacts.of(Tool(spec, instructions=5)) == RequestFacts()
    assert RequestFacts.of(Tool(spec, instructions="")) == RequestFacts()


def test_too_long_instructions_are_kept_too_long_so_that_the_request_names_them():
    facts = RequestFacts.of(Tool(ToolSpec("a"), instructions="x" * 200_000))
    assert len(facts.instructions) == MOST_CHARACTERS
    assert RequestFacts.from_json(facts.to_json(), "here") == facts


def test_a_manifest_has_them_of_those_tools_only_and_in_order():
    facts = {"b": RequestFacts(offered=False), "a": RequestFacts(processes=True)}
    manifest = PluginManifest("demo", "demo", "1.0", tools=(ToolSpec("a"), ToolSpec("b")), requests=facts)
    assert PluginManifest.from_json(manifest.to_json()) == manifest
    assert list(manifest.to_json()["requests"]) == ["a", "b"]
    assert "requests" not in PluginManifest("demo").to_json()
    assert manifest_text([manifest]).index('"requests"') > manifest_text([manifest]).index('"tools"')
    with pytest.raises(ManifestError, match=r"requests\.a: 'x' is unknown"):
        PluginManifest.from_json({**manifest.to_json(), "requests": {"a": {"x": 1}}})


@pytest.fixture
def board(site):
    """A board on which the plugin is listed from the cache, and not imported."""
    site("polite", CODE)
    asyncio.run(load(discovery=discover([str(site.folder)])).aclose())
    sys.modules.pop("polite_made_up", None)
    made = load(discovery=discover([str(site.folder)]))
    assert "polite_made_up" not in sys.modules
    yield made
    asyncio.run(made.aclose())


def test_a_listed_plugins_tools_say_so_before_it_is_imported(board):
    assert {tool.name: tool.offered for tool in board.tools()} == {"a": False, "b": False, "c": False, "greet": True}
    assert board.get("greet").instructions == "Greet politely."
    assert board.get("greet").process_request is None
    resolved = asyncio.run(board.resolve())
    assert [tool.name for tool in ModelRequest("hello", tools=resolved).offered] == ["greet"]
    assert "polite_made_up" not in sys.modules


def test_processing_a_request_imports_it_then(board):
    made = asyncio.run(board.process(ModelRequest("hello")))
    assert made.instructions == ("plain for None", "quick", "later", "Greet politely.")
    assert made.problems == ()
    assert "polite_made_up" in sys.modules
    again = asyncio.run(board.process(ModelRequest("hello")))
    assert again.instructions == made.instructions


def test_a_tool_that_processes_no_more_leaves_the_request():
    late = LateHandler(lambda: Tool(ToolSpec("a")))
    listed = RequestFacts(processes=True).on(Tool(ToolSpec("a"), late), late)
    request = Request("hello")
    assert asyncio.run(listed.process_request(request, None)) is None
