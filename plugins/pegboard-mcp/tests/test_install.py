"""`registry serve --install` with each program's configuration."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import pytest

from pegboard.cli.main import main
from pegboard_mcp.serving.install import PROGRAMS

COMMAND = [sys.executable, "-P", "-m", "pegboard", "serve"]
ARGS = ["--where", "read_only", "-T", "git_*", "--user", "ann"]
URL = "http://127.0.0.1:8000/mcp"

FILES = {
    "claude-code": "work/.mcp.json",
    "claude-desktop": "home/.config/Claude/claude_desktop_config.json",
    "cursor": "home/.cursor/mcp.json",
    "vscode": "work/.vscode/mcp.json",
    "codex": "home/.codex/config.toml",
    "gemini-cli": "home/.gemini/settings.json",
    "opencode": "home/.config/opencode/opencode.json",
}
LOCAL = {"command": COMMAND[0], "args": [*COMMAND[1:], "-T", "git_*", "--where", "read_only", "--user", "ann"]}
ENTRIES = {  # program -> the key of its servers, the entry of a command, that of a URL
    "claude-code": (
        "mcpServers",
        {"type": "stdio", **LOCAL},
        {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${TOKEN}"}},
    ),
    "claude-desktop": ("mcpServers", LOCAL, None),
    "cursor": ("mcpServers", LOCAL, {"url": URL, "headers": {"Authorization": "Bearer ${env:TOKEN}"}}),
    "vscode": (
        "servers",
        {"type": "stdio", **LOCAL},
        {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
    ),
    "codex": ("mcp_servers", LOCAL, {"url": URL, "bearer_token_env_var": "TOKEN"}),
    "gemini-cli": ("mcpServers", LOCAL, {"httpUrl": URL, "headers": {"Authorization": "Bearer ${TOKEN}"}}),
    "opencode": (
        "mcp",
        {"type": "local", "command": [LOCAL["command"], *LOCAL["args"]]},
        {"type": "remote", "url": URL, "headers": {"Authorization": "Bearer {env:TOKEN}"}},
    ),
}
ALL = pytest.mark.parametrize("program", PROGRAMS)


@pytest.fixture(autouse=True)
def folder(tmp_path, tmp_path_factory, monkeypatch):
    """A home and a folder to work in, of which nothing is the user's."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))  # plugins are loaded once
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def read(text, program):
    return tomllib.loads(text) if program == "codex" else json.loads(text)


def run(capsys, program, *words, code=0):
    assert main(["serve", "--install", program, *words]) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.mark.slow
@ALL
def test_the_entry_is_shown_with_the_file_that_it_belongs_in_and_nothing_is_written(folder, capsys, program):
    head, _, text = run(capsys, program, *ARGS).partition("\n")
    key, local, _ = ENTRIES[program]
    assert read(text, program) == {key: {"pegboard": local}}
    assert head == f"# {folder / FILES[program]}"
    assert not (folder / FILES[program]).exists()


@pytest.mark.slow
def test_a_module_in_the_current_folder_does_not_shadow_an_installed_one(folder, capsys):
    (folder / "work" / "pegboard.py").write_text("raise SystemExit('not the installed package')")
    entry = read(run(capsys, "claude-code").partition("\n")[2], "claude-code")["mcpServers"]["pegboard"]
    command = [entry["command"], *entry["args"], "--help"]
    assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.slow
@ALL
def test_a_new_file_is_written(folder, capsys, program):
    assert str(folder / FILES[program]) in run(capsys, program, "--write", *ARGS)
    key, local, _ = ENTRIES[program]
    assert read((folder / FILES[program]).read_text(), program) == {key: {"pegboard": local}}
    assert "has it already" in run(capsys, program, "--write", *ARGS)


@ALL
def test_a_program_may_reach_it_by_a_url_with_a_token_of_its_environment(capsys, program):
    words = ["--http", "127.0.0.1:8000", "--token-env", "TOKEN"]
    key, _, url = ENTRIES[program]
    if url is None:
        assert "omit --http" in run(capsys, program, *words, code=2)
    else:
        assert read(run(capsys, program, *words).partition("\n")[2], program) == {key: {"pegboard": url}}


def test_the_entry_has_the_settings_and_the_file_of_servers_of_this_run(folder, capsys):
    file = folder / "work" / "servers.json"
    file.write_text("{}")
    words = ["--set", "files.root=/tmp", "--mcp-config", "servers.json"]
    _, _, text = run(capsys, "codex", *words).partition("\n")
    (server,) = read(text, "codex")["mcp_servers"].values()
    assert server["args"][len(COMMAND) - 1 :] == ["--set", "files.root=/tmp", "--mcp-config", str(file)]


@pytest.mark.slow
@ALL
def test_the_other_content_of_the_file_is_preserved(folder, capsys, program):
    file, (key, local, _) = folder / FILES[program], ENTRIES[program]
    file.parent.mkdir(parents=True, exist_ok=True)
    if program == "codex":
        text = '# mine\nmodel = "m"  # the best\n\n[mcp_servers.other]\ncommand = "o"\n\n[profiles.a]\nx = 1\n'
    else:
        data = {"über": [1], key: {"other": {"command": "o"}, "pegboard": {"url": "old", "env": {"A": "b"}}}, "z": {}}
        text = json.dumps(data, indent=4, ensure_ascii=False)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o640)
    assert f"{file}.bak" in run(capsys, program, "--write", *ARGS)
    written = file.read_text(encoding="utf-8")
    before, after = read(text, program), read(written, program)
    entry = before[key].get("pegboard", {})
    entry.pop("url", None)
    before[key]["pegboard"] = {**entry, **local}
    assert after == before
    assert list(after) == list(before)
    assert (file.parent / f"{file.name}.bak").read_text(encoding="utf-8") == text
    assert file.stat().st_mode & 0o777 == 0o640
    assert {each.name for each in file.parent.iterdir() if each.is_file()} == {file.name, f"{file.name}.bak"}
    if program == "codex":
        assert written.startswith('# mine\nmodel = "m"  # the best\n')
    else:
        assert '\n    "über"' in written


DAMAGED = {
    "not closed": "{",
    "with comments": '{"a": 1} // mine',
    "a list": "[]",
    "a key twice": '{"a": 1, "a": 2}',
    "no table": '{"KEY": 3}',
    "an entry that is none": '{"KEY": {"pegboard": []}}',
}


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program != "codex"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_refused_and_left(folder, capsys, program, damage):
    text = DAMAGED[damage].replace("KEY", ENTRIES[program][0])
    left_alone(folder / FILES[program], capsys, program, text.encode())


@pytest.mark.parametrize("content", [b"[", b"a = 1\na = 2", b"mcp_servers = 3", b"\xff"])
def test_a_damaged_toml_is_refused_and_left(folder, capsys, content):
    left_alone(folder / FILES["codex"], capsys, "codex", content)


@pytest.mark.parametrize("content", [b"mcp_servers = {}", b'mcp_servers.other.command = "x"\nz = 1\n'])
def test_a_toml_to_which_no_table_can_be_added_is_refused_and_left(folder, capsys, content):
    """tomlkit would write the table before `z`, which would become a key of it."""
    left_alone(folder / FILES["codex"], capsys, "codex", content)


def test_a_toml_with_values_that_equal_nothing_or_stand_apart_is_extended(folder, capsys):
    file, values = folder / FILES["codex"], 'b.x = nan\na = [1, -inf, 1979-05-27]\nb."y z" = 07:32:00\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{values}[mcp_servers.other]\nz = 1\n[tools]\n[mcp_servers.more]\n")
    assert f"{file}.bak" in run(capsys, "codex", "--write", *ARGS)
    assert file.read_text().startswith(values)
    servers = {"other": {"z": 1}, "more": {}, "pegboard": ENTRIES["codex"][1]}
    assert read(file.read_text(), "codex")["mcp_servers"] == servers


def left_alone(file, capsys, program, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    assert str(file) in run(capsys, program, "--write", code=2)
    assert file.read_bytes() == content
    assert list(file.parent.iterdir()) == [file]


def test_a_link_is_not_replaced(folder, capsys):
    real = folder / "dotfiles.json"
    real.write_text("{}")
    (folder / "work" / ".mcp.json").symlink_to(real)
    run(capsys, "claude-code", "--write")
    assert (folder / "work" / ".mcp.json").is_symlink()
    assert "pegboard" in json.loads(real.read_text())["mcpServers"]


def test_files_are_named_so_that_they_are_found_from_any_folder(folder, capsys):
    for name in ("tools.py", "rules.toml", "pegboard.toml"):
        (folder / "work" / name).write_text("")
    words = ["--functions", "tools.py", "--rules", "rules.toml", "--config", "pegboard.toml", "--yes", "--state", "a=b"]
    args = json.loads(run(capsys, "cursor", *words).partition("\n")[2])["mcpServers"]["pegboard"]["args"]
    work = folder / "work"
    assert args[4:] == [
        *("--config", str(work / "pegboard.toml"), "--functions", str(work / "tools.py")),
        *("--yes", "--rules", str(work / "rules.toml"), "--state", "a=b"),
    ]


@pytest.mark.slow
@ALL
def test_a_configuration_that_another_folder_lacks_is_reported(folder, capsys, program):
    remark = f"{folder / 'work' / 'pegboard.toml'} isn't read: add --config"
    assert remark not in run(capsys, program)
    (folder / "work" / "pegboard.toml").write_text('where = "read_only"')
    is_of_the_folder = FILES[program].startswith("work")
    assert (remark in run(capsys, program)) is not is_of_the_folder
    assert remark not in run(capsys, program, "--config", "pegboard.toml")


def test_wrong_options_are_refused(capsys):
    assert "--write is for --install" in _error(capsys, "--write")
    assert "not 0" in _error(capsys, "--install", "cursor", "--http", "127.0.0.1:0")
    assert "Did you mean 'read_only'?" in _error(capsys, "--install", "cursor", "--where", "red_only")


def _error(capsys, *words):
    assert main(["serve", *words]) == 2
    return capsys.readouterr().err
