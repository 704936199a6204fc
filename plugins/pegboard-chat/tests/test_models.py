"""`registry models`: providers, their models, and the default."""

from __future__ import annotations

import json

import pytest

from installed import own_keyring
from json_page import faults
from pegboard.errors import ModelError
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


class Keyed(Lister):
    """A model that needs a key."""

    def __init__(self, name, api_key=None):
        super().__init__(name)
        if api_key != "stored":
            text = "there is no API key: set the environment variable DEMO_API_KEY, or pass api_key=..."
            raise ModelError(text, provider="demo-api", code="missing_api_key")

    async def models(self):
        raise ModelError("it is down", provider="demo-api")


def test_a_missing_key_is_explained_in_the_commands_words_and_may_be_stored(run, stdin, registry, monkeypatch):
    own_keyring(monkeypatch)
    registry.add("models", "keyed", Keyed)
    for argv, name in ((("models", "keyed"), "keyed"), (("chat", "-m", "keyed/x", "hi"), "keyed/x")):
        text = "there is no API key: set the environment variable DEMO_API_KEY, or run: registry keys set DEMO_API_KEY"
        assert run(*argv)[2] == f"error: {name}: {text}\n"
    stdin(b"stored")
    run("keys", "set", "DEMO_API_KEY")
    assert run("models", "keyed") == (1, "", "error: keyed: it is down\n")


def test_a_refused_key_can_be_replaced(run, registry):
    class Refused(Lister):
        async def models(self):
            raise ModelError("invalid key", provider="demo-api", status=401)

    registry.add("models", "refused", Refused)
    text = "invalid key (if the API key is wrong, store another with 'registry keys set')"
    assert run("models", "refused") == (1, "", f"error: refused: {text}\n")
