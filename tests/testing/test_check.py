"""`check_plugin`: finds all violations of the contract at once."""

from __future__ import annotations

import ast
import asyncio
import itertools
import subprocess
import sys
import threading
import types
from importlib import import_module
from typing import Annotated

import attrs
import pytest
from annotated_types import Ge, Le

from pegboard import Grammar, Origin, Tool, ToolAnnotations, ToolError, ToolSpec, hookimpl, tool, tool_of
from pegboard.errors import FatalToolError
from pegboard.plugins.manifest import manifest_text
from pegboard.testing import Report, check_plugin, load_plugin, manifest_of
from pegboard.testing.calls import Subject
from pegboard.testing.check import PluginCheck
from pegboard.timeout import Watchdog

GREETER = """
from pegboard import hookimpl, tool

@tool(read_only=True, examples=[{"who": "Ada"}])
def greet(who: str = "you") -> str:
    '''Greets.

    Args:
        who: The name.
    '''
    return f"hello {who}"

@hookimpl
def pegboard_register_tools(register, settings):
    register(greet)
"""


def plugin_with(*things: object):
    """A plugin that registers these tools."""

    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            for thing in things:
                register(thing)

    return Plugin()


def findings(plugin: object) -> str:
    """The text of the violations; without measuring the import, which takes a process."""
    with pytest.raises(AssertionError) as caught:
        check_plugin(plugin, heavy=())
    return str(caught.value)


@tool(read_only=True)
def forecast(city: str, days: Annotated[int, Ge(1), Le(9)] = 1) -> str:
    """Forecast the weather.

    Args:
        city: Where.
        days: How far ahead.
    """
    return f"{city}: sun for {days}"


def test_a_good_plugin_passes_and_is_reported() -> None:
    report = check_plugin(plugin_with(forecast))
    assert report.tools == ("forecast",)
    assert report.tried > 10
    assert report.ran == 0
    assert report.warnings == ()
    assert ["declares no examples" in note for note in report.notes] == [True]
    assert check_plugin(plugin_with(forecast)) == report  # it is deterministic


@pytest.mark.slow
def test_a_plugin_is_checked_by_its_installed_name(site) -> None:
    module = site("greeter", GREETER)
    report = check_plugin("greeter", run_examples=True, heavy=())
    assert report == Report("greeter", ("greet",), tried=report.tried, ran=1)
    assert check_plugin(import_module(module), heavy=()) == report  # a module has the name of its entry point


@pytest.mark.slow
def test_private_uses_of_pegboard_in_its_package_are_one_warning(site) -> None:
    module = site("private", f"{GREETER}\nfrom pegboard.tools import spec\nfrom pegboard.tools.spec import HOST\n")
    (warning,) = check_plugin("private", heavy=()).warnings
    lines = GREETER.count("\n")
    assert warning == (
        "it uses private parts of pegboard, which may change with each release: "
        f"private_installed.py:{lines + 2}: pegboard.tools.spec; "
        f"private_installed.py:{lines + 3}: pegboard.tools.spec.HOST (use pegboard.tools.HOST); "
        "import public modules only"
    )
    assert check_plugin(import_module(module), heavy=()).warnings == (warning,)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["files", "guard"])
def test_first_party_plugins_fulfil_the_contract(name) -> None:
    assert check_plugin(name, run_examples=True).warnings == ()


def test_a_class_is_created_with_its_settings() -> None:
    class Plugin:
        def __init__(self, settings) -> None:
            self.prefix = settings["prefix"]

        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(forecast)

    assert check_plugin(Plugin, settings={"prefix": "x"}).plugin == "Plugin"
    assert "it doesn't load: KeyError" in findings(Plugin)


def test_a_failed_import_is_found_with_its_cause(site) -> None:
    site("broken", "raise SystemExit('no licence')")
    assert "it can't be imported: SystemExit: no licence" in findings("broken")
    text = findings("fils")
    assert "no installed distribution has an entry point 'fils'" in text
    assert "Did you mean 'files'" in text


def test_invalid_schemas_are_found_and_dont_affect_other_tools() -> None:
    broken = Tool(ToolSpec("broken", "Does.", input_schema={"type": "object", "properties": {"a": {"type": "what"}}}))
    lying = Tool(ToolSpec("lying", "Does.", output_schema={"type": "array"}))
    text = findings(plugin_with(broken, lying, forecast))
    assert "(2 found)" in text
    assert "tool 'lying': output_schema is refused" in text
    assert "tool 'broken': input_schema is refused" in text


def test_refused_registrations_are_found() -> None:
    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(forecast)
            register(forecast)

        @hookimpl
        def pegboard_register_tool(self, register) -> None:
            register(forecast)

    text = findings(Plugin())
    assert "tool 'forecast' is registered twice" in text
    assert "there is no hook 'pegboard_register_tool'. Did you mean 'pegboard_register_tools'" in text


def test_invalid_hooks_are_found() -> None:
    class Unmarked:
        def pegboard_register_tools(self, register) -> None:
            register(forecast)

    class Wrong:
        @hookimpl
        def pegboard_register_tools(self, registry) -> None: ...

    class Raising:
        @hookimpl
        def pegboard_register_commands(self, group) -> None:
            raise ValueError("no command")

    assert "pegboard_register_tools is never called: put @hookimpl above it" in findings(Unmarked())
    assert "mark a function pegboard_register_tools(register) with @hookimpl" in findings(object())
    assert "it doesn't load: PluginValidationError" in findings(Wrong())
    assert "pegboard_register_commands raised ValueError: no command" in findings(Raising())


def test_toolsets_are_noted_as_unchecked() -> None:
    class Live:
        name = "live"

        async def tools(self, context):
            return []

    class Plugin:
        @hookimpl
        def pegboard_register_toolsets(self, register) -> None:
            register(Live())

    (note,) = check_plugin(Plugin()).notes
    assert "toolset 'live'" in note


def test_a_module_that_cant_be_imported_again_is_checked_without_its_import() -> None:
    module = types.ModuleType("made_up")
    module.pegboard_register_tools = hookimpl(lambda register: register(forecast), specname="pegboard_register_tools")
    notes = check_plugin(module).notes
    assert any("its import couldn't be measured" in note for note in notes)


@pytest.mark.slow
def test_testing_aids_need_no_test_runner() -> None:
    script = "import sys, pegboard.testing; print([name for name in ('pytest', 'hypothesis') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == []


# Whether a plugin is the same each time, in each process, and in its manifest ----------------------------------------

TEMPLATE = """
from pegboard import hookimpl, tool

@tool
def greet(who: str = "{who}") -> str:
    '''Greets.

    Args:
        who: The name.
    '''
    return f"hello {{who}}"

@hookimpl
def pegboard_register_tools(register, settings):
    {condition}
    register(greet)
"""


def greeter(who: str = "you", condition: str = "pass") -> str:
    return TEMPLATE.format(who=who, condition=condition)


def manifest_for(site, name: str, code: str) -> str:
    """The text of the manifest that `registry manifest write` would write for this code."""
    module = site(name, code)
    return manifest_text([manifest_of(load_plugin(Origin(name, f"dist-{name}", "1.0"), import_module(module), {}))])


def test_a_plugin_that_registers_something_else_each_time_is_found() -> None:
    numbers = itertools.count()

    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            @tool(name=f"tool_{next(numbers)}")
            def function() -> str:
                """Does."""
                return ""

            register(function)

    text = findings(Plugin())
    assert "it isn't the same each time it loads: tool 'tool_0' is gone" in text
    assert "tool 'tool_1' is new" in text


def test_a_plugin_that_loads_only_once_is_found() -> None:
    once = iter([1])

    class Plugin:
        def __init__(self) -> None:
            next(once)

        @hookimpl
        def pegboard_register_tools(self, register) -> None: ...

    assert "it loads only once: a second registry in the same process gets StopIteration" in findings(Plugin)


def test_a_plugin_that_differs_in_another_process_is_found(site) -> None:
    import_time = 'import os\nDESCRIPTION = f"Greets from {os.getpid()}."\n'
    site("greeter", import_time + greeter().replace("@tool", "@tool(description=DESCRIPTION)"))
    assert "another process gets something else: tool 'greet' has changed" in findings("greeter")


def test_a_plugin_that_loads_only_in_this_process_is_found(site, monkeypatch) -> None:
    module = site("greeter", "import sys\nif not hasattr(sys, 'prepared'): raise OSError('not here')\n" + greeter())
    monkeypatch.setattr("sys.prepared", True, raising=False)
    import_module(module)
    assert "it doesn't load in a process of its own: OSError: not here" in findings("greeter")


@pytest.mark.slow
def test_a_correct_manifest_passes_even_if_settings_add_tools(site) -> None:
    condition = "if settings: register(tool(lambda: 'x', name='other', description='Does.'))"
    text = manifest_for(site, "early", greeter(condition=condition))
    site("greeter", greeter(condition=condition), more=text.replace("early", "greeter"))
    assert check_plugin("greeter", heavy=()).tools == ("greet",)
    assert check_plugin("greeter", settings={"more": True}, heavy=()).tools == ("other", "greet")


@pytest.mark.parametrize(
    ("code", "manifest", "words"),
    [
        (greeter("world"), None, "its manifest differs from its code: tool 'greet' has changed"),
        (
            greeter() + "\n@hookimpl\ndef pegboard_before_tool(context): ...\n",
            None,
            "its manifest differs from its code: its hooks differ",
        ),
        (greeter(), "{}", "its manifest can't be compared with its code"),
    ],
)
def test_a_wrong_or_unreadable_manifest_is_found(site, code, manifest, words) -> None:
    text = manifest_for(site, "early", greeter()).replace("early", "greeter")
    site("greeter", code, more=manifest or text)
    assert words in findings("greeter")


# Specs ---------------------------------------------------------------------------------------------------------------


def read(**facts) -> PluginCheck:
    check = PluginCheck(Subject("demo", None))
    check.check_spec(ToolSpec("demo", **{"description": "Does.", **facts}))
    return check


def of(properties: dict, **more) -> dict:
    return {"type": "object", "properties": properties, **more}


def test_misspelt_keywords_and_defaults_that_do_not_fit_are_found() -> None:
    schema = of({"n": {"type": "integer", "description": "A count.", "minimum": 1, "default": 0}}, requierd=["n"])
    assert read(input_schema=schema, output_schema=of({}, propertis={})).warnings == [
        "tool 'demo': its input schema: (root): unknown keyword 'requierd'; did you mean 'required'?",
        "tool 'demo': its input schema: properties.n.default: doesn't fit its own schema: must be at least 1, got 0",
        "tool 'demo': its output schema: (root): unknown keyword 'propertis'; did you mean 'properties'?",
    ]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"description": " \n"}, ["has no description"]),
        ({"description": "", "kind": "provider", "provider_id": "demo.search"}, []),  # its provider describes it
        (
            {"annotations": ToolAnnotations(read_only_hint=True, destructive_hint=True)},
            ["both read-only and destructive"],
        ),
    ],
)
def test_descriptions_and_marks_are_checked(facts, words) -> None:
    assert [word in error for word, error in zip(words, read(**facts).errors, strict=True)] == [True] * len(words)


def test_parameters_without_a_description_are_one_warning() -> None:
    properties = {
        "a": {"type": "string"},
        "b": {"type": "string", "description": "Where."},
        "c": {"enum": ["x", "y"]},
        "d": {"const": None},
        "e": {"$ref": "#/$defs/e"},
        "f": {"$ref": "#/$defs/f"},
        "g": True,
    }
    schema = of(properties, **{"$defs": {"e": {"description": "An e."}, "f": {"type": "string"}}})
    findings = read(input_schema=schema)
    (warning,) = findings.warnings
    assert "no description for 'a', 'f';" in warning


# Declared examples of read-only tools, run on a watched loop ---------------------------------------------------------


def ran(*things: object, **more) -> PluginCheck:
    check = PluginCheck(Subject("demo", plugin_with(*things)))
    check.check_examples()
    return check


def reader(function, **options) -> Tool:
    options = {"read_only": True, "examples": [{}], "name": "demo", "description": "Does.", **options}
    return Tool.from_function(function, **options)


@pytest.mark.parametrize("facts", [{}, {"permission": "fetch", "requires_confirmation": True}])
def test_a_good_example_passes(facts) -> None:
    """Also one that would need approval."""
    findings = ran(reader(lambda: "fine", **facts))
    assert (findings.ran, findings.errors, findings.notes) == (1, [], [])


def test_examples_run_unless_disabled() -> None:
    called = []
    plugin = plugin_with(reader(lambda: called.append(1)))
    assert check_plugin(plugin, run_examples=False).ran == 0
    assert called == []
    assert check_plugin(plugin).ran == 1
    assert set(called) == {1}  # more often if the machine was busy: what blocks the loop is run again


def test_only_tools_marked_read_only_are_run() -> None:
    bare = Tool(ToolSpec("late", "Has no handler.", annotations=ToolAnnotations(read_only_hint=True)))
    findings = ran(bare, reader(lambda: 1 / 0, read_only=None), reader(lambda: "", examples=None, name="other"))
    assert findings.ran == 0
    marked, other = findings.notes
    assert ("isn't marked read-only" in marked, "declares no examples" in other) == (True, True)


def test_a_tool_error_of_an_example_is_noted() -> None:
    def fail() -> str:
        raise ToolError("there is no such city")

    findings = ran(reader(fail))
    assert findings.errors == []
    assert "there is no such city" in findings.notes[0]


def crash() -> str:
    raise ZeroDivisionError("division by zero")


def lie() -> int:
    return "three"


async def wait() -> str:
    await asyncio.Event().wait()
    return ""


def end() -> str:
    raise FatalToolError("over")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            crash,
            "demo failed: ZeroDivisionError. (ZeroDivisionError: division by zero)",
        ),
        (lie, "of kind invalid_output"),
        (wait, "of kind timeout"),
        (end, "it ends the turn: over"),
    ],
)
def test_examples_that_violate_the_contract_are_found(function, words) -> None:
    limit = {"timeout": 0.05} if function is wait else {}  # the others end, even on a slow machine
    found = "\n".join(ran(reader(function, **limit)).errors)
    assert "tool 'demo', example 1: " in found
    assert words in found


def test_an_async_tool_that_blocks_the_loop_is_found_with_its_place(monkeypatch) -> None:
    reported = threading.Event()

    class Reporting(Watchdog):
        def report_step(self, *facts) -> None:
            super().report_step(*facts)
            reported.set()

    async def block() -> str:
        assert reported.wait(60)
        reported.clear()
        return ""

    monkeypatch.setattr("pegboard.testing.check.Watchdog", Reporting)

    (finding,) = ran(reader(block)).errors
    assert "it blocks the event loop and all other calls, for " in finding
    assert "test_check.py:" in finding
    assert "in block" in finding


def test_a_sync_tool_may_block_its_thread() -> None:
    blocker = threading.Event()
    assert ran(reader(lambda: str(blocker.wait(0.4)))).errors == []


def test_blocking_only_at_the_first_calls_is_allowed() -> None:
    """They may import something, or the machine may be busy."""
    waits = iter([0.4, 0.4])
    blocker = threading.Event()

    async def warm_up() -> str:
        blocker.wait(next(waits, 0))
        return ""

    assert ran(reader(warm_up)).errors == []


def test_a_plugin_that_cant_be_registered_is_found() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no disk")

    check = PluginCheck(Subject("demo", Broken))
    check.check_examples()
    assert "can't be registered for its examples: OSError: no disk" in check.errors[0]


# What importing a plugin's module loads ------------------------------------------------------------------------------


def measured(module: str | None, **options) -> PluginCheck:
    check = PluginCheck(Subject("demo", None, module=module))
    check.check_budget(**options)
    return check


LIGHT = """
import json, attrs
from pegboard import tool

@attrs.define
class A:
    n: int

@tool
def f(a: A) -> A:
    'Does.'
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "options", "error"),
    [
        (LIGHT, {}, None),  # what pegboard itself loads isn't counted
        ("import jsonschema", {}, "loads 'jsonschema', which is heavy and delays all other tools: import it inside"),
        ("print('hello', end='')\nimport jsonschema", {}, "loads 'jsonschema'"),
        ("import jsonschema, wsgiref.util", {"heavy": ()}, None),
        ("import jsonschema, wsgiref.util", {"heavy": iter(["wsgiref"])}, "loads 'wsgiref'"),
        ("import wsgiref.util, wsgiref.headers", {"most_modules": 200}, None),
        ("import wsgiref.util, wsgiref.headers", {"most_modules": 2}, "modules, more than 2"),
    ],
)
def test_the_modules_that_an_import_loads_are_limited(site, code, options, error) -> None:
    findings = measured(site("measured", code), **options)
    assert findings.notes == []
    assert [error in each for each in findings.errors] == ([] if error is None else [True])


def test_an_import_that_cant_be_measured_is_noted(site, monkeypatch) -> None:
    (note,) = measured(site("ending", "import os; os._exit(3)")).notes
    assert "the process ended while it was imported" in note
    monkeypatch.setattr("pegboard.testing.check._IMPORT_SECONDS", 0.0)
    (note,) = measured(site("slow", "")).notes
    assert "it took longer than 0 s" in note


def test_nothing_is_imported_without_limits_or_module(monkeypatch) -> None:
    monkeypatch.setattr("pegboard.testing.check.subprocess", None)
    assert measured("json", heavy=()).notes == measured(None).notes == []


# A tool's check, with arguments that fit its schema and others -------------------------------------------------------


def checked(thing: object) -> PluginCheck:
    check = PluginCheck(Subject("demo", None))
    check.check_arguments(thing if isinstance(thing, Tool) else tool_of(thing))
    return check


def raw(properties: dict, **more) -> Tool:
    schema = {"type": "object", "properties": properties, **more}
    return Tool.from_schema("raw", schema, lambda arguments: None, description="Does.")


def test_a_tool_that_accepts_what_fits_its_schema_passes() -> None:
    @tool
    def add(a: int, b: Annotated[int, Ge(0)] = 0) -> int:
        """Adds."""
        raise AssertionError("never run")

    findings = checked(add)
    assert findings.errors == findings.warnings == findings.notes == []
    assert findings.tried > 15


def test_a_keyword_that_the_schemas_draft_lacks_is_found() -> None:
    """Draft 4 ignores "const"."""
    tool = raw({"unit": {"const": "C"}}, **{"$schema": "http://json-schema.org/draft-04/schema#"})
    (finding,) = checked(tool).errors
    assert "accepts what its input schema forbids: unit: " in finding
    assert "write the schema as JSON Schema 2020-12" in finding


EVEN = {"check": lambda arguments: ["n: must be odd"] if arguments["n"] % 2 == 0 else []}


@pytest.mark.parametrize(
    ("options", "errors", "warnings"),
    [
        ({**EVEN, "examples": [{"n": 1}, {"n": 2}]}, ["its own example 2 is refused (n: must be odd)"], ["odd"]),
        (EVEN, [], ["n: must be odd; put the rule into the schema"]),
        ({"check": lambda arguments: ["n: must be a prime above 100"]}, ["declare an example"], []),
        ({"check": lambda arguments: arguments["nosuch"]}, ["raised KeyError"], []),
    ],
)
def test_checks_of_the_author(options, errors, warnings) -> None:
    """Refusing some arguments that fit is a warning, refusing all an error, and so is an exception."""

    @tool(**options)
    def root(n: int) -> int:
        """Takes a number."""
        return n

    findings = checked(root)
    for words, found in ((errors, findings.errors), (warnings, findings.warnings)):
        assert bool(words) == bool(found)
        assert all(any(word in each for word in words) for each in found)


def test_a_type_that_refuses_what_fits_the_schema_is_a_warning() -> None:
    """By a validator that JSON Schema can't express."""

    def even(_instance, _attribute, value) -> None:
        if value % 2:
            raise ValueError("must be even")

    @attrs.define
    class Pair:
        n: int = attrs.field(validator=even)

    @tool
    def halve(pair: Pair, other: int = 0) -> int:
        """Halves."""
        return pair.n // 2

    findings = checked(halve)
    assert findings.errors == []
    assert "must be even" in findings.warnings[0]


def test_a_schema_that_nothing_fits_is_noted() -> None:
    (note,) = checked(raw({"a": False}, required=["a"])).notes
    assert "no arguments were found that fit its input schema" in note


def test_examples_are_mutated_if_no_sample_is_found() -> None:
    pattern = "^(?:a{2}|b)[^\\x00-\\x7f]$"
    spec = ToolSpec(
        "odd",
        "Takes odd text.",
        input_schema={"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]},
        examples=[{"a": "b\u00e9"}],
    )
    findings = checked(Tool(spec))
    assert findings.errors == []
    assert findings.tried > 5


def test_freeform_and_provider_tools_are_tried_by_their_schemas() -> None:
    free = Tool.freeform("free", lambda text: text, grammar=Grammar("regex", "a+"), description="Takes text.")
    assert checked(free).errors == []
    assert checked(Tool.provider("search", "demo.search")).errors == []


def test_long_arguments_are_truncated() -> None:
    @tool(check=lambda arguments: ["text: too long"] if len(arguments["text"]) > 500 else [])
    def echo(text: str) -> str:
        """Echoes."""
        return text

    (warning,) = checked(echo).warnings
    assert "aaa..." in warning
    assert len(warning) < 600


# Reports -------------------------------------------------------------------------------------------------------------


def test_a_report_is_printed_with_its_figures_warnings_and_notes() -> None:
    report = Report("demo", ("a",), 12, 1, ("no description for 'x'",), ("not run",))
    assert str(report).splitlines() == [
        "plugin 'demo' keeps the contract: 1 tool, 12 sets of arguments tried, 1 example run",
        "warning: no description for 'x'",
        "note: not run",
    ]


def test_findings_are_distinct_and_numbered() -> None:
    check = PluginCheck(Subject("demo", None))
    for text in ("one", "two\nlines", "one"):
        check.error(text)
    with pytest.raises(AssertionError) as caught:
        check.report()
    assert str(caught.value) == "plugin 'demo' breaks the contract (2 found):\n  1. one\n  2. two\n     lines"
