"""The net change of turns: reports, undo, limits."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

import pegboard_files
from pegboard import Permissions, ReadonlyContext, Rule, Tool, ToolCall, ToolContext, ToolError, ToolRegistry, run_turn
from pegboard.testing import ScriptedModel
from pegboard_files import turn_diff
from pegboard_files.root import Deadline, OpenRoot, open_root
from pegboard_files.turn_diff import MAX_LISTED, MAX_TURN_DIFF, diff_of_turn
from pegboard_files.turns import TurnStore, Undone
from pegboard_files.writing import Change, FileState, commit, read_state

ANN = ReadonlyContext(user="ann", session="s")


def patch(*lines: str) -> ToolCall:
    return ToolCall("apply_patch", {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])})


def put(path: str, content: str) -> ToolCall:
    return ToolCall("write_file", {"path": path, "content": content})


@pytest.fixture
def turn(top):
    """Runs a turn in which the model makes these calls, one after another; returns its report."""

    def run(*calls, context=ANN, between=lambda: None, ends=True, tools=(), **settings):
        registry = ToolRegistry(permissions=Permissions([Rule("edit", "*", "allow")]))
        settings = {"root": str(top), "read_first": False, **settings}
        pegboard_files.pegboard_register_tools(registry.register, settings)
        for each in tools:
            registry.register(each)
        if ends:
            registry.add_callback("report_turn", pegboard_files.pegboard_report_turn)
        registry.add_callback("after_tool", lambda result: between())
        outcome = asyncio.run(run_turn(ScriptedModel([*([call] for call in calls), "Done."]), "Go", registry, context))
        assert not [part.result.text for each in outcome.messages for part in each.results if part.result.is_error]
        return outcome.reports.get("host")

    return run


@pytest.fixture
def pause(top):
    """A turn that changed a file and waits for the host, and a function that ends it."""
    registry = ToolRegistry(permissions=Permissions([Rule("edit", "*", "allow")]))
    pegboard_files.pegboard_register_tools(registry.register, {"root": str(top)})
    registry.register(Tool.from_schema("by_host", {}))
    registry.add_callback("report_turn", pegboard_files.pegboard_report_turn)

    def run(*answers, **options):
        return asyncio.run(run_turn(ScriptedModel(answers), "Go", registry, ANN, **options))

    paused = run([put("a", "a\n")], [ToolCall("by_host", {}, "1")])
    assert (paused.ended, paused.reports["host"]["changed"]) == ("pending", 1)
    return paused, lambda *answers: run(*answers, resume=paused, tool_results={"1": "x"})


KILLED = """
import os, signal, sys
from attrs import evolve
from pegboard import ReadonlyContext, ToolContext
from pegboard_files import writing
from pegboard_files.root import Deadline, open_root
from pegboard_files.turns import TurnStore
from pegboard_files.writing import Change, commit, read_state

root_place, step, count = sys.argv[1:]
call, store = ToolContext(request=ReadonlyContext(user="ann", session="s", invocation="t")), TurnStore()

def change(**texts):
    with open_root(root_place) as root:
        changes = [Change(read_state(root, (name,)), text and text.encode()) for name, text in texts.items()]
        commit(changes, Deadline(30), store.record(call, changes))

change(a="1")
put, done = writing._Slot.put_in_place, []

def kill(slot):
    if step == "after":
        put(slot)
    done.append(slot)
    if len(done) == int(count):
        os.kill(os.getpid(), signal.SIGKILL)
    put(slot)

writing._Slot.put_in_place = kill
change(a="2") if count == "1" else change(a="2", b=None)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("step", "count"), [("before", 1), ("after", 1), ("before", 2)])
def test_a_change_of_a_killed_process_is_undone_as_far_as_it_was_made(top, write, step, count):
    """That of two files is rolled back; then only the earlier change is there."""
    write({"a": "0", "b": "B"})
    argv = [sys.executable, "-c", KILLED, str(top), step, str(count)]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    turn = TurnStore().turns(ANN)[0]
    written = "2" if step == "after" else "1"
    assert (top / "a").read_text() == written
    diff = diff_of_turn(TurnStore(), turn, Deadline(5))
    assert [each.path for each in diff.files] == ["a"]
    assert diff.diff.splitlines()[-2] == f"+{written}"
    assert undo() == Undone(["a"], {})
    assert {path.name: path.read_text() for path in top.iterdir()} == {"a": "0", "b": "B"}


def test_a_change_that_fails_is_not_recorded(top, write, monkeypatch):
    write({"a": "a\n"})
    call, store = ToolContext(request=evolve(ANN, invocation="t")), TurnStore()
    with open_root(str(top)) as root:
        changes = [Change(read_state(root, ("a",)), b"A\n")]
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", lambda *_, **__: os.open(top / "missing", os.O_RDONLY))
            with pytest.raises(ToolError, match="Nothing was changed"):
                commit(changes, Deadline(10), store.record(call, changes))
        assert store.turns(ANN) == []
        commit(changes, Deadline(10), store.record(call, changes))
    assert undo() == Undone(["a"], {})
    assert (top / "a").read_text() == "a\n"


def undo(context=ANN, place=0):
    store = TurnStore()
    return store.undo(store.turns(context)[place], Deadline(10))


def test_two_edits_of_a_file_are_one_diff(turn, write):
    write({"a": "one\ntwo\n"})
    report = turn(
        ToolCall("edit_file", {"path": "a", "old_string": "one", "new_string": "1"}),
        ToolCall("edit_file", {"path": "a", "old_string": "two", "new_string": "2"}),
        put("new/b", "b\n"),
    )
    assert report["diff"] == (
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-one\n-two\n+1\n+2\n--- /dev/null\n+++ b/new/b\n@@ -0,0 +1 @@\n+b\n"
    )
    assert report["files"] == [{"path": "a", "change": "modified"}, {"path": "new/b", "change": "added"}]
    assert (report["changed"], report["additions"], report["deletions"]) == (2, 3, 2)
    assert "not those by other programs" in report["note"]


def test_what_an_agent_changes_belongs_to_the_turn_at_the_top(turn, write, top):
    write({"a": "one\n"})
    first = evolve(ANN, invocation="t1")
    agents = ReadonlyContext(user="ann", session="s/helper/1", invocation="t2", root=first)
    assert turn(put("a", "two\n"), put("b", "b\n"), context=agents) is None
    assert turn(put("a", "three\n"), context=first)["diff"].endswith(
        "-one\n+three\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+b\n"
    )
    assert TurnStore().turns(agents) == []
    assert sorted(undo().restored) == ["a", "b"]
    assert [(path.name, path.read_text()) for path in top.iterdir()] == [("a", "one\n")]


def test_a_turn_without_a_net_change_is_none(turn, write):
    write({"a": "one\n"})
    turn(put("a", "zero\n"))
    assert turn() is None
    assert turn(put("a", "two\n"), put("a", "zero\n"), put("b", "b\n"), patch("*** Delete File: b")) is None
    assert undo().restored == ["a"], "the last turn is one that has changed something"


def test_the_report_of_a_turn_that_was_undone_while_it_waited_is_what_it_changed_since(pause):
    outcome, end = pause
    assert undo().restored == ["a"]
    assert end([put("b", "b\n")], "Done.").reports["host"]["files"] == [{"path": "b", "change": "added"}]
    assert outcome.reports["host"]["files"] == [{"path": "a", "change": "added"}]


def test_a_turn_that_was_undone_while_it_waited_has_no_report(pause):
    _, end = pause
    undo()
    assert end("Done.").reports == {}


@pytest.mark.parametrize("killed", [False, True])
def test_a_turn_of_the_id_of_an_earlier_one_is_a_turn_of_its_own(turn, top, killed):
    """Also of one that a killed process has left without an end, as of a host that counts its turns anew."""
    context = evolve(ANN, invocation="1")
    turn(put("a", "first\n"), context=context, ends=not killed)
    report = turn(put("a", "second\n"), put("b", "b\n"), context=context)
    assert [each["change"] for each in report["files"]] == ["modified", "added"]
    assert turn(context=context) is None
    assert undo() == Undone(["a", "b"], {})
    assert (top / "a").read_text() == "first\n"
    assert undo() == Undone(["a"], {})
    assert list(top.iterdir()) == []


def test_a_turn_that_waited_is_continued_by_its_id_and_ends(pause, turn, top):
    """Also by a turn without changes."""
    paused, end = pause
    assert end([put("b", "b\n")], "Done.").reports["host"]["changed"] == 2
    turn(put("c", "c\n"), context=evolve(ANN, invocation=paused.invocation))
    assert undo().restored == ["c"]
    assert undo().restored == ["a", "b"]


def test_agents_that_hand_over_are_one_turn(turn, top):
    """The next turn of that id is another, even if the last agent has changed nothing."""
    context = evolve(ANN, invocation="1")

    def hand_over(call: ToolContext):
        call.actions.transfer_to = "other"

    turn(put("a", "a\n"), ToolCall("hand_over", {}), context=context, tools=[Tool.from_function(hand_over)])
    assert turn(context=context)["changed"] == 1
    turn(put("b", "b\n"), context=context)
    assert undo().restored == ["b"]
    assert undo().restored == ["a"]


def test_calls_outside_of_run_turn_belong_to_the_turn_of_their_id(turn, top):
    """As those of an executor's processes, in any order with the turn's own."""
    context, store = evolve(ANN, invocation="1"), TurnStore()
    with open_root(str(top)) as root:
        with store.record(ToolContext(request=context), [Change(FileState(root, ("x",)), b"x\n")]):
            pass
        assert turn(put("a", "a\n"), context=context)["changed"] == 2
        with store.record(ToolContext(request=context), [Change(FileState(root, ("y",)), b"y\n")]):
            pass
    assert [each.files for each in store.turns(ANN)] == [3]


def test_undo_makes_the_files_as_they_were(turn, write, top):
    """Modified, added, deleted and moved ones, links, and permissions of a deleted one."""
    write({"a": "a\n", "gone.sh": b"#!/bin/sh\n\xff\n", "old": "moved\n"})
    (top / "gone.sh").chmod(0o751)
    (top / "link").symlink_to("a")
    report = turn(
        put("a", "A\n"),
        patch("*** Delete File: gone.sh", "*** Update File: old", "*** Move to: sub/new", "@@", "-moved", "+MOVED"),
        patch("*** Delete File: link"),
        put("c", "c\n"),
    )
    assert {each["path"]: each["change"] for each in report["files"]} == {
        **dict.fromkeys(["gone.sh", "link", "old"], "deleted"),
        "a": "modified",
        "c": "added",
        "sub/new": "added",
    }
    assert {each["path"] for each in report["files"] if "note" in each} == {"link"}
    done = undo()
    assert (sorted(done.restored), done.refused) == (["a", "c", "gone.sh", "link", "old", "sub/new"], {})
    assert {path.name for path in top.rglob("*")} == {"a", "gone.sh", "link", "old"}
    assert (top / "a").read_text() == "a\n"
    assert (top / "gone.sh").read_bytes() == b"#!/bin/sh\n\xff\n"
    assert stat.S_IMODE((top / "gone.sh").stat().st_mode) == 0o751
    assert (top / "link").readlink() == Path("a")
    assert TurnStore().turns(ANN) == []


def test_a_file_that_was_deleted_and_made_again_gets_its_permissions_again(turn, write, top):
    """Those that it had then; one that the turn has only changed keeps what it has."""
    write({"run.sh": "a\n", "a": "a\n"})
    (top / "run.sh").chmod(0o640)
    turn(put("run.sh", "b\n"), put("a", "b\n"))
    (top / "run.sh").chmod(0o751)
    turn(put("run.sh", "c\n"), patch("*** Delete File: run.sh"), put("run.sh", "d\n"), put("a", "c\n"))
    (top / "a").chmod(0o600)
    assert undo().restored == ["a", "run.sh"]
    assert [((top / name).read_text(), stat.S_IMODE((top / name).stat().st_mode)) for name in ("a", "run.sh")] == [
        ("b\n", 0o600),
        ("b\n", 0o751),
    ]


def test_a_file_by_two_roots_is_one_change(turn, top):
    """As an agent's may be a folder of its caller's."""
    (top / "sub").mkdir()
    context = evolve(ANN, invocation="t", values={})
    turn(put("sub/a", "1\n"), context=context)
    report = turn(put("a", "2\n"), context=context, root=str(top / "sub"))
    assert report["diff"] == "--- /dev/null\n+++ b/sub/a\n@@ -0,0 +1 @@\n+2\n"
    assert undo() == Undone(["sub/a"], {})
    assert list((top / "sub").iterdir()) == []


def test_each_file_is_named_also_if_files_of_two_roots_have_one_name(turn, top):
    (top / "sub").mkdir()
    context = evolve(ANN, invocation="t", values={})
    turn(put("a", "1\n"), put("b", "1\n"), context=context)
    turn(put("a", "2\n"), put("b", "2\n"), context=context, root=str(top / "sub"))
    (top / "a").write_text("mine\n")
    (top / "sub/a").write_text("mine\n")
    undone = undo()
    assert (undone.restored, undone.refused.keys()) == ([f"{top}/b", "b"], {"a", f"{top}/a"})
    assert {path.name for path in top.rglob("*") if path.is_file()} == {"a"}


def test_a_link_that_became_a_file_is_a_link_again(turn, write, top):
    write({"a": "a\n"})
    (top / "link").symlink_to("a")
    turn(patch("*** Delete File: link"), put("link", "text\n"))
    assert undo().refused == {}
    assert (top / "link").readlink() == Path("a")


def test_folders_that_the_turn_has_made_are_removed_if_they_are_empty(turn, write, top):
    """Also one that stands where a file was; one that was empty before stays."""
    write({"was": "w\n"})
    (top / "empty").mkdir()
    (top / "gone").mkdir()
    turn(
        put("new/pkg/a", "a\n"),
        put("new/b", "b\n"),
        put("used/x/c", "c\n"),
        put("empty/d", "d\n"),
        put("gone/e", "e\n"),
        patch("*** Delete File: was"),
        put("was/inner", "i\n"),
    )
    (top / "used" / "mine").write_text("m\n")
    (top / "new" / "b").unlink()
    (top / "gone" / "e").unlink()
    (top / "gone").rmdir()
    assert undo() == Undone(["empty/d", "gone/e", "new/b", "new/pkg/a", "used/x/c", "was", "was/inner"], {})
    assert {f"{path.relative_to(top)}" for path in top.rglob("*")} == {"empty", "used", "used/mine", "was"}
    assert (top / "was").read_text() == "w\n"


def test_folders_of_files_that_the_turn_has_deleted_again_are_removed(turn, top):
    """A file may stand where such a folder is."""
    (top / "was").write_text("w\n")
    turn(
        *(put("new/x/a", "a\n"), put("b", "b\n"), patch("*** Delete File: new/x/a"), patch("*** Delete File: was")),
        *(put("was/a", "a\n"), patch("*** Delete File: was/a")),
    )
    assert undo() == Undone(["b", "was"], {})
    assert [path.name for path in top.rglob("*")] == ["was"]


def test_folders_are_removed_with_the_last_file_that_is_undone(turn, top):
    turn(put("new/a", "a\n"), put("new/b", "b\n"))
    (top / "new/b").write_text("mine\n")
    assert undo().restored == ["new/a"]
    assert [each.files for each in TurnStore().turns(ANN)] == [1]
    (top / "new/b").write_text("b\n")
    assert undo() == Undone(["new/b"], {})
    assert list(top.iterdir()) == []


def test_files_that_somebody_else_has_changed_stay(turn, write, top):
    write({"a": "a\n", "b": "b\n", "gone": "g\n"})
    turn(put("a", "A\n"), put("b", "B\n"), patch("*** Delete File: gone"), put("new", "n\n"))
    (top / "b").write_text("mine\n")
    (top / "gone").write_text("again\n")
    (top / "new").unlink()
    done = undo()
    assert done.restored == ["a", "new"]  # the other was removed already
    assert {name: "was changed since the turn" in why for name, why in done.refused.items()} == dict.fromkeys(
        ["b", "gone"], True
    )
    assert (top / "b").read_text() == "mine\n"
    (top / "b").write_text("B\n")  # as the turn has left it
    assert undo().restored == ["b"]


def test_of_many_files_of_a_folder_each_is_undone_by_itself(top, write):
    names = [f"{number:03}" for number in range(150)]
    write({f"sub/{name}": f"old {name}" for name in names})
    call, store = ToolContext(request=evolve(ANN, invocation="t")), TurnStore()
    with open_root(str(top)) as root:
        changes = [Change(read_state(root, ("sub", name)), b"new") for name in names]
        commit(changes, Deadline(60), store.record(call, changes))
    for name in names[::50]:
        (top / "sub" / name).write_text("mine")
    undone = undo()
    assert sorted(undone.refused) == ["sub/000", "sub/050", "sub/100"]
    assert len(undone.restored) == 147
    texts = {path.name: path.read_text() for path in (top / "sub").iterdir()}
    assert texts == {name: "mine" if name in names[::50] else f"old {name}" for name in names}


def test_a_file_that_is_as_it_was_before_the_turn_counts_as_restored(turn, write, top):
    """Such as after an undo that was killed, or if its owner has put it back."""
    write({"a": "a\n", "b": "b\n"})
    turn(put("a", "A\n" * 1_000), put("b", "B\n"), undo_bytes=1_000)
    assert "wasn't kept" in undo().refused["a"]
    (top / "a").write_text("a\n")
    assert undo() == Undone(["a"], {})


def test_a_file_that_cannot_be_read_is_refused_and_the_others_are_restored(turn, write, top, monkeypatch):
    """Another user's folder, or a link to another place, stands where the turn has changed files."""
    write({"a": "a\n", "b": "b\n", "d/a": "a\n", "d/gone": "g\n"})
    turn(put("a", "A\n"), put("b", "B\n"), put("d/a", "A\n"), patch("*** Delete File: d/gone"))
    (top / "d").rename(top.parent / "other")
    (top / "d").symlink_to(top.parent / "other")
    status = OpenRoot.status

    def forbidden(root, parts):
        if parts == ("a",):
            raise PermissionError(errno.EACCES, "")
        return status(root, parts)

    monkeypatch.setattr(OpenRoot, "status", forbidden)
    done = undo()
    assert done.restored == ["b"]
    assert done.refused["a"] == "'a': Permission denied."
    assert done.refused.keys() == {"a", "d/a", "d/gone"}
    assert [path.read_text() for path in (top.parent / "other").iterdir()] == ["A\n"]


def test_a_change_by_another_program_during_the_turn_is_not_undone(turn, write, top):
    write({"a": "a\n"})

    def change():
        if (top / "a").read_text() == "A\n":
            (top / "a").write_text("mine\n")

    report = turn(put("a", "A\n"), ToolCall("read_file", {"path": "a"}), put("a", "AA\n"), between=change)
    assert report["files"][0]["note"].startswith("during the turn it was also changed by another program")
    assert "during the turn" in undo().refused["a"]
    assert (top / "a").read_text() == "AA\n"


def test_binary_and_deleted_files(turn, write, top):
    write({"bin": b"\0\1", "a": "a\n"})
    report = turn(patch("*** Delete File: bin", "*** Delete File: a"))
    assert "Binary files a/bin and /dev/null differ\n" in report["diff"]
    assert undo().refused == {}
    assert (top / "bin").read_bytes() == b"\0\1"


def test_turns_are_undone_from_the_newest_backwards(turn, write, top):
    write({"a": "0\n"})
    turn(put("a", "1\n"))
    turn(put("a", "2\n"))
    assert "changed since" in undo(place=1).refused["a"]
    undo()
    undo()
    assert (top / "a").read_text() == "0\n"


def test_turns_are_known_to_their_user_and_session_only(turn):
    turn(put("a", "1\n"))
    assert [len(TurnStore().turns(each)) for each in (ANN, ReadonlyContext(user="bob", session="s"))] == [1, 0]
    assert TurnStore().turns(ReadonlyContext(user="ann", session="other")) == []


def test_a_call_outside_of_a_turn_or_without_changes_is_not_recorded(top):
    with open_root(str(top)) as root:
        change = Change(FileState(root, ("a",)), b"x\n")
        with TurnStore().record(ToolContext(), [change]):
            pass
        with TurnStore().record(None, [change]):
            pass
    with TurnStore().record(ToolContext(request=evolve(ANN, invocation="t")), []):
        pass
    assert TurnStore().turns(ReadonlyContext()) == []
    assert not TurnStore().path.exists()


def test_the_store_is_private(turn):
    turn(put("a", "1\n"))
    assert stat.S_IMODE(TurnStore().path.stat().st_mode) == 0o600
    assert stat.S_IMODE(TurnStore().path.parent.stat().st_mode) == 0o700


def test_a_store_that_others_can_write_is_not_used(turn, top, caplog):
    """They could have an undo write any content."""
    turn(put("a", "1\n"))
    TurnStore().path.chmod(0o666)
    assert turn(put("a", "2\n")) is None
    assert "other users can write it" in caplog.text
    with pytest.raises(ToolError, match="other users can write it"):
        TurnStore().turns(ANN)
    assert (top / "a").read_text() == "2\n"


def test_a_store_is_made_on_a_file_system_without_hard_links(turn, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert turn(put("a", "1\n"))["changed"] == 1
    assert [path.name for path in TurnStore().path.parent.iterdir()] == ["turns.sqlite"]


@pytest.mark.parametrize("limit", [{"undo_bytes": 5_000}, {"undo_files": 2}])
def test_the_oldest_turns_go_first(turn, limit):
    for content in "123":
        turn(put("a", content * 1_900), **limit)
    turns = TurnStore().turns(ANN)
    assert len(turns) == (2 if "undo_files" in limit else 1)
    assert next(TurnStore().changes(turns[0])).new == b"3" * 1_900


def test_turns_are_forgotten_after_some_days(turn):
    turn(put("a", "1\n"), undo_days=1e-9)
    assert TurnStore().turns(ANN) == []
    turn(put("b", "1\n"))
    connection = sqlite3.connect(TurnStore().path)
    assert connection.execute("SELECT count(*) FROM changes").fetchone() == (1,)
    connection.close()


def test_of_a_turn_beyond_the_limits_the_names_are_known(turn, top, write):
    write({"a": "a\n", "b": "b\n"})
    report = turn(put("a", "1" * 10_000), put("b", "B\n"), put("a", "2\n"), undo_bytes=1_000)
    assert report["files"][0]["note"].startswith("its contents weren't kept")
    assert report["files"][1] == {"path": "b", "change": "modified"}
    done = undo()
    assert done.restored == ["b"]
    assert "wasn't kept" in done.refused["a"]
    assert (top / "a").read_text() == "2\n"


def test_a_long_diff_is_left_out(turn, write):
    write({"a": "a\n"})
    report = turn(put("big", "long line\n" * 30_000), put("c", "c\n"))
    assert report["files"][0]["note"].startswith("its diff is too long to be shown")
    assert report["diff"] == "--- /dev/null\n+++ b/c\n@@ -0,0 +1 @@\n+c\n"
    assert len(report["diff"]) < MAX_TURN_DIFF


def test_once_a_short_diff_does_not_fit_no_further_one_is_made(turn, monkeypatch):
    """It would take seconds for thousands of files."""
    monkeypatch.setattr(turn_diff, "MAX_TURN_DIFF", 120)
    report = turn(*(put(f"{number}", "x\n") for number in range(4)))
    notes = [each.get("note", "") for each in report["files"]]
    assert [note.partition(":")[2] for note in notes] == [
        "",
        "",
        " 39 characters",
        " there are too many changes",
    ]


@pytest.mark.parametrize("line", ["\u6f22" * 90 + "\n", "\x1b[0m" * 20 + "\n"])
def test_a_report_is_small_enough_as_json_whatever_the_files_hold(turn, write, line):
    """Beyond a million characters, a turn's report is left out as a whole."""
    write({"a": "a\n"})
    report = turn(put("a", line * 2_000), put("b", "b\n"))
    assert report["files"][1] == {"path": "b", "change": "added"}
    assert report["diff"].endswith("+b\n")
    assert ("note" in report["files"][0]) is ("\x1b" in line)


def test_very_long_paths_are_listed_in_part(top):
    call, store = ToolContext(request=ReadonlyContext(user="ann", session="s", invocation="t")), TurnStore()
    with open_root(str(top)) as root:
        names = [f"{number:03}{'/x' * 500}" for number in range(500)]
        with store.record(call, [Change(FileState(root, tuple(name.split("/"))), b"x\n") for name in names]):
            pass
    found = diff_of_turn(store, store.end_turn(evolve(ANN, invocation="t"), continues=False), Deadline(0))
    assert (found.changed, len(found.files)) == (500, MAX_TURN_DIFF // len(names[0]))


def test_names_that_are_not_utf8(turn, top, write):
    name = os.fsdecode(b"\xff.txt")
    write({name: "a\n"})
    report = turn(ToolCall("edit_file", {"path": "\\udcff.txt", "old_string": "a", "new_string": "b"}))
    assert report["files"] == [{"path": "\\udcff.txt", "change": "modified"}]
    assert undo().restored == ["\\udcff.txt"]
    assert (top / name).read_text() == "a\n"


def test_an_undo_that_cannot_be_recorded_is_done_all_the_same(turn, write, top, caplog):
    write({"a": "a\n"})
    turn(put("a", "A\n"))
    connection = sqlite3.connect(TurnStore().path)
    connection.execute("CREATE TRIGGER kept BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'no room'); END")
    connection.commit()
    for _ in range(2):
        assert undo() == Undone(["a"], {})
        assert (top / "a").read_text() == "a\n"
    connection.close()
    assert "forgetting a turn that was undone" in caplog.text


def test_a_root_whose_name_is_not_utf8(turn, top):
    folder = top / os.fsdecode(b"\xff")
    folder.mkdir()
    assert turn(put("a", "A\n"), root=str(folder))["files"] == [{"path": "a", "change": "added"}]
    assert undo().restored == ["a"]
    assert not (folder / "a").exists()


def test_a_damaged_store_fails_no_edit(turn, top, caplog):
    path = TurnStore().path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 1_000)
    assert turn(put("a", "1\n")) is None
    assert (top / "a").read_text() == "1\n"
    assert "recording a change of files" in caplog.text
    with pytest.raises(ToolError, match="can't be read: file is not a database"):
        TurnStore().turns(ANN)


def test_a_diff_that_takes_too_long_is_left_out_and_those_of_other_files_are_there(turn, write, monkeypatch):
    monkeypatch.setattr(turn_diff, "_FILE_SECONDS", 0.0)
    write({"a": "x\n" * 5_000})
    report = turn(put("a", "X\n" * 5_000), put("b", "b\n"))
    assert report["files"] == [
        {"path": "a", "change": "modified", "note": "its diff takes too long"},
        {"path": "b", "change": "added"},
    ]
    assert report["diff"].endswith("+b\n")


def test_a_file_whose_first_change_was_not_recorded_is_not_undone(turn, write, top):
    """What was before the second one isn't what was before the turn."""
    write({"a": "a\n"})
    path = TurnStore().path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 1_000)

    def mend():
        if path.read_bytes().startswith(b"no"):
            path.unlink()

    report = turn(put("a", "A\n"), put("a", "AA\n"), between=mend)
    assert "couldn't be recorded" in report["files"][0]["note"]
    assert "couldn't be recorded" in undo().refused["a"]
    assert (top / "a").read_text() == "AA\n"


def test_a_turn_of_ten_thousand_files(top):
    """One record for all: a call costs as much as in a small turn."""
    call, store = ToolContext(request=ReadonlyContext(user="ann", session="s", invocation="t")), TurnStore()
    with open_root(str(top)) as root:
        changes = [Change(FileState(root, (f"{number}.txt",)), b"x\n") for number in range(10_000)]
    with store.record(call, changes):
        pass
    turn = store.end_turn(evolve(ANN, invocation="t"), continues=False)
    found = diff_of_turn(store, turn, Deadline(0))
    assert (turn.files, found.changed, len(found.files)) == (10_000, 10_000, MAX_LISTED)
    assert found.files[-1].note == "its diff isn't shown: there are too many changes"
    done = store.undo(turn, Deadline(0))
    assert (done.restored, len(done.refused)) == ([], 10_000)
    assert done.refused["0.txt"] == "the undo was stopped before; it can be repeated."


def test_what_checks_change_belongs_to_the_turn(turn, write, top):
    write({"a": "a\n"})
    formats = ["sh", "-c", 'tr A B < "$1" > "$1.new" && mv "$1.new" "$1"', "sh", "{path}"]
    report = turn(put("a", "A\n"), checks={"a": formats})
    assert report["files"] == [{"path": "a", "change": "modified"}]
    assert "-a\n+B\n" in report["diff"]
    assert undo().restored == ["a"]
    assert (top / "a").read_text() == "a\n"
