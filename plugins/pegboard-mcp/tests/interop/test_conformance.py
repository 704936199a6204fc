"""The official conformance suite, in both directions: what `exempt.toml` lists fails, and nothing else."""

from __future__ import annotations

import asyncio
import json
import sys
import tomllib
import webbrowser
from collections import Counter
from itertools import count
from pathlib import Path
from urllib.request import urlopen

import pytest

from pegboard import Once, Permissions, Rule, ToolRegistry
from pegboard_mcp import mcp_toolset

HERE = Path(__file__).resolve().parent
REVISIONS = ("2025-11-25", "2026-07-28")
FAILED = ("FAILURE", "WARNING")


@pytest.fixture
def suite(node, npm_bin, tmp_path):
    """Runs all scenarios of one side and one revision; gives what each check came to, with what was wrong."""

    async def run(side, revision, *words):
        argv = [node, npm_bin / "conformance", side, *words, "--suite", "all", "--spec-version", revision]
        pipe = asyncio.subprocess.PIPE
        running = await asyncio.create_subprocess_exec(*argv, "-o", tmp_path / revision, stdout=pipe, stderr=pipe)
        said = await asyncio.wait_for(running.communicate(), 170)
        files = sorted(tmp_path.glob(f"{revision}/**/checks.json"))
        checks = [{"errorMessage": "", **check} for file in files for check in json.loads(file.read_text())]
        assert checks, said
        told = "{id} ({description}; revision {revision}): {errorMessage}"
        return [(check["status"], told.format(**check, revision=revision), check["id"]) for check in checks]

    return run


def exempt(side):
    """The checks that may fail, each of which has to."""
    groups = tomllib.loads((HERE / "exempt.toml").read_text()).get(side, [])
    listed = [check for group in groups for check in group["checks"]]
    assert [check for check, times in Counter(listed).items() if times > 1] == []
    return set(listed)


def held_against(listed, checks):
    failed = {id_ for status, _, id_ in checks if status in FAILED}
    unlisted = [text for status, text, id_ in checks if status in FAILED and id_ not in listed]
    assert not unlisted, "\n".join(["fail, and are not listed:", *unlisted])
    assert not listed - failed, f"are listed, and pass now or are no more: {sorted(listed - failed)}"


async def test_the_server_passes_every_check_that_applies_to_a_tool_server(suite, url):
    checks = [check for revision in REVISIONS for check in await suite("server", revision, "--url", url)]
    held_against(exempt("server"), checks)
    assert sum(status == "SUCCESS" for status, _, _ in checks) > 100


NUMBERS = count()
CLIENT_PAGE = "https://conformance-test.local/client-metadata.json"
SAMPLES = {"number": 2, "integer": 2, "string": "words", "boolean": True, "array": [], "object": {}}
GO_BETWEEN = """
import json, os, socket, sys
place, address = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as other:
    other.connect(place)
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    other.sendall(json.dumps([address, context]).encode() + b"\\n")
    sys.exit(other.makefile().read())
"""
"""The program that the suite starts as the client: it leaves the talking to this process, and ends with it."""


def arguments_for(schema):
    """Something for each argument that a tool needs."""
    return {name: SAMPLES[schema["properties"][name]["type"]] for name in schema.get("required", ())}


async def talk(url, context):
    """Lists a server's tools and calls each, as a host does, or those that the suite wants; gives what went wrong."""
    registry = ToolRegistry(approver=lambda request, context: Once())
    registry.permissions = Permissions([Rule("*", "*", "allow")])
    registered = {key: context[key] for key in ("client_id", "client_secret") if key in context}
    if not registered:
        registered = {"client_metadata_url": CLIENT_PAGE}
    # A name of its own, as logins are stored by name and address, and a later server may get an earlier one's port.
    toolset = mcp_toolset(
        f"suite-{next(NUMBERS)}", url=url, accept="always", prefix="", elicitation=True, oauth=True, **registered
    )
    toolset.show_login = lambda where: None  # someone is there to log in
    registry.register(toolset)
    async with registry:
        offered = await registry.resolve()
        wrong = [str(problem) for problem in offered.problems]
        wanted = [
            (call["name"], {name: value for name, value in call["arguments"].items() if value is not None})
            for call in context.get("toolCalls", ())
        ]
        others = {tool.name: arguments_for(tool.spec.input_schema) for tool in offered.tools}
        if "json_schema_echo" in others:
            others = {"json_schema_echo": {"schema": offered.get("json_schema_2020_12_tool").spec.input_schema}}
        for name, arguments in [*wanted, *((name, others[name]) for name in others.keys() - dict(wanted).keys())]:
            result = await registry.call(name, arguments)
            wrong += [f"{name}: {result.text}"] if result.is_error else []
        return wrong


def browse(address):
    """The browser of somebody who agrees to everything."""
    with urlopen(address, timeout=30) as answer:
        answer.read()


async def test_the_client_passes_every_check_that_applies_to_a_client_of_tools(suite, tmp_path, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setattr("pegboard_mcp.oauth.LOGIN_SECONDS", 15.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    async def answer(reader, writer):
        wrong = await talk(*json.loads(await reader.readline()))
        writer.write("\n".join(wrong).encode())
        writer.close()

    program, place = tmp_path / "client.py", tmp_path / "place"
    program.write_text(GO_BETWEEN)
    async with await asyncio.start_unix_server(answer, place):
        command = f"{sys.executable} -S {program} {place}"
        checks = [
            check
            for revision in REVISIONS
            for check in await suite("client", revision, "--command", command, "--timeout", "60000")
        ]
    held_against(exempt("client"), checks)
