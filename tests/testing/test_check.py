"""`check_plugin`: what keeps the contract passes, and everything that breaks it is found and named at once."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
from typing import Annotated

import pytest
from annotated_types import Ge, Le

from pegboard import Tool, ToolAnnotations, ToolSpec, hookimpl, tool
from pegboard.testing import Report, check_plugin

GREETER = """
from pegboard import hookimpl, tool

@tool(read_only=True, examples=[{"who": "Ada"}])
def greet(who: str = "you") -> str:
    '''Greets.

    Args:
        who: Whom to greet.
    '''
    return f"hello {who}"

@hookimpl
def pegboard_register_tools(register, settings):
    register(greet)
"""


def bringing(*things: object):
    """A plugin that brings tools."""

    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            for thing in things:
                register(thing)

    return Plugin()


def findings(plugin: object, **options) -> str:
    with pytest.raises(AssertionError) as caught:
        check_plugin(plugin, **options)
    return str(caught.value)


@tool(read_only=True)
def forecast(city: str, days: Annotated[int, Ge(1), Le(9)] = 1) -> str:
    """Says what the weather will be like.

    Args:
        city: Where.
        days: How far ahead.
    """
    return f"{city}: sun for {days}"


def test_a_good_plugin_passes_and_is_reported() -> None:
    report = check_plugin(bringing(forecast))
    assert report.tools == ("forecast",)
    assert report.tried > 10
    assert report.ran == 0
    assert report.warnings == ()
    assert ["declares no examples" in note for note in report.notes] == [True]


def test_the_same_plugin_gives_the_same_report() -> None:
    """Nothing is left to chance."""
    assert check_plugin(bringing(forecast)) == check_plugin(bringing(forecast))


def test_a_plugin_is_checked_by_its_installed_name(site) -> None:
    site("greeter", GREETER)
    report = check_plugin("greeter", run_examples=True)
    assert report == Report("greeter", ("greet",), tried=report.tried, ran=1)


def test_a_module_that_is_installed_is_called_by_its_entry_point(site) -> None:
    module = __import__(site("greeter", GREETER))
    assert check_plugin(module).plugin == "greeter"


@pytest.mark.parametrize("name", ["files", "guard"])
def test_the_first_party_plugins_keep_the_contract(name) -> None:
    assert check_plugin(name, run_examples=True).warnings == ()


def test_a_class_is_made_with_its_settings() -> None:
    class Plugin:
        def __init__(self, settings) -> None:
            self.prefix = settings["prefix"]

        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(forecast)

    assert check_plugin(Plugin, settings={"prefix": "x"}).plugin == "Plugin"
    assert "it doesn't load: KeyError" in findings(Plugin)


def test_an_unknown_name_is_told_with_near_misses() -> None:
    text = findings("fils")
    assert "no installed distribution has an entry point 'fils'" in text
    assert "'files'" in text


def test_a_plugin_that_cant_be_imported_is_told_with_its_cause(site) -> None:
    site("broken", "raise SystemExit('no licence')")
    assert "it can't be imported: SystemExit: no licence" in findings("broken")


def test_everything_is_collected_before_it_fails() -> None:
    """The author reads all of it at once, numbered."""
    silent = Tool(ToolSpec("silent"))
    torn = Tool(ToolSpec("torn", "Does.", annotations=ToolAnnotations(read_only_hint=True, destructive_hint=True)))
    text = findings(bringing(silent, torn))
    assert "plugin 'Plugin' breaks the contract (2 found):\n  1. tool 'silent' has no description" in text
    assert "\n  2. tool 'torn' is marked both read-only and destructive" in text


def test_a_tool_that_cant_judge_is_found_and_costs_the_others_nothing() -> None:
    broken = Tool(ToolSpec("broken", "Does.", input_schema={"type": "object", "properties": {"a": {"type": "what"}}}))
    lying = Tool(ToolSpec("lying", "Does.", output_schema={"type": "array"}))
    text = findings(bringing(broken, lying, forecast))
    assert "(2 found)" in text
    assert "tool 'lying': output_schema is refused" in text
    assert "tool 'broken': input_schema is refused" in text


def test_what_was_refused_is_a_finding() -> None:
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


def test_a_plugin_that_brings_nothing_is_told_how() -> None:
    class Plugin:
        def pegboard_register_tools(self, register) -> None:
            register(forecast)

    assert "mark a function pegboard_register_tools(register) with @hookimpl" in findings(Plugin())


def test_wrong_hook_arguments_are_found() -> None:
    class Plugin:
        @hookimpl
        def pegboard_register_tools(self, registry) -> None: ...

    assert "it doesn't load: PluginValidationError" in findings(Plugin())


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


def test_a_module_made_on_the_spot_is_checked_without_its_import() -> None:
    module = types.ModuleType("made_up")
    module.pegboard_register_tools = hookimpl(lambda register: register(forecast), specname="pegboard_register_tools")
    notes = check_plugin(module).notes
    assert any("its import couldn't be measured" in note for note in notes)


def test_testing_aids_need_no_test_runner() -> None:
    script = "import sys, pegboard.testing; print([name for name in ('pytest', 'hypothesis') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == []
