from __future__ import annotations

import tomllib
from pathlib import Path

import attrs
import pytest

from pegboard_guard import ComesAfter, ComesBefore, Cooldown, Exclusive, Journal, Limit, Required
from pegboard_guard.settings import GuardSettings


def read(text):
    """What a pegboard.toml hands to the plugin."""
    return GuardSettings.from_mapping(tomllib.loads(text).get("plugins", {}).get("guard", {}))


def test_the_defaults():
    settings = read("")
    assert (settings.doom_loop, settings.doom_loop_action, settings.log_arguments) == (3, "ask", False)
    assert (settings.limits, settings.order, settings.journal) == (None, None, None)


def test_everything_that_may_be_set(tmp_path):
    settings = read(f"""
        [plugins.guard]
        doom_loop = 5
        doom_loop_action = "deny"
        log_arguments = true

        [[plugins.guard.limits]]
        calls = 10

        [[plugins.guard.limits]]
        calls = 3
        tools = ["web_*", "mail"]
        per = "user"
        seconds = 60
        each = true

        [[plugins.guard.order.after]]
        tools = "deploy*"
        after = ["test", "build"]
        within = "turn"

        [[plugins.guard.order.before]]
        tools = "log_in"
        before = "mail"

        [[plugins.guard.order.exclusive]]
        tools = ["search_web", "search_docs"]
        within = "session"

        [[plugins.guard.order.cooldown]]
        tools = "mail"
        seconds = 30
        calls = 2

        [[plugins.guard.order.required]]
        tools = "summary"

        [plugins.guard.journal]
        file = "{tmp_path}/audit.jsonl"
        fsync = "never"
        starts = true
        arguments = true
        redact = "*pin*"
        redact_values = ['\\d{{16}}']
        rotate_bytes = 1000
        keep = 3
        wait_seconds = 1.5
    """)
    assert (settings.doom_loop, settings.doom_loop_action, settings.log_arguments) == (5, "deny", True)
    assert settings.limits.limits == (Limit(10), Limit(3, ("web_*", "mail"), "user", 60, each=True))
    assert settings.order.rules == (
        ComesAfter("deploy*", ["test", "build"], "turn"),
        ComesBefore("log_in", "mail"),
        Exclusive(["search_web", "search_docs"], "session"),
        Cooldown("mail", 30, 2),
        Required("summary"),
    )
    journal = settings.journal
    assert (journal.file, journal.fsync, journal.starts) == (tmp_path / "audit.jsonl", "never", True)
    assert (journal.arguments, journal.redact, journal.redact_values) == (True, ("*pin*",), (r"\d{16}",))
    assert (journal.rotate_bytes, journal.keep, journal.wait_seconds) == (1000, 3, 1.5)


def test_the_readme_lists_every_setting_as_it_may_be_set():
    readme = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
    table = tomllib.loads(readme.partition("```toml\n")[2].partition("```")[0])["plugins"]["guard"]
    GuardSettings.from_mapping(table)
    listed = {**table, "limits": table["limits"][0], **{key: each[0] for key, each in table["order"].items()}}
    for name, cls in {"limits": Limit, "journal": Journal, "after": ComesAfter, "before": ComesBefore,
                      "exclusive": Exclusive, "cooldown": Cooldown, "required": Required}.items():  # fmt: skip
        settable = {each.name for each in attrs.fields(cls) if each.init and each.metadata.get("setting", True)}
        assert settable - {"within"} <= set(listed[name]), name
    assert {each.name for each in attrs.fields(GuardSettings)} == set(table)


@pytest.mark.parametrize("value", [1, -1, 2.5, "3", True, None])
def test_a_doom_loop_is_0_or_a_whole_number_from_2_on(value):
    with pytest.raises(ValueError, match=f"0 \\(off\\) or a whole number from 2 on, got {value!r}"):
        GuardSettings.from_mapping({"doom_loop": value})


def test_log_arguments_is_a_boolean():
    with pytest.raises(TypeError, match="true or false, got 'yes'"):
        GuardSettings.from_mapping({"log_arguments": "yes"})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"doom_lop": 4},
            r"^there is no setting 'doom_lop'\. Did you mean 'doom_loop' or 'doom_loop_action'\? There are",
        ),
        ({"journal": {"file": "x", "fsink": 1}}, r"^journal: there is no setting 'fsink'\. Did you mean 'fsync'\?"),
        ({"journal": {"file": "x", "now": 1}}, r"^journal: there is no setting 'now'\."),
        ({"limits": [{"calls": 1}, {"cals": 1}]}, r"^limits\[1\]: there is no setting 'cals'\. Did you mean 'calls'\?"),
        ({"order": {"exclusiv": []}}, r"^order: there is no setting 'exclusiv'\. Did you mean 'exclusive'\?"),
        (
            {"order": {"after": [{"tool": "x"}]}},
            r"^order\.after\[0\]: there is no setting 'tool'\. Did you mean 'tools'\?",
        ),
    ],
)
def test_an_unknown_setting_is_refused_with_its_place_and_a_near_miss(settings, text):
    with pytest.raises(ValueError, match=text):
        GuardSettings.from_mapping(settings)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"journal": {}}, ValueError, "^journal: file is missing"),
        ({"limits": [{}]}, ValueError, r"^limits\[0\]: calls is missing"),
        ({"limits": [{"calls": 0}]}, ValueError, r"^limits\[0\]: calls must be from 1"),
        (
            {"limits": {"calls": 1}},
            TypeError,
            r"^limits: must be a list of tables \(\[\[plugins\.guard\.limits\]\]\), got",
        ),
        ({"limits": [3]}, TypeError, r"^limits\[0\]: must be a table, got 3"),
        ({"order": []}, TypeError, r"^order: must be a table, got \[\]"),
        (
            {"order": {"after": {}}},
            TypeError,
            r"^order\.after: must be a list of tables \(\[\[plugins\.guard\.order\.after",
        ),
        ({"order": {"cooldown": [{"tools": "x"}]}}, ValueError, r"^order\.cooldown\[0\]: a cooldown of x needs"),
        (
            {"order": {"after": [{"tools": "a", "after": "b"}, {"tools": "b", "after": "a"}]}},
            ValueError,
            "^order: the rules contradict each other.*a waits for b, b waits for a",
        ),
        ({"doom_loop_action": "warn"}, ValueError, "^doom_loop_action must be one of 'ask', 'deny', got 'warn'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(settings, error, text):
    with pytest.raises(error, match=text):
        GuardSettings.from_mapping(settings)
