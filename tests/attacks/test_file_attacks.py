"""Attacks on files of rules and settings, and by the files of a project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from installed import GREETER, install, write
from pegboard import load_config, read_permissions
from pegboard.errors import ConfigError

ANOTHER = 12345


def linked(path):
    path.rename(target := path.parent.parent / "elsewhere.toml")
    path.symlink_to(target)
    return path


def through_an_open_folder(path):
    (shared := path.parent.with_name("shared")).mkdir()
    shared.chmod(0o777)
    (shared / path.name).symlink_to(path)
    return shared / ".." / path.parent.name / ".." / "shared" / path.name


def anothers(path, monkeypatch):
    """Makes `stat` report another owner of a path."""

    def patched(name):
        def facts(at, *args, **named):
            found = getattr(real, name)(at, *args, **named)
            return os.stat_result([*found[:4], ANOTHER, *found[5:10]]) if str(at) == str(path) else found

        return facts

    real = SimpleNamespace(stat=os.stat, lstat=os.lstat)
    monkeypatch.setattr(os, "stat", patched("stat"))
    monkeypatch.setattr(os, "lstat", patched("lstat"))


SHARED = {
    "writable by all": lambda path, _: path.chmod(0o666),
    "of another user": anothers,
    "in a folder that all can write": lambda path, _: path.parent.chmod(0o777),
    "in a folder of another user": lambda path, patch: anothers(path.parent, patch),
    "below a folder that all can write": lambda path, _: path.parent.parent.chmod(0o777),
    "a link in a folder that all can write": lambda path, _: linked(path).parent.chmod(0o777),
    "a link to what all can write": lambda path, _: linked(path).resolve().chmod(0o666),
    "through a folder that all can write": lambda path, _: through_an_open_folder(path),
    "another's pipe": lambda path, patch: (path.unlink(), os.mkfifo(path), anothers(path, patch)),
    "another's link in a folder that all can fill": lambda path, patch: (
        linked(path).parent.chmod(0o1777),
        anothers(path, patch),
    ),
}


@pytest.mark.parametrize("share", SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("read", [read_permissions, lambda path: load_config(user=False, explicit=path)])
def test_rules_and_settings_that_others_can_replace_are_refused(tmp_path, monkeypatch, share, read):
    (folder := tmp_path / "folder").mkdir(mode=0o700)
    (path := folder / "file.toml").write_text("")
    path.chmod(0o600)
    read(path)
    folder.chmod(0o1777)  # like /tmp, where users can't replace each other's files
    read(path)
    folder.chmod(0o700)
    shared = share(path, monkeypatch)
    with pytest.raises(ConfigError, match="other users can write it, or replace it"):
        read(shared if isinstance(shared, Path) else path)


# -- A project ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        'rename = {wipe = "tidy"}',
        '[prefix]\nfiles = "x_"',
        *('enable = ["evil"]', "enable = []", "autoload = false", 'mode = "bypass"', "trust = true"),
        *('include = ["other.toml"]', 'extends = "/etc/passwd"', 'rules = "r.toml"', '[permissions]\nallow = ["*"]'),
        *('["plugins"."shell"]\nsandbox = "none"', '\ufeff[plugins.shell]\nsandbox = "none"'),
        *('[plugins.pegboard-shell]\nsandbox = "none"', "[plugins.guard]\ndoom_loop = 0"),
        *('[rename]\nshell = "whoami"', '[rename]\n"shell:shell" = "ls"', '[tool.pegboard]\nenable = ["files"]'),
        '[[plugins.hooks.before]]\ncommand = ["sh"]\nmay_allow = true',
        '[plugins.a]\nb = 1\n[plugins.a]\nsandbox = "none"',
        *('block = ["!guard"]', 'block = ["guard"]', 'block = ["Pegboard_Guard"]', 'block = ["*"]', "untrusted = []"),
        'conflicts = "replace"',
        'unblock = ["guard"]',
        'block = "guard"',
        "autoload = true",
        '[selections]\nread_file = "*"',
        '[plugins.commands]\nfolders = ["/evil"]',
        "plugins.guard.doom_loop = 0",
        '[plugins.mcp.servers.evil]\ncommand = "evil"',
        '[[plugins]]\nname = "guard"',
        "[Plugins.guard]\ndoom_loop = 0",
        'where = "read_only) or (destructive"',
        'where = "((("',
        'where = "read_only\\n) or (destructive"',
        'where = "\'x) or (destructive"',
        'where = ["destructive"]',
        "where = 1",
        'where = ""',
        "a = " + "[" * 5000 + "]" * 5000,
        'block = ["' + "a" * 300_000 + '"]',
        "rename = [",
    ],
)
def test_the_ignored_settings_of_an_untrusted_project_are_reported(tmp_path, text):
    (path := tmp_path / "pegboard.toml").write_text(text)
    config = load_config(user=False, project=path, environ={})
    assert config.ignored or text.startswith(("block", "untrusted"))  # these may narrow the user's settings
    assert (config.where, dict(config.plugins), dict(config.rename)) == (None, {}, {})
    assert (config.untrusted, config.autoload, config.conflicts) == ((), True, None)
    assert (config.block, config.enable, dict(config.prefix), dict(config.selections)) == ((), None, {}, {})


@pytest.mark.slow
def test_no_module_or_distribution_of_a_projects_folder_is_imported(tmp_path):
    """Neither by the command nor by the child process of a first load."""
    site, project = tmp_path / "site", tmp_path / "project"
    install(site)
    write(site / "demo_tools.py", GREETER.format(name="greet"))
    for name in ("json", "click", "attrs", "asyncio", "pegboard", "pegboard_files", "demo_tools", "sitecustomize"):
        write(project / f"{name}.py", "from pathlib import Path\nPath('found').touch()\n")
    install(project, "evil", entry_points="[pegboard]\nevil = json\n")
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CONFIG", "CACHE", "STATE")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pegboard", "--refresh", "list", "--names"],
        capture_output=True,
        check=True,
        cwd=project,
        env={**os.environ, **folders, "PYTHONPATH": str(site)},
        text=True,
    )
    assert "greet" in done.stdout.splitlines()
    assert not (project / "found").exists()
