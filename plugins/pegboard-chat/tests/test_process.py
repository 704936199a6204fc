"""`registry chat` as a process of its own: real SDKs, a scripted server, and a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from fake_vendors import Call, Error, ModelServer, Round
from terminal import SECONDS, Terminal, command

pytestmark = pytest.mark.slow

LOOK = Call("list_directory", {"path": "."})
KEYS = {
    "OPENAI_API_KEY": "sk-very-secret",
    "ANTHROPIC_API_KEY": "sk-very-secret",
    "GEMINI_API_KEY": "sk-very-secret",
}
TOOLS = """
from pegboard import tool

@tool(destructive=True)
def wipe(path: str) -> str:
    '''Removes a file.'''
    return f"wiped {path}"
"""


@pytest.fixture
def environ(tmp_path):
    """A home of its own, and a folder to be in with two files; the clients' keys."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / "here").mkdir(exist_ok=True)
        (tmp_path / "here" / name).write_text(name)
    kept = ("PATH", "LANG", "PYTHONPATH", "XDG_CACHE_HOME")
    inherited = {name: os.environ[name] for name in kept if name in os.environ}
    return {**inherited, **KEYS, "HOME": str(tmp_path), "TERM": "dumb"}


def pointed(environ, server):
    return {
        **environ,
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "ANTHROPIC_BASE_URL": server.url,
        "GOOGLE_GEMINI_BASE_URL": server.url,
    }


def run(environ, server, tmp_path, *argv):
    return subprocess.run(
        command("chat", *argv),
        env=pointed(environ, server),
        cwd=tmp_path / "here",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


@pytest.mark.parametrize("model", ["openai/small", "anthropic/small"])
def test_a_turn_over_the_vendors_sdk(environ, tmp_path, model):
    script = [Round(text="Let me look.", calls=[LOOK]), Round(text="There are two.")]
    with ModelServer(script) as server:
        done = run(environ, server, tmp_path, "-m", model, "-T", "list_directory", "How many files are here?")
    assert (done.returncode, done.stdout) == (0, "Let me look.\nThere are two.\n"), done.stderr
    asked, answered = [line for line in done.stderr.splitlines() if line.startswith(("-> ", "<- "))]
    assert asked.replace(" ", "") == '->list_directory{"path":"."}'
    assert answered.startswith("<- list_directory: ")
    assert "a.txt" in answered
    assert len(server.requests) == 2


def test_errors_of_a_provider_do_not_show_the_key(environ, tmp_path):
    with ModelServer([Round(error=Error(401))]) as server:
        done = run(environ, server, tmp_path, "-m", "google/small", "Hi")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error: " in done.stderr
    assert "very-secret" not in done.stderr


def test_the_partial_answer_of_a_broken_stream_is_saved(environ, tmp_path):
    file = tmp_path / "talk.json"
    script = [Round(text="Half a sentence " * 20, break_after=8)]
    with ModelServer(script) as server:
        done = run(environ, server, tmp_path, "-m", "openai/small", "--history", str(file), "Hi")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("Half")
    assert json.loads(file.read_text())["messages"][1]["parts"][0]["text"].startswith("Half")


def test_a_missing_key_names_the_variable(environ, tmp_path):
    with ModelServer([]) as server:
        bare = {name: value for name, value in environ.items() if name not in KEYS}
        done = run(bare, server, tmp_path, "-m", "openai/small", "Hi")
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in done.stderr


@pytest.fixture
def terminal(environ, tmp_path):
    functions = tmp_path / "tools.py"
    functions.write_text(TOOLS)

    def start(server, *argv):
        arguments = ["chat", "-m", "openai/small", "--functions", str(functions), *argv]
        return Terminal(arguments, pointed(environ, server), tmp_path / "here")

    return start


def test_a_call_is_approved_in_the_terminal(terminal):
    with ModelServer([Round(calls=[Call("wipe", {"path": "a.txt"})]), Round(text="It is gone.")]) as server:
        at = terminal(server, "Remove a.txt")
        at.until("Run it?")
        at.type("y\n")
        at.until("It is gone.")
        assert at.end() == 0
    assert "<- wipe: wiped a.txt" in at.shown


def test_a_call_is_rejected_with_a_reason(terminal):
    with ModelServer([Round(calls=[Call("wipe", {"path": "a.txt"})]), Round(text="I leave it.")]) as server:
        at = terminal(server, "Remove a.txt")
        at.until("Run it?")
        at.type("n keep that one\n")
        at.until("I leave it.")
        assert at.end() == 0
    assert "keep that one" in json.dumps(server.requests[1].body)


def test_ctrl_c_ends_the_turn_and_saves_the_conversation(terminal, tmp_path):
    file = tmp_path / "talk.json"
    with ModelServer([Round(calls=[Call("wipe", {"path": "a.txt"})])]) as server:
        at = terminal(server, "--history", str(file), "Remove a.txt")
        at.until("Run it?")
        os.killpg(at.process.pid, signal.SIGINT)
        assert at.end() == 130
    assert "the turn ended: interrupted\n" in at.shown
    roles = [message["role"] for message in json.loads(file.read_text())["messages"]]
    assert roles == ["user", "assistant", "tool"]


def test_without_a_prompt_a_conversation_starts(terminal, tmp_path):
    script = [Round(text="Hello."), Round(calls=[Call("wipe", {"path": "a.txt"})]), Round(text="It is gone.")]
    with ModelServer(script) as server:
        at = terminal(server)
        at.until("> ")
        at.type("hi\r")
        at.until("Hello.")
        at.until("> ")
        at.type("Remove a.txt\rn\r")  # what was typed before the question answers nothing
        at.until("  l  later\n> ")
        at.type("y\r")
        at.until("It is gone.")
        at.until("> ")
        at.type("/exit\r")
        assert at.end() == 0
    assert "<- wipe: wiped a.txt" in at.shown
    history = tmp_path / ".local" / "state" / "pegboard" / "chat-lines"
    assert history.stat().st_mode & 0o777 == 0o600
    assert "Remove a.txt" in history.read_text()


def test_a_turn_is_shown_and_undone_after_a_restart(terminal, tmp_path):
    edit = Call("edit_file", {"path": "a.txt", "old_string": "a.txt", "new_string": "changed"})
    with ModelServer([Round(calls=[edit]), Round(text="It is changed.")]) as server:
        at = terminal(server, "-T", "edit_file", "--history", "talk.json")
        at.until("> ")
        at.type("Change it\r")
        at.until("  l  later\n> ")
        at.type("y\r")
        at.until("It is changed.")
        at.until("> ")
        at.type("/exit\r")
        assert at.end() == 0
        assert (tmp_path / "here" / "a.txt").read_text() == "changed"
        at = terminal(server, "-T", "edit_file", "--history", "talk.json")
        at.until("> ")
        at.type("/diff\r")
        at.until("+changed")
        at.until("1 file changed, +1 -1 lines")
        at.until("> ")
        at.type("/undo\r")
        at.until("1 file restored, 0 left as they are")
        at.until("> ")
        at.type("/exit\r")
        assert at.end() == 0
    assert (tmp_path / "here" / "a.txt").read_text() == "a.txt"
