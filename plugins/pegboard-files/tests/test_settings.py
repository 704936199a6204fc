"""`[plugins.files]`: what it may say, and how a mistake is told."""

from __future__ import annotations

import math
import re

import pytest

from pegboard_files.settings import Settings, settings_from


def test_no_settings_are_the_defaults():
    assert settings_from({}) == Settings(root=None, hidden=False, no_ignore=False, time_limit=30.0)


def test_every_setting_can_be_set():
    table = {"root": "~/work", "hidden": True, "no_ignore": True, "time_limit": 5}
    assert settings_from(table) == Settings(root="~/work", hidden=True, no_ignore=True, time_limit=5)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"rooot": "x"}, "plugins.files.rooot: there is no such setting. Did you mean 'root'?"),
        ({"x": 1}, "plugins.files.x: there is no such setting. Known are root, hidden, no_ignore, time_limit."),
        ({"root": 1}, "plugins.files.root: 1 is not the path of a folder."),
        ({"root": ""}, "plugins.files.root: '' is not the path of a folder."),
        ({"root": "a\0b"}, "plugins.files.root: 'a\\x00b' is not the path of a folder."),
        ({"hidden": "yes"}, "plugins.files.hidden: 'yes' is not true or false."),
        ({"no_ignore": 1}, "plugins.files.no_ignore: 1 is not true or false."),
        ({"time_limit": 0}, "plugins.files.time_limit: 0 is not a number of seconds above 0."),
        ({"time_limit": True}, "plugins.files.time_limit: True is not a number of seconds above 0."),
        ({"time_limit": math.nan}, "plugins.files.time_limit: nan is not a number of seconds above 0."),
        ({"time_limit": math.inf}, "plugins.files.time_limit: inf is not a number of seconds above 0."),
    ],
)
def test_a_mistake_is_told_with_its_key_and_value(table, told):
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        settings_from(table)
