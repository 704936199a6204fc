"""A configured server in `registry list`, and `registry mcp`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

SERVER = str(Path(__file__).with_name("bad_server.py"))
pytestmark = pytest.mark.slow


@pytest.fixture
def more(tmp_path):
    """The file that the server reads more tools from; it is configured as `real`, its secret in the environment."""
    file = tmp_path / "more.json"
    configuration = tmp_path / "config" / "pegboard" / "pegboard.toml"
    configuration.parent.mkdir(parents=True)
    lines = [f"command = {json.dumps(sys.executable)}", f"args = {json.dumps(_server(file)['args'])}"]
    table = "\n".join([*lines, 'env.KEY = { env = "MCP_TEST_KEY" }', ""])
    configuration.write_text(f"[plugins.mcp.servers.real]\n{table}")
    return file


def _server(more):
    return {"command": sys.executable, "args": ["-I", SERVER, "more", str(more)]}


@pytest.fixture
def registry(tmp_path):
    """Runs `registry`, with folders of its own."""
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CONFIG", "STATE")}

    def run(*words, code=0, answer="", **variables):
        done = subprocess.run(
            [sys.executable, "-m", "pegboard", *words],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, **folders, "MCP_TEST_KEY": "hidden-key", **variables},
            input=answer,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_its_tools_are_listed_from_the_cache_once_it_was_started(registry, more, tmp_path):
    registry("mcp", "test")  # it may take longer to start than a listing waits
    (accepted,) = (tmp_path / "state" / "pegboard" / "mcp").iterdir()
    assert accepted.stat().st_mode & 0o077 == 0
    assert registry("mcp").splitlines()[1].startswith("real    2 tools accepted")
    assert "real__echo" in registry("list", "--names")
    # Without the server it is listed all the same: neither does a listing start it.
    assert "real__echo" in registry("list", "--names", PATH="/nowhere")
    (tmp_path / "rules.toml").write_text('allow = ["real__echo", "real__ecko"]')
    output = registry("call", "real__echo", "text=in", "--rules", "rules.toml")
    assert ("is called 'real__ecko'" in output, "is called 'real__echo'" in output) == (True, False)
    assert "is called 'real__echo'" not in registry("serve", "--rules", "rules.toml")
    assert "hidden-key" in registry("call", "--yes", "real__env")


def test_what_was_accepted_on_first_use_is_shown_until_the_user_accepts_or_refuses_it(registry, more):
    registry("mcp", "test")
    listed = registry("mcp")
    assert "2 tools accepted on first use" in listed
    assert "review what was accepted on first use: run 'registry mcp accept real'" in listed
    shown = registry("mcp", "accept", "real", code=1, answer="n\n")
    assert ('echo:\n{\n  "name": "echo",\n  "description": "Echoes.",' in shown, "unchanged since" in shown) == (
        True,
        True,
    )
    assert "none of its tools is accepted" in shown
    assert "real__echo" not in registry("list", "--names", "--live")
    assert "accepted: 2 tools" in registry("mcp", "accept", "real", "--yes")
    assert "on first use" not in registry("mcp")
    assert "nothing has changed; accepted: 2 tools" in registry("mcp", "accept", "real")


def test_a_server_that_is_reached_in_another_way_is_held_back_until_it_is_accepted(registry, more, tmp_path):
    configuration = tmp_path / "config" / "pegboard" / "pegboard.toml"
    before = configuration.read_text()
    registry("mcp", "accept", "real", "--yes")
    configuration.write_text(before + 'env.OTHER = "x"\n')
    assert "real__echo" not in registry("list", "--names")
    for words, code in ((("mcp",), 0), (("mcp", "test"), 1)):  # also once it runs
        assert "names of variables or headers by which it is reached have changed" in registry(*words, code=code)
    assert "echo:\n{" in registry("mcp", "accept", "real", "--yes")
    assert "real__echo" in registry("list", "--names")
    configuration.write_text(before)  # as of another project, whose server has this name
    assert "real__echo" in registry("list", "--names")
    configuration.write_text(before.replace("MCP_TEST_KEY", "MCP_OTHER_KEY"))  # another secret
    assert "real__echo" in registry("list", "--names", MCP_OTHER_KEY="rotated")


def test_what_was_accepted_on_first_use_is_shown_whole_where_one_tool_has_changed(registry, more):
    registry("mcp", "test")
    more.write_text(json.dumps([{"name": "added", "inputSchema": {"type": "object"}}]))
    shown = registry("mcp", "accept", "real", code=1, answer="n\n")
    assert "accepted on first use, and changed since:" in shown
    assert '\n  "description": "Echoes.",' in shown.partition("All that real lists now:")[2]


def test_json_before_a_subcommand_is_refused_and_not_ignored(registry):
    assert "--json comes after the subcommand" in registry("mcp", "--json", "list", code=2)


def test_its_commands_report_wrong_settings(registry, tmp_path):
    file = tmp_path / "config" / "pegboard" / "pegboard.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[plugins.mcp]\nserver = 3\n")
    assert "plugins.mcp.server: unknown key. Did you mean" in registry("serve", code=2)
    assert "plugins.mcp.server: unknown key" in registry("mcp", code=2)
    assert "plugins.mcp.server: unknown key" in registry("list", "--live")
    file.write_text("[plugins.mcp.servers.empty]\n")
    assert "plugins.mcp.servers.empty: it needs a command or a url" in registry("serve")
    file.write_text('[plugins.mcp.servers.real]\ncomand = "x"\n[plugins.mcp.servers.gone]\ncommand = "no-such"\n')
    tested = registry("mcp", "test", code=1)
    assert "unknown key. Did you mean 'command'?" in tested
    assert "there is no program 'no-such'\n" in tested
    assert "error: toolset 'gone' failed: the server 'gone' can't" in registry("mcp", "accept", "gone", code=1)
    assert "Check its settings, update it, or ask its author" in registry("doctor", code=1)
    file.write_text('[plugins.mcp.servers.real]\ncomand = "x"\n')
    registry("mcp", "test", code=1)


def test_servers_of_an_untrusted_project_are_reported_as_ignored(registry, tmp_path):
    (tmp_path / "pegboard.toml").write_text('conflicts = "error"\n[plugins.mcp.servers.real]\ncommand = "x"\n')
    assert "ignored until you trust the file" in registry("mcp")
    served = registry("serve")
    assert "pegboard.toml: plugins.mcp is ignored until" in served
    assert "pegboard.toml: conflicts is ignored until" in served
    assert "ignored until you trust the file" in registry("mcp", "accept", "real", code=2)


def test_a_definition_that_changed_is_offered_once_it_is_accepted_by_its_diff(registry, more):
    registry("mcp", "test")
    more.write_text(json.dumps([{"name": "echo", "description": "Now\u202eother.", "inputSchema": {"type": "object"}}]))
    assert "has changed its definition" in registry("call", "--yes", "real__echo", code=1)
    tested = registry("mcp", "test", code=1)
    assert "tool 'echo' is held back: it has changed since it was accepted (description)" in tested
    shown = registry("mcp", "accept", "real", code=130)  # no answer
    assert '+  "description": "Now\\u{202e}other.",' in shown
    assert '-  "description": "Echoes.",' in shown
    assert "accepted: 2 tools" in registry("mcp", "accept", "real", "--yes")
    assert "nothing has changed" in registry("mcp", "accept", "real")
    assert "other." in registry("show", "real__echo")
    tested = json.loads(registry("mcp", "test", "--json"))
    assert (tested["name"], tested["tools"], tested["problems"]) == ("real", ["real__echo", "real__env"], [])


def test_a_server_that_does_not_start_costs_only_its_own_tools(registry, more, tmp_path):
    servers = {"gone": {"command": "no-such-program"}, "real": {"command": "taken"}, "x": {"url": "${NOT_THERE}"}}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {**servers, "off": {"disabled": True}}}))
    configuration = tmp_path / "config" / "pegboard" / "pegboard.toml"
    table = '[plugins.mcp]\nmcp_config = "../../servers.json"\n[plugins.mcp.servers.wrong]\ncomand = "x"\n'
    configuration.write_text(table + configuration.read_text())
    output = registry("mcp", "test", code=1)
    assert "gone: ServerError: the server 'gone' can't be reached: there is no program 'no-such-program'" in output
    assert "plugins.mcp.servers.wrong: comand: unknown key. Did you mean 'command'?" in output
    assert "server 'x' is left out: the environment has no NOT_THERE" in output
    assert "real__echo" in registry("list", "--names")
    (tmp_path / "fine.json").write_text(json.dumps({"servers": {"Other One": {**_server(more), "type": "stdio"}}}))
    assert "Other-One: 2 tools in" in registry("mcp", "test", "--mcp-config", "fine.json", code=1)
    assert "Other-One" in registry("mcp", "--mcp-config", "fine.json", code=1)
    assert "Other-One__echo" in registry("list", "--names", "--set", "mcp.mcp_config=./fine.json")
    assert "no server is called 'rea'. Did you mean 'real'?" in registry("mcp", "accept", "rea", code=2)


def test_a_server_of_a_file_replaces_none_whose_name_its_own_becomes(registry, tmp_path):
    (tmp_path / "config" / "pegboard").mkdir(parents=True)
    table = '[plugins.mcp]\nmcp_config = "../../servers.json"\n[plugins.mcp.servers.one-name]\ncommand = "mine"\n'
    (tmp_path / "config" / "pegboard" / "pegboard.toml").write_text(table)
    names = {name: {"command": name} for name in ("one name", "other name", "other-name")}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": names}))
    output = registry("mcp", "--json", code=1)
    assert "server 'other-name' is left out: another is called 'other-name'\n" in output
    listed, _ = json.JSONDecoder().raw_decode(output)
    reached = {each["name"]: each["reachedBy"] for each in listed["servers"]}
    assert reached == {"one-name": "mine", "other-name": "other name"}


def test_a_file_of_servers_that_came_with_a_project_has_to_be_trusted_as_it_is(registry, more, tmp_path):
    configuration, servers = tmp_path / "pegboard.toml", tmp_path / "servers.json"
    configuration.write_text('[plugins.mcp]\nmcp_config = "./servers.json"\n')
    servers.write_text('{"mcpServers": {}}')
    for file in (configuration, servers):
        registry("config", "trust", str(file))
    registry("mcp", "test")
    assert "real__echo" in registry("list", "--names")
    servers.write_text(json.dumps({"mcpServers": {"other": _server(more)}}))
    assert "other" not in registry("list", "--names")
    output = registry("mcp", code=1)
    assert f"{servers} is ignored until you trust it as it is (registry config trust {servers})" in output
    registry("config", "trust", str(servers))
    registry("mcp", "test", "other")
    assert "other__echo" in registry("list", "--names")
    configuration.write_text('[plugins.mcp]\nmcp_config = "servers.json"\n')
    registry("config", "trust")
    assert "begin it with './' if it is next to this file" in registry("mcp", code=1)


def test_a_list_of_servers_shows_no_secret(registry, tmp_path):
    (tmp_path / "config" / "pegboard").mkdir(parents=True)
    table = (
        '[plugins.mcp.servers.web]\nurl = "https://ann:one@example.com/mcp?key=two#three"\n'
        '[plugins.mcp.servers.local]\ncommand = "serve"\nargs = ["here", "--token", "four", "--password=five"]\n'
    )
    (tmp_path / "config" / "pegboard" / "pegboard.toml").write_text(table)
    output = registry("mcp", "list")
    assert "https://example.com/mcp" in output
    assert "here" in output
    assert "local has listed no tools yet: 'registry mcp accept local' waits until it has started" in output
    for text in (output.split("REACHED BY")[1], registry("mcp", "list", "--json")):
        assert "serve here --token" in text
        assert not [word for word in ("ann", "one", "two", "three", "four", "five") if word in text]


BROWSER = """
import sys, urllib.request
urllib.request.urlopen(sys.argv[1]).read()
"""


def test_a_login_is_stored_and_refreshed_and_a_missing_one_is_reported(registry, tmp_path):
    real = str(Path(__file__).with_name("real_server.py"))
    server = subprocess.Popen([sys.executable, real, "oauth"], stdout=subprocess.PIPE, text=True)
    try:
        table = f'[plugins.mcp.servers.real]\nurl = "{server.stdout.readline().strip()}"\noauth = true\n'
        (tmp_path / "config" / "pegboard").mkdir(parents=True)
        (tmp_path / "config" / "pegboard" / "pegboard.toml").write_text(table)
        assert "it wants you to log in: run 'registry mcp login real'" in registry("mcp", "test", code=1)
        (tmp_path / "browser.py").write_text(BROWSER)
        output = registry("mcp", "login", "real", BROWSER=f"{sys.executable} {tmp_path / 'browser.py'} %s")
        assert "log in at http://127.0.0.1:" in output
        assert "real: logged in" in output
        (tokens,) = (tmp_path / "state" / "pegboard" / "mcp").glob("*.tokens.json")
        assert tokens.stat().st_mode & 0o077 == 0
        first = json.loads(tokens.read_text())["tokens"]["access_token"]
        assert registry("mcp", "test").startswith("real: 15 tools")
        assert registry("call", "--yes", "real__echo", "text=in").startswith("in")
        assert json.loads(tokens.read_text())["tokens"]["access_token"] != first
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_listing_leaves_no_server_running_even_if_several_ignore_its_end(registry, tmp_path):
    tables = ""
    for number in range(3):
        for fault in ("stays", "silent"):
            words = json.dumps(["-I", SERVER, fault, str(tmp_path / f"process{number}")])
            lines = [f"[plugins.mcp.servers.{fault}{number}]", f"command = {json.dumps(sys.executable)}"]
            tables += "\n".join([*lines, f"args = {words}", ""])
    (tmp_path / "config" / "pegboard").mkdir(parents=True)
    (tmp_path / "config" / "pegboard" / "pegboard.toml").write_text(tables)
    for _ in range(20):  # a listing waits only 5 s for servers to start
        registry("list", "--names")
        if all((tmp_path / f"process{number}").exists() for number in range(3)):
            break
    else:
        pytest.fail("they were not started")
    limit = time.monotonic() + 60
    while left := [words for words in commands() if str(tmp_path).encode() in words]:
        assert time.monotonic() < limit, left  # what was killed may take a moment to end


def commands():
    """The commands of all processes."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            yield (process / "cmdline").read_bytes()
