"""The settings, and the environment of commands."""

from __future__ import annotations

import pytest

from pegboard.schema.converter import read_table
from pegboard_shell.settings import Settings, environment_of, shell_of


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("root", ""),
        ("root", 1),
        ("shell", "bash"),
        ("time_limit", 0),
        ("time_limit", True),
        ("longest", float("inf")),
        ("grace", -1),
        ("output_limit", 1),
        ("output_limit", True),
        ("inherit", "PATH"),
        ("inherit", [""]),
        ("environment", ["A"]),
        ("environment", {"A=B": "c"}),
        ("environment", {"A": 1}),
        ("environment", {"A": "\0"}),
        ("sandbox", "all"),
        ("sandbox", ["none"]),
        ("network", "yes"),
        ("sessions", 0),
    ],
)
def test_an_invalid_setting_is_refused(key, value):
    with pytest.raises(ValueError, match=rf"plugins\.shell\.{key}: must be .*, got "):
        read_table(Settings, {key: value}, "plugins.shell")


def test_an_unknown_setting_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="Did you mean 'network'"):
        read_table(Settings, {"netwrk": True}, "plugins.shell")
    with pytest.raises(ValueError, match="There are root, "):
        read_table(Settings, {"zzz": True}, "plugins.shell")


def test_valid_settings():
    given = {"inherit": ["A*"], "environment": {"B": ""}, "grace": 0, "sandbox": "read-only"}
    read = read_table(Settings, given, "plugins.shell")
    assert read == Settings(inherit=("A*",), environment={"B": ""}, grace=0, sandbox="read-only")


def test_only_named_variables_are_inherited():
    host = {"PATH": "/bin", "LC_TIME": "C", "API_KEY": "secret", "LD_PRELOAD": "x", "lc_all": "x"}
    got = environment_of(Settings(), host)
    assert (got["PATH"], got["LC_TIME"], got["PAGER"]) == ("/bin", "C", "cat")
    assert not got.keys() & {"API_KEY", "LD_PRELOAD", "lc_all"}
    assert "API_KEY" in environment_of(Settings(inherit=("*",)), host)
    assert environment_of(Settings(inherit=(), environment={"PAGER": "less"}), host)["PAGER"] == "less"


@pytest.mark.parametrize("path", [".", "", ":", "bin:sbin", None])
def test_a_path_without_an_absolute_folder_is_the_default(path):
    host = {} if path is None else {"PATH": path}
    assert environment_of(Settings(), host)["PATH"].startswith("/usr/local/bin:")
    assert environment_of(Settings(), {"PATH": f"{path or ''}:/opt/x::."})["PATH"] == "/opt/x"


def test_the_shell_is_the_configured_one_or_one_of_the_system():
    assert shell_of(Settings(shell="/opt/sh")) == "/opt/sh"
    assert shell_of(Settings()).endswith("sh")
