"""`load`: a registry with the installed plugins."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import zipfile
from importlib.machinery import PathFinder

import pytest
from importlib_metadata import Distribution, DistributionFinder

import pegboard
from fake_vendors.rules.exporters import EXPORTERS
from installed import GREETER, install, write
from pegboard import Exporter, Once, PluginRecord, ToolRegistry, load
from pegboard.approval import MemoryGrants
from pegboard.config import Config
from pegboard.errors import ConfigError, ExportError, ModelError, PluginError
from pegboard.plugins import discovery, load as load_module
from pegboard.plugins.manifest import read_manifest
from pegboard.plugins.names import accept
from pegboard.testing import ScriptedModel, discover
from pegboard_clients.listing import MCP

GUARDED = """
from pegboard import hookimpl
import pathlib

@hookimpl
def pegboard_before_tool(tool):
    from pegboard import Deny
    return Deny("guarded")
"""


def statuses(registry) -> dict[str, str]:
    """Each plugin's status by name."""
    return {plugin.name: plugin.status for plugin in registry.plugins()}


def test_listing_imports_no_plugin_and_the_first_call_only_the_owner(site) -> None:
    """By manifests."""
    site("one")
    site("two")
    site.write_manifests()
    registry = pegboard.load()
    assert [tool.name for tool in registry.tools()] == ["greet_one", "greet_two"]
    assert statuses(registry) == {"one": "listed", "two": "listed"}
    assert asyncio.run(registry.resolve(where="read_only")).names == ("greet_one", "greet_two")
    assert "one_made_up" not in sys.modules
    assert registry.call_sync("greet_one").text == "hello you"
    assert "one_made_up" in sys.modules
    assert "two_made_up" not in sys.modules
    assert statuses(registry) == {"one": "loaded", "two": "listed"}


def test_a_host_passes_its_store_of_grants_and_its_limits():
    grants, limits = MemoryGrants(), pegboard.Limits(timeout=5)
    registry = pegboard.load(grants=grants, limits=limits)
    assert registry.grants is grants
    assert registry.limits is limits


def test_a_first_load_is_cached(site, monkeypatch) -> None:
    """The second time no child process is started, until the cache is refreshed."""
    site("one")
    loads: list[str] = []

    def progress(number: int, of: int, name: str) -> None:
        loads.append(f"{number} of {of}: {name}")

    pegboard.load(progress=progress)
    assert loads == ["0 of 1: one"]
    assert [tool.name for tool in pegboard.load(progress=progress).tools()] == ["greet_one"]
    assert len(loads) == 1
    pegboard.load(progress=progress, refresh=True)
    assert len(loads) == 2


def test_a_plugin_that_fails_is_quarantined_and_the_rest_works(site) -> None:
    """In a first load, and with every plugin imported now."""
    site("bad", "1 / 0")
    site("good")
    for registry in (pegboard.load(), pegboard.load(live=True)):
        assert statuses(registry)["bad"] == "quarantined"
        assert [(problem.plugin, problem.cause) for problem in registry.problems()] == [
            ("bad", "ZeroDivisionError: division by zero")
        ]
        assert registry.call_sync("greet_good", {"who": "me"}).text == "hello me"


LEAKS = """
from pegboard import hookimpl

class Loud:
    def __init__(self, settings):
        self.key = settings["api_key"]
        if settings.get("at_once"):
            raise ValueError("x" * 490 + self.key)

    @hookimpl
    def pegboard_register_tools(self, register):
        raise KeyError(self.key)

    @hookimpl
    def pegboard_register_toolsets(self, register):
        register(self.key)

    @hookimpl
    def pegboard_register_models(self, register):
        register("fake", print)

    @hookimpl
    def pegboard_register_commands(self, group):
        raise ValueError(self.key)
"""


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("key", ["sk-envkey-zzzz", "sk-envkey\nzzzz"])
def test_secrets_of_settings_are_neither_reported_nor_cached(site, tmp_path, monkeypatch, key: str, at_once) -> None:
    """Neither truncated nor as shown by `repr`."""
    site("loud", LEAKS + "\nimport sys\nsys.modules[__name__] = Loud")
    monkeypatch.setenv("LOUD_KEY", key)
    settings = {"loud": {"api_key": {"env": "LOUD_KEY"}, "at_once": at_once}}
    for live in (False, True):
        registry = pegboard.load(settings=settings, live=live)
        reported = repr((registry.problems(), registry.plugins()))
        assert at_once or "(hid" in reported
        assert "sk-" not in reported
    cached = [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert cached
    assert not any(b"sk-" in data for data in cached)


@pytest.mark.slow
def test_a_missing_secret_is_used_once_it_exists(site, monkeypatch) -> None:
    site("one")
    settings = {"one": {"key": {"env": "LATE_KEY"}}}
    monkeypatch.delenv("LATE_KEY", raising=False)
    for _ in range(2):
        assert "the environment has no LATE_KEY" in pegboard.load(settings=settings).problems()[0].cause
    monkeypatch.setenv("LATE_KEY", "here")
    assert pegboard.load(settings=settings).problems() == ()


@pytest.mark.slow
def test_a_failed_load_is_cached_for_an_hour(site, monkeypatch) -> None:
    """So that a plugin that hangs doesn't delay every listing; a refresh or an installation tries again."""
    site("bad", "1 / 0")
    loads: list[str] = []

    def load(**options) -> str:
        registry = pegboard.load(progress=lambda number, of, name: loads.append(name), **options)
        return registry.plugins()[0].cause

    assert load() == "ZeroDivisionError: division by zero"
    assert load() == "ZeroDivisionError: division by zero (cached up to 1 h; retry with --refresh)"
    assert loads == ["bad"]
    load(refresh=True)
    assert loads == ["bad", "bad"]
    site("another")
    load()
    assert loads[2:] == ["another", "bad"]
    monkeypatch.setattr("time.time", lambda real=time.time: real() + 3601)
    load()
    assert loads[4:] == ["bad"]


def test_a_failure_of_missing_code_is_cached(site) -> None:
    """Also without a RECORD."""
    install(site.folder, "nowhere", "1.0", "[pegboard]\nnowhere = surely_not_there\n", record=None)
    loads: list[str] = []
    for _ in range(2):
        registry = pegboard.load(progress=lambda number, of, name: loads.append(name))
        assert statuses(registry) == {"nowhere": "quarantined"}
    assert loads == ["nowhere"]


def test_first_loads_share_a_time_limit_and_the_rest_is_loaded_next_time(site, monkeypatch) -> None:
    site("one")
    with monkeypatch.context() as patch:
        patch.setattr(load_module, "FIRST_LOADS_SECONDS", -1.0)
        registry = pegboard.load()
    assert [(plugin.status, plugin.cause) for plugin in registry.plugins()] == [
        ("quarantined", "isn't loaded yet: first loads took over 60 s; the next command continues")
    ]
    assert pegboard.load().call_sync("greet_one").text == "hello you"


def test_plugins_are_blocked_and_disabled_by_name(site, monkeypatch) -> None:
    """By argument, by environment, by configuration; none at all with autoload off."""
    for name in "abcd":
        site(name)
    monkeypatch.setenv("PEGBOARD_BLOCK", "a, nosuch")
    registry = pegboard.load(block=["b"], config=Config(block=("c",), enable=("a", "b", "c")))
    assert statuses(registry) == {"a": "blocked", "b": "blocked", "c": "blocked", "d": "disabled"}
    assert registry.tools() == ()
    assert pegboard.load(autoload=False).plugins() == ()
    monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
    assert pegboard.load().plugins() == ()
    monkeypatch.setenv("PEGBOARD_AUTOLOAD", "no")
    with pytest.raises(ConfigError, match="PEGBOARD_AUTOLOAD: 'no' is neither 0 nor 1"):
        pegboard.load()


@pytest.mark.slow
def test_run_time_hooks_are_imported_before_any_call(site) -> None:
    """A guard guards from the first call on, even if it was only listed."""
    site("one")
    site("guard", GUARDED)
    registry = pegboard.load()
    assert statuses(registry) == {"guard": "listed", "one": "listed"}
    result = registry.call_sync("greet_one")
    assert (result.kind, statuses(registry)["guard"]) == ("denied", "loaded")


def test_a_tool_that_has_changed_since_it_was_listed_is_refused(site) -> None:
    """It is reported with what to do; the plugin's other tools work."""
    code = """
from pegboard import hookimpl, tool

@tool
def same() -> str:
    '''The same.'''
    return "same"

@tool
def other() -> str:
    '''{words}'''
    return "other"

@hookimpl
def pegboard_register_tools(register):
    register(same)
    register(other)
"""
    site("one", code.format(words="As it was."))
    site.write_manifests()
    (site.folder / "one_made_up.py").write_text(code.format(words="Does something else now."))
    registry = pegboard.load()
    result = registry.call_sync("other")
    assert (result.kind, "has changed since it was listed" in result.text) == ("tool_failure", True)
    assert "registry list --refresh" in result.detail
    assert registry.call_sync("same").text == "same"
    assert statuses(registry) == {"one": "partial"}
    assert any("its listing differs: tool 'other' has changed" in problem.cause for problem in registry.problems())


@pytest.mark.slow
def test_a_wrong_cache_entry_is_deleted(site) -> None:
    """A plugin whose code has changed is refused once, and listed again by the next registry."""
    code = """
from pegboard import Tool, hookimpl

@hookimpl
def pegboard_register_tools(register):
    import pathlib
    words = pathlib.Path(__file__).with_name("words").read_text()
    register(Tool.from_function(lambda: words, name="say", description=words))
"""
    site("one", code)
    words = site.folder / "words"
    words.write_text("first")
    pegboard.load()
    words.write_text("second")
    assert pegboard.load().call_sync("say").kind == "tool_failure"
    assert pegboard.load().call_sync("say").text == "second"


def test_a_plugin_that_fails_when_it_is_called_answers_with_an_error(site) -> None:
    """The model is told that it can't be run, the operator why."""
    site("one")
    site.write_manifests()
    (site.folder / "one_made_up.py").write_text("import nosuch_module")
    registry = pegboard.load()
    result = registry.call_sync("greet_one")
    assert result.text == "greet_one was not run: its plugin failed to load."
    assert "nosuch_module" in result.detail
    assert statuses(registry) == {"one": "quarantined"}


def test_a_manifest_of_another_version_is_void(site) -> None:
    """It is reported, and the plugin is loaded to see what it brings."""
    site("one")
    site.write_manifests()
    (metadata,) = site.folder.glob("dist_one-*.dist-info/METADATA")
    metadata.write_text(metadata.read_text().replace("1.0", "2.0"))
    registry = pegboard.load()
    assert [tool.name for tool in registry.tools()] == ["greet_one"]
    assert "void" in registry.problems()[0].cause


def test_hidden_characters_in_a_manifest_are_escaped_as_in_the_code(site) -> None:
    site("one", GREETER.replace("Greet", "Greet\\u202e").format(name="greet_one"))
    site.write_manifests()
    (path,) = site.folder.glob("*.pegboard-manifest.json")
    written = json.loads(path.read_text())
    (plugin,) = written["plugins"].values()
    plugin["tools"][0]["description"] = plugin["tools"][0]["description"].replace("\\u{202e}", "\u202e")
    plugin["tools"].append(
        {**plugin["tools"][0], "name": "other", "inputSchema": {"type": "object", "enum": ["\u200b"]}}
    )
    path.write_text(json.dumps(written))
    registry = pegboard.load()
    assert [(tool.name, "Greet\\u{202e}" in tool.spec.description) for tool in registry.tools()] == [
        ("greet_one", True)
    ]
    assert "tool 'other': enum: '\\u{200b}' contains hidden characters" in [each.cause for each in registry.problems()]
    assert registry.call_sync("greet_one").text == "hello you"


def test_the_manifest_of_a_plugin_with_settings_is_ignored(site) -> None:
    """What a plugin brings may depend on them, so it is loaded."""
    code = """
from pegboard import Tool, hookimpl

@hookimpl
def pegboard_register_tools(register, settings):
    register(Tool.from_function(lambda: 1, name=settings.get("as", "plain"), read_only=True))
"""
    site("one", code)
    site.write_manifests()
    assert read_manifest(discovery.discover().entries[0]) is not None
    registry = pegboard.load(settings={"one": {"as": "named"}})
    assert [tool.name for tool in registry.tools()] == ["named"]
    assert registry.call_sync("named").text == "1"


@pytest.mark.slow
def test_predicates_of_configuration_and_caller_are_joined(site) -> None:
    """Both have to take a tool."""
    site("one")
    site("two")
    registry = pegboard.load(config=Config(where="name:greet_*"), where="not plugin:two")
    assert asyncio.run(registry.resolve()).names == ("greet_one",)
    only = pegboard.load(where="plugin:two")
    assert asyncio.run(only.resolve()).names == ("greet_two",)


TOOLSET = """
from pegboard import Once, Tool, ToolsetFunction, hookimpl

greet = Tool.from_function(lambda: "hello", name="greet_live", read_only=True)

@hookimpl
def pegboard_register_toolsets(register):
    register(ToolsetFunction("live", lambda: [greet], publishes=()))

@hookimpl
def pegboard_approve_call():
    return Once()
"""


def test_the_toolsets_of_a_plugin_are_no_change_of_the_tools_when_it_is_imported(site) -> None:
    site("one", TOOLSET)
    site.write_manifests()
    registry, changes = pegboard.load(), []
    registry.contributions.on_change(lambda: changes.append(1))
    assert asyncio.run(registry.resolve()).names == ("greet_live",)
    assert statuses(registry) == {"one": "loaded"}
    assert changes == []


@pytest.mark.slow
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("named", ["one", "Dist_One"])
def test_tools_of_an_untrusted_plugin_need_approval_and_their_hints_dont_count(site, named, live) -> None:
    site("one", GREETER.format(name="greet_one") + TOOLSET)
    site("two")
    registry = pegboard.load(config=Config(untrusted=(named,)), live=live)
    published = [tool.origin.trusted for of in registry.contributions.catalogue.published.values() for tool in of.tools]
    assert published == ([] if live else [False])
    assert asyncio.run(registry.resolve(where="read_only")).names == ("greet_two",)
    for name in ("greet_one", "greet_live"):
        assert registry.call_sync(name).kind == "denied"  # its own hook that approves calls isn't asked
        registry.approver = lambda request, context: Once()
        assert registry.call_sync(name).text.startswith("hello")
        registry.approver = None
    assert registry.call_sync("greet_two").text == "hello you"


@pytest.mark.parametrize("word", ["", "async "])
def test_rejections_of_an_untrusted_plugin_count(site, word) -> None:
    """A project may withdraw trust, but not disable a plugin's rejections."""
    decides = "Reject('no') if 'ann' in request.arguments_text else Once()"
    site(
        "gate",
        f"from pegboard import *\n\n@hookimpl\n{word}def pegboard_approve_call(request):\n    return {decides}\n",
    )
    registry = pegboard.load(config=Config(untrusted=("gate",)))
    asks = pegboard.tool(lambda who: "hello", name="asks", destructive=True)
    registry.register(asks)
    assert registry.call_sync("asks", {"who": "bob"}).kind == "denied"  # its approval doesn't count
    registry.approver = lambda request, context: Once()
    assert [registry.call_sync("asks", {"who": who}).kind for who in ("ann", "bob")] == ["rejected", None]


def test_rename_prefix_and_conflicts_follow_the_configuration(site) -> None:
    """The names are those of the configuration, before and after the plugin is imported."""
    site("one")
    config = Config(prefix={"one": "p_"}, rename={"p_greet_one": "hi"})
    registry = pegboard.load(config=config)
    assert [tool.name for tool in registry.tools()] == ["hi"]
    assert registry.call_sync("hi").text == "hello you"
    assert [tool.name for tool in registry.tools()] == ["hi"]
    assert registry.problems() == ()


def test_threads_may_call_while_plugins_are_imported(site) -> None:
    """Each plugin is imported once, and each call gets its result."""
    from concurrent.futures import ThreadPoolExecutor

    site("one")
    site("two")
    registry = pegboard.load()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(registry.call_sync, ["greet_one", "greet_two"] * 8))
    assert {result.text for result in results} == {"hello you"}


# Zip files and import finders -------------------------------------------------------------------------------------


def test_a_plugin_in_a_zip_file_is_loaded_in_a_child_process_and_cached(site, monkeypatch) -> None:
    """Until the file changes."""
    file = site.folder / "bundle.zip"
    with zipfile.ZipFile(file, "w") as bundle:
        bundle.writestr("zip_made_up.py", GREETER.format(name="greet_zip"))
        bundle.writestr("in_zip-1.0.dist-info/METADATA", "Name: in-zip\nVersion: 1.0\n")
        bundle.writestr("in_zip-1.0.dist-info/entry_points.txt", "[pegboard]\nzip = zip_made_up\n")
    monkeypatch.syspath_prepend(str(file))
    found = discover([str(file)])
    progress: list[str] = []
    for _ in range(2):
        registry = pegboard.load(discovery=found, progress=lambda _number, _of, name: progress.append(name))
        assert statuses(registry) == {"zip": "listed"}
        assert registry.call_sync("greet_zip").text == "hello you"
        del sys.modules["zip_made_up"]
    assert progress == ["zip"]


def test_a_plugin_of_an_import_finder_is_loaded_in_this_process(site, monkeypatch, tmp_path) -> None:
    """A child process doesn't have the finder."""
    hidden = tmp_path / "hidden"
    install(hidden, "dist-hid", "1.0", "[pegboard]\nhid = hid_made_up\n")
    write(hidden / "hid_made_up.py", GREETER.format(name="greet_hid"))

    class Finder(DistributionFinder):
        def find_spec(self, name, path=None, target=None):
            return PathFinder.find_spec(name, [str(hidden)]) if name == "hid_made_up" else None

        def find_distributions(self, context=None):
            return Distribution.discover(path=[str(hidden)]) if str(site.folder) in context.path else ()

    site("one")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    registry = pegboard.load()
    assert statuses(registry) == {"hid": "loaded", "one": "listed"}
    assert registry.call_sync("greet_hid").text == "hello you"
    assert registry.get("greet_hid").origin.distribution == "dist-hid"
    del sys.modules["hid_made_up"]


# Exporters and models are found by name: among what is registered, then in the installed plugin that offers them -----


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.add("models", "scripted", lambda model, **options: ScriptedModel([], name=model, **options))
    return made


class TestInstalled:
    @pytest.mark.parametrize("name", sorted(EXPORTERS))
    def test_a_bare_registry_gets_the_exporter_of_the_package_that_offers_it(self, name):
        exporter = ToolRegistry().exporter(name)

        assert isinstance(exporter, Exporter)
        assert exporter.name == name
        assert ToolRegistry().exporter(name) is exporter

    def test_it_gets_nothing_else_that_the_package_brings(self):
        registry = ToolRegistry()
        registry.exporter("openai")

        assert registry.plugins() == ()
        assert registry.contributions.catalogue.extras["exporters"].keys() == {"openai"}
        assert "models" not in registry.contributions.catalogue.extras

    def test_a_bare_registry_gets_the_models_of_the_package_that_offers_them(self):
        assert ToolRegistry().model("openai/gpt-5", api_key="x").name == "gpt-5"

    def test_a_loaded_registry_loads_the_one_plugin_that_offers_the_name(self):
        registry = load()
        registry.exporter("anthropic")

        loaded = {plugin.name for plugin in registry.plugins() if plugin.status == "loaded"}
        assert "anthropic" in loaded
        assert not loaded & {"openai", "google", "bedrock", "ollama"}

    def test_every_name_is_known_without_an_import(self):
        assert set(EXPORTERS) - {"mcp"} <= set(ToolRegistry().contributions.names("exporters"))
        assert {"openai", "anthropic"} <= set(load().contributions.names("models"))

    @pytest.mark.slow
    def test_no_sdk_and_no_other_wire_is_imported(self):
        code = (
            "import sys; from pegboard import ToolRegistry; ToolRegistry().exporter('anthropic'); "
            "print(*sorted({name.split('.')[0] for name in sys.modules}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

        roots = set(done.stdout.split())
        assert "pegboard_anthropic" in roots
        assert not roots & {"anthropic", "openai", "google", "boto3", "ollama", "httpx"}
        assert not roots & {"pegboard_openai", "pegboard_google", "pegboard_bedrock", "pegboard_ollama"}

    def test_a_blocked_plugin_offers_nothing(self, monkeypatch):
        monkeypatch.setenv("PEGBOARD_BLOCK", "anthropic")
        with pytest.raises(
            ExportError, match=r"^no installed plugin provides 'anthropic': pip install pegboard-anthropic$"
        ):
            ToolRegistry().exporter("anthropic")

    def test_without_autoload_none_offers_anything(self, monkeypatch):
        monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
        assert ToolRegistry().contributions.names("exporters") == ()

    @pytest.mark.slow
    def test_of_two_plugins_that_offer_one_name_the_accepted_one_is_chosen(self, monkeypatch, tmp_path, site):
        """Otherwise none, and none in place of one that is left out."""
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        for name in ("one", "two"):
            site(name, BREAKS)
        site.write_manifests()
        monkeypatch.setattr(load_module, "_load_installed", load_module._load_installed.__wrapped__)
        with pytest.raises(
            PluginError, match=r"plugin 'one' .*'broken' is held back: dist-two brings one, too; .*block ="
        ):
            ToolRegistry().exporter("broken")
        accept({"exporters": {"broken": "dist-two"}})
        assert type(ToolRegistry().exporter("broken")) is MCP
        install(site.folder, "dist-two", "0")
        with pytest.raises(PluginError, match="'broken' is held back: dist-two has the name, and not dist-one"):
            ToolRegistry().exporter("broken")

    def test_a_plugin_that_fails_is_named(self, monkeypatch):
        def broken(found):
            raise ImportError("no such thing")

        monkeypatch.setattr("pegboard.plugins.discovery.FoundPlugin.load", broken)
        monkeypatch.setattr(load_module, "_load_installed", load_module._load_installed.__wrapped__)
        with pytest.raises(PluginError, match=r"anthropic.*no such thing"):
            ToolRegistry().exporter("anthropic")


BREAKS = """
import os
from pegboard import hookimpl

if "BREAK" in os.environ:
    raise ImportError("no such thing")

@hookimpl
def pegboard_register_exporters(register):
    from pegboard_clients.listing import MCP
    register("broken", MCP())

@hookimpl
def pegboard_register_models(register):
    register("broken", print)

@hookimpl
def pegboard_register_executors(register):
    register("broken", print)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("has_manifest", "options"),
    [
        (False, {}),  # the cache has what it offers
        *((True, each) for each in ({}, {"live": True}, {"refresh": True}, {"settings": {"broken": {"a": 1}}})),
    ],
    ids=repr,
)
def test_names_offered_by_a_failing_plugin_raise_its_cause(site, monkeypatch, has_manifest, options):
    """Not as if it were unknown, also the second time, however the plugin was listed."""
    site("broken", BREAKS)
    if has_manifest:
        site.write_manifests()
    load()
    monkeypatch.setenv("BREAK", "1")
    sys.modules.pop("broken_made_up", None)
    registry = load(**options)
    for ask in (registry.exporter, registry.exporter, registry.model):
        with pytest.raises(PluginError, match=r"plugin 'broken' \(from dist-broken\): ImportError: no such thing"):
            ask("broken")


def refused(why: str):
    raise ModelError(why, provider="strict")


class TestRegistered:
    def test_a_registered_exporter_stands_before_an_installed_one(self):
        registry, mine = ToolRegistry(), MCP()
        registry.add("exporters", "openai", mine)

        assert registry.exporter("openai") is mine

    @pytest.mark.parametrize("thing", [MCP, lambda: MCP(), object(), dict, lambda: 5])  # noqa: PLW0108  a function
    def test_what_makes_an_exporter_may_be_registered_and_nothing_else(self, thing):
        registry = ToolRegistry()
        registry.add("exporters", "mine", thing)
        if callable(thing) and isinstance(thing(), MCP):
            assert registry.exporter("mine").name == "mcp"
            return
        with pytest.raises(ExportError, match="an exporter must be registered under this name"):
            registry.exporter("mine")

    def test_an_unknown_exporter_is_refused_with_near_misses(self):
        with pytest.raises(ExportError, match="Did you mean 'gemini'") as caught:
            ToolRegistry().exporter("gemnii")

        assert all(name in str(caught.value) for name in EXPORTERS)

    def test_a_near_miss_that_is_not_installed_has_its_package(self, monkeypatch):
        monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
        with pytest.raises(ExportError) as caught:
            ToolRegistry().exporter("antropic")

        assert str(caught.value) == (
            "no installed plugin provides 'antropic'. Did you mean 'anthropic'? (pip install pegboard-anthropic) "
            "No exporters are known"
        )
        with pytest.raises(ModelError, match=r"^no installed plugin provides 'x'\. No providers of models are known$"):
            ToolRegistry().model("x/y")
        with pytest.raises(ModelError, match=r"^no installed plugin provides 'openai': pip install pegboard-openai$"):
            ToolRegistry().model("openai/gpt-5")

    def test_a_model_is_made_by_its_provider(self, registry):
        model = registry.model("scripted/small/v2", loads_deferred=True)
        assert (model.name, model.loads_deferred) == ("small/v2", True)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("scriptet/small", r"provides 'scriptet'\. Did you mean 'scripted'\? Known providers of models: "),
            ("gemini/small", r"'gemini'\. Did you mean 'google'\?"),
            ("gpt-5", r"'gpt-5' must be PROVIDER/MODEL; no installed plugin provides 'gpt-5'\."),
            ("scripted", r"scripted: 'scripted' names no model; write scripted/MODEL"),
            ("scripted/", r"names no model"),
        ],
    )
    def test_an_unknown_model_is_refused(self, registry, name, text):
        with pytest.raises(ModelError, match=text):
            registry.model(name)

    @pytest.mark.parametrize(
        ("make", "why"),
        [
            (lambda model: ScriptedModel([], name=model), r"no client for 'odd/x': TypeError: .*color"),
            (lambda model, **_: refused("no key"), "^odd/x: no key$"),  # what it raises itself, in the user's words
            (lambda model, **_: 5, "odd: its factory must return a model, got 5"),
        ],
    )
    def test_a_client_that_can_not_be_made_is_named(self, registry, make, why):
        registry.add("models", "odd", make)
        with pytest.raises(ModelError, match=why):
            registry.model("odd/x", color="red")


class TestListed:
    @pytest.fixture
    def listed(self):
        registry, loaded = ToolRegistry(), []

        def load():
            loaded.append("plugin")
            registry.add("exporters", "mine", MCP())
            registry.add("models", "mine", lambda model: ScriptedModel([], name=model))
            registry.contributions.change(lambda catalogue: catalogue.evolve(plugins={}))

        offered = frozenset({("exporters", "mine"), ("models", "mine")})
        plugin = PluginRecord("plugin", hooks=("pegboard_register_exporters",), offers=offered, load=load)
        registry.contributions.change(lambda catalogue: catalogue.evolve(plugins={"plugin": plugin}))
        return registry, loaded

    def test_the_plugin_that_offers_a_name_is_loaded_once(self, listed):
        registry, loaded = listed
        assert registry.exporter("mine") is registry.exporter("mine")
        assert registry.model("mine/x").name == "x"
        assert loaded == ["plugin"]

    @pytest.mark.parametrize("name", ["mcp", "openai"])
    def test_it_is_not_loaded_for_another_name(self, listed, name):
        registry, loaded = listed
        registry.exporter(name)
        assert loaded == []
