"""Servers of others as toolsets: every one of their tools is listed, and called."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from pegboard import Model, Once, Permissions, Rule, ToolRegistry
from pegboard.testing import ScriptedModel
from pegboard_mcp import mcp_toolset

DATA = "data:text/plain;base64,aGVsbG8="
OBSERVED = {"entityName": "Ann", "contents": ["sings"]}
KNOWS = {"from": "Ann", "to": "Bob", "relationType": "knows"}

EVERYTHING = [
    ("echo", {"message": "hello"}, "hello"),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}, "rror"),
    ("get-env", {}, "INTEROP_GIVEN"),
    ("get-resource-links", {"count": 2}, ""),
    ("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}, ""),
    ("get-roots-list", {}, "file://"),
    ("get-structured-content", {"location": "Chicago"}, "temperature"),
    ("get-sum", {"a": 1, "b": 2}, "3"),
    ("get-tiny-image", {}, ""),
    ("gzip-file-as-resource", {"name": "a.gz", "data": DATA, "outputType": "resource"}, ""),
    ("simulate-research-query", {"topic": "ants"}, "requires task augmentation"),
    ("toggle-simulated-logging", {}, "ogging"),
    ("toggle-subscriber-updates", {}, "pdates"),
    ("trigger-elicitation-request", {}, "licit"),
    ("trigger-sampling-request", {"prompt": "Say hi"}, "hi there"),
    ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, "completed"),
    ("trigger-url-elicitation", {"url": "https://example.com/"}, ""),
]
AS_TASKS = ("simulate-research-query",)
"""Tools that run as tasks only, as an experiment of the revision 2025-11-25 had them: their calls end in an error."""

FILESYSTEM = [
    ("list_allowed_directories", {}, "{folder}"),
    ("create_directory", {"path": "{folder}/made"}, "made"),
    ("write_file", {"path": "{folder}/a.txt", "content": "one\ntwo\n"}, "a.txt"),
    ("read_file", {"path": "{folder}/a.txt"}, "one"),
    ("read_text_file", {"path": "{folder}/a.txt", "head": 1}, "one"),
    ("read_multiple_files", {"paths": ["{folder}/a.txt"]}, "one"),
    ("read_media_file", {"path": "{folder}/dot.png"}, ""),
    ("edit_file", {"path": "{folder}/a.txt", "edits": [{"oldText": "two", "newText": "three"}]}, "+three"),
    ("get_file_info", {"path": "{folder}/a.txt"}, "size"),
    ("list_directory", {"path": "{folder}"}, "[FILE] a.txt"),
    ("list_directory_with_sizes", {"path": "{folder}"}, "a.txt"),
    ("directory_tree", {"path": "{folder}"}, "made"),
    ("search_files", {"path": "{folder}", "pattern": "*.txt"}, "a.txt"),
    ("move_file", {"source": "{folder}/a.txt", "destination": "{folder}/made/b.txt"}, "b.txt"),
]
MEMORY = [
    ("create_entities", {"entities": [{"name": "Ann", "entityType": "person", "observations": []}]}, "Ann"),
    ("add_observations", {"observations": [OBSERVED]}, "sings"),
    ("create_relations", {"relations": [KNOWS]}, "knows"),
    ("read_graph", {}, "sings"),
    ("search_nodes", {"query": "sings"}, "Ann"),
    ("open_nodes", {"names": ["Ann"]}, "sings"),
    ("delete_observations", {"deletions": [{"entityName": "Ann", "observations": ["sings"]}]}, "uccess"),
    ("delete_relations", {"relations": [KNOWS]}, "uccess"),
    ("delete_entities", {"entityNames": ["Ann"]}, "uccess"),
]
TIMES = {"source_timezone": "Europe/Oslo", "time": "12:00", "target_timezone": "Asia/Tokyo"}
TIME = [("get_current_time", {"timezone": "Europe/Oslo"}, "Oslo"), ("convert_time", TIMES, "Tokyo")]
FETCH = [("fetch", {"url": "{page}"}, "All is well")]


@pytest.fixture
def commands(node, npm_bin, python_of, tmp_path):
    """What starts each server, by its name."""
    scripts = python_of("second").parent
    return {
        "everything": (node, [str(npm_bin / "mcp-server-everything")]),
        "filesystem": (node, [str(npm_bin / "mcp-server-filesystem"), str(tmp_path)]),
        "memory": (node, [str(npm_bin / "mcp-server-memory")]),
        "time": (scripts / "mcp-server-time", []),
        "fetch": (scripts / "mcp-server-fetch", ["--ignore-robots-txt", "--allow-private-ips"]),
    }


@asynccontextmanager
async def page():
    """The address of a page on this machine."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        body = b"<html><body><article><h1>News</h1><p>All is well today.</p></article></body></html>"
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def filled(value, **places):
    """The value with places filled in, at any depth."""
    if isinstance(value, str):
        return value.format(**places) if value.startswith("{") else value
    if isinstance(value, list):
        return [filled(item, **places) for item in value]
    return {key: filled(item, **places) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("name", "calls"),
    [("everything", EVERYTHING), ("filesystem", FILESYSTEM), ("memory", MEMORY), ("time", TIME), ("fetch", FETCH)],
)
async def test_every_tool_of_a_server_is_listed_and_called(commands, tmp_path, monkeypatch, name, calls):
    monkeypatch.setenv("INTEROP_SECRET", "keep me")
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    command, args = commands[name]
    env = {"INTEROP_GIVEN": "1", "MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    asking = {"elicitation": True, "sampling": True}
    toolset = mcp_toolset(name, command=str(command), args=tuple(args), env=env, cwd=str(tmp_path), **asking)
    registry = ToolRegistry(approver=lambda request, context: Once())
    registry.provide(Model, ScriptedModel(["hi there"]))
    registry.permissions = Permissions([Rule(f"{name}__*", "*", "allow")])
    registry.register(toolset)
    async with registry, page() as address:
        offered = await registry.resolve()
        assert [str(problem) for problem in offered.problems] == []
        assert set(offered.names) == {f"{name}__{tool}" for tool, _, _ in calls}
        wrong = []
        for tool, arguments, words in calls:
            places = {"folder": str(tmp_path), "page": address}
            result = await registry.call(f"{name}__{tool}", filled(arguments, **places), resolved=offered)
            as_expected = result.is_error == (tool in AS_TASKS)
            if not as_expected or filled(words, **places) not in result.text or "keep me" in result.text:
                wrong.append((tool, result.kind, result.text))
        assert wrong == []
