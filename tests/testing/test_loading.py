"""Whether a plugin says the same each time, in each process, and in its manifest."""

from __future__ import annotations

import itertools

import pytest

from pegboard import hookimpl, tool
from pegboard.plugins.loaded import gather, imported, manifest_of
from pegboard.plugins.manifest import manifest_text
from pegboard.testing import check_plugin

GREETER = """
from pegboard import hookimpl, tool

@tool
def greet(who: str = "{who}") -> str:
    '''Greets.

    Args:
        who: Whom to greet.
    '''
    return f"hello {{who}}"

@hookimpl
def pegboard_register_tools(register, settings):
    {condition}
    register(greet)
"""


def greeter(who: str = "you", condition: str = "pass") -> str:
    return GREETER.format(who=who, condition=condition)


def manifest_for(site, name: str, code: str) -> str:
    """The text of the manifest that `registry manifest write` would write for this code."""
    module = site(name, code)
    return manifest_text([manifest_of(gather(name, imported(module, None), {}), f"dist-{name}", "1.0")])


def findings(plugin: object, **options) -> str:
    with pytest.raises(AssertionError) as caught:
        check_plugin(plugin, **options)
    return str(caught.value)


def test_a_plugin_that_depends_on_what_was_before_is_found() -> None:
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


def test_a_plugin_that_loads_once_only_is_found() -> None:
    once = iter([1])

    class Plugin:
        def __init__(self) -> None:
            next(once)

        @hookimpl
        def pegboard_register_tools(self, register) -> None: ...

    assert "it loads once only: a second registry in the same process gets StopIteration" in findings(Plugin)


def test_a_plugin_that_another_process_knows_otherwise_is_found(site) -> None:
    import_time = 'import os\nDESCRIPTION = f"Greets from {os.getpid()}."\n'
    site("greeter", import_time + greeter().replace("@tool", "@tool(description=DESCRIPTION)"))
    assert "another process is told something else: tool 'greet' has changed" in findings("greeter")


def test_a_plugin_that_needs_this_process_is_found(site, monkeypatch) -> None:
    module = site("greeter", "import sys\nif not hasattr(sys, 'prepared'): raise OSError('not here')\n" + greeter())
    monkeypatch.setattr("sys.prepared", True, raising=False)
    imported(module, None)
    assert "it doesn't load in a process of its own: OSError: not here" in findings("greeter", heavy=())


def test_a_true_manifest_passes(site, tmp_path) -> None:
    text = manifest_for(site, "early", greeter())
    site("greeter", greeter(), more=text.replace("early", "greeter"))
    assert check_plugin("greeter").tools == ("greet",)


def test_a_manifest_that_says_something_else_is_found(site) -> None:
    text = manifest_for(site, "early", greeter())
    site("greeter", greeter("world"), more=text.replace("early", "greeter"))
    assert "its manifest isn't what its code says: tool 'greet' has changed" in findings("greeter")


def test_names_that_a_manifest_leaves_out_are_found(site) -> None:
    text = manifest_for(site, "early", greeter())
    code = greeter() + "\n@hookimpl\ndef pegboard_before_tool(context): ...\n"
    site("greeter", code, more=text.replace("early", "greeter"))
    assert "its manifest isn't what its code says: its hooks differ" in findings("greeter")


def test_a_manifest_that_cant_be_read_is_found(site) -> None:
    site("greeter", greeter(), more="{}")
    assert "its manifest can't be held against its code" in findings("greeter")


def test_a_manifest_is_held_against_the_code_without_settings(site) -> None:
    condition = "if settings: register(tool(lambda: 'x', name='other', description='Does.'))"
    text = manifest_for(site, "early", greeter(condition=condition))
    site("greeter", greeter(condition=condition), more=text.replace("early", "greeter"))
    assert check_plugin("greeter", settings={"more": True}).tools == ("other", "greet")


def test_a_command_hook_that_raises_is_found() -> None:
    class Plugin:
        @hookimpl
        def pegboard_register_commands(self, group) -> None:
            raise ValueError("no command")

    assert "pegboard_register_commands raised ValueError: no command" in findings(Plugin())
