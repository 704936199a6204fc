"""A server that violates the protocol, for tests: `bad_server.py FAULT`. It only uses the standard library."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

FAULT = sys.argv[1]
ANY = {"type": "object"}
GOOD = {"name": "echo", "description": "Echoes.", "inputSchema": ANY}


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


BAD_TOOLS = [
    {"name": "remote", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.com/s.json"}}}},
    {"name": "deep", "inputSchema": nested(100)},
    {"name": "hidden", "inputSchema": {"type": "object", "properties": {"a\u202eb": {"type": "string"}}}},
    {"name": "any_text", "inputSchema": {"anyOf": [{"type": "string"}]}},
    {"name": "list_schema", "inputSchema": []},
    {"name": "header", "inputSchema": {"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}}},
    {"name": "wrong_type", "inputSchema": {"type": "nothing"}},
    {"name": "list_properties", "inputSchema": {"type": "object", "properties": []}},
    {"name": "null_property", "inputSchema": {"type": "object", "properties": {"a": None}}},
    {"name": "number_text", "description": 3, "inputSchema": ANY},
    {"name": "hints", "inputSchema": ANY, "annotations": {"readOnlyHint": "yes"}},
    {"name": "large", "description": "x" * 600_000, "inputSchema": ANY},
    {"name": "twice", "description": "the first", "inputSchema": ANY},
    {"name": "twice", "description": "the second", "inputSchema": ANY},
    {"name": 7, "inputSchema": ANY},
    "no tool at all",
    {"name": "es\x1b[31mcape\u202e", "description": "red\x1b[31m", "inputSchema": ANY},
    {"name": "a b/c", "inputSchema": ANY},
    {"name": "x" * 200, "inputSchema": ANY},
    {"name": "a b/c", "inputSchema": ANY},
]
RESULTS = {
    "no_list": {"content": "words"},
    "wrong_item": {"content": [{"type": "text"}]},
    "broken_base64": {"content": [{"type": "image", "data": "?", "mimeType": "image/png"}]},
    "nothing": {},
    "number": 3,
}


def write(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def endlessly(line):
    while True:
        sys.stdout.write(line * 1000)
        sys.stdout.flush()


def tools(cursor):
    if FAULT == "bad_tools":
        return {"tools": [*BAD_TOOLS, GOOD]}
    if FAULT == "many_tools":
        first = int(cursor or 0)
        page = [{"name": f"t{number}", "inputSchema": ANY} for number in range(first, first + 3_000)]
        return {"tools": page, "nextCursor": str(first + 3_000)}
    if FAULT == "more":  # no fault: its tools, and those of a file
        file = Path(sys.argv[2])
        more = json.loads(file.read_text()) if file.exists() else []
        return {
            "tools": [*{tool["name"]: tool for tool in [GOOD, {"name": "env", "inputSchema": ANY}, *more]}.values()]
        }
    if FAULT == "deaf" and not Path(sys.argv[2]).exists():  # only the first process: it reads nothing more
        Path(sys.argv[2]).touch()
        os.dup2(os.pipe()[0], 0)
    if FAULT == "endless_pages":
        return {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}
    return {"tools": [GOOD, {"name": "reverse", "inputSchema": ANY}]}


waiting = []
LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
ENDLESS = {"garbage_for_ever": "this is no message\n", "flood": json.dumps(LOG) + "\n", "long_line": "x"}


def call(id_, params):
    """Answers a call, or violates the protocol instead."""
    if FAULT in ENDLESS:
        endlessly(ENDLESS[FAULT])
    if FAULT == "raw":  # its argument, as it is
        raw = params["arguments"]["text"].replace("ID", json.dumps(id_)) + "\n"
        sys.stdout.buffer.write(raw.encode("latin-1"))
        sys.stdout.buffer.flush()
        return
    words = os.environ["KEY"] if params["name"] == "env" else params.get("arguments", {}).get("text", "")
    for number in range(100_000 if FAULT == "progress" else 0):
        facts = {"progressToken": params["_meta"]["progressToken"], "progress": number}
        write(method="notifications/progress", params=facts)
    for number in range(int(words) if FAULT == "works" else 0):
        facts = {"progressToken": params["_meta"]["progressToken"], "progress": number}
        write(method="notifications/progress", params=facts)
        time.sleep(0.05)
    result = {"content": [{"type": "text", "text": "x" * 3_000_000 if FAULT == "large_result" else words}]}
    if FAULT == "error":
        write(id=id_, error={"code": -32603, "message": "inside\x1b[31m"})
    elif FAULT == "out_of_order":
        waiting.append((id_, result))
        if len(waiting) == 2:
            for each, given in reversed(waiting):
                write(id=each, result=given)
    elif FAULT != "never":
        before_and_after(id_, result)


def before_and_after(id_, result):
    """Answers a call, with unexpected messages before or after the answer."""
    if FAULT == "twice":
        write(id=999, result=result)
        write(id="other", error={"code": 1, "message": "x"})
        write(id=id_, result=result)
        result = {"content": [{"type": "text", "text": "another"}]}
    for number in range(100 if FAULT == "asks" else 0):
        write(id=f"r{number}", method="nothing/known", params={})
    write(id=id_, result=RESULTS.get(FAULT, result))


def before():
    """Misbehaves before the first request."""
    if FAULT == "garbage":
        sys.stdout.buffer.write(b"Welcome!\n\xff\xfe\x00\n{\n[]\n" + b'{"a":' * 1000 + b"\n\n")
        sys.stdout.flush()
    if FAULT == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(sys.argv[2]).write_text(str(os.getpid()))
    if FAULT == "late":
        Path(f"{sys.argv[2]}.begun").touch()
        while not Path(sys.argv[2]).exists():
            time.sleep(0.01)
    if FAULT == "silent":
        threading.Event().wait()


def main():
    before()
    for line in sys.stdin:
        message = json.loads(line)
        id_, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if method == "initialize":
            version = "1999-01-01" if FAULT == "version" else params["protocolVersion"]
            about = {"name": os.environ.get("NAME", "bad"), "version": "1"}
            texts = {"serverInfo": about, **({"instructions": "Echo first."} if FAULT == "more" else {})}
            write(id=id_, result={"protocolVersion": version, "capabilities": {"tools": {}}, **texts})
        elif method == "tools/list":
            write(id=id_, result=tools(params.get("cursor")))
        elif method == "tools/call":
            call(id_, params)
        elif id_ is not None and method is not None:
            write(id=id_, error={"code": -32601, "message": "Method not found"})
    if FAULT == "stays":
        threading.Event().wait()


main()
