"""One conversation with the tools of other packages: files, shell, agents, web and skills."""

from __future__ import annotations

import asyncio
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pegboard import ModelRequest, Permissions, ReadonlyContext, Rule, ToolCall
from pegboard.cli import Options, Status, open_session
from pegboard.testing import ScriptedModel, plugin_registry
from pegboard_chat.conversation import Conversation
from pegboard_chat.interactive import InteractiveChat
from pegboard_chat.renderer import ChatRenderer


@pytest.fixture
def site():
    """A page on this machine; its address."""

    class Page(BaseHTTPRequestHandler):
        def log_message(self, *_args):
            pass

        def do_GET(self):
            content = b"<h1>Nails</h1><p>In stock.</p>"
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def put(path, content):
    return ToolCall("write_file", {"path": path, "content": content})


def wait(request):
    """Waits for the agents that the conversation has started."""
    texts = "\n".join(part.result.text for message in request.messages for part in message.results)
    return ToolCall("wait_agents", {"ids": re.findall(r"Its id is (\S+)\.", texts), "seconds": 60})


class Lines:
    """What the user types."""

    ask = None

    def __init__(self, *lines):
        self.lines = [*lines]

    async def read_line(self):
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


def test_a_page_a_skill_a_command_an_agent_and_the_undo_of_a_turn(site, home, tmp_path, capsys):
    skill, top = tmp_path / "skills" / "prices", tmp_path / "top"
    skill.mkdir(parents=True)
    top.mkdir()
    (skill / "SKILL.md").write_text("---\nname: prices\ndescription: Writes prices.\n---\n\nIn whole euros.\n")
    (top / "old").write_text("5 euros\n")
    registry = plugin_registry(
        *("files", "shell", "agents", "web", "skills"),
        settings={
            "files": {"root": str(top), "read_first": False},
            "shell": {"sandbox": "none"},
            "agents": {"agents": {"scout": {"model": "scripted/scout"}}, "background": {}},
            "web": {"allow": ["127.0.0.1"], "search": False},
            "skills": {"folders": [str(skill.parent)]},
        },
    )
    registry.permissions = Permissions([Rule("*", "*", "allow")])
    scout = ScriptedModel([put("found", "3 boxes\n"), "There are 3 boxes."])
    registry.add("models", "scripted", lambda _name: scout)
    model = ScriptedModel(
        [
            [ToolCall("web_fetch", {"url": site}), ToolCall("load_skill", {"name": "prices"})],
            ToolCall("spawn_agent", {"agent": "scout", "request": "Count the boxes."}),
            ToolCall("shell", {"command": f"cat {top}/old"}),
            wait,
            put("old", "6 euros\n"),
            "All is written.",
        ]
    )
    context = ReadonlyContext(session="s", work_dir=str(top))
    renderer = ChatRenderer(Status())
    conversation = Conversation(model, registry, ModelRequest(), context, {}, renderer, None)
    lines = Lines("Write the price list", "/diff", "/undo", "/exit")
    asyncio.run(InteractiveChat(conversation, open_session(Options()), lines, asks=False).run())
    model.close()
    asyncio.run(registry.aclose())
    out, err = capsys.readouterr()
    assert out == "All is written.\n"
    shown = ["# Nails", "In whole euros.", "scout -> write_file", "has ended: There are 3 boxes.", "<- shell: 5 euros"]
    assert [text for text in shown if text not in err] == []
    assert "--- /dev/null\n+++ b/found\n@@ -0,0 +1 @@\n+3 boxes\n--- a/old\n+++ b/old" in err
    assert "2 files restored, 0 left as they are" in err
    assert [(path.name, path.read_text()) for path in top.iterdir()] == [("old", "5 euros\n")]
