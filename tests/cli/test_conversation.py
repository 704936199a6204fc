"""A conversation in a terminal with many packages: a page, a skill, an agent in the background, /diff and /undo."""

from __future__ import annotations

import json
import os
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fake_vendors import Call, ModelServer, Round
from terminal import Terminal

pytestmark = pytest.mark.slow

CONFIG = """
enable = ["agents", "anthropic", "chat", "files", "openai", "shell", "skills", "web"]

[plugins.agents.agents.reader]
description = "Reads files and answers questions about them."
where = "read_only"
model = "anthropic/small"

[plugins.agents.background]
agents = ["reader"]
keep = true

[plugins.shell]
sandbox = "none"

[plugins.skills]
folders = ["~/skills"]

[plugins.web]
allow = ["127.0.0.1"]
"""
SKILL = """\
---
name: release-notes
description: Writes release notes.
---
One sentence for each change.
"""
NOTES = "Nails come in steel.\n"


@pytest.fixture
def site(tmp_path):
    """The address of a server with one page."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "nails.html").write_text("<h1>Nails</h1><p>Now in <b>steel</b>.</p>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def chat(tmp_path):
    """Starts `registry chat` in a terminal, in the folder `here`; each goes on with the same conversation."""
    (tmp_path / "skills" / "release-notes").mkdir(parents=True)
    (tmp_path / "skills" / "release-notes" / "SKILL.md").write_text(SKILL)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "log.txt").write_text("3 orders\n")
    config = tmp_path / ".config" / "pegboard" / "pegboard.toml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG)
    kept = ("PATH", "LANG", "PYTHONPATH", "XDG_CACHE_HOME")
    inherited = {name: os.environ[name] for name in kept if name in os.environ}
    keys = {"OPENAI_API_KEY": "sk-x", "ANTHROPIC_API_KEY": "sk-x"}
    argv = ["chat", "-m", "openai/small", "--history", str(tmp_path / "talk.json")]

    def start(model, agents_model):
        urls = {"OPENAI_BASE_URL": f"{model.url}/v1", "ANTHROPIC_BASE_URL": agents_model.url}
        at = Terminal(argv, {**inherited, **keys, **urls, "HOME": str(tmp_path), "TERM": "dumb"}, tmp_path / "here")
        at.until("> ")
        return at

    return start


def test_a_conversation_fetches_loads_runs_an_agent_and_undoes_a_turn(chat, site, tmp_path):
    agents = {"ids": []}  # of the agent, once it is known
    begins = [
        Round(calls=[Call("web_fetch", {"url": f"{site}/nails.html"}), Call("load_skill", {"name": "release-notes"})]),
        Round(calls=[Call("spawn_agent", {"agent": "reader", "request": "How many orders are in log.txt?"})]),
        Round(text="An agent counts."),
    ]
    writes = [
        Round(calls=[Call("wait_agents", agents)]),
        Round(calls=[Call("write_file", {"path": "NOTES.md", "content": NOTES})]),
        Round(calls=[Call("shell", {"command": "cp NOTES.md copy.md"})]),
        Round(text="It is written."),
    ]
    reads = [Round(calls=[Call("read_file", {"path": "log.txt"})]), Round(text="There are 3 orders.")]
    with ModelServer([*begins, *writes]) as model, ModelServer(reads) as agents_model:
        at = chat(model, agents_model)
        at.type("Write release notes\r")
        at.until("  l  later\n> ")
        at.type("y\r")
        at.until("<- web_fetch")
        at.until("An agent counts.")
        at.until("> ")
        agents["ids"] = re.findall(r"Its id is (reader-\w+)", at.shown)[:1]
        at.type("Go on\r")
        at.until("<- wait_agents")
        for answered in ("<- write_file", "<- shell"):
            at.until("  l  later\n> ")
            at.type("y\r")
            at.until(answered)
        at.until("It is written.")
        at.until("> ")
        at.type("/exit\r")
        assert at.end() == 0
    sent = [json.dumps(request.body) for request in model.requests]
    assert "release-notes: Writes release notes." in sent[0]
    assert "One sentence for each change." in sent[1]
    assert "# Nails\\n\\nNow in **steel**." in sent[1]
    assert "Others wrote what stands between" in sent[1]
    assert "There are 3 orders." in sent[-1]

    again = [
        Round(calls=[Call("send_agent_input", {"id": agents["ids"][0], "message": "And now?"})]),
        Round(calls=[Call("wait_agents", agents)]),
        Round(text="All right."),
    ]
    with ModelServer(again) as model, ModelServer([Round(text="Still 3 orders.")]) as agents_model:
        at = chat(model, agents_model)
        at.type("/diff\r")
        at.until(f"+{NOTES}1 file changed, +1 -0 lines. Only changes by the file tools are covered")
        at.until("> ")
        at.type("/undo\r")
        at.until("restored NOTES.md")
        at.until("> ")
        at.type("Leave it\r")
        at.until("All right.")
        at.until("> ")
        at.type("/exit\r")
        assert at.end() == 0
    assert "The user has undone your changes of" in json.dumps(model.requests[0].body)
    assert "Still 3 orders." in json.dumps(model.requests[-1].body)
    assert "There are 3 orders." in json.dumps(agents_model.requests[0].body)
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["copy.md", "log.txt"]
