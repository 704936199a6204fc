"""Executors of the configuration, and tools that it places in them."""

from __future__ import annotations

import asyncio
import json

import pytest

import pegboard
from pegboard import Always, Permissions, ReadonlyContext, ToolRegistry, hookimpl, register_plugin
from pegboard.approval import MemoryGrants
from pegboard.config import Config
from pegboard.errors import HIDDEN
from pegboard.execution import ExecutionResponse
from pegboard.permissions import Rule

REMOTE = """
import pegboard
from pegboard import hookimpl, tool
from pegboard.execution import ExecutionResponse

@tool(timeout=9, idempotent=True, retries=2)
def greet(who: str = "you") -> str:
    "Greets."
    return f"hello {who}"

@tool(executor="thread")
def other() -> str:
    "Is here."
    return "here"

class Reverse:
    def encode(self, data):
        return data[::-1]

    decode = encode

class Coded:
    def __init__(self, codec=None):
        self.codec = codec

    async def execute(self, request):
        return ExecutionResponse(output=self.codec.encode(request.tool.encode()).decode())

class Far:
    def __init__(self, address, token="", note=""):
        if not address:
            raise ValueError(note or f"no address for {token}") from KeyError(token)
        self.address = address

    async def execute(self, request):
        return ExecutionResponse(output=f"{self.address} {request.tool} {request.queue}")

@hookimpl
def pegboard_register_tools(register):
    register(greet, other)

@hookimpl
def pegboard_register_executors(register):
    register("far", Far)
    register("coded", Coded)
    register("fixed", Far("fixed"))
"""


@pytest.fixture
def registry(site):
    """A function that loads the plugin with a configuration."""
    site("remote", REMOTE)
    return lambda tools, **executors: pegboard.load(config=Config(tools=tools, executors=executors))


@pytest.mark.slow
def test_tools_are_placed_by_patterns_of_their_names_before_and_after_their_import(registry) -> None:
    """The last pattern that has a key counts."""
    placed = {"g*": {"executor": "eu", "queue": "a"}, "[go]*": {"queue": "c"}, "gree?": {"queue": "b"}}
    loaded = registry(placed, eu={"kind": "far", "address": "here"})
    before = loaded.get("greet").policy.runs
    assert before == {"executor": "eu", "queue": "b", "timeout": 9, "retries": 2}
    assert loaded.call_sync("greet").text == "here greet b"
    assert loaded.get("greet").policy.runs == before
    assert loaded.call_sync("other").text == "here"


@pytest.mark.slow
def test_a_renamed_tool_is_placed_by_its_new_name(site) -> None:
    site("remote", REMOTE)
    config = Config(
        tools={"greet": {"executor": "nowhere"}, "hi": {"executor": "far"}},
        executors={"far": {"address": "here"}},
        rename={"greet": "hi"},
    )
    assert pegboard.load(config=config).call_sync("hi").text == "here hi None"


@pytest.mark.slow
def test_several_executors_of_one_kind_have_their_own_settings(registry) -> None:
    loaded = registry(
        {"greet": {"executor": "eu"}, "other": {"executor": "far"}},
        far={"address": "A"},
        eu={"kind": "far", "address": "B"},
    )
    assert loaded.call_sync("other").text == "A other None"
    assert loaded.call_sync("greet").text == "B greet None"
    assert loaded.call_sync("other").text == "A other None"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executors", "told"),
    [
        ({}, "no installed plugin provides 'eu'. Known executors: coded, far, fixed"),
        (
            {"eu": {"kind": "fra"}},
            "no installed plugin provides 'fra'. Did you mean 'far'? Known executors: coded, eu, far",
        ),
        ({"eu": {"kind": "far", "adress": "x"}}, "executors.eu.adress: unknown setting. Did you mean 'address'?"),
        ({"eu": {"kind": "far", "address": {"env": "NO_SUCH"}}}, "executors.eu: setting 'address' is left out: the "),
        ({"eu": {"kind": "far", "address": "x", "codec": "remote_made_up:Reverse"}}, "this kind can't encrypt what it"),
        (
            {"eu": {"kind": "fixed", "codec": "remote_made_up:Reverse"}},
            "executors.eu.codec: the executor is registered",
        ),
        (
            {"eu": {"kind": "coded", "codec": "no_such_module:Codec"}},
            "executors.eu.codec: 'no_such_module:Codec' can't ",
        ),
        (
            {"eu": {"kind": "coded", "codec": "remote_made_up:Far"}},
            "executors.eu.codec: 'remote_made_up:Far' can't be ",
        ),
        (
            {"eu": {"kind": "coded", "codec": "remote_made_up:Coded"}},
            "isn't a codec: it has no methods encode and decode",
        ),
        ({"eu": {"kind": "far", "address": "", "token": "correct-horse-7"}}, f"no address for {HIDDEN}"),
        ({"eu": {"kind": "fixed", "address": "x"}}, "executors.eu.address: the executor is registered as it is, and "),
        ({"eu": {"kind": "far", "address": "", "token": {"env": "TOKEN"}}}, f"no address for {HIDDEN}"),
        ({"eu": {"kind": "far", "address": "", "token": {"env": "TOKEN"}, "note": "no address"}}, "Error: no address"),
    ],
)
def test_a_wrong_executor_fails_the_call_and_says_what_is_wrong(registry, monkeypatch, executors, told) -> None:
    monkeypatch.setenv("TOKEN", "correct-horse-7")
    result = registry({"greet": {"executor": "eu"}}, **executors).call_sync("greet")
    assert result.kind == "not_executed"
    assert told in f"{result.text} {result.detail}"
    assert "correct-horse-7" not in json.dumps(result.to_data())


def test_an_executor_gets_the_codec_that_the_configuration_names(registry) -> None:
    coded = {"kind": "coded", "codec": "remote_made_up:Reverse"}
    assert registry({"greet": {"executor": "eu"}}, eu=coded).call_sync("greet").text == "teerg"


@pytest.mark.slow
def test_an_executor_that_was_registered_as_it_is_needs_no_settings(registry) -> None:
    assert registry({"greet": {"executor": "fixed"}}).call_sync("greet").text == "fixed greet None"
    assert registry({"greet": {"executor": "eu"}}, eu={"kind": "fixed"}).call_sync("greet").text == "fixed greet None"


def test_an_executor_of_a_plugin_that_is_unloaded_is_closed_and_made_again_by_the_next() -> None:
    made, closed = [], []

    class Far:
        def __init__(self):
            made.append(self)

        async def execute(self, _request):
            return ExecutionResponse(output=f"number {made.index(self)}")

        async def aclose(self):
            closed.append(self)

    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, register):
            register(pegboard.tool(lambda: "here", name="greet", executor="far"))

        @hookimpl
        def pegboard_register_executors(self, register):
            register("far", Far)

    async def main() -> list[str]:
        texts = []
        async with ToolRegistry() as registry:
            for _ in range(2):
                register_plugin(registry, Plugin(), "remote")
                texts += [(await registry.call("greet")).text for _ in range(2)]
                await pegboard.unload_plugin(registry, "remote")
        return texts

    assert asyncio.run(main()) == ["number 0", "number 0", "number 1", "number 1"]
    assert closed == made


async def test_a_tool_that_is_placed_elsewhere_asks_again(site) -> None:
    """A grant is bound to where a call runs."""
    site("remote", REMOTE)
    grants, asked = MemoryGrants(), []

    async def approve(request, context):
        asked.append(request.call.name)
        return Always()

    for executors, tools in (
        ({}, {}),
        ({}, {}),
        ({"eu": {"kind": "far", "address": "here"}}, {"greet": {"executor": "eu"}}),
    ):
        config = Config(tools=tools, executors=executors)
        one = await asyncio.to_thread(pegboard.load, config=config, grants=grants)
        one.permissions, one.approver = Permissions([Rule("greet", "*", "ask")]), approve
        text = (await one.call("greet", {}, ReadonlyContext(user="ann", session="s1"))).text
    assert (asked, text) == (["greet", "greet"], "here greet None")
