"""A coding session in a terminal: read, edit, run the tests, remember, be interrupted and killed, and go on."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys

import pytest

from fake_vendors import Call, ModelServer, Round
from terminal import SECONDS, Terminal

pytestmark = pytest.mark.slow

CONFIG = """
enable = ["agents", "chat", "files", "memory", "openai", "shell"]

[selections]
coding = "plugin:files,plugin:shell,update_memory,write_todos"

[plugins.shell]
sandbox = "none"
"""
CODE = """\
def add(one, other):
    return one - other


def double(number):
    return number + 2
"""
TESTS = """\
import unittest

from calc import add, double


class CalcTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)

    def test_double(self):
        self.assertEqual(double(5), 10)
"""
RUN_TESTS = Call("shell", {"command": [sys.executable, "-m", "unittest", "-q"]})
READ = Call("read_file", {"path": "calc.py"})
FIX_ADD = Call("edit_file", {"path": "calc.py", "old_string": "one - other", "new_string": "one + other"})
FIX_DOUBLE = Call("edit_file", {"path": "calc.py", "old_string": "number + 2", "new_string": "number * 2"})
WAIT = Call("shell", {"command": "echo begun > ../begun; sleep 600"})
REMEMBER = Call("update_memory", {"operation": "create", "name": "project", "content": "unittest runs the tests."})
DONE = Call("write_todos", {"todos": [{"content": "fix calc.py", "status": "completed"}]})


@pytest.fixture
def repository(tmp_path):
    """A git repository with two functions, both wrong, and a test of each."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "calc.py").write_text(CODE)
    (folder / "test_calc.py").write_text(TESTS)
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "Sums"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.fixture
def begun(tmp_path):
    """What can be read from once the command that waits runs."""
    os.mkfifo(tmp_path / "begun")
    descriptor = os.open(tmp_path / "begun", os.O_RDWR)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def chat(tmp_path, repository):
    """Starts `registry chat -T coding` in a terminal; each goes on with the same conversation."""
    config = tmp_path / "pegboard.toml"
    config.write_text(CONFIG)
    kept = ("PATH", "LANG", "PYTHONPATH", "XDG_CACHE_HOME")
    inherited = {name: os.environ[name] for name in kept if name in os.environ}
    environ = {**inherited, "HOME": str(tmp_path), "TERM": "dumb", "OPENAI_API_KEY": "sk-x"}

    def start(server, *words):
        argv = ["-m", "openai/small", "-T", "coding", "--config", str(config), "--history", str(tmp_path / "talk.json")]
        return Terminal(["chat", *argv, *words], {**environ, "OPENAI_BASE_URL": f"{server.url}/v1"}, repository)

    return start


def roles(tmp_path):
    return [message["role"] for message in json.loads((tmp_path / "talk.json").read_text())["messages"]]


def test_a_coding_session_survives_an_interruption_and_a_kill(chat, repository, begun, tmp_path):
    with ModelServer(
        [Round(calls=[READ]), Round(calls=[FIX_ADD]), Round(calls=[RUN_TESTS]), Round(calls=[REMEMBER, WAIT])]
    ) as server:
        at = chat(server, "The tests fail. Mend them.")
        at.until("<- read_file")
        at.until("-    return one - other")
        at.until("+    return one + other")
        at.until("Run it?")
        at.type("y\n")
        at.until("<- edit_file")
        at.until("Run it?")
        at.type("y\n")
        at.until("FAIL: test_double")
        at.until("Run it?")
        at.type("y\n")
        at.until("<- update_memory")
        assert select.select([begun], [], [], SECONDS)[0]
        os.kill(at.process.pid, signal.SIGINT)
        assert at.end() == 130
    assert "aborted after" in at.shown
    assert (repository / "calc.py").read_text() == CODE.replace("one - other", "one + other")
    assert roles(tmp_path)[-1] == "tool"

    with ModelServer([Round(calls=[READ]), Round(calls=[FIX_DOUBLE])]) as server:
        at = chat(server, "Go on, without waiting")
        at.until("+    return number * 2")
        at.until("Run it?")
        at.process.kill()
        at.end()
    assert "number + 2" in (repository / "calc.py").read_text()
    assert roles(tmp_path)[-1] == "assistant"

    script = [
        Round(calls=[READ]),
        Round(calls=[FIX_DOUBLE]),
        Round(calls=[RUN_TESTS]),
        Round(calls=[DONE]),
        Round(text="Both are mended."),
    ]
    with ModelServer(script) as server:
        at = chat(server, "Go on")
        for _ in range(2):
            at.until("Run it?")
            at.type("y\n")
        at.until("Ran 2 tests")
        at.until("Both are mended.")
        assert at.end() == 0
    changed = subprocess.run(["git", "diff", "--stat"], cwd=repository, check=True, capture_output=True, text=True)
    assert "calc.py | 4 ++--" in changed.stdout
    body = json.dumps(server.requests[0].body)
    assert "unittest runs the tests." in server.requests[0].body["instructions"]  # what was remembered
    assert "Mend them." in body
    assert "Go on, without waiting" in body
