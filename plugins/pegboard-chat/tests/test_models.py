"""`registry models`: providers, their models, and the default."""

from __future__ import annotations

import json

import pytest

from json_page import faults
from pegboard_chat.plugin import Chat


class Lister:
    """A model whose client lists what the provider has."""

    provider = "lister"
    closed = 0

    def __init__(self, name):
        self.name = name

    async def respond(self, request):
        raise NotImplementedError

    async def models(self):
        return ["two", "one"]

    async def aclose(self):
        type(self).closed += 1


def test_providers_are_listed_with_packages_of_others(run, registry):
    code, out, err = run("models")
    assert code == 0
    assert "scripted/...     installed" in out
    assert "openai/...       pip install pegboard-openai" in out
    assert "no default is set" in err


def test_as_json(run, registry, monkeypatch):
    monkeypatch.setenv("PEGBOARD_MODEL", "scripted/small")
    data = json.loads(run("models", "--json")[1])
    assert data["default"] == "scripted/small"
    assert {"name": "scripted/...", "installed": True} in data["models"]
    assert faults("registry models --json", data) == []


@pytest.mark.parametrize(("line", "word"), [("registry chat -m scr", "scripted/"), ("registry models scr", "scripted")])
def test_providers_are_completed(run, registry, monkeypatch, line, word):
    monkeypatch.setenv("_REGISTRY_COMPLETE", "complete")
    monkeypatch.setenv("COMP_WORDS", line)
    assert run() == (0, f"plain,{word}\n", "")


def test_a_provider_is_queried_for_its_models_and_closed(run, registry):
    registry.add("models", "lister", Lister)
    code, out, err = run("models", "lister")
    assert (code, out, err) == (0, "lister/one\nlister/two\n", "")
    assert Lister.closed == 1


def test_a_provider_that_can_not_list_its_models(run, registry):
    code, _, err = run("models", "scripted")
    assert (code, "can't list its models" in err) == (2, True)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"modle": "x"}, ValueError, "plugins.chat.modle: unknown key"),
        ({"model": 3}, TypeError, "must be a string"),
    ],
)
def test_settings_are_checked(settings, error, text):
    with pytest.raises(error, match=text):
        Chat(settings)
