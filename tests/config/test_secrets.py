"""Keys that settings refer to: found in the environment or the keyring, and shown nowhere."""

from __future__ import annotations

import json
import stat
import sys

import pytest

from installed import own_keyring
from pegboard import ConfigError, ToolRegistry, hookimpl, register_plugin, tool
from pegboard.config.secrets import key_names, remove_key, set_key, with_secrets, without_secrets
from pegboard.errors import HIDDEN


@pytest.fixture
def keyring(tmp_path, monkeypatch):
    """A keyring of the test's own: (service, name) -> key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return own_keyring(monkeypatch)


def test_references_are_filled_in_wherever_they_stand(keyring, monkeypatch) -> None:
    monkeypatch.setenv("MY_KEY", "from env")
    keyring["pegboard", "mine"] = "from keyring"
    settings = {
        "a": {"env": "MY_KEY"},
        "deep": {"list": [{"keyring": "mine"}, 3], "b": {"env": "MY_KEY", "more": 1}, "c": {"env": 3}},
    }
    missing: list[str] = []
    assert with_secrets(settings, missing, []) == {
        "a": "from env",
        "deep": {"list": ["from keyring", 3], "b": {"env": "MY_KEY", "more": 1}, "c": {"env": 3}},
    }
    assert missing == []


def test_what_isnt_there_is_left_out_and_named(keyring, monkeypatch) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    missing: list[str] = []
    settings = {"a": {"env": "NO_KEY"}, "b": {"c": [{"keyring": "none"}]}, "d": 1}
    assert with_secrets(settings, missing, []) == {"b": {"c": []}, "d": 1}
    assert missing == [
        "setting 'a' is left out: the environment has no NO_KEY",
        "setting 'b.c[0]' is left out: run 'registry keys set none'",
    ]


def test_a_keyring_that_fails_costs_the_setting_only(keyring, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["keyring"], "get_password", lambda *_: 1 / 0)
    missing: list[str] = []
    assert with_secrets({"a": {"keyring": "x"}}, missing, []) == {}
    assert "the keyring can't be asked for 'x': ZeroDivisionError" in missing[0]


def test_without_the_package_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    missing: list[str] = []
    assert with_secrets({"a": {"keyring": "x"}}, missing, []) == {}
    assert "pip install 'pegboard[keyring]'" in missing[0]
    with pytest.raises(ConfigError, match="pip install"):
        set_key("x", "y")


def test_a_plugin_gets_the_secret_and_a_missing_one_is_its_problem(monkeypatch) -> None:
    class Plugin:
        def __init__(self, settings) -> None:
            self.settings = settings

        @hookimpl
        def pegboard_register_tools(self, register) -> None:
            register(tool(lambda: str(dict(self.settings)), name="told", description="Its settings."))

    monkeypatch.setenv("MY_KEY", "from env")
    monkeypatch.delenv("NO_KEY", raising=False)
    registry = ToolRegistry()
    settings = {"a": {"env": "MY_KEY"}, "b": {"env": "NO_KEY"}}
    record = register_plugin(registry, Plugin, "mine", settings=settings)
    assert registry.call_sync("told").text == "{'a': 'from env'}"
    assert (record.status, record.cause) == ("partial", "setting 'b' is left out: the environment has no NO_KEY")


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"api_key": "abc"}, {"api_key": HIDDEN}),
        ({"API-Token": 5, "passwd": ["x", "y"]}, {"API-Token": HIDDEN, "passwd": [HIDDEN, HIDDEN]}),
        ({"auth": {"user": "me", "on": True}}, {"auth": {"user": HIDDEN, "on": True}}),
        ({"list": ["sk-abc123", "skills"], "x": "Bearer eyJabcdefg"}, {"list": [HIDDEN, "skills"], "x": HIDDEN}),
        ({"url": "https://me:pw@example.org/"}, {"url": HIDDEN}),
        *(({name: "x"}, {name: HIDDEN}) for name in ("passphrase", "db_pass", "smtpPass", "passcode", "webhook")),
        *(
            ({"run": [text]}, {"run": [HIDDEN]})
            for text in (
                "passphrase=x",
                "Authorization: Bearer x",
                "curl -u me:pw h",
                "mysql -pX",
                "a?sig=x",
                "--token=x",
            )
        ),
        ({"run": ["--password", "x", "y"], "auth": ["x"]}, {"run": ["--password", HIDDEN, "y"], "auth": [HIDDEN]}),
        ({"text": "a token of thanks", "mode": "passive"}, {"text": "a token of thanks", "mode": "passive"}),
        ({"value": "0123456789abcdef0123456789abcdef"}, {"value": HIDDEN}),
        ({"api_key": {"env": "MY_KEY"}, "b": {"keyring": "x"}}, {"api_key": {"env": "MY_KEY"}, "b": {"keyring": "x"}}),
        ({"max_tokens": 100}, {"max_tokens": 100}),
        ({"root": "~/work", "n": 3, "on": False, "none": None}, {"root": "~/work", "n": 3, "on": False, "none": None}),
        ({"base_url": "http://127.0.0.1:8000/v1"}, {"base_url": "http://127.0.0.1:8000/v1"}),
    ],
)
def test_what_is_shown_hides_keys_by_their_name_and_their_look(settings, shown) -> None:
    assert without_secrets(settings) == shown


def test_keys_are_known_by_name_only(keyring, tmp_path) -> None:
    set_key("b", "secret")
    set_key("a", "secret")
    assert key_names() == ["a", "b"]
    file = tmp_path / "state" / "pegboard" / "keys.json"
    assert json.loads(file.read_text()) == {"format": 1, "names": ["a", "b"]}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [remove_key("a"), remove_key("a")] == [True, False]
    assert (key_names(), keyring) == (["b"], {("pegboard", "b"): "secret"})
