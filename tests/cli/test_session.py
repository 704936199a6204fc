"""`--functions FILE.py`; what toolsets have published."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from installed import OLD, write
from pegboard import PluginRecord, Tool, ToolSpec
from pegboard.cli.completion import candidates
from pegboard.cli.warm import answer

SOURCE = '''
"""Some functions."""
import sys
from os.path import join
from typing import NewType

from sibling import imported
from pegboard import tool

CONSTANT = 3

def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b

@tool(name="renamed", read_only=True)
async def other(text: str) -> str:
    """Tell it in capitals."""
    return text.upper()

def _private(x: int) -> int:
    return x

alias = add
Id = NewType("Id", int)
unnamed = lambda x: x

class Thing:
    pass

def unspeakable(x: Thing.__class__) -> None:
    """Can't be a tool."""
'''


@pytest.fixture
def file(tmp_path):
    (tmp_path / "sibling.py").write_text("def imported(x: int) -> int:\n    return x\n")
    file = tmp_path / "fns.py"
    file.write_text(SOURCE)
    return str(file)


@pytest.mark.usefixtures("registry")
class TestFunctions:
    def test_only_public_functions_that_the_file_defines(self, run, file):
        code, out, err = run("list", "--names", "--functions", file)
        assert (code, out.split()) == (0, ["add", "renamed"])
        assert "unspeakable" in err

    def test_a_selection_is_used_like_a_tool_name(self, run, file, tmp_path):
        config = tmp_path / "selected.toml"
        config.write_text('selections = { few = "add,nosuch", all = "*" }')
        how = ("list", "--names", "--functions", file, "--config", str(config))
        code, out, err = run(*how, "-T", "few")
        assert (code, out.split()) == (0, ["add"])
        assert "-T: no tool is called 'nosuch'" in err
        assert run(*how, "-T", "all , few")[1].split() == ["add", "renamed"]

    def test_they_run_where_the_configuration_places_them(self, run, file, tmp_path):
        config = tmp_path / "placed.toml"
        config.write_text('[tools."ren*"]\nexecutor = "nowhere"\nqueue = "q"\n')
        how = ("--functions", file, "--config", str(config))
        code, _, err = run("call", "renamed", "text=x", *how)
        assert (code, "renamed was not run" in err, "nowhere" in err) == (1, True, True)
        assert run("call", "add", "a=40", *how)[:2] == (0, "42\n")
        assert "nowhere" in run("show", "renamed", *how)[1]

    def test_they_are_called(self, run, file):
        assert run("call", "add", "a=40", "--functions", file)[:2] == (0, "42\n")
        assert run("call", "renamed", "text=x", "--functions", file)[:2] == (0, "X\n")

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("def (", "fns.py, line 1: SyntaxError"),
            ("x = 1\n\nraise ValueError('no')", "fns.py, line 3: ValueError: no"),
            ("import sys\nsys.exit(3)", "fns.py, line 2: SystemExit: 3"),
            ("x = 1", "defines no public function"),
        ],
    )
    def test_a_file_that_fails_is_a_usage_error(self, run, file, source, message):
        Path(file).write_text(source)
        code, out, err = run("list", "--functions", file)
        assert (code, out) == (2, "")
        assert message in err
        assert "Traceback" not in err

    def test_a_file_that_is_missing_or_not_python(self, run, tmp_path):
        (tmp_path / "fns.txt").write_text("")
        assert "its name has to end in .py" in run("list", "--functions", str(tmp_path / "fns.txt"))[2]
        assert run("list", "--functions", "nowhere.py")[0] == 2

    def test_a_later_file_overrides_an_earlier_one(self, run, file, tmp_path):
        later = tmp_path / "later.py"
        later.write_text("def add() -> str:\n    return 'later'\n")
        assert run("call", "add", "--functions", file, "--functions", str(later))[:2] == (0, "later\n")


# Completion ----------------------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "description": "How many.\nAt most."},
        "mode": {"enum": ["fast", "slow", 3], "description": 5},
        "dry": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "filter": {"type": "object", "properties": {"op": {"enum": ["eq"]}}},
        "any": {},
        "path": {"type": "string"},
    },
    "required": ["path"],
}
NAMES = ["path=", "limit=", "mode=", "dry=", "tags=", "filter=", "filter.op=", "any="]


def words(incomplete: str, *given: str) -> list[str]:
    return [word for word, _ in candidates(incomplete, given, SCHEMA)]


def test_the_names_of_arguments_required_ones_first():
    assert words("") == NAMES
    assert ("limit=", "How many.") in candidates("", (), SCHEMA)
    assert words("f") == ["filter=", "filter.op="]


def test_given_arguments_are_not_completed_again_except_arrays():
    assert words("", "path=x", "tags=a", "limit:=3", "filter.op=eq") == ["mode=", "dry=", "tags=", "filter=", "any="]


@pytest.mark.parametrize(
    ("incomplete", "values"),
    [
        ("mode=", ["mode=fast", "mode=slow", "mode=3"]),
        ("mode=s", ["mode=slow"]),
        ("dry=", ["dry=null", "dry=true", "dry=false"]),
        ("dry:=t", ["dry:=true"]),
        ("tags=", ["tags=a", "tags=b"]),
        ("filter.op=", ["filter.op=eq"]),
        *((each, []) for each in ("path=", "any=", "unknown=")),
    ],
)
def test_the_values_that_a_schema_names(incomplete, values):
    assert words(incomplete) == values


class TestCompletion:
    """What the warm command declines is answered by click."""

    @pytest.mark.parametrize(
        ("line", "answers"),
        [
            ("sh", ["show\tShow everything known about a tool."]),
            *((f"{command} rea", ["read_file\tRead."]) for command in ("show", "schema", "explain", "call", "list")),
            ("show re", ["read_file\tRead.", "remove\tRemove\\u{1b}."]),
            ("list remove rea", ["read_file\tRead."]),
            ("call read_file ", [NAMES[0], "limit=\tHow many.", *NAMES[2:]]),
            ("call read_file mode=f", ["mode=fast"]),
            ("call read_file path='a b' mo", ["mode="]),
            (
                "call read_file --input",
                ["--input-json\tThe arguments as a JSON object; '-' reads standard input, '@FILE' a file."],
            ),
            ("call read_file path=@n", ["path=@new/", "path=@notes.txt"]),
            ("call read_file path=n", ["path=new/", "path=notes.txt"]),
            ("call read_file any=n", []),
            ("call --set d", ["demo."]),
            ("list --set demo.", ["demo.root="]),
            ("list --where read_o", ["read_only"]),
            ("search x --where 'destructive or read_o", ["destructive or read_only"]),
            ("list --where kind:f", ["kind:function"]),
            *((line, []) for line in ("list --where user:", "call read_file path=@no/such/")),
            ("list --plugin ", ["demo"]),
        ],
    )
    def test_completions(self, run, registry, home, monkeypatch, *, line, answers):
        tools = [Tool(ToolSpec("read_file", "Read. It.", SCHEMA)), Tool(ToolSpec("remove", "Remove\x1b."))]
        registry.contributions.change(lambda catalogue: catalogue.with_tools(tools, "error")[0])
        registry.contributions.change(lambda catalogue: catalogue.evolve(plugins={"demo": PluginRecord("demo")}))
        write(home / "config/pegboard/pegboard.toml", '[plugins.demo]\nroot = "/"')
        (home / "here" / "new").mkdir()
        (home / "here" / "notes.txt").write_text("")
        monkeypatch.setenv("_REGISTRY_COMPLETE", "complete")
        monkeypatch.setenv("COMP_WORDS", f"registry {line}")
        code, out, err = run()
        assert (code, out.splitlines(), err) == (0, [f"plain,{each}" for each in answers] or [""], "")

    @pytest.mark.parametrize("line", ["registry call nothing ", "registry nothing x"])
    def test_errors_complete_to_nothing(self, run, registry, monkeypatch, line):
        monkeypatch.setenv("_REGISTRY_COMPLETE", "complete")
        monkeypatch.setenv("COMP_WORDS", line)
        code, out, err = run()
        assert code in (0, 1)
        assert (out.strip(), err) == ("", "")

    def test_an_unknown_instruction_fails(self, run, registry, monkeypatch):
        monkeypatch.setenv("_REGISTRY_COMPLETE", "tcsh_complete")
        assert run() == (1, "", "")


CHECKED = """
from pegboard import hookimpl
from pegboard.errors import check_keys

@hookimpl
def pegboard_register_tools(register, settings):
    check_keys(settings, ["root", "limit"])
"""


@pytest.mark.parametrize(("code", "keys"), [(CHECKED, ["root", "limit"]), ("raise OSError", ["root"])])
def test_settings_complete_to_the_keys_that_a_plugin_checks_or_that_are_in_use(
    run, empty_site, home, monkeypatch, *, code, keys
):
    empty_site.add("checked", code)
    write(home / "config/pegboard/pegboard.toml", '[plugins.checked]\nroot = "/"')
    monkeypatch.setenv("_REGISTRY_COMPLETE", "complete")
    monkeypatch.setenv("COMP_WORDS", "registry list --set checked.")
    assert run()[:2] == (0, "".join(f"plain,checked.{key}=\n" for key in keys))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_and_the_help_says_how_to_enable_it(run, shell):
    code, out, _ = run("completion", shell)
    assert (code, "_REGISTRY_COMPLETE=" in out, "pegboard" in out, out[-1]) == (0, True, True, "\n")
    assert f"registry completion {shell}" in run("completion", "--help")[1]


@pytest.mark.slow
def test_a_real_bash_completes(run, site, tmp_path):
    """Calls the function as bash does, which splits words at '=' and passes words, line and cursor."""
    bash = shutil.which("bash")
    assert bash is not None, "bash is needed for this test"
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "registry"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pegboard "$@"\n')
    command.chmod(0o755)
    (tmp_path / "script").write_text(
        run("completion", "bash")[1]
        + """
ask() {
    COMP_LINE="$1"; COMP_POINT=${#1}; shift
    COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
    compopt() { echo "option $*"; }
    _registry_completion registry
    printf '%s\\n' "${COMPREPLY[@]}" "--"
}
ask "registry call count_words te" registry call count_words te
ask "registry --live call wipe path=" registry --live call wipe path =
ask "registry list --plugin=d" registry list --plugin = d
ask 'registry call wipe path=a\\ b' registry call wipe path = 'a\\ b'
ask 'registry call wipe path=a\\ ' registry call wipe path = 'a\\ '
ask 'registry call wipe path="a b' registry call wipe path = '"a b'
ask "registry call wipe path='a " registry call wipe path = "'a "
ask 'registry call wipe path="$' registry call wipe path = '"$'
ask 'registry call wipe --set demo.root=' registry call wipe --set demo.root =
"""
    )
    (tmp_path / "files").mkdir()
    for name in ("a b.txt", "$c"):
        (tmp_path / "files" / name).touch()
    environ = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": str(site.root)}
    arguments, folder = [bash, str(tmp_path / "script")], tmp_path / "files"
    ran = subprocess.run(arguments, env=environ, cwd=folder, capture_output=True, text=True, check=True)
    assert ran.stdout.split("--\n") == [
        *("option -o nospace\ntext=\n", "\\$c\na\\ b.txt\n", "demo\n", "a\\ b.txt\n", "a\\ b.txt\n"),
        *("a b.txt\n", "a b.txt\n", "\\$c\n", "\\$c\na\\ b.txt\n", ""),
    ]
    assert ran.stderr == ""


PUBLISHER = """
import sys
from pathlib import Path

from pegboard import CombinedToolset, Problem, Tool, ToolsetBase, ToolsetResult, hookimpl


class Notes(ToolsetBase):
    name = "notes"

    def __init__(self, file):
        self.file = Path(file)
        self.publishes = [file]

    async def tools(self, context):
        text = self.file.read_text()
        names = [name for name in text.split() if name.isidentifier()]
        wrong = [name for name in text.split() if name not in names]
        problems = [Problem("it isn't a name", name, fix="correct the file") for name in wrong]
        tools = [Tool.from_schema(name, None, lambda arguments: "ran", description=text) for name in names]
        return ToolsetResult(tools, problems)

    async def close(self):
        self.file.with_suffix(".closed").touch()


class Live(ToolsetBase):
    name = "live"

    async def tools(self, context):
        print("live was asked", file=sys.stderr)
        raise RuntimeError("was asked")


@hookimpl
def pegboard_register_toolsets(register, settings):
    notes = Notes(settings["file"]).prefixed("n").filtered("not name:*_hidden")
    register(CombinedToolset("all", [notes]))
    register(Live())
    if "odd" in settings:
        odd = Live()
        odd.publishes = settings["odd"]
        register(odd)
"""


EXPORTER = """
from pegboard import hookimpl
from pegboard_clients.listing import MCP

@hookimpl
def pegboard_register_exporters(register):
    register("mcp", MCP())
"""


class TestPublished:
    """Tools that a plugin's toolset has published."""

    @pytest.fixture
    def file(self, home, empty_site):
        """What the toolset reads its tools from."""
        empty_site.add("pub", PUBLISHER)
        file = home / "notes.txt"
        file.write_text("take show hidden")
        os.utime(file, (OLD, OLD))
        write(home / "config/pegboard/pegboard.toml", f'[plugins.pub]\nfile = "{file}"\n')
        return file

    def test_published_tools_are_listed_without_importing_the_plugin(self, run, file, monkeypatch):
        """With the wrappers of their toolset applied; the toolset was closed."""
        monkeypatch.delitem(sys.modules, "pub_tools", raising=False)  # other tests of this process import it
        for _ in range(2):
            code, out, err = run("list")
            assert (code, err) == (0, "")
            assert [line.split("\t")[:2] for line in out.splitlines()] == [["n_show", "pub"], ["n_take", "pub"]]
        assert file.with_suffix(".closed").exists()
        assert run("list", "--where", "toolset:all and name:n_s*", "--names")[1] == "n_show\n"
        assert run("show", "n_show")[0] == run("schema", "n_take")[0] == 0
        assert run("explain", "n_take")[1].startswith("n_take: offered")
        assert json.loads(run("search", "take", "--json")[1])["tools"][0]["name"] == "n_take"
        assert "pub_tools" not in sys.modules
        assert run("call", "n_take")[1] == "ran\n"

    @pytest.mark.usefixtures("file")
    def test_published_tools_are_exported_without_importing_the_plugin(self, run, empty_site):
        empty_site.add("exports", EXPORTER)
        code, out, err = run("export", "--to", "mcp")
        assert (code, err, [each["name"] for each in json.loads(out)["tools"]]) == (0, "", ["n_show", "n_take"])
        assert "pub_tools" not in sys.modules

    @pytest.mark.slow
    def test_a_call_of_a_published_tool_queries_no_other_toolset(self, run, file):
        run("list")
        calls = file.with_name("calls.json")
        for names, asks in ((["n_take"], False), (["n_show", "n_take"], False), (["n_take", "third"], True)):
            calls.write_text(
                json.dumps([{"id": name, "function": {"name": name, "arguments": "{}"}} for name in names])
            )
            _, out, err = run("dispatch", str(calls))
            assert (out.count('"ran"'), "live was asked" in err) == (len({*names} - {"third"}), asks)
        assert "live was asked" not in run("call", "n_take")[2]
        assert "live was asked" in run("call", "n_take", "--live")[2]

    def test_a_plugin_that_registers_no_toolset_is_not_reported(self, run, home, empty_site):
        empty_site.add(
            "none", "from pegboard import hookimpl\n\n@hookimpl\ndef pegboard_register_toolsets(register): pass\n"
        )
        assert "not queried" not in run("list")[2]

    @pytest.mark.slow
    def test_published_tools_are_completed(self, run, file, monkeypatch):
        monkeypatch.setenv("_REGISTRY_COMPLETE", "complete")
        monkeypatch.setenv("COMP_WORDS", "registry show n_")
        assert run()[1] == "plain,n_show\ttake show hidden\nplain,n_take\ttake show hidden\n"

    @pytest.mark.slow
    def test_published_tools_are_read_again_after_a_file_changes(self, run, file):
        for text, names in (("other", "n_other\n"), ("other third", "n_other\nn_third\n")):
            assert run("list", "--names")[0] == 0
            file.write_text(text)
            assert run("list", "--names")[1] == names

    @pytest.mark.slow
    def test_a_failing_toolset_is_reported_and_queried_again(self, run, file):
        """Other tools are listed, no snapshot is written, and rules for its tools aren't reported."""
        file.rename(file.with_suffix(".away"))
        rules = file.with_name("rules.toml")
        rules.write_text('allow = ["n_take"]')
        assert "no permission that a tool declares" not in run("call", "n_take", "--rules", str(rules))[2]
        code, out, err = run("list")
        assert (code, out) == (0, "")
        assert "toolset 'notes': FileNotFoundError: " in err
        assert answer(["list"]) is None
        file.with_suffix(".away").rename(file)
        assert run("list", "--names")[1] == "n_show\nn_take\n"

    @pytest.mark.slow
    def test_problems_of_published_tools_are_listed_without_importing_the_plugin(self, run, file, empty_site):
        """They don't hinder the listing's snapshot."""
        file.write_text("take sho\u202ew.odd")
        os.utime(file, (OLD, OLD))
        cause = r"toolset 'notes': tool 'sho\u{202e}w.odd': it isn't a name; correct the file"
        for _ in range(2):
            assert run("list", "--names")[1:] == ("n_take\n", f"plugin pub: {cause}\n")
        assert json.loads(run("list", "--json")[1])["problems"][0]["cause"] == cause
        assert cause in run("doctor")[1]
        assert cause in [each["cause"] for each in json.loads(run("doctor", "--json")[1])["findings"]]
        assert "pub_tools" not in sys.modules
        assert answer(["list"]) == 0

    @pytest.mark.slow
    def test_invalid_publishes_is_reported(self, run, home, file):
        settings = home / "config" / "pegboard" / "pegboard.toml"
        settings.write_text(settings.read_text() + 'odd = "x"\n')
        _, out, err = run("list", "--names")
        assert out == "n_show\nn_take\n"
        assert "publishes must be a collection of str, got 'x'" in err

    @pytest.mark.slow
    def test_a_setting_on_the_command_line_applies_to_one_run(self, run, home, file):
        other = home / "other.txt"
        other.write_text("else")
        assert run("list", "--names", "--set", f"pub.file={other}")[1] == "n_else\n"
        assert run("--set", "pub.odd:=3", "list", "--names")[2].count("publishes must be a collection") == 1
        assert run("list", "--names")[1] == "n_show\nn_take\n"

    @pytest.mark.parametrize(
        ("setting", "wrong"),
        [("pub=1", "'pub' isn't PLUGIN.KEY"), ("pob.odd:=3", "no plugin is called 'pob'.")],
    )
    def test_a_setting_of_an_unknown_plugin_is_refused(self, run, setting, wrong):
        code, _, err = run("list", "--set", setting)
        assert (code, f"--set: {wrong}" in err) == (2, True)


REPORTER = """
from pegboard import Problem, ToolsetFunction, ToolsetResult, hookimpl

@hookimpl
def pegboard_register_toolsets(register):
    problems = [Problem("its schema is empty", "pay", fix="mend it"), Problem("no key")]
    register(ToolsetFunction("shop", lambda: ToolsetResult([], problems)))
"""


@pytest.mark.slow
def test_a_problem_that_a_toolset_reports_is_listed_live_and_explained(run, empty_site):
    empty_site.add("shop", REPORTER)
    cause = "tool 'pay': its schema is empty"
    lines = [f"plugin shop: toolset 'shop': {cause}", "plugin shop: toolset 'shop': no key"]
    assert run("list", "--live")[2].splitlines()[:2] == lines
    problems = json.loads(run("list", "--live", "--json")[1])["problems"]
    assert [each["cause"] for each in problems] == [f"toolset 'shop': {each}" for each in (cause, "no key")]
    findings = json.loads(run("doctor", "--live", "--json")[1])["findings"]
    own = [each for each in findings if each["subject"] == "toolset 'shop' of plugin 'shop'"]
    assert [(each["cause"], each["fix"]) for each in own] == [
        (cause, "mend it"),
        ("no key", "Correct it, or ask its author to."),
    ]
    code, out, _ = run("explain", "pay")
    assert (code, out.splitlines()) == (0, ["pay: not offered", f"  note: toolset 'shop': {cause}"])
    code, _, err = run("call", "pay")
    assert (code, f"toolset 'shop': {cause}" in err) == (2, True)
    assert run("explain", "other")[0] == 2


# Plugins that aren't loaded ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "configuration", "note"),
    [
        ("wipe", 'block = ["demo"]', "plugin 'demo' (pegboard-demo) has it, but is blocked: blocked by name"),
        ("my_wipe", 'enable = []\nprefix = { demo = "my_" }', "has it, but is disabled: not among the"),
        ("lost", "", "plugin 'broken' (pegboard-broken) may have it, but is quarantined: RuntimeError: no luck"),
    ],
)
def test_a_tool_of_a_plugin_that_isnt_loaded_is_explained(run, site, name, configuration, note):
    site.add("broken", "raise RuntimeError('no luck')")
    (site.root / "own.toml").write_text(configuration)
    code, out, _ = run("explain", name, "--config", str(site.root / "own.toml"))
    assert (code, out.splitlines()[0]) == (0, f"{name}: not offered")
    assert note in out
    for command in ("call", "show"):
        code, _, err = run(command, name, "--config", str(site.root / "own.toml"))
        assert (code, f"error: no tool is called '{name}'.\n" in err, note in err) == (2, True, True)


LATE = """
from pegboard import hookimpl, ToolsetBase

class Late(ToolsetBase):
    name = "late"
    async def tools(self, context):
        raise OSError("not there yet")

@hookimpl
def pegboard_register_toolsets(register):
    register(Late())
"""


def test_an_unknown_tool_error_reports_toolsets_that_failed(run, empty_site):
    empty_site.add("late", LATE)
    code, _, err = run("call", "tea")
    assert (code, "toolset 'late': OSError: not there yet" in err) == (2, True)


COUNTING = """
from pegboard import hookimpl

@hookimpl
def pegboard_register_tools(register, settings):
    if not isinstance(settings.get("most", 1), int | list):
        raise ValueError("most: not a whole number")
"""


@pytest.mark.slow
def test_a_string_that_a_setting_rejects_hints_at_json(run, empty_site):
    empty_site.add("counting", COUNTING)
    hint = "--set counting.most=... sets a string; for a number or other JSON, write counting.most:=..."
    for value, is_json in (("=3", True), ("=three", False), (":=3", False)):
        assert (hint in run("list", "--set", f"counting.most{value}")[2]) is is_json


@pytest.mark.slow
def test_debug_shows_the_traceback_of_a_plugin_that_fails_to_load(run, empty_site):
    empty_site.add("broken", "def start():\n    raise RuntimeError('no luck')\nstart()")
    assert "Traceback" not in run("list")[2]
    for argv in ([], ["--refresh"], ["--live"]):
        _, _, err = run("list", "--debug", *argv)
        assert err.index("Traceback") < err.index("in start") < err.rindex("RuntimeError: no luck")


BLOCKING = """
import time
from pegboard import hookimpl, tool

@tool
async def wait_on_the_loop() -> None:
    time.sleep(0.3)

@hookimpl
def pegboard_register_tools(register):
    register(wait_on_the_loop)
"""


@pytest.mark.parametrize(("editable", "option"), [(True, []), (False, []), (False, ["--debug"])])
def test_that_a_tool_blocks_the_event_loop_is_said_to_its_author(run, empty_site, caplog, editable, option):
    empty_site.add("slow", BLOCKING, editable=editable)
    run("call", "wait_on_the_loop", "--yes", *option)
    assert ("blocks the event loop" in caplog.text) is bool(editable or option)


TRANSFORMING = """
from pegboard import hookimpl

@hookimpl
def pegboard_register_transforms(register):
    register("short", lambda tools: tools.renamed({"count": "size"}).described({"size": "Tells the size."}))
"""


@pytest.mark.usefixtures("bringing")
def test_commands_show_and_call_tools_as_plugins_transform_them(run, empty_site):
    empty_site.add_listed("short", TRANSFORMING)
    assert run("list", "--names")[1] == "size\n"
    assert "Tells the size." in run("show", "size")[1]
    assert run("call", "size", "text=abc")[:2] == (0, "3\n")
    assert run("call", "count", "text=abc")[0] == 2
    assert "size: offered" in run("explain", "size")[1]


REMOTE = (
    TRANSFORMING
    + """
import os
from pegboard import Tool, ToolSpec

class Remote:
    name = "remote"

    async def tools(self, context):
        return [Tool(ToolSpec(name)) for name in os.environ["REMOTE_TOOLS"].split()]

@hookimpl
def pegboard_register_toolsets(register):
    register(Remote())
"""
)


@pytest.mark.usefixtures("bringing")
def test_a_listing_queries_toolsets_each_time_where_a_plugin_transforms_tools(run, empty_site, monkeypatch):
    empty_site.add_listed("short", REMOTE)
    for names in ("push", "pull push"):
        monkeypatch.setenv("REMOTE_TOOLS", names)
        assert run("list", "--names") == (0, "\n".join([*names.split(), "size\n"]), "")
        assert answer(["list"]) is None
        assert not run("list")[2]


def test_rules_for_new_names_are_not_reported_where_a_plugin_transforms_tools(run, empty_site, tmp_path):
    empty_site.add_listed("short", TRANSFORMING)
    rules = write(tmp_path / "rules.toml", 'ask = ["size"]')
    assert "size" not in run("doctor", "--rules", str(rules))[1]
