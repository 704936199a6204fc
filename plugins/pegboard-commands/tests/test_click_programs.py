"""Commands of click and typer programs as tools: read in a child process, and run as processes."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import select
import shlex
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from pegboard import Once, Permissions, ReadonlyContext, Rule, ToolRegistry, register_plugin
from pegboard.testing import ScriptedApprover
from pegboard_commands import ClickSettings, ClickToolset, click_programs
from pegboard_commands.plugin import Commands

SHOP = '''
import json
import click

@click.group()
@click.option("--verbose/--quiet", default=False, help="Whether to say more.")
@click.version_option("1")
def shop(verbose):
    """Sells nails."""

@shop.command()
@click.option("--limit", type=click.IntRange(1, 10, max_open=True), default=3, help="How many orders.")
@click.option("--state", type=click.Choice(["open", "done"]))
@click.option("--key", hide_input=True)
@click.option("--old", hidden=True)
@click.argument("items", nargs=-1, required=True)
@click.pass_context
def orders(context, **given):
    """Lists orders.

    \\b
    The newest first.
    \\f
    Not for users.
    """
    click.echo(json.dumps({**context.parent.params, **given}))

@shop.group()
def stock():
    """Manages the stock."""

@stock.command()
@click.option("--name", prompt=True)
@click.option("--yes", is_flag=True, prompt="Really?", expose_value=False)
def remove(name):
    click.echo(f"removed {name}")

@stock.command(hidden=True)
def secret():
    pass
'''


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine, a program may take a while to be imported."""
    monkeypatch.setattr(click_programs, "READ_SECONDS", 60.0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of modules that this Python and its child processes can import."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def put(folder, name, source):
    (folder / f"{name}.py").write_text(source)
    importlib.invalidate_caches()


def toolset_of(program, **settings):
    return ClickToolset(ClickSettings(program=program, **settings))


def offered(toolset):
    offer = asyncio.run(toolset.tools(ReadonlyContext()))
    return {tool.name: tool for tool in offer}, [problem.cause for problem in offer.problems]


def registry_with(program, approver=None, permissions=None, **more):
    registry = ToolRegistry(approver=approver, permissions=permissions)
    registry.register(toolset_of(program, **{"permission": "", "timeout": 60.0, **more}))
    return registry


def test_each_command_is_a_tool_with_a_typed_schema(folder):
    put(folder, "shop", SHOP)
    tools, problems = offered(toolset_of("shop:shop"))
    assert ([*tools], problems) == (["shop_orders", "shop_stock_remove"], [])
    spec = tools["shop_orders"].spec
    assert spec.description == "Lists orders.\n\nThe newest first."
    assert spec.to_json()["inputSchema"] == {
        "type": "object",
        "properties": {
            "verbose": {"type": "boolean", "description": "Whether to say more.", "default": False},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "exclusiveMaximum": 10,
                "description": "How many orders.",
                "default": 3,
            },
            "state": {"type": "string", "enum": ["open", "done"]},
            "items": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        },
        "required": ["items"],
        "additionalProperties": False,
    }


def test_passwords_hidden_options_and_questions_are_never_offered(folder):
    put(folder, "shop", SHOP)
    tools, _ = offered(toolset_of("shop:shop"))
    offers = {name for tool in tools.values() for name in tool.spec.to_json()["inputSchema"]["properties"]}
    assert offers == {"verbose", "limit", "state", "items", "name"}
    registry = registry_with("shop:shop")
    for name in ("key", "old", "version", "help"):
        assert registry.call_sync("shop_orders", {"items": ["a"], name: "x"}).kind == "invalid_arguments"
    assert registry.call_sync("shop_stock_remove", {}).kind == "invalid_arguments"  # what it would ask for is required
    result = registry.call_sync("shop_stock_remove", {"name": "nails"})
    assert (result.kind, "Aborted!" in result.text) == ("tool_failure", True)  # only a person answers


def test_a_call_runs_the_program_as_a_process(folder):
    put(folder, "shop", SHOP)
    registry = registry_with("shop:shop")
    result = registry.call_sync("shop_orders", {"items": ["--help", "$HOME; ls"], "limit": 9, "verbose": True})
    answer = {"verbose": True, "limit": 9, "state": None, "key": None, "old": None, "items": ["--help", "$HOME; ls"]}
    assert json.loads(result.text) == answer
    words = ["shop:shop", "--verbose", "orders", "--limit=9", "--", "--help", "$HOME; ls"]
    assert result.metadata == {"command": words, "exit_code": 0}
    assert "shop" not in sys.modules


def test_the_call_decides_the_folder_but_not_what_is_imported(folder, tmp_path_factory):
    place = tmp_path_factory.mktemp("call")
    (place / "json.py").write_text("raise SystemExit('taken over')")
    put(folder, "where", "import json, os, click\n@click.command()\ndef where():\n    click.echo(os.getcwd())\n")
    result = registry_with("where:where").call_sync("where", {}, ReadonlyContext(work_dir=str(place)))
    assert result.text == str(place.resolve())


@pytest.mark.slow
def test_calls_need_the_permission_for_shell_and_rules_see_the_program(folder):
    put(folder, "shop", SHOP)
    arguments = {"items": ["a b"]}
    with ScriptedApprover([Once()]) as approver:
        registry_with("shop:shop", permission="shell", approver=approver).call_sync("shop_orders", arguments)
    (request,) = approver.requests
    assert (request.permission, request.patterns) == ("shell", ("shop:shop orders -- 'a b'",))
    assert request.preview.summary == "shop:shop orders -- 'a b'"
    for pattern, kind in (("shop:shop orders *", None), ("shop:shop stock *", "denied")):
        permissions = Permissions([Rule("shell", pattern, "allow")])
        registry = registry_with("shop:shop", permission="shell", permissions=permissions)
        assert registry.call_sync("shop_orders", arguments).kind == kind


def test_a_program_gets_only_named_variables(folder, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.pathsep}.")
    put(folder, "env", "import os, click\n@click.command()\ndef env():\n    click.echo(repr(dict(os.environ)))\n")
    plain = registry_with("env:env").call_sync("env").text
    assert "MY_TOKEN" not in plain
    assert f"'PYTHONPATH': '{folder}'" in plain
    assert "secret" in registry_with("env:env", inherit=("MY_TOKEN",)).call_sync("env").text


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import nosuch_module", "while it was loaded: ModuleNotFoundError: No module named 'nosuch_module'"),
        ("print('{}')\nimport sys\nsys.exit(3)", "it ended with exit code 3 while it was loaded"),
        ("import os\nos._exit(0)", "it ended with exit code 0 while it was loaded"),
        ("cli = 5", "TypeError: it is a int, neither a click command nor a typer.Typer"),
        ("", "AttributeError: module 'bad' has no attribute 'cli'"),
        ("import sys\nsys.stdout.write('x' * 2_000_000)", "wrote more than 1,000,000 bytes, and was ended"),
    ],
)
def test_a_program_that_fails_affects_only_itself(folder, source, cause):
    put(folder, "shop", SHOP)
    put(folder, "bad", source)
    registry = ToolRegistry()
    assert register_plugin(registry, Commands, "commands", settings={"click": ["bad:cli", "shop:shop"]}).cause is None
    resolved = asyncio.run(registry.resolve())
    assert resolved.names == ("shop_orders", "shop_stock_remove")
    (problem,) = map(str, resolved.problems)
    assert problem.startswith("toolset 'bad:cli': ")
    assert cause in problem


def test_one_program_can_have_two_names(folder):
    put(folder, "shop", SHOP)
    registry = ToolRegistry()
    register_plugin(
        registry, Commands, "commands", settings={"click": ["shop:shop", {"program": "shop:shop", "name": "b"}]}
    )
    names = "b_orders", "b_stock_remove", "shop_orders", "shop_stock_remove"
    assert asyncio.run(registry.resolve()).names == names


def test_what_a_program_prints_while_it_is_loaded_is_ignored(folder):
    put(folder, "loud", "import os\nprint('[]')\nos.system('echo {}')\n" + SHOP)
    assert [*offered(toolset_of("loud:shop"))[0]] == ["loud_orders", "loud_stock_remove"]


def test_a_program_that_hangs_is_reported_until_it_has_loaded_or_was_ended(folder, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "gate")
    put(folder, "slow", f"open({str(tmp_path / 'gate')!r}).read()\n{SHOP}")
    put(folder, "hangs", "import threading\nthreading.Event().wait()\n")
    toolset = toolset_of("slow:shop")
    monkeypatch.setattr(click_programs, "READ_SECONDS", 0.01)
    assert offered(toolset) == ({}, ["it is still loading; its tools are added once it has finished"])
    (tmp_path / "gate").write_text("")
    monkeypatch.setattr(click_programs, "READ_SECONDS", 60.0)
    assert [*offered(toolset)[0]] == ["slow_orders", "slow_stock_remove"]
    monkeypatch.setattr(click_programs, "MOST_READ_SECONDS", 0.5)
    assert offered(toolset_of("hangs:cli")) == (
        {},
        ["reading its commands took more than 0.5 s, and was ended"],
    )


def test_closing_ends_the_processes_that_read_programs(folder, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    source = f"import os, threading\nos.write(os.open({str(tmp_path / 'held')!r}, os.O_WRONLY), b'x')\n"
    put(folder, "hangs", f"{source}threading.Event().wait()\n")
    toolset = toolset_of("hangs:cli")
    monkeypatch.setattr(click_programs, "READ_SECONDS", 0.01)
    assert offered(toolset)[0] == {}
    for content in (b"x", b""):  # it holds the pipe open, and then no longer
        assert select.select([held], [], [], 60)[0]
        assert os.read(held, 9) == content
        toolset.close()
    os.close(held)
    toolset_of("hangs:cli").close()


def test_a_program_is_read_again_only_once_its_files_have_changed(folder):
    mark = folder / "mark"
    put(folder, "shop", f"open({str(mark)!r}, 'a').write('x')\n{SHOP}")
    toolset = toolset_of("shop:shop")
    first, _ = offered(toolset)
    again, _ = offered(toolset)
    assert again["shop_orders"] is first["shop_orders"]
    assert mark.read_text() == "x"
    put(folder, "shop", (folder / "shop.py").read_text().replace("def orders", "def all_orders"))
    assert [*offered(toolset)[0]] == ["shop_all_orders", "shop_stock_remove"]
    assert mark.read_text() == "xx"


def test_a_missing_program_is_found_once_it_is_installed(folder):
    toolset = toolset_of("late:shop")
    assert str(folder) in toolset.publishes
    assert "No module named 'late'" in offered(toolset)[1][0]
    put(folder, "late", SHOP)
    assert [*offered(toolset)[0]] == ["late_orders", "late_stock_remove"]
    assert toolset.publishes == [str(folder / "late.py")]
    assert toolset.identity == {"program": "late:shop", "code": [str(folder / "late.py")]}


@pytest.mark.slow
def test_a_warm_listing_imports_no_program(folder, monkeypatch):
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder / "home"))
    put(folder, "shop", f"open({str(folder / 'mark')!r}, 'a').write('x')\n{SHOP}")
    words = ["list", "--plugin", "commands", "--set", 'commands.click:=["shop:shop"]']
    for _ in range(2):
        command = [sys.executable, "-m", "pegboard", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["shop_orders", "shop_stock_remove"]
    assert (folder / "mark").read_text() == "x"


def test_the_files_of_a_package_are_known_without_importing_it(folder):
    (folder / "pack" / "inner").mkdir(parents=True)
    for name in ("pack/__init__.py", "pack/inner/__init__.py", "pack/inner/cli.py"):
        (folder / name).write_text("raise AssertionError")
    importlib.invalidate_caches()
    toolset = toolset_of("pack.inner.cli:app")
    assert toolset.publishes == sorted(str(path) for path in (folder / "pack").rglob("*.py"))
    assert toolset.identity["code"] == [str(folder / "pack")]


EVERYTHING = """
import os
from enum import Enum
import click

class Colour(Enum):
    RED = "red"
    BLUE = "blue"

@click.group()
@click.option("--level", type=int)
@click.argument("who")
@click.pass_context
def everything(context, **given):
    context.obj = given

@everything.command()
@click.option("--text", "-t")
@click.option("-s")
@click.option("-sname")
@click.option("--number", type=click.FloatRange(0, min_open=True))
@click.option("--clamped", type=click.IntRange(0, 5, clamp=True))
@click.option("--many", multiple=True)
@click.option("--pair", nargs=2)
@click.option("--pairs", type=(int, str), multiple=True)
@click.option("--on/--off", default=None)
@click.option("-v", count=True)
@click.option("--truth", type=bool)
@click.option("--colour", type=click.Choice(Colour), default=Colour.RED)
@click.option("--up", "way", flag_value="up")
@click.option("--down", "way", flag_value="down")
@click.option("--quiet", "loud", is_flag=True, flag_value=False, default=True)
@click.option("--always", is_flag=True, default=True)
@click.option("--perhaps", is_flag=False, flag_value="x")
@click.option("-p", is_flag=False, flag_value=1, type=int)
@click.option("--level", type=click.UUID)
@click.option("--when", type=click.DateTime(), help="The day.")
@click.option("--place", type=click.Path(), default=os.curdir)
@click.argument("first")
@click.argument("rest", nargs=-1)
@click.argument("last")
@click.pass_obj
def run(outer, **given):
    return outer, given
"""
TEXT = {"type": "string"}
PAIR = {"minItems": 2, "maxItems": 2}
SCHEMAS = {
    "everything_level": {"type": "integer"},
    "who": TEXT,
    "text": TEXT,
    "s": TEXT,
    "sname": TEXT,
    "number": {"type": "number", "exclusiveMinimum": 0},
    "clamped": {"type": "integer"},
    "many": {"type": "array", "items": TEXT},
    "pair": {"type": "array", "items": TEXT, **PAIR},
    "pairs": {"type": "array", "items": {"type": "array", "prefixItems": [{"type": "integer"}, TEXT], **PAIR}},
    "on": {"type": "boolean"},
    "v": {"type": "integer", "minimum": 0, "maximum": 10, "default": 0},
    "truth": {"type": "boolean"},
    "colour": {"type": "string", "enum": ["RED", "BLUE"], "default": "RED"},
    "up": {"type": "boolean"},
    "down": {"type": "boolean"},
    "quiet": {"type": "boolean"},
    "always": {"type": "boolean"},
    "perhaps": {**TEXT, "pattern": r"^(?![\-])"},
    "p": {"type": "integer", "minimum": 0},
    "level": {"type": "string", "format": "uuid"},
    "when": {
        "type": "string",
        "description": "The day. A time, written as %Y-%m-%d or %Y-%m-%dT%H:%M:%S or %Y-%m-%d %H:%M:%S.",
    },
    "place": {"type": "string", "default": "."},
    "first": TEXT,
    "rest": {"type": "array", "items": TEXT},
    "last": TEXT,
}


def parameters_of(tool):
    return tool.spec.to_json()["inputSchema"]["properties"]


def test_every_kind_of_parameter_has_its_type(folder):
    put(folder, "everything", EVERYTHING)
    tools, problems = offered(toolset_of("everything:everything"))
    assert problems == []
    assert parameters_of(tools["everything_run"]) == SCHEMAS
    assert tools["everything_run"].spec.to_json()["inputSchema"]["required"] == ["who", "first", "last"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A command with all kinds of parameters: the tool, and the click command to parse its words with."""
    folder = tmp_path_factory.mktemp("everything")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        patch.syspath_prepend(folder)
        patch.setattr(click_programs, "READ_SECONDS", 60.0)
        put(folder, "everything", EVERYTHING)
        tools, _ = offered(toolset_of("everything:everything"))
        yield tools["everything_run"], importlib.import_module("everything").everything
    del sys.modules["everything"]


texts = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.sampled_from(["-", "--", "-v", "--on", "-t=x", "--text", "-sname", "="]),
)
values = {
    "text": texts,
    "s": texts,
    "sname": texts,
    "many": st.lists(texts),
    "pair": st.lists(texts, min_size=2, max_size=2),
    "pairs": st.lists(st.tuples(st.integers(-9, 9), texts).map(list)),
    "on": st.booleans(),
    "quiet": st.booleans(),
    "v": st.integers(0, 10),
    "truth": st.booleans(),
    "perhaps": texts.filter(lambda text: not text.startswith("-")),
    "p": st.integers(0, 9),
    "number": st.floats(0.1, 9.0),
    "clamped": st.integers(0, 5),
    "everything_level": st.integers(-9, 9),
    "rest": st.lists(texts),
}


@given(
    st.fixed_dictionaries({"who": texts.filter(bool), "first": texts, "last": texts}, optional=values),
)
def test_the_program_gets_exactly_the_values_of_a_call(everything, arguments):
    """Whatever they begin with: none becomes an option, or another argument."""
    tool, program = everything
    quiet = arguments.get("quiet", False)
    assert not tool.check(arguments)
    _, *words = shlex.split(tool.preview(arguments).summary)
    outer, got = program.main(words, "everything", standalone_mode=False)
    assert outer == {"level": arguments.get("everything_level"), "who": arguments["who"]}
    assert got["loud"] is not quiet
    for name, value in arguments.items():
        if name not in ("who", "everything_level", "quiet"):
            assert json.loads(json.dumps(got[name])) == value


TWO = """
import click

@click.command()
@click.argument("a", required=False)
@click.argument("b", required=False)
def two(a, b):
    click.echo(f"{a} {b}")
"""


def test_only_values_that_a_program_can_be_given_are_valid(folder):
    put(folder, "two", TWO)
    registry = registry_with("two:two")
    assert registry.call_sync("two", {"a": "x", "b": "y"}).text == "x y"
    for arguments, wrong in (({"b": "y"}, "a: is needed, too, since it comes before b"), ({"a": "\0"}, "NUL")):
        result = registry.call_sync("two", arguments)
        assert (result.kind, wrong in result.text) == ("invalid_arguments", True)


TYPER = '''
import datetime, enum, pathlib, uuid
from typing import Annotated, Literal, Optional
import typer

class Colour(str, enum.Enum):
    RED = "red"
    BLUE = "blue"

app = typer.Typer()

@app.callback()
def root(verbose: bool = False, version: Annotated[bool, typer.Option("--version", is_eager=True)] = False):
    """Sells nails."""

@app.command()
def run(
    name: str,
    number: Annotated[int, typer.Option("-n", min=1, max=5)] = 2,
    share: Annotated[float, typer.Option(min=0, clamp=True)] = 0.5,
    colour: Colour = Colour.RED,
    way: Literal["up", "down"] = "up",
    many: list[int] = [1],
    pair: tuple[int, str] = (1, "a"),
    when: Optional[datetime.datetime] = None,
    place: pathlib.Path = pathlib.Path("."),
    loud: Optional[bool] = None,
    count: Annotated[int, typer.Option("--count", "-c", count=True)] = 0,
    key: Annotated[str, typer.Option(hide_input=True)] = "",
    id: Optional[uuid.UUID] = None,
    parsed: Annotated[Optional[str], typer.Option(parser=str.upper)] = None,
    out: Optional[typer.FileTextWrite] = None,
    more: Annotated[Optional[list[str]], typer.Argument()] = None,
):
    """Runs."""
    print(name, number, colour.value, many, pair, place, loud, count, more)

@app.command(deprecated=True)
def old(): ...

@app.command(hidden=True)
def secret(): ...
'''


@pytest.mark.slow
def test_typer_programs_are_read_and_run(folder):
    put(folder, "nails", TYPER)
    tools, problems = offered(toolset_of("nails:app"))
    assert ([*tools], problems) == (["nails_run", "nails_old"], [])
    assert tools["nails_old"].spec.description == "Deprecated."
    assert parameters_of(tools["nails_run"]) == {
        "verbose": {"type": "boolean", "default": False},
        "name": TEXT,
        "number": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
        "share": {"type": "number", "default": 0.5},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "way": {"type": "string", "enum": ["up", "down"], "default": "up"},
        "many": {"type": "array", "items": {"type": "integer"}, "default": [1]},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, TEXT], **PAIR},
        "when": {
            "type": "string",
            "description": "A time, written as %Y-%m-%d or %Y-%m-%dT%H:%M:%S or %Y-%m-%d %H:%M:%S.",
        },
        "place": {"type": "string", "default": "."},
        "loud": {"type": "boolean"},
        "count": {"type": "integer", "minimum": 0, "maximum": 10, "default": 0},
        "id": {"type": "string", "format": "uuid"},
        "parsed": TEXT,
        "out": TEXT,
        "more": {"type": "array", "items": TEXT},
    }
    arguments = {"name": "-x", "colour": "blue", "many": [2, 3], "pair": [4, "-b"], "count": 2, "loud": False}
    result = registry_with("nails:app").call_sync("nails_run", {**arguments, "more": ["--", "c"]})
    assert result.text == "-x 2 blue [2, 3] (4, '-b') . False 2 ['--', 'c']"


MANY = """
import click

class Lazy(click.Group):
    def list_commands(self, context):
        return ["fine", "broken", "odd", "gone", "twice"]

    def get_command(self, context, name):
        if name == "broken":
            raise ImportError("no module for it")
        if name == "gone":
            return None
        params = [click.Argument(["a"])]
        if name == "odd":
            return click.Group("odd", params=[click.Argument(["b"], nargs=-1)], commands=[click.Command("c")])
        if name == "twice":
            params += [click.Option(["--a"])] * 2
        return click.Command(name, params=params)

cli = Lazy("cli", invoke_without_command=True)
"""


def test_a_command_that_cant_be_read_is_left_out_and_named(folder):
    put(folder, "lazy", MANY)
    tools, problems = offered(toolset_of("lazy:cli"))
    assert [*tools] == ["lazy", "lazy_fine"]
    assert tools["lazy"].spec.description == "Runs lazy."
    assert problems == [
        "command 'broken': ImportError: no module for it",
        "command 'odd c': TypeError: its group 'odd' takes any number of arguments",
        "command 'twice': TypeError: two of its parameters are called 'a'",
    ]


BIG = """
import click
cli = click.Group("big", commands={f"c{i}": click.Command(f"c{i}") for i in range(600)})
"""
DEEP = """
import click
cli = click.Command("x")
for _ in range(20):
    cli = click.Group("x", commands={"x": cli}, invoke_without_command=True)
"""


@pytest.mark.slow
def test_of_many_or_deeply_nested_commands_the_first_are_offered(folder):
    put(folder, "big", BIG)
    put(folder, "deep", DEEP)
    tools, problems = offered(toolset_of("big:cli"))
    assert (len(tools), problems) == (500, ["it has more than 500 commands; the first are offered"])
    assert offered(toolset_of("deep:cli"))[1] == ["the commands of 'x' are left out: groups are nested too deeply"]


HIDDEN = """
from typing import Annotated
import typer

app = typer.Typer()

@app.command()
def run(a: str, b: Annotated[str, typer.Argument(hidden=True)] = "", c: str = typer.Argument("c")): ...
"""


def test_arguments_after_a_hidden_one_cant_be_given(folder):
    put(folder, "hid", HIDDEN)
    tools, _ = offered(toolset_of("hid:app"))
    assert [*parameters_of(tools["hid"])] == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "wrong"),
    [
        ("shop", "plugins.commands.click[0]: program: 'shop' isn't the name of a program"),
        ("./shop:app", "plugins.commands.click[0]: program: './shop:app' isn't the name of a program"),
        (3, "plugins.commands.click[0]: must be a table"),
        ({"program": "a:b", "nam": "x"}, "plugins.commands.click[0].nam: unknown key"),
        ({"program": "a:b", "name": "1 x"}, "plugins.commands.click[0]: name: '1 x' can't begin tools' names"),
        ({"program": "a:b", "timeout": 0.0}, "plugins.commands.click[0]: timeout: it has to be more than 0"),
        ({"program": "a:b", "cwd": "x"}, "plugins.commands.click[0]: cwd: 'x' isn't an absolute path"),
    ],
)
def test_invalid_settings_are_reported_and_other_programs_offered(folder, item, wrong):
    put(folder, "shop", SHOP)
    registry = ToolRegistry()
    settings = {"click": [item, {"program": "shop:shop", "name": "store", "permission": ""}]}
    record = register_plugin(registry, Commands, "commands", settings=settings)
    assert (record.status, wrong in (record.cause or "")) == ("partial", True), record.cause
    assert registry.call_sync("store_stock_remove", {"name": "x"}).kind == "tool_failure"


def test_programs_have_to_be_a_list():
    record = register_plugin(ToolRegistry(), Commands, "commands", settings={"click": "shop:shop"})
    assert 'plugins.commands.click: has to be a list of programs: ["module:group"]' in (record.cause or "")


def test_a_file_of_a_project_that_a_variable_names_has_to_be_trusted(folder, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    (folder / ".git").mkdir()
    put(folder, "shop", SHOP)
    tools, (problem,) = offered(toolset_of("shop:shop", env={"STARTUP": str(folder / "shop.py")}))
    assert tools == {}
    assert "belongs to a project, and isn't trusted as it is now" in problem
