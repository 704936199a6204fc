"""What a plugin says by implementing a hook that is never called: that it guards calls."""

from __future__ import annotations

import pytest

import pegboard
from installed import GREETER, install, write
from pegboard import ToolRegistry, hookimpl, register_plugin, tool
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


@pytest.mark.parametrize("live", [False, True], ids=["listed", "live"])
@pytest.mark.parametrize("code", ["1 / 0", "raise SystemExit", GREETER[:-20]])
def test_no_call_runs_without_a_plugin_that_was_set_to_guard_them(guard, code, live) -> None:
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


def test_nothing_is_denied_where_it_was_never_set_up_or_is_blocked(guard) -> None:
    guard("1 / 0")
    assert not pegboard.load().call_sync("greet_other").is_error
    assert not pegboard.load(settings=SETTINGS, block=["guard"]).call_sync("greet_other").is_error
    assert not pegboard.load(settings={"other": {"a": 1}}).call_sync("greet_other").is_error


def test_one_that_fails_when_its_code_is_wanted_has_the_first_call_denied(guard, site) -> None:
    """What the cache knows is imported for the first call; by then it may be broken."""
    code = GREETER.format(name="own") + "\n@hookimpl\ndef pegboard_guards_calls():\n    pass\n"
    code += "\n@hookimpl\ndef pegboard_before_tool():\n    pass\n"
    guard(code)
    pegboard.load(settings=SETTINGS)
    registry = pegboard.load(settings=SETTINGS)
    assert "own" in [each.name for each in registry.tools()]
    write(site.folder / "guards_made_up.py", "1 / 0")
    assert registry.call_sync("greet_other").kind == "denied"


def test_one_that_is_held_back_from_both_that_bring_it_denies(guard) -> None:
    guard()
    guard(distribution="pushers")
    assert pegboard.load(settings=SETTINGS).call_sync("greet_other").kind == "denied"
    registry = pegboard.load(settings=SETTINGS, block=["pushers"])
    assert not registry.call_sync("greet_other").is_error


async def test_a_host_that_unloads_it_has_decided() -> None:
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
    assert await registry.unload("guard")
    assert (await registry.call("look")).text == "seen"
