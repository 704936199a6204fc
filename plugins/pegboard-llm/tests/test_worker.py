"""Loading a plugin of llm, and running its tools, in this process."""

from __future__ import annotations

import json

import llm
import pytest

from pegboard_llm.worker import Lane, SpecError, load, parse_spec, run_tool


@pytest.fixture
def loaded(install, monkeypatch):
    monkeypatch.setattr(llm.pm, "load_setuptools_entrypoints", None)

    def loaded(code, *toolboxes):
        lane = Lane().start()
        return load({"name": "x", "value": install("llm-tools-x", code), "toolboxes": toolboxes}, lane)

    return loaded


def call(loaded, tool, call_id="", **arguments):
    """The result of a call, run in the tool's own thread."""
    import queue

    answers = queue.SimpleQueue()
    function, lane = loaded.tools[tool]
    lane.add(lambda: answers.put(run_tool(function, lane, {"arguments": arguments, "call_id": call_id})))
    return answers.get(timeout=60)


@pytest.mark.parametrize(
    ("spec", "parsed"),
    [
        ("Box", ("Box", [], {})),
        (" Box() ", ("Box", [], {})),
        ('Box("x.db")', ("Box", ["x.db"], {})),
        ("Box([1, 2])", ("Box", [[1, 2]], {})),
        ("Box(null)", ("Box", [None], {})),
        ('Box({"path": "x", "n": 1})', ("Box", [], {"path": "x", "n": 1})),
        ('Box(path="a, b=(c)", n = 2, on=true)', ("Box", [], {"path": "a, b=(c)", "n": 2, "on": True})),
    ],
)
def test_a_toolbox_is_read_in_llms_notation(spec, parsed):
    assert parse_spec(spec) == parsed


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "a.b()",
        "Box(",
        "Box(__import__('os'))",
        "Box(path=open('x'))",
        'Box("a", "b")',
        "Box(n=1 m=2)",
        "Box(n=1, n=2)",
    ],
)
def test_a_toolbox_of_anything_but_literals_is_refused(spec):
    with pytest.raises(SpecError):
        parse_spec(spec)


FUNCTIONS = """
import dataclasses

@dataclasses.dataclass
class Point:
    x: int

def add(a: int, b: int = 1) -> int:
    '''Adds.

    Two numbers.'''
    return a + b

async def later() -> str:
    return "later"

def point(): return Point(1)
def fact(): return {"a": [1, None]}
def keyed(): return {(1, 2): 3}
def circle():
    circle = []
    circle.append(circle)
    return circle
def who(llm_tool_call, a: str): return f"{llm_tool_call.name} {llm_tool_call.tool_call_id} {llm_tool_call.arguments}"
def fail(): raise ValueError("no such page; try /index")
def silent(): raise ValueError
def leave(): raise SystemExit(3)
def cancel(): raise llm.CancelToolCall("not today")
def pause(): raise llm.PauseChain("approve it first")
def image(): return llm.ToolOutput("a picture", [llm.Attachment(type="image/png", content=b"png")])
def link(): return llm.ToolOutput({"n": 1}, [llm.Attachment(url="http://127.0.0.1:1/x.png")])
def odd(text: str): return text

@llm.hookimpl
def register_tools(register):
    for each in (add, later, point, fact, keyed, circle, who, fail, silent, leave, cancel, pause, image, link):
        register(each)
    register(odd, name="plain")
    register(llm.Tool("made", "By hand.", {"type": "object", "properties": {}}, lambda: "made"))
"""


def test_functions_and_tools_are_listed_with_their_schemas(loaded):
    _, facts = loaded(FUNCTIONS)
    tools = {each["name"]: each for each in facts["tools"]}
    assert tools["add"]["description"] == "Adds.\n\nTwo numbers."
    assert tools["add"]["schema"]["required"] == ["a"]
    assert set(tools["who"]["schema"]["properties"]) == {"a"}
    assert {"plain", "made"} < set(tools)
    assert facts["problems"] == []
    json.dumps(facts)


@pytest.mark.parametrize(
    ("tool", "arguments", "result"),
    [
        ("add", {"a": 2}, {"text": "3"}),
        ("later", {}, {"text": "later"}),
        ("fact", {}, {"text": '{"a": [1, null]}'}),
        ("point", {}, {"text": '"Point(x=1)"'}),
        ("keyed", {}, {"text": "{(1, 2): 3}"}),
        ("circle", {}, {"text": "[[...]]"}),
        ("who", {"a": "b"}, {"text": "who id-1 {'a': 'b'}"}),
        ("plain", {"text": "\ud800"}, {"text": "\ud800"}),
        ("made", {}, {"text": "made"}),
        ("fail", {}, {"error": "no such page; try /index"}),
        ("silent", {}, {"error": "ValueError"}),
        ("leave", {}, {"error": "SystemExit: 3"}),
        ("cancel", {}, {"error": "Cancelled: not today"}),
        ("pause", {}, {"pause": "approve it first"}),
        ("add", {"a": 1, "c": 2}, {"error": "add() got an unexpected keyword argument 'c'"}),
    ],
)
def test_a_call_gives_its_text_its_error_or_a_pause(loaded, tool, arguments, result):
    answer = call(loaded(FUNCTIONS)[0], tool, "id-1", **arguments)
    assert result.items() <= answer.items()


def test_attachments_are_read_but_never_fetched(loaded):
    ours, _ = loaded(FUNCTIONS)
    assert call(ours, "image")["attachments"] == [{"type": "image/png", "url": None, "data": "cG5n"}]
    assert call(ours, "link")["attachments"] == [{"type": None, "url": "http://127.0.0.1:1/x.png"}]


BOXES = """
import sqlite3, threading

class Store(llm.Toolbox):
    def __init__(self, path: str, table: str = "t"):
        self.db = sqlite3.connect(path)  # usable in this thread only
        self.table = table
    def prepare(self):
        self.db.execute(f"create table if not exists {self.table} (x)")
        self.add_tool(self.count)
    def count(self) -> int:
        "How many rows."
        return self.db.execute(f"select count(*) from {self.table}").fetchone()[0]
    def add(self, x: str) -> int:
        self.db.execute(f"insert into {self.table} values (?)", [x])
        return self._where()
    def _where(self):
        return threading.get_ident()

class Plain(llm.Toolbox):
    async def prepare_async(self):
        self.ready = "ready"
    async def state(self) -> str:
        return self.ready

class Bound(llm.Toolbox):
    def method_tools(self):
        return []

@llm.hookimpl
def register_tools(register):
    for each in (Store, Plain, Bound):
        register(each)
"""


def test_each_toolbox_is_made_prepared_and_called_in_a_thread_of_its_own(loaded):
    ours, facts = loaded(BOXES, 'Store(":memory:")', 'Store(path=":memory:", table="u")')
    assert facts["needy"] == []
    assert {"Store_add", "Store_count", "Store_2_add", "Store_2_count", "Plain_state"} <= set(ours.tools)
    first = call(ours, "Store_add", x="a")["text"]
    assert first == call(ours, "Store_add", x="b")["text"] != call(ours, "Store_2_add", x="c")["text"]
    assert (call(ours, "Store_count")["text"], call(ours, "Store_2_count")["text"]) == ("2", "1")
    assert call(ours, "Plain_state")["text"] == "ready"


def test_a_toolbox_that_needs_arguments_is_named_and_one_that_fails_is_a_problem(loaded):
    _, facts = loaded(BOXES)
    assert facts["needy"] == ["Store"]
    _, facts = loaded(BOXES, 'Store("/nosuch/x.db")')
    assert facts["problems"] == ['toolbox Store("/nosuch/x.db"): OperationalError: unable to open database file']
    assert [each["name"] for each in facts["tools"]] == ["Plain_state"]


def test_each_bad_item_is_a_problem_and_the_rest_is_offered(loaded):
    _, facts = loaded("""
        class NoBox: pass
        class Broken(llm.Toolbox):
            def __init__(self): raise OSError("no disk")
        def good() -> str: return "good"
        def twin() -> str: return "one"
        def untyped(x: "Nowhere"): ...

        @llm.hookimpl
        def register_tools(register):
            register(NoBox)
            register(3)
            register(untyped)
            register(lambda: 1)
            register(llm.Tool("idle", "", {}, None))
            register(Broken)
            register(good)
            register(twin)
            register(twin)
            raise RuntimeError("halfway")
        """)
    assert [each["name"] for each in facts["tools"]] == ["good", "twin"]
    assert [problem.partition(":")[0] for problem in facts["problems"]] == [
        "NoBox isn't a tool",
        "int isn't a function, an llm.Tool or an llm.Toolbox",
        "untyped can't be a tool",
        "<lambda> can't be a tool",
        "idle runs at a provider or has no implementation",
        "it has two tools called 'twin'; the first is offered",
        "register_tools raised RuntimeError",
        "toolbox Broken",
    ]


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import nosuch_module", "ModuleNotFoundError: No module named 'nosuch_module'"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("class Odd(Exception):\n    def __str__(self): raise OSError\nraise Odd", "Odd"),
    ],
)
def test_a_plugin_that_fails_to_import_says_why(loaded, code, cause):
    assert loaded(code)[1]["failure"] == cause


def test_another_plugin_that_fails_keeps_no_plugin_from_llms_models(loaded, install):
    install("llm-tools-broken", "raise OSError")
    loaded("")
    assert llm.pm.load_setuptools_entrypoints("llm") >= 2
