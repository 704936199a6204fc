"""Name conflicts between distributions: the accepted one gets the name, and load order never decides."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from types import SimpleNamespace

import pytest

import pegboard
from installed import GREETER, install, write
from pegboard import ModelRequest, Origin, ToolRegistry, hookimpl, tool
from pegboard.config import Config
from pegboard.errors import PluginError, RegistrationError
from pegboard.plugins.names import accept, load_accepted_names
from pegboard.testing import PluginManager

BRINGS = {
    "tools": GREETER.format(name="same"),
    "models": """
from pegboard import hookimpl
from pegboard.testing import ScriptedModel

@hookimpl
def pegboard_register_models(register):
    register("same", lambda model, **options: ScriptedModel(["from {name}"], name=model))
""",
    "exporters": """
from pegboard import hookimpl
from pegboard_clients.listing import MCP

class Own(MCP):
    pass

@hookimpl
def pegboard_register_exporters(register):
    register("same", Own())
""",
    "toolsets": """
from pegboard import Tool, ToolSpec, hookimpl

class Live:
    name = "same"

    async def tools(self, context):
        return [Tool(ToolSpec("{name}_live"))]

@hookimpl
def pegboard_register_toolsets(register):
    register(Live())
""",
}


@pytest.fixture
def both(site):
    """Installs the same thing twice, as plugins `first` (of `dist-first`) and `second`."""

    def both(kind: str) -> None:
        for name in ("first", "second"):
            site(name, BRINGS[kind].replace("{name}", name).replace("hello", f"{name} says"))

    return both


def causes(registry, kind: str) -> dict[str, str]:
    beginning = f"{kind[:-1]} 'same' is held back: "
    found = (problem for problem in registry.problems() if problem.cause.startswith(beginning))
    return {problem.plugin: problem.cause.removeprefix(beginning) for problem in found}


LOADING = pytest.mark.parametrize("live", [False, True], ids=["listed", "live"])


@LOADING
def test_a_tool_of_two_distributions_is_held_back_from_both(both, live) -> None:
    both("tools")
    registry = pegboard.load(live=live)
    assert registry.tools() == ()
    assert causes(registry, "tools") == {
        "first": 'dist-second brings one, too; in pegboard.toml, block = ["dist-second"] resolves it, or [prefix] '
        '"first" = "first_", or registry plugins accept DISTRIBUTION',
        "second": 'dist-first brings one, too; in pegboard.toml, block = ["dist-first"] resolves it, or [prefix] '
        '"second" = "second_", or registry plugins accept DISTRIBUTION',
    }


@LOADING
@pytest.mark.parametrize("name", ["first", "second"])
def test_a_tool_goes_to_the_accepted_distribution(both, name, live) -> None:
    both("tools")
    accept({"tools": {"same": f"dist-{name}"}})
    registry = pegboard.load(live=live)
    assert registry.call_sync("same").text == f"{name} says you"
    assert list(causes(registry, "tools")) == [{"first": "second", "second": "first"}[name]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        Config(block=("second",)),
        Config(block=("Dist_Second",)),
        Config(enable=("dist-first",)),
        Config(prefix={"second": "s_"}),
        Config(rename={"second:same": "other"}),
        Config(conflicts="keep"),
    ],
)
def test_the_configuration_resolves_a_conflict(both, config) -> None:
    both("tools")
    assert pegboard.load(config=config).call_sync("same").text == "first says you"


@LOADING
def test_the_hosts_own_tool_wins_over_both(both, live) -> None:
    both("tools")
    registry = pegboard.load(live=live)

    @tool
    def same() -> str:
        """Mine."""
        return "mine"

    registry.register(same)
    assert registry.call_sync("same").text == "mine"


@pytest.mark.slow
@LOADING
@pytest.mark.parametrize(
    ("kind", "find", "found"),
    [
        ("models", lambda each: asyncio.run(each.model("same/x").respond(ModelRequest("Hi"))).text, "from second"),
        ("exporters", lambda each: type(each.exporter("same")).__module__, "second_made_up"),
    ],
)
def test_a_model_with_its_keys_or_an_exporter_goes_to_the_accepted_distribution_only(
    both, live, kind, find, found
) -> None:
    both(kind)
    with pytest.raises(PluginError, match=f"{kind[:-1]} 'same' is held back: dist-second brings one, too"):
        find(pegboard.load(live=live))
    accept({kind: {"same": "dist-second"}})
    assert find(pegboard.load(live=live)) == found


@LOADING
def test_a_toolset_goes_to_the_accepted_distribution_only(both, live) -> None:
    both("toolsets")
    registry = pegboard.load(live=live)
    assert asyncio.run(registry.resolve()).names == ()
    assert set(causes(registry, "toolsets")) == {"first", "second"}
    accept({"toolsets": {"same": "dist-first"}})
    assert asyncio.run(pegboard.load(live=live).resolve()).names == ("first_live",)


LIVE = """
from pegboard import Tool, ToolSpec, hookimpl

class Live:
    name = "{name}_set"

    async def tools(self, context):
        return [Tool(ToolSpec("same", "Of {name}.")), Tool(ToolSpec("{name}_own"))]

@hookimpl
def pegboard_register_toolsets(register):
    register(Live())
"""


@pytest.mark.slow
def test_tools_of_two_distributions_toolsets_are_held_back_from_both_and_from_a_third(site) -> None:
    for name in "abc":
        site(name, LIVE.replace("{name}", name))
    resolved = asyncio.run(pegboard.load().resolve())
    assert resolved.names == ("a_own", "b_own", "c_own")
    assert sum("tool 'same' is held back" in str(problem) for problem in resolved.problems) == 3


@pytest.mark.slow
def test_no_toolset_gets_the_name_of_a_tool_that_is_held_back_from_several(both, site) -> None:
    both("tools")
    site("third", LIVE.replace("{name}", "third"))
    resolved = asyncio.run(pegboard.load().resolve())
    assert resolved.names == ("third_own",)
    assert "several plugins bring one" in str(resolved.problems[0])
    assert pegboard.load(config=Config(block=("first",))).call_sync("same").text == "second says you"


# Names of plugins -----------------------------------------------------------------------------------------------------


@pytest.fixture
def twins(site):
    """Two distributions whose plugin is called `same`; a third whose own name is `same`."""
    for name, plugin in (("one", "same"), ("two", "same"), ("same", "other")):
        write(site.folder / f"{name}_module.py", GREETER.format(name=f"by_{name}"))
        install(site.folder, name, "1.0", f"[pegboard]\n{plugin} = {name}_module\n", record=f"{name}_module.py,,\n")
    yield
    for name in ("one", "two", "same"):
        sys.modules.pop(f"{name}_module", None)


@LOADING
def test_plugins_of_one_name_are_held_back_and_so_is_a_distribution_called_like_them(twins, live) -> None:
    registry = pegboard.load(live=live)
    assert registry.tools() == ()
    assert {plugin.name: plugin.status for plugin in registry.plugins()} == {"same": "disabled", "other": "disabled"}
    assert len(causes(registry, "plugins")) == 2


@pytest.mark.slow
def test_no_other_plugin_gets_the_names_of_tools_of_one_that_is_held_back(site) -> None:
    site("first")
    pegboard.load()  # now its tools are cached
    write(site.folder / "second.py", "")
    install(site.folder, "second", "1.0", "[pegboard]\nfirst = second\n", record="second.py,,\n")
    site("third", GREETER.format(name="greet_first"))
    assert pegboard.load().tools() == pegboard.load(refresh=True).tools() == ()


@LOADING
@pytest.mark.parametrize("settling", ["accepted", "enable", "block"])
def test_the_accepted_plugin_has_the_name_and_its_settings(twins, live, settling) -> None:
    settings = {"same": {"of": "the name"}, "Two": {"of": "the distribution"}}
    config = Config(plugins=settings, enable=("two",) if settling == "enable" else None)
    if settling == "block":  # "SAME" is the distribution, in another case
        config = Config(plugins=settings, block=("one", "SAME"))
    elif settling == "accepted":
        accept({"plugins": {"same": "two"}})
    registry = pegboard.load(config=config, live=live)
    assert [each.name for each in registry.tools()] == ["by_two"]
    assert registry.contributions.manager.settings["same"] == {"of": "the distribution"}


@pytest.mark.slow
def test_plugin_in_a_predicate_takes_a_distributions_name(site) -> None:
    site("one")
    site("two")
    assert asyncio.run(pegboard.load().resolve(where="plugin:dist-one")).names == ("greet_one",)


@LOADING
def test_reserved_tool_names_are_refused(site, live) -> None:
    site("one", GREETER.format(name="pegboard_request_confirmation"))
    registry = pegboard.load(live=live)
    assert registry.tools() == ()
    assert "don't begin with 'pegboard_'" in registry.problems()[0].cause
    site("two")
    config = Config(rename={"two:greet_two": "pegboard_x"})
    assert [each.name for each in pegboard.load(config=config, live=live).tools()] == ["greet_two"]
    with pytest.raises(RegistrationError, match="don't begin with"):
        pegboard.ToolRegistry().register(tool(lambda: "", name="pegboard_y", description="Mine."))


# What was accepted ----------------------------------------------------------------------------------------------------


def test_accepted_names_are_private_and_a_broken_file_has_none(site, tmp_path, monkeypatch) -> None:
    accept({"tools": {"a": "dist"}})
    file = tmp_path / "state" / "pegboard" / "accepted.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_accepted_names() == {"tools": {"a": "dist"}}
    for content in ("", "[]", "{}", '{"format":1}', '{"format":1,"environments":{"x":3}}', "[" * 99_999):
        file.write_text(content)
        assert load_accepted_names() == {}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "prefix", str(tmp_path / "gone"))
        accept({"tools": {"a": "dist"}})
    accept({"tools": {"b": "dist"}})
    assert list(json.loads(file.read_text())["environments"]) == [sys.prefix]  # one that is gone is forgotten
    file.chmod(0o644)
    assert load_accepted_names() == {}


@LOADING
@pytest.mark.parametrize("fails", [False, True])
def test_no_other_gets_the_names_of_a_distribution_that_is_left_out(both, site, live, fails) -> None:
    """Otherwise a package could cause it to be left out, or to fail, and take its place."""
    both("tools")
    accept({"tools": {"same": "dist-first"}, "plugins": {"first": "dist-first"}})
    if fails:
        write(site.folder / "first_made_up.py", "1 / 0")
    else:
        install(site.folder, "dist-first", "0")
    registry = pegboard.load(live=live)
    assert registry.tools() == ()
    assert causes(registry, "tools")["second"].startswith("dist-first has the name, and not dist-second")


@pytest.mark.parametrize("brings", [False, True])
def test_a_name_is_held_back_from_the_plugin_that_brings_it_or_from_none_that_is_known(site, brings) -> None:
    """A name that was accepted for a distribution whose plugin fails may be accepted for none since."""
    manager = PluginManager(ToolRegistry())
    same = tool(name="same", description="Is the same.")(lambda: "same")
    bringing = SimpleNamespace(pegboard_register_tools=hookimpl(lambda register: register(same)))
    accept({"tools": {"same": "dist-first"}})
    fails = type("Fails", (), {"__init__": lambda self: 1 / 0})
    assert manager.register(fails, Origin("fails", "dist-first")).status == "quarantined"
    accept({})
    for name in ("first", "second") if brings else ("second",):
        manager.register(bringing, Origin(name, f"dist-{name}"))
    told = causes(manager.registry, "tools")
    assert set(told) == {"first" if brings else None, "second"}
    assert ("[prefix]" in told["first"]) if brings else ("[prefix]" not in told[None])


@pytest.mark.slow
def test_loading_accepts_no_names(both, tmp_path) -> None:
    """Only the command does."""
    both("tools")
    pegboard.load()
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
@pytest.mark.parametrize("conflicts", [None, "keep"])
@LOADING
def test_an_untrusted_project_cant_release_a_name(both, conflicts, live) -> None:
    both("tools")
    accept({"tools": {"same": "dist-second"}})
    pegboard.load()  # now their tools are cached
    registry = pegboard.load(config=Config(project_block=("second",), conflicts=conflicts), live=live)
    assert set(causes(registry, "tools")) == (set() if conflicts else {"first"})


@LOADING
async def test_both_tools_of_one_name_are_offered_once_a_transform_renames_one(both, live) -> None:
    both("tools")
    registry = await asyncio.to_thread(pegboard.load, live=live)
    rename = lambda tools: tools.renamed({"same": "other"}) if tools.name == "second" else tools  # noqa: E731
    with registry.add("transforms", "apart", rename):
        assert (await registry.resolve()).names == ("other", "same")
        texts = [(await registry.call(name, {"who": "Ann"})).text for name in ("same", "other")]
        assert texts == ["first says Ann", "second says Ann"]
    assert (await registry.resolve()).names == ()
