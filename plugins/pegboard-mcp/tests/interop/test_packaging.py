"""What `scripts/package_server.py` builds: a bundle, and an entry of the MCP registry; both start the server."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import uv

SCRIPT = Path(__file__).resolve().parents[4] / "scripts" / "package_server.py"
NAME = "io.github.example/pegboard"


@pytest.fixture(scope="session")
def environment():
    """Variables with which uv, which comes as a package, is found."""
    folder = str(Path(uv.find_uv_bin()).parent)
    return {**os.environ, "PATH": os.pathsep.join([folder, os.environ["PATH"]])}


@pytest.fixture(scope="session")
def built(tmp_path_factory, node, npm_bin, environment):
    """The folder of what is built; building the bundle validates its manifest."""
    folder = tmp_path_factory.mktemp("dist")
    mcpb = shlex.join([str(node), str(npm_bin / "mcpb")])
    words = [sys.executable, SCRIPT, "--name", NAME, "--to", folder, "--mcpb", mcpb]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert "Manifest schema validation passes!" in done.stdout
    assert f"add this line to README.md: <!-- mcp-name: {NAME} -->" in done.stdout
    return folder


@pytest.fixture
def read(tmp_path, environment):
    """Starts a server with a folder, and reads a file of it by a tool."""
    (tmp_path / "a.txt").write_text("forty two")
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "read_file", "arguments": {"path": "a.txt"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    sent = "".join(f"{json.dumps(message)}\n" for message in messages)
    found = subprocess.run([uv.find_uv_bin(), "cache", "dir"], capture_output=True, text=True, check=True).stdout
    variables = {**environment, "HOME": str(tmp_path / "home"), "UV_CACHE_DIR": found.strip()}

    def answer(words, **more):
        words = [word.replace("{folder}", str(tmp_path)) for word in words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(words, **pipes, env={**variables, **more}) as server:
            server.stdin.write(sent)
            server.stdin.flush()
            answers = (json.loads(line) for line in server.stdout)
            text = next(each["result"]["content"][0]["text"] for each in answers if each.get("id") == 2)
            server.stdin.close()
            assert server.wait(60) == 0
        return text

    return answer


def test_the_bundle_starts_the_server_as_its_manifest_says(built, node, npm_bin, read, tmp_path):
    folder = tmp_path / "unpacked"
    subprocess.run([node, npm_bin / "mcpb", "unpack", built / "pegboard.mcpb", folder], check=True, capture_output=True)
    server = json.loads((folder / "manifest.json").read_text())["server"]
    assert (folder / server["entry_point"]).is_file()
    words = [server["mcp_config"]["command"], *server["mcp_config"]["args"]]
    words = [word.replace("${__dirname}", str(folder)).replace("${user_config.folder}", "{folder}") for word in words]
    assert "forty two" in read(words)


def test_the_registrys_entry_starts_the_server(built, read):
    (package,) = json.loads((built / "server.json").read_text())["packages"]
    assert package["runtimeHint"] == "uvx"
    words = ["uvx", *map(word_of, package["runtimeArguments"]), f"{package['identifier']}@{package['version']}"]
    words += map(word_of, package["packageArguments"])
    wheels = str(built / "bundle" / "wheels")  # in place of a release
    assert "forty two" in read(words, UV_FIND_LINKS=wheels)


def test_the_registrys_entry_is_valid(built, python_of, tmp_path):
    entry = json.loads((built / "server.json").read_text())
    linter = python_of("linter").with_name("skillsaw")

    def lint(name, data):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.json").write_text(json.dumps(data))
        words = [linter, "lint", tmp_path / name, "--format", "json", "--rule", "mcp-registry-server-json-valid"]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    fine, wrong = lint("fine", entry), lint("wrong", {**entry, "version": "latest", "description": "x" * 101})
    assert fine.returncode == 0, fine.stdout
    assert (wrong.returncode, "description" in wrong.stdout) == (1, True)


def test_a_name_that_the_registry_refuses_builds_nothing(tmp_path):
    words = [sys.executable, SCRIPT, "--name", "pegboard", "--to", tmp_path / "dist"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "isn't a name such as" in done.stderr, [*tmp_path.iterdir()]) == (2, True, [])


def word_of(argument):
    """An argument as the word of a command line."""
    return argument["value"] if argument["type"] == "positional" else f"{argument['name']}={argument['value']}"
