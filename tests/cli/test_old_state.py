"""What pegboard 0.2.0 left in a user's folders: read, or refused with a clear error."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from installed import OLD as FILES_TIME
from pegboard import Once, Permissions, ReadonlyContext, Rule, ToolRegistry, tool
from pegboard.approval import PendingCalls
from pegboard.cli.main import main
from pegboard_chat.conversation import read_conversation
from pegboard_guard import FileApprovals

STATE = Path(__file__).with_name("state_of_0_2")
"""Written by 0.2.0: a conversation, a journal with its key, approvals, and a call that waits for an answer."""


@tool(permission="edit", permission_arguments={"path": "path"})
def write(path: str, text: str) -> str:
    """Writes."""
    return f"wrote {path}"


def test_a_conversation_goes_on():
    asked, answered = read_conversation(str(STATE / "talk.json")).messages
    assert (asked.text, answered.text) == ("Hi there", "Hello to you.")


@pytest.mark.slow
def test_a_journal_goes_on(tmp_path, monkeypatch, home, capsys, others):
    """Its records are chained on, and are verified and shown with the new ones."""
    shutil.copytree(STATE, tmp_path, dirs_exist_ok=True)
    (tmp_path / "audit.jsonl.key").chmod(0o600)
    monkeypatch.setenv("PEGBOARD_BLOCK", ",".join(name for name in others.split(",") if name != "guard"))
    journal = json.dumps(str(tmp_path / "audit.jsonl"))
    config = tmp_path / "pegboard.toml"
    config.write_text(f"[plugins.guard.journal]\nfile = {journal}\n")
    (tmp_path / "functions.py").write_text("def double(n: int) -> int:\n    'Doubles.'\n    return 2 * n\n")
    functions = str(tmp_path / "functions.py")
    assert main(["--config", str(config), "call", "--functions", functions, "double", "n=4"]) == 0
    assert main(["--config", str(config), "guard", "verify", str(tmp_path / "audit.jsonl")]) == 0
    assert "whole: 4 records" in capsys.readouterr().out


async def test_what_was_approved_for_longer_is_asked_again(tmp_path):
    shutil.copy(STATE / "approvals.json", tmp_path)
    asked = []
    registry = ToolRegistry(
        approver=lambda request, context: asked.append(request) or Once(),
        grants=FileApprovals(tmp_path / "approvals.json"),
        permissions=Permissions([Rule("edit", "*", "ask")]),
    )
    registry.register(write)
    arguments = {"path": "/srv/shop/a.txt", "text": "x"}
    result = await registry.call("write", arguments, ReadonlyContext(user="ann", session="s1"))
    assert (result.text, len(asked)) == ("wrote /srv/shop/a.txt", 1)


async def test_a_call_that_waited_for_an_answer_is_refused_and_says_to_ask_again():
    """Its digest is of another form, so that it can't be shown to be what was asked about."""
    (pending,) = calls = PendingCalls.from_json(json.loads((STATE / "pending.json").read_text()))
    registry = ToolRegistry(permissions=Permissions([Rule("edit", "*", "ask")]))
    registry.register(write)
    outcome = await registry.resume(calls, {pending.id: Once()})
    (result,) = outcome.results
    assert (result.kind, "Ask again" in result.text) == ("denied", True)


def test_a_project_that_was_trusted_stays_so(home, tmp_path, monkeypatch, capsys):
    project = tmp_path / "shop"
    project.mkdir()
    (project / "pegboard.toml").write_text('conflicts = "error"\n')
    digest = hashlib.sha256((project / "pegboard.toml").read_bytes()).hexdigest()
    trusted = home / "state" / "pegboard" / "trusted.json"
    trusted.parent.mkdir(mode=0o700)
    trusted.write_text(json.dumps({"files": {str(project / "pegboard.toml"): f"sha256:{digest}"}, "format": 1}))
    trusted.chmod(0o600)
    monkeypatch.chdir(project)
    assert main(["config", "show"]) == 0
    assert '"conflicts": "error"' in capsys.readouterr().out


OLD = {
    "snapshots": b"pegboard snapshot 3\nf6c7156c 10\n(1, 2, 3)\n",
    "manifests": b'{"format":2,"key":"x","manifest":{}}',
}


SHOP = """
from pegboard import hookimpl, tool

@tool
def buy(item: str) -> str:
    "Buys."
    return item

@hookimpl
def pegboard_register_tools(register):
    register(buy)
"""


def test_its_cache_is_written_anew(home, empty_site, capsys):
    empty_site.add("shop", SHOP)
    for file in (empty_site.root, *empty_site.root.rglob("*")):
        os.utime(file, (FILES_TIME, FILES_TIME))  # what was written just now isn't cached
    assert main(["list", "--names"]) == 0
    listed = capsys.readouterr()
    assert "buy" in listed.out
    cached = [path for kind in OLD for path in (home / "cache" / "pegboard" / kind).iterdir()]
    assert {path.parent.name for path in cached} == {*OLD}
    for path in cached:
        path.write_bytes(OLD[path.parent.name])
    assert main(["list", "--names"]) == 0
    assert capsys.readouterr() == listed
    assert all(path.read_bytes() != OLD[path.parent.name] for path in cached)
