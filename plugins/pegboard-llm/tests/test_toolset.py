"""The toolset of llm's plugins, which are loaded and run in child processes."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time

import pytest

from pegboard import ImageContent, LinkContent, Once, Permissions, Reject, Rule, ToolCall, ToolRegistry
from pegboard_llm.packages import Cache, stamp
from pegboard_llm.toolset import LlmToolset, toolset_from

GOOD = """
def greet(name: str) -> str:
    "Greets."
    return f"hello {name}"

@llm.hookimpl
def register_tools(register):
    register(greet)
"""
ALL = Permissions([Rule("*", "*", "allow")])


@contextlib.asynccontextmanager
async def opened(**settings):
    """A registry with the toolset, whose packages have all been loaded."""
    toolset = toolset_from(settings)
    if isinstance(toolset, LlmToolset):
        await asyncio.to_thread(toolset.load)
    async with ToolRegistry(permissions=ALL) as registry:
        registry.register(toolset)
        yield registry, await registry.resolve()


def wait_for(file):
    while not file.exists():
        time.sleep(0.01)


def problems(resolved):
    return [str(each).removeprefix("toolset 'llm': ") for each in resolved.problems if not each.note]


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"toolbox": []}, "unknown key"),
        ({"trust": "x"}, "plugins.llm.trust has to be a list of texts"),
        ({"exclude": [1]}, "plugins.llm.exclude has to be a list of texts"),
    ],
)
async def test_wrong_settings_are_a_problem(settings, cause):
    registry = ToolRegistry()
    registry.register(toolset_from(settings))
    (problem,) = (await registry.resolve()).problems
    assert cause in str(problem)


@pytest.mark.slow
async def test_a_package_is_loaded_once_and_its_tools_are_tagged_untrusted_and_run(install):
    install("llm-tools-greet", GOOD)
    async with opened() as (registry, resolved):
        (tool,) = resolved
        assert (tool.name, tool.spec.tags, tool.origin.trusted) == ("greet", ("llm-tools-greet",), False)
        assert (await registry.resolve()).get("greet") is tool
        assert (await registry.call("greet", {"name": "ann"}, resolved=resolved)).text == "hello ann"
        assert tool.origin.source == "llm-tools-greet"
        registry.permissions = None
        assert (await registry.call("greet", {"name": "ann"}, resolved=resolved)).kind == "denied"
    before = stamp(Cache().path)
    async with opened() as (_, resolved):
        assert resolved.names == ("greet",)
    assert stamp(Cache().path) == before


@pytest.mark.slow
async def test_a_package_or_a_tool_can_be_trusted_and_a_package_excluded(install):
    install("llm-tools-greet", GOOD)
    install("llm-tools-other", GOOD.replace("greet", "wave"))
    async with opened(trust=["llm_tools_greet"], exclude=["LLM-tools-other"]) as (registry, resolved):
        assert resolved.names == ("greet",)
        registry.permissions = None
        assert (await registry.call("greet", {"name": "bob"}, resolved=resolved)).text == "hello bob"
    async with opened(trust=["wave"]) as (_, resolved):
        assert [(each.name, each.origin.trusted) for each in resolved] == [("greet", False), ("wave", True)]


@pytest.mark.slow
async def test_packages_with_the_same_entry_point_and_tools_are_told_apart(install):
    install("llm-tools-a", GOOD, entry="same")
    install("llm-tools-b", GOOD.replace("hello", "hi"), entry="same")
    async with opened() as (registry, resolved):
        assert resolved.names == ("llm_tools_a__greet", "llm_tools_b__greet")
        assert resolved.get("llm_tools_b__greet").spec.original_name == "greet"
        (note,) = resolved.problems
        assert "'greet' is in llm-tools-a and llm-tools-b" in str(note)
        for name, text in (("llm_tools_a__greet", "hello x"), ("llm_tools_b__greet", "hi x")):
            assert (await registry.call(name, {"name": "x"}, resolved=resolved)).text == text


@pytest.mark.slow
async def test_a_package_that_fails_is_named_with_its_cause_and_affects_no_other(install, monkeypatch):
    monkeypatch.setattr("pegboard_llm.process.LOAD_SECONDS", 15.0)
    install("llm-tools-good", GOOD)
    for name, code in (
        ("import", "import nosuch_module"),
        ("leave", "import os\nos._exit(3)"),
        ("hang", "import threading\nthreading.Event().wait()"),
        ("stay", "import threading\nthreading.Event().wait()"),  # beside others that end
        ("print", 'print("{}", flush=True)\nimport os\nos.system("echo {}")\nraise OSError("printed")'),
        ("fork", GOOD.replace("greet", "forked") + "\nimport os\nos.fork()"),
        ("schema", GOOD.replace("register(greet)", 'register(llm.Tool("bad", "", {"type": 3}, print))')),
    ):
        install(f"llm-tools-{name}", code)
    async with opened(toolboxes=["Nosuch()", "open('x')"]) as (_, resolved):
        assert set(resolved.names) == {"greet", "forked"}
        texts = sorted(problems(resolved))
    assert [
        re.sub(r"(?<=: it can't be loaded: ).*|(?<=refused: ).*|(?<=toolboxes: ).*", "", each) for each in texts
    ] == [
        "llm-tools-hang: it can't be loaded: ",
        "llm-tools-import: it can't be loaded: ",
        "llm-tools-leave: it can't be loaded: ",
        "llm-tools-print: it can't be loaded: ",
        "llm-tools-schema: tool 'bad' is refused: ",
        "llm-tools-stay: it can't be loaded: ",
        "plugins.llm.toolboxes: ",
        "plugins.llm.toolboxes: ",
    ]
    causes = "\n".join(texts)
    assert "it took longer than 15 s" in causes
    assert "No module named 'nosuch_module'" in causes
    assert "it ended the process (exit code 3)" in causes
    assert "OSError: printed" in causes
    assert "no package has a toolbox 'Nosuch'" in causes


TOOLS = """
import asyncio, os, subprocess, sys, threading, time

def ask() -> str:
    return input("sure? ")
def read() -> str:
    return sys.stdin.read() + subprocess.run(["cat"], capture_output=True, text=True).stdout + "|"
def loop() -> str:
    return asyncio.run(asyncio.sleep(0, "looped"))
def shout() -> str:
    print("noise", flush=True)
    os.system("echo noise")
    return "shouted"
def crash() -> str:
    os._exit(7)
def close() -> str:
    os.closerange(0, 100)
def wait(file: str) -> str:
    open(file, "w").close()
    threading.Event().wait()
def fail() -> str:
    raise LookupError("no page 7; there are 6")
def pause() -> str:
    raise llm.PauseChain("Publish it?")
def picture() -> llm.ToolOutput:
    link = llm.Attachment(type="image/png", url="http://127.0.0.1:1/a.png")
    sound = llm.Attachment(type="audio/wav", content=b"w")
    return llm.ToolOutput("a picture", [llm.Attachment(type="image/png", content=b"p"), sound, link])

@llm.hookimpl
def register_tools(register):
    for each in (ask, read, loop, shout, crash, close, wait, fail, pause, picture):
        register(each)
"""


@pytest.mark.slow
async def test_foreign_tools_have_no_input_no_output_and_may_run_loops_crash_and_fail(install):
    install("llm-tools-odd", TOOLS)
    async with opened() as (registry, resolved):

        async def call(name, **arguments):
            return await registry.call(name, arguments, resolved=resolved)

        assert (await call("ask")).text == "EOF when reading a line"
        assert (await call("read")).text == "|"
        assert (await call("loop")).text == "looped"
        assert (await call("shout")).text == "shouted"
        failed = await call("fail")
        assert (failed.kind, failed.text) == ("tool_failure", "no page 7; there are 6")
        picture = await call("picture")
        assert picture.text == "a picture"
        assert picture.content[1] == ImageContent(b"p", "image/png")
        assert picture.content[3] == LinkContent("http://127.0.0.1:1/a.png", "a.png", "image/png")
        crashed = await call("crash")
        assert (crashed.kind, "exit code 7" in crashed.text) == ("unknown_outcome", True)
        assert (await call("loop")).text == "looped"  # in a new process
        assert (await call("close")).kind == "unknown_outcome"
        assert not resolved.problems


@pytest.mark.slow
async def test_a_paused_call_waits_for_an_answer_and_runs_again(install):
    install("llm-tools-odd", TOOLS.replace('raise llm.PauseChain("Publish it?")', FIRST_PAUSES))
    async with opened() as (registry, resolved):
        outcome = await registry.dispatch([ToolCall("pause", {}, id="1")], resolved)
        (pending,) = outcome.pending
        assert pending.hint == "Publish it?"
        assert outcome.results[0].kind == "confirmation_required"
        done = await registry.resume(outcome.pending, {pending.id: Once()})
        assert done.results[0].text == "published"
        outcome = await registry.dispatch([ToolCall("pause", {}, id="2")], resolved)
        (pending,) = outcome.pending
        done = await registry.resume(outcome.pending, {pending.id: Reject()})
        assert done.results[0].is_error


FIRST_PAUSES = """
    os.environ["N"] = str(int(os.environ.get("N", "0")) + 1)
    if os.environ["N"] != "2":
        raise llm.PauseChain("Publish it?")
    return "published"
"""


@pytest.mark.slow
async def test_a_cancelled_call_ends_its_process_and_the_next_starts_another(install, tmp_path):
    install("llm-tools-odd", TOOLS)
    async with opened() as (registry, resolved):
        started = tmp_path / "started"
        task = asyncio.create_task(registry.call("wait", {"file": str(started)}, resolved=resolved))
        await asyncio.to_thread(wait_for, started)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await registry.call("loop", {}, resolved=resolved)).text == "looped"


BOX = """
class Note(llm.Toolbox):
    def __init__(self, file: str):
        self.file = file
        for line in open(file):
            self.add_tool(llm.Tool(line.strip(), "", {"type": "object", "properties": {}}, lambda: "noted"))
    def path(self) -> str:
        return self.file

@llm.hookimpl
def register_tools(register):
    register(Note)
"""


@pytest.mark.slow
async def test_toolboxes_of_the_settings_are_listed_anew_once_their_files_change(install, tmp_path):
    install("llm-tools-box", BOX)
    async with opened() as (_, resolved):
        (note,) = resolved.problems
        assert (note.note, "Note needs arguments" in note.cause) == (True, True)
    file = tmp_path / "notes"
    file.write_text("first\n")
    spec = f'Note("{file}")'
    async with opened(toolboxes=[spec]) as (registry, resolved):
        assert resolved.names == ("Note_path", "first")
        assert spec in resolved.get("first").spec.description
        assert (await registry.call("Note_path", {}, resolved=resolved)).text == str(file)
        assert str(file) in registry.contributions.catalogue.toolsets[0].inner.publishes
    file.write_text("second\nthird\n")
    async with opened(toolboxes=[spec]) as (_, resolved):
        assert resolved.names == ("Note_path", "second", "third")


@pytest.mark.slow
async def test_what_takes_long_to_load_follows_later(install, monkeypatch, tmp_path):
    monkeypatch.setattr("pegboard_llm.toolset._WAIT_SECONDS", 0.0)
    gate = tmp_path / "gate"
    install("llm-tools-late", f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n{GOOD}")
    registry, changed = ToolRegistry(), asyncio.Event()
    async with registry:
        registry.register(LlmToolset(toolset_from({}).settings))
        loop = asyncio.get_running_loop()
        with registry.contributions.on_change(lambda: loop.call_soon_threadsafe(changed.set)):
            assert problems(await registry.resolve()) == [
                "llm-tools-late is still loading: 'registry llm' waits for it"
            ]
            assert stamp(Cache().marker)
            gate.touch()
            await asyncio.wait_for(changed.wait(), 120)
        resolved = await registry.resolve()
        assert (resolved.names, problems(resolved)) == (("greet",), [])


@pytest.mark.slow
async def test_code_that_is_edited_is_loaded_again(install):
    module = install("llm-tools-greet", GOOD)
    async with opened() as (_, resolved):
        assert resolved.names == ("greet",)
    install("llm-tools-greet", GOOD.replace("greet", "salute"), module=module)  # of another size
    async with opened() as (_, resolved):
        assert resolved.names == ("salute",)
