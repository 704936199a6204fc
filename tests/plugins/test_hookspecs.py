"""The hook that marks a plugin without which no call runs."""

from __future__ import annotations

import pytest

import pegboard
from installed import GREETER, install, write
from pegboard import ToolRegistry, hookimpl, register_plugin, tool, unload_plugin
from pegboard.plugins.manifest import PluginManifest, manifest_text

SETTINGS = {"guard": {"limit": 1}}


@pytest.fixture
def guard(site, monkeypatch, tmp_path):
    """Installs a plugin that guards calls, by its manifest; each of its distributions has a module of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    site("other")

    def guard(code: str = "", distribution: str = "guards") -> None:
        module = f"{distribution}_made_up"
        write(site.folder / f"{module}.py", code)
        manifest = PluginManifest("guard", distribution, "1.0", hooks=("pegboard_guards_calls",))
        file = f"{module}.pegboard-manifest.json"
        write(site.folder / file, manifest_text([manifest]))
        entry = f"[pegboard]\nguard = {module}\n"
        install(site.folder, distribution, "1.0", entry, record=f"{module}.py,,\n{file},,\n")

    return guard


@pytest.mark.slow
@pytest.mark.parametrize("live", [False, True], ids=["listed", "live"])
@pytest.mark.parametrize("code", ["1 / 0", "raise SystemExit", GREETER[:-20]])
def test_no_call_runs_without_a_configured_guard(guard, code, live) -> None:
    guard(code)
    registry = pegboard.load(settings=SETTINGS, live=live)
    record = next(each for each in registry.plugins() if each.name == "guard")
    assert (record.status, record.cause.partition(": ")[0]) == (
        "quarantined",
        "no call runs, as it guards calls, has settings and isn't loaded",
    )
    assert [problem.cause for problem in registry.problems()] == [record.cause]
    for _ in range(2):
        result = registry.call_sync("greet_other")
        assert (result.kind, result.detail) == ("denied", f"plugin 'guard': {record.cause}")


def test_an_unconfigured_or_blocked_guard_denies_nothing(guard) -> None:
    guard("1 / 0")
    assert not pegboard.load().call_sync("greet_other").is_error
    assert not pegboard.load(settings=SETTINGS, block=["guard"]).call_sync("greet_other").is_error
    assert not pegboard.load(settings={"other": {"a": 1}}).call_sync("greet_other").is_error


def test_a_guard_that_fails_to_import_denies_the_first_call(guard, site) -> None:
    """A cached plugin is imported for the first call, and may be broken since."""
    code = GREETER.format(name="own") + "\n@hookimpl\ndef pegboard_guards_calls():\n    pass\n"
    code += "\n@hookimpl\ndef pegboard_before_tool():\n    pass\n"
    guard(code)
    pegboard.load(settings=SETTINGS)
    registry = pegboard.load(settings=SETTINGS)
    assert "own" in [each.name for each in registry.tools()]
    write(site.folder / "guards_made_up.py", "1 / 0")
    assert registry.call_sync("greet_other").kind == "denied"


def test_a_guard_held_back_by_a_name_conflict_denies_calls(guard) -> None:
    guard()
    guard(distribution="pushers")
    assert pegboard.load(settings=SETTINGS).call_sync("greet_other").kind == "denied"
    registry = pegboard.load(settings=SETTINGS, block=["pushers"])
    assert not registry.call_sync("greet_other").is_error


REFUSES = """
from pegboard import hookimpl

class Guard:
    def __init__(self, settings):
        if settings["limit"] == 2:
            import os; os._exit(3)
        raise ValueError(settings["limit"])

    @hookimpl
    def pegboard_guards_calls(self): ...

import sys
sys.modules[__name__] = Guard
"""


@pytest.mark.parametrize("live", [False, True], ids=["listed", "live"])
def test_a_guard_without_a_manifest_that_refuses_its_settings_denies_calls(site, live) -> None:
    """Also where the failure is cached."""
    site("guard", REFUSES)
    site("other")
    for _ in range(2):
        result = pegboard.load(settings=SETTINGS, live=live).call_sync("greet_other")
        assert (result.kind, "ValueError: 1" in result.detail) == ("denied", True)
    assert not pegboard.load(live=live).call_sync("greet_other").is_error
    if not live:  # nor one that ends the child process
        assert pegboard.load(settings={"guard": {"limit": 2}}).call_sync("greet_other").kind == "denied"


async def test_an_unloaded_guard_denies_nothing() -> None:
    class Guard:
        def __init__(self, settings):
            raise ValueError(settings["limit"])

        @hookimpl
        def pegboard_guards_calls(self) -> None: ...

    @tool
    def look() -> str:
        return "seen"

    registry = ToolRegistry()
    registry.register(look)
    register_plugin(registry, Guard, "guard", settings=SETTINGS["guard"])
    assert (await registry.call("look")).kind == "denied"
    assert await unload_plugin(registry, "guard")
    assert (await registry.call("look")).text == "seen"
