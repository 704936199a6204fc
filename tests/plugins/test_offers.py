"""Exporters and models are found by name: among what is registered, then in the installed plugin that offers them."""

from __future__ import annotations

import subprocess
import sys

import attrs
import pytest

from fake_vendors.rules.exporters import EXPORTERS
from pegboard import ToolRegistry, load
from pegboard.catalogue import LazyPlugin
from pegboard.errors import ExportError, ModelError, PluginError
from pegboard.plugins import load as load_module
from pegboard.request.exporter import Exporter
from pegboard.request.listing import MCP
from pegboard.testing import ScriptedModel


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
        assert registry.catalogue.extras["exporters"].keys() == {"openai"}
        assert "models" not in registry.catalogue.extras

    def test_a_bare_registry_gets_the_models_of_the_package_that_offers_them(self):
        assert ToolRegistry().model("openai/gpt-5", api_key="x").name == "gpt-5"

    def test_a_loaded_registry_loads_the_one_plugin_that_offers_the_name(self):
        registry = load()
        registry.exporter("anthropic")

        loaded = {plugin.name for plugin in registry.plugins() if plugin.status == "loaded"}
        assert "anthropic" in loaded
        assert not loaded & {"openai", "google", "bedrock", "ollama"}

    def test_every_name_is_known_without_an_import(self):
        assert set(EXPORTERS) - {"mcp"} <= set(ToolRegistry().known("exporters"))
        assert {"openai", "anthropic"} <= set(load().known("models"))

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
            ExportError, match=r"^No installed plugin provides 'anthropic': pip install pegboard-anthropic$"
        ):
            ToolRegistry().exporter("anthropic")

    def test_without_autoload_none_offers_anything(self, monkeypatch):
        monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
        assert ToolRegistry().known("exporters") == ()

    def test_of_two_plugins_that_offer_one_name_none_is_chosen(self, monkeypatch):
        (found,) = load_module._offers()["exporters", "anthropic"]
        twice = {("exporters", "anthropic"): [found, attrs.evolve(found, name="other", distribution="pegboard-other")]}
        monkeypatch.setattr(load_module, "_offers", lambda: twice)
        with pytest.raises(PluginError, match=r"pegboard-anthropic and pegboard-other offer .*PEGBOARD_BLOCK=other"):
            ToolRegistry().exporter("anthropic")

    def test_a_plugin_that_fails_is_named(self, monkeypatch):
        def broken(module, attribute):
            raise ImportError("no such thing")

        monkeypatch.setattr(load_module, "imported", broken)
        with pytest.raises(PluginError, match=r"anthropic.*no such thing"):
            ToolRegistry().exporter("anthropic")


class TestRegistered:
    def test_a_registered_exporter_stands_before_an_installed_one(self):
        registry, mine = ToolRegistry(), MCP()
        registry.add("exporters", "openai", mine)

        assert registry.exporter("openai") is mine

    @pytest.mark.parametrize("thing", [MCP, lambda: MCP()], ids=["class", "function"])  # noqa: PLW0108  a function
    def test_what_makes_an_exporter_may_be_registered(self, thing):
        registry = ToolRegistry()
        registry.add("exporters", "mine", thing)

        assert registry.exporter("mine").name == "mcp"

    @pytest.mark.parametrize("thing", [object(), dict, lambda: 5], ids=["object", "class", "function"])
    def test_what_is_none_is_refused(self, thing):
        registry = ToolRegistry()
        registry.add("exporters", "mine", thing)

        with pytest.raises(ExportError, match="what is registered is no exporter"):
            registry.exporter("mine")

    def test_an_unknown_exporter_is_refused_with_near_misses(self):
        with pytest.raises(ExportError, match="Did you mean 'gemini'") as caught:
            ToolRegistry().exporter("gemnii")

        assert all(name in str(caught.value) for name in EXPORTERS)

    def test_a_model_is_made_by_its_provider(self, registry):
        model = registry.model("scripted/small/v2", loads_deferred=True)
        assert (model.name, model.loads_deferred) == ("small/v2", True)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("scriptet/small", r"No installed plugin provides 'scriptet'\. Did you mean 'scripted'\? There are "),
            ("gpt-5", r"'gpt-5' must be PROVIDER/MODEL\. No installed plugin provides 'gpt-5'\."),
            ("scripted", r"scripted: 'scripted' names no model; write scripted/MODEL"),
            ("scripted/", r"names no model"),
        ],
    )
    def test_an_unknown_model_is_refused(self, registry, name, text):
        with pytest.raises(ModelError, match=text):
            registry.model(name)

    def test_a_package_to_install_is_named(self, registry, monkeypatch):
        monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
        with pytest.raises(ModelError, match=r"^No installed plugin provides 'openai': pip install pegboard-openai$"):
            registry.model("openai/gpt-5")

    def test_a_client_that_can_not_be_made_is_named(self, registry):
        with pytest.raises(ModelError, match=r"no client for 'scripted/x': TypeError: .*color"):
            registry.model("scripted/x", color="red")

    def test_what_a_provider_raises_itself_comes_through(self, registry):
        def refuse(model):
            raise ModelError("no key", provider="strict")

        registry.add("models", "strict", refuse)
        with pytest.raises(ModelError, match="strict: no key"):
            registry.model("strict/x")

    def test_what_is_no_model_is_refused(self, registry):
        registry.add("models", "odd", lambda model: 5)
        with pytest.raises(ModelError, match="odd: what it makes is no model, but 5"):
            registry.model("odd/x")


class TestListed:
    @pytest.fixture
    def listed(self):
        registry, loaded = ToolRegistry(), []

        def load():
            loaded.append("plugin")
            registry.add("exporters", "mine", MCP())
            registry.add("models", "mine", lambda model: ScriptedModel([], name=model))

        offered = frozenset({("exporters", "mine"), ("models", "mine")})
        registry.lazy_plugins.add("plugin", LazyPlugin(frozenset(["register_exporters"]), load, offered))
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
