"""The tools that change files: results, approvals, rules, patches."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import pegboard_files
from pegboard import (
    ModelRequest,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    register_plugin,
    run_turn,
    tool,
)
from pegboard.testing import ScriptedModel
from pegboard_files import edit_tools

ALLOWED = Permissions([Rule("edit", "*", "allow")])


def registry_of(top, permissions=ALLOWED, **settings) -> ToolRegistry:
    registry = ToolRegistry(permissions=permissions)
    pegboard_files.pegboard_register_tools(registry.register, {"root": str(top), **settings})
    return registry


@pytest.fixture
def call(top):
    """Calls a tool by name, in one session; every edit is allowed."""
    registry = registry_of(top)

    def run(name, session=None, **arguments):
        return registry.call_sync(name, arguments, ReadonlyContext(session=session))

    return run


def test_the_tools_that_change_files_say_so_and_ask(top):
    specs = {tool.name: tool.spec for tool in registry_of(top).tools() if "edit" in tool.spec.tags}
    del specs["apply_patch"]
    assert sorted(specs) == ["edit_file", "multi_edit", "write_file"]
    for spec in specs.values():
        assert spec.annotations.read_only_hint is False
        assert spec.annotations.destructive_hint is True
        assert spec.annotations.edit_hint is True
        assert spec.annotations.open_world_hint is False
        assert spec.permission == "edit"
        assert spec.permission_arguments == {"path": "path"}
        assert spec.concurrency.to_json() == {"mode": "path", "key": ["path"], "access": "write"}


def test_an_edit_says_what_it_did_and_carries_its_diff(top, write, call):
    write({"src/a.py": "one\ntwo\nthree\n"})
    result = call("edit_file", path="src/a.py", old_string="two", new_string="2\n2.5")
    assert result.text == "Edited 'src/a.py': 1 replacement, at line 2."
    assert result.metadata == {
        "diff": "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2.5\n three\n",
        "additions": 2,
        "deletions": 1,
    }
    assert (top / "src" / "a.py").read_text() == "one\n2\n2.5\nthree\n"


def test_all_places_are_replaced_where_that_is_asked_for(top, write, call):
    write({"a": "x\nx\n"})
    result = call("edit_file", path="a", old_string="x", new_string="y", replace_all=True)
    assert result.text == "Edited 'a': 2 replacements, at lines 1, 2."
    assert (top / "a").read_text() == "y\ny\n"


def test_several_edits_see_each_other(top, write, call):
    write({"a": "one\ntwo\n"})
    edits = [{"old_string": "one", "new_string": "three"}, {"old_string": "three\ntwo", "new_string": "four"}]
    assert call("multi_edit", path="a", edits=edits).text == "Edited 'a': 2 replacements, at line 1."
    assert (top / "a").read_text() == "four\n"


def test_where_one_of_several_edits_fails_none_is_made(top, write, call):
    write({"a": "one\ntwo\n"})
    edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "three", "new_string": "3"}]
    result = call("multi_edit", path="a", edits=edits)
    assert result.is_error
    assert result.text.startswith("Edit 2 of 2: old_string isn't in 'a'.")
    assert result.text.endswith("Nothing was changed.")
    assert (top / "a").read_text() == "one\ntwo\n"


def test_a_new_file_is_written_with_its_directories(top, call):
    result = call("write_file", path="src/new/a.py", content="a\nb")
    assert result.text == "Created 'src/new/a.py': 2 lines."
    assert result.metadata["diff"].startswith("--- /dev/null\n+++ b/src/new/a.py\n")
    assert (top / "src/new/a.py").read_text() == "a\nb"


def test_a_file_is_replaced_only_by_a_session_that_has_read_it(top, write, call):
    write({"a": "old\n"})
    refused = call("write_file", session="1", path="a", content="new\n")
    assert refused.text.startswith("'a' already exists (4 bytes). Read it before you replace it")
    call("read_file", session="2", path="a")
    assert call("write_file", session="1", path="a", content="new\n").is_error
    call("read_file", session="1", path="a")
    assert call("write_file", session="1", path="a", content="new\n").text == "Wrote 'a': 1 line."
    assert call("write_file", session="1", path="a", content="newer\n").text == "Wrote 'a': 1 line."
    assert (top / "a").read_text() == "newer\n"


def test_a_file_is_replaced_unread_where_a_person_has_seen_what_changes(top, write):
    """For example at a terminal, where each call has its own process; a file that changes in between isn't."""
    write({"a": "old\n"})

    def then_agrees(request, context):
        seen.append(request.preview.details)
        if len(seen) == 2:
            (top / "a").write_text("another's\n")
        return Once()

    seen = []
    registry = registry_of(top, Permissions())
    registry.approver = then_agrees
    arguments = {"path": "a", "content": "new\n"}
    assert registry.call_sync("write_file", arguments).text == "Wrote 'a': 1 line."
    assert "-old\n+new\n" in seen[0]
    refused = registry.call_sync("write_file", arguments)
    assert "changed since" in refused.text
    assert (top / "a").read_text() == "another's\n"


def test_the_setting_lets_a_file_be_replaced_unread(top, write):
    write({"a": "old\n"})
    refused = registry_of(top).call_sync("write_file", {"path": "a", "content": "new"})
    assert "read_first = false in the settings of the plugin 'files'" in refused.text
    assert not registry_of(top, read_first=False).call_sync("write_file", {"path": "a", "content": "new"}).is_error


def test_a_file_that_is_written_anew_keeps_its_encoding_and_line_ends(top, write, call):
    write({"a": "\ufeffä\r\nb\r\n".encode("utf-16-le")})
    call("read_file", path="a")
    assert not call("write_file", path="a", content="é\nc\n").is_error
    assert (top / "a").read_bytes() == "\ufeffé\r\nc\r\n".encode("utf-16-le")


@pytest.mark.parametrize("name", ["edit_file", "multi_edit", "write_file"])
def test_a_file_that_changed_since_the_session_read_it_is_not_changed(top, write, call, name):
    write({"a": "old\n"})
    arguments = {
        "edit_file": {"old_string": "old", "new_string": "new"},
        "multi_edit": {"edits": [{"old_string": "old", "new_string": "new"}]},
        "write_file": {"content": "new"},
    }[name]
    call("read_file", path="a")
    write({"a": "old, by another\n"})
    refused = call(name, path="a", **arguments)
    assert refused.text == "'a' was changed since it was read. Read it again before you change it."
    call("read_file", path="a")
    assert not call(name, path="a", **arguments).is_error


@pytest.mark.parametrize(
    ("contents", "path", "why"),
    [
        ({}, "a", "'a' doesn't exist."),
        ({"a/b": ""}, "a", "'a' is a directory."),
        ({"a": b"\x89PNG\0old"}, "a", "'a' is a binary file and can't be edited."),
        ({"a": "old"}, "../secret.txt", "'../secret.txt' is outside of the working folder"),
        ({"a": "old"}, "a/b", "'a/b' goes through a file as if it were a directory."),
    ],
)
def test_what_can_not_be_edited_is_an_error_that_says_why(write, call, contents, path, why):
    write(contents)
    result = call("edit_file", path=path, old_string="old", new_string="new")
    assert result.is_error
    assert result.text.startswith(why)


# Approvals ------------------------------------------------------------------------------------------------------------


def ask(top, name, arguments, answer=Once(), between=lambda: None):  # noqa: B008
    """The requests that a person saw, and the result."""
    requests = []

    def approve(request, context):
        requests.append(request)
        between()
        return answer

    registry = registry_of(top, Permissions())
    outcome = asyncio.run(registry.dispatch([ToolCall(name, arguments, id="1")], approver=approve))
    return requests, outcome.results[0]


EDIT = {"path": "a", "old_string": "old", "new_string": "new"}


def test_a_person_sees_the_diff_and_what_is_touched(top, write):
    write({"a": "old\n"})
    (request,), result = ask(top, "edit_file", EDIT)
    assert request.permission == "edit"
    assert request.patterns == (f"{top.resolve()}/a",)
    assert request.preview.summary == "+1 -1 lines"
    assert request.preview.details == "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new\n"
    assert not result.is_error
    assert (top / "a").read_text() == "new\n"


def test_an_edit_that_is_rejected_changes_nothing(top, write):
    write({"a": "old\n"})
    _, result = ask(top, "edit_file", EDIT, Reject("no"))
    assert result.kind == "rejected"
    assert (top / "a").read_text() == "old\n"


def test_a_preview_of_what_would_fail_says_so(top, write):
    write({"a": "other\n"})
    (request,), _ = ask(top, "edit_file", EDIT)
    assert request.preview.summary.startswith("This call would fail: old_string isn't in 'a'.")


def test_the_preview_of_a_long_diff_gives_its_length(top, write):
    write({"a": "old line\n" * 6_000})
    (request,), result = ask(top, "edit_file", {**EDIT, "replace_all": True})
    too_long = "+6,000 -6,000 lines; the diff is too long to be shown: 120,038 characters"
    assert (request.preview.summary, request.preview.details) == (too_long, "")
    assert not result.is_error
    (request,), result = ask(top, "write_file", {"path": "a", "content": "x\n"})
    assert "Read it before you replace it" in result.text, "the user hasn't seen what would be lost"


def test_a_file_that_changed_since_its_diff_was_shown_is_not_changed(top, write):
    write({"a": "old\n"})
    _, result = ask(top, "edit_file", EDIT, between=lambda: write({"a": "old and more\n"}))
    assert result.text == "'a' was changed since it was shown for approval. Read it again before you change it."
    assert (top / "a").read_text() == "old and more\n"


def test_a_link_that_is_turned_after_it_was_shown_is_not_followed(top, write):
    write({"b": "old\n", "c": "old\n"})
    (top / "a").symlink_to("b")

    def turn():
        (top / "a").unlink()
        (top / "a").symlink_to("c")

    _, result = ask(top, "edit_file", EDIT, between=turn)
    assert result.kind == "denied"
    assert (top / "b").read_text() == (top / "c").read_text() == "old\n"


@pytest.mark.parametrize("name", ["edit_file", "write_file", "apply_patch"])
def test_a_link_that_is_turned_right_before_the_call_runs_is_not_followed(top, write, name):
    """The checked file is the changed one, also where a rule allowed it without an approval."""
    write({"src/b": "old\n", "c": "old\n"})
    (top / "src" / "a").symlink_to("b")
    arguments = {
        "edit_file": {**EDIT, "path": "src/a"},
        "write_file": {"path": "src/a", "content": "new\n"},
        "apply_patch": {"input": patch("*** Update File: src/a", "-old", "+new")},
    }[name]

    def turn(context, tool, arguments, call_next):
        (top / "src" / "a").unlink()
        (top / "src" / "a").symlink_to("../c")
        return call_next()

    registry = registry_of(top, Permissions([Rule("edit", "src/*", "allow")]), read_first=False)
    registry.add_callback("wrap_tool", turn)
    assert registry.call_sync(name, arguments).kind == "denied"
    assert (top / "src" / "b").read_text() == (top / "c").read_text() == "old\n"


@pytest.mark.parametrize("name", ["edit_file", "write_file", "apply_patch"])
@pytest.mark.parametrize(
    "rules", [[Rule("edit", "src/*", "allow")], [Rule("*", "*", "ask")], []], ids=["allowed", "ask rule", "approved"]
)
async def test_a_link_that_is_turned_once_the_call_runs_is_not_followed(top, write, monkeypatch, name, rules):
    """Neither to a path without a rule nor to one that wasn't approved."""
    write({"src/a": "old\n", "src/c": "old\n", "other/a": "old\n"})
    (top / "src" / "link").symlink_to("../src")
    own = edit_tools.open_roots

    def turn(settings, work_dir, *rules):
        if rules:  # the call, not a preview
            (top / "src" / "link").unlink()
            (top / "src" / "link").symlink_to("../other")
        return own(settings, work_dir, *rules)

    monkeypatch.setattr(edit_tools, "open_roots", turn)
    path = "src/link/a"
    arguments = {
        "edit_file": {**EDIT, "path": path},
        "write_file": {"path": path, "content": "new\n"},
        "apply_patch": {
            "input": patch("*** Update File: src/c", "-old", "+new", f"*** Update File: {path}", "-old", "+new")
        },
    }[name]
    registry = registry_of(top, Permissions(rules), read_first=False)
    result = await registry.call(name, arguments, approver=lambda *_: Once())
    assert result.text.startswith("The permission rules deny access to ")
    assert {each.read_text() for each in top.glob("*/?")} == {"old\n"}


async def test_what_was_approved_is_changed_also_by_the_name_that_it_is_shown_by(top, write):
    write({"a\nb": "old\n", "c": ""})
    registry = registry_of(top, Permissions())
    await registry.call("edit_file", {**EDIT, "path": "a\\nb"}, approver=lambda *_: Once())
    assert (top / "a\nb").read_text() == "new\n"
    near = await registry.call("edit_file", {**EDIT, "path": "cc"}, approver=lambda *_: Once())
    assert near.text == "'cc' doesn't exist. Did you mean 'c'?"


# Rules ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        Rule("edit", "secret/*", "deny"),
        Rule("*", "*/secret/*", "deny", forbid=True),
        Rule("read_file", "secret/*", "deny"),
        Rule("edit_file", "secret/*", "deny"),
    ],
)
@pytest.mark.parametrize("path", ["secret/key", "way/key", "./src/../secret//key", "{top}/secret/key", "file"])
def test_no_path_bypasses_a_rule(top, write, rule, path):
    write({"secret/key": "KEY old\n", "src/a": ""})
    (top / "way").symlink_to("secret")
    (top / "file").symlink_to("secret/key")
    registry = registry_of(top, Permissions([Rule("edit", "*", "allow"), rule]))
    result = registry.call_sync("edit_file", {**EDIT, "path": path.format(top=top)})
    assert result.is_error
    assert "KEY" not in result.text
    assert (top / "secret/key").read_text() == "KEY old\n"


@pytest.mark.parametrize("path", ["secret/key", "secret/nope", "way/key", "secret/sub/new"])
def test_a_denied_path_gives_the_same_error_with_every_tool(top, write, path):
    write({"secret/key": "old\n", "secret/sub/x": "", "a": "old\n"})
    (top / "way").symlink_to("secret")
    registry = registry_of(top, Permissions([Rule("edit", "*", "allow"), Rule("read_file", "secret/*", "deny")]))
    calls = {
        "edit_file": [{**EDIT, "path": path}],
        "multi_edit": [{"path": path, "edits": [{"old_string": "old", "new_string": "new"}]}],
        "write_file": [{"path": path, "content": ""}],
        "glob": [{"path": path, "pattern": "*"}],
        "apply_patch": [
            {"input": patch(f"*** Update File: {path}", "-old", "+new")},
            {"input": patch(f"*** Delete File: {path}")},
            {"input": patch(f"*** Add File: {path}", "+new")},
            {"input": patch("*** Update File: a", f"*** Move to: {path}", "-old", "+new")},
        ],
    }
    texts = {registry.call_sync(name, each).text for name, all_of_it in calls.items() for each in all_of_it}
    denied = f"The permission rules deny access to {path!r}. Continue without it, or tell the user what you need."
    assert texts == {denied, f"{denied} Nothing was changed."}


def test_an_allow_rule_is_about_the_path_as_it_is_resolved(top, write):
    write({"src/a": "old\n", "b": "old\n"})
    (top / "src" / "out").symlink_to("../b")
    registry = registry_of(top, Permissions([Rule("edit", "src/*", "allow")]))
    assert not registry.call_sync("edit_file", {**EDIT, "path": "src/a"}).is_error
    assert registry.call_sync("edit_file", {**EDIT, "path": "src/out"}).kind == "denied"
    assert registry.call_sync("write_file", {"path": "src/new/x", "content": ""}).text.startswith("Created")


def test_edits_pass_where_edits_are_accepted_and_not_in_plan_mode(top, write):
    write({"a": "old\n"})
    assert registry_of(top, Permissions((), "plan")).call_sync("edit_file", EDIT).kind == "denied"
    assert not registry_of(top, Permissions((), "accept_edits")).call_sync("edit_file", EDIT).is_error


# Together -------------------------------------------------------------------------------------------------------------


def test_calls_about_one_file_run_in_their_order_by_any_of_its_names(top, write):
    write({"a": "0\n", "b/c": ""})
    (top / "link").symlink_to("a")
    (top / "inner").symlink_to("b")
    names = ["a", "./a", "link", "inner/../a", str(top / "a"), "b/../link"]
    calls = [
        ToolCall("edit_file", {"path": name, "old_string": f"{n}\n", "new_string": f"{n + 1}\n"})
        for n, name in enumerate(names)
    ]
    outcome = asyncio.run(registry_of(top).dispatch([*calls, ToolCall("read_file", {"path": "link"})]))
    assert [result.text for result in outcome.results if result.is_error] == []
    assert outcome.results[-1].text == "1\t6"


def test_of_two_registries_that_edit_one_file_at_once_no_edit_is_lost(top, write):
    write({"a": "".join(f"line {n}\n" for n in range(20))})
    failed: list[str] = []

    def edit(start):
        registry = registry_of(top)
        for n in range(start, 20, 2):
            arguments = {"path": "a", "old_string": f"line {n}\n", "new_string": f"done {n}\n"}
            while (result := registry.call_sync("edit_file", arguments)).is_error:
                if "changed" not in result.text:
                    failed.append(result.text)
                    return
                registry.call_sync("read_file", {"path": "a"})

    threads = [threading.Thread(target=edit, args=(start,)) for start in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert (top / "a").read_text() == "".join(f"done {n}\n" for n in range(20))


def test_a_call_that_is_out_of_time_changes_nothing(top, write):
    write({"a": "one\n"})
    late = ToolContext(deadline=time.monotonic())
    with pytest.raises(ToolError, match="Preparing the change took longer than 0 seconds"):
        edit_tools.EditTools(edit_tools.Settings(root=str(top))).write_file("b", "x", call=late)
    assert [path.name for path in top.iterdir()] == ["a"]


# Patches --------------------------------------------------------------------------------------------------------------


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


@pytest.fixture
def apply(call):
    """Applies a patch, given by its lines."""
    return lambda *lines: call("apply_patch", input=patch(*lines))


def test_patches_are_a_freeform_tool_with_a_grammar(top):
    (spec,) = [tool.spec for tool in registry_of(top).tools() if tool.name == "apply_patch"]
    assert spec.kind == "freeform"
    assert spec.grammar.syntax == "lark"
    assert spec.input_schema["required"] == ["input"]
    assert spec.annotations.edit_hint is True
    assert spec.annotations.destructive_hint is True
    assert spec.permission == "edit"
    assert spec.permission_arguments == {"path": "path"}
    assert spec.concurrency.mode == "exclusive"


def test_a_patch_changes_several_files_and_says_which(top, write, apply):
    write({"a.py": "one\ntwo\n", "b": "x\n", "c": "y\n"})
    (top / "c").chmod(0o755)
    result = apply(
        *("*** Update File: a.py", "-two", "+2", "*** Delete File: b", "*** Add File: d/e", "+new"),
        *("*** Update File: c", "*** Move to: f/c", "-y", "+z"),
    )
    assert result.text == "Success. Updated the following files:\nA d/e\nM a.py\nM f/c\nD b"
    assert {str(path.relative_to(top)): path.read_text() for path in top.rglob("*") if path.is_file()} == {
        "a.py": "one\n2\n",
        "d/e": "new\n",
        "f/c": "z\n",
    }
    assert (top / "f" / "c").stat().st_mode & 0o777 == 0o755
    assert "--- a/c\n+++ b/f/c\n@@ -1 +1 @@\n-y\n+z\n" in result.metadata["diff"]
    assert (result.metadata["additions"], result.metadata["deletions"]) == (3, 3)


def test_a_patch_sees_what_it_has_done_to_a_file_before(top, write, apply):
    write({"a": "1\n2\n", "b": "old\n"})
    result = apply(
        *("*** Update File: a", "-1", "+one", "*** Update File: ./a", "-one", "+eins"),
        *("*** Delete File: b", "*** Add File: b", "+new"),
    )
    assert result.text == "Success. Updated the following files:\nM a\nM b"
    assert (top / "a").read_text() == "eins\n2\n"
    assert (top / "b").read_text() == "new\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (["Add File: x", "+2", "Update File: x", "Move to: y", "Delete File: a"], {"A y": "2\n", "D a": None}),
        (["Update File: a", "Move to: x", "-1", "+2", "Update File: x", "Move to: y", "-2", "+3"], {"M y": "3\n"}),
        (["Update File: a", "Move to: x", "Delete File: x"], {"D a": None}),
        (["Update File: a", "Move to: x", "Update File: x", "Move to: a", "-1", "+2"], {"M a": "2\n"}),
        (["Update File: a", "Move to: x", "Delete File: x", "Add File: x", "+2"], {"A x": "2\n", "D a": None}),
    ],
)
def test_a_file_that_a_patch_has_added_or_moved_may_be_moved_or_deleted_by_it(top, write, apply, lines, after):
    write({"a": "1\n"})
    result = apply(*(line if line[0] in "+-" else f"*** {line}" for line in lines))
    assert result.text.split("\n")[1:] == list(after)
    written = {path.name: path.read_text() for path in top.iterdir()}
    assert written == {row[2:]: text for row, text in after.items() if text is not None}


def test_a_file_may_only_be_moved(top, write, apply):
    write({"a": b"\x00binary"})
    assert not apply("*** Update File: a", "*** Move to: b/a").is_error
    assert (top / "b" / "a").read_bytes() == b"\x00binary"
    assert not (top / "a").exists()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["*** Update File: a", "-nowhere", "+x"], "In 'a', these lines weren't found"),
        (["*** Update File: missing", "-a", "+x"], "'missing' doesn't exist"),
        (["*** Delete File: missing"], "'missing' doesn't exist"),
        (["*** Delete File: sub"], "'sub' is a directory"),
        (["*** Add File: a", "+x"], "'a' already exists"),
        (["*** Add File: sub", "+x"], "'sub' is a directory"),
        (["*** Update File: a", "*** Move to: sub/c", "-1", "+2"], "'sub/c' already exists"),
        (["*** Update File: binary", "-a", "+x"], "'binary' is a binary file"),
        (["*** Update File: ../secret.txt", "-secret", "+x"], "'../secret.txt' is outside of the working folder"),
        (["*** Delete File: /etc/passwd"], "'/etc/passwd' is outside of the working folder"),
        (["*** Update File: a", "*** Move to: ../../x", "-1", "+2"], "'../../x' is outside of the working folder"),
        (["*** Add File: out/x", "+x"], "'out/x' is outside of the working folder"),
        (["*** Add File: .git/hooks/x", "+x"], "managed by git"),
        (["*** Update File: readonly", "-x", "+y"], "is read-only"),
        (["*** Delete File: b", "*** Update File: b", "-2", "+3"], "'b' doesn't exist any more"),
    ],
)
def test_a_patch_of_which_a_part_can_not_be_done_changes_nothing(top, write, apply, lines, why):
    tmp_path = top.parent
    write({"a": "1\n", "b": "2\n", "sub/c": "3\n", "binary": b"\0", "readonly": "x\n"})
    (top / "readonly").chmod(0o444)
    (top / "out").symlink_to(tmp_path)
    before = sorted((str(path), path.is_file() and path.read_bytes()) for path in tmp_path.rglob("*"))
    result = apply("*** Add File: new", "+x", "*** Update File: sub/c", "-3", "+three", *lines)
    assert result.is_error
    assert why in result.text
    assert result.text.endswith("Nothing was changed.")
    assert sorted((str(path), path.is_file() and path.read_bytes()) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["link", "./link", "link/", "folder/../link/."])
@pytest.mark.parametrize("target", ["a", "missing", "../secret.txt", "folder", "second"])
def test_a_patch_that_deletes_a_link_deletes_the_link(top, write, apply, target, name):
    write({"a": "x\n", "folder/b": "y\n"})
    (top / "second").symlink_to("a")
    (top / "link").symlink_to(target)
    result = apply(f"*** Delete File: {name}", "*** Add File: new", "+z")
    assert result.text.endswith("A new\nD link")
    assert f"--- a/link\n+++ /dev/null\n@@ -1 +0,0 @@\n-{target}\n" in result.metadata["diff"]
    assert sorted(path.name for path in top.iterdir()) == ["a", "folder", "new", "second"]
    assert (top / "a").read_text() == "x\n"
    assert (top.parent / "secret.txt").read_text() == "secret\n"


def test_a_patch_may_put_a_file_in_place_of_a_link(top, write, apply):
    write({"a": "x\n"})
    (top / "link").symlink_to("a")
    assert apply("*** Delete File: link", "*** Add File: link", "+z").text.endswith("M link")
    assert [(top / name).read_text() for name in ("a", "link")] == ["x\n", "z\n"]
    assert not (top / "link").is_symlink()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["*** Update File: link", "*** Move to: b"], "'link' is a link to 'a', and links can't be moved"),
        (["*** Delete File: link", "*** Update File: link", "-x"], "'link' doesn't exist any more"),
        (["*** Delete File: link", "*** Update File: a", "-y"], "weren't found"),
    ],
)
def test_what_can_not_be_done_with_a_link_changes_nothing(top, write, apply, lines, why):
    write({"a": "x\n"})
    (top / "link").symlink_to("a")
    result = apply(*lines)
    assert why in result.text
    assert result.is_error
    assert (top / "link").is_symlink()


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        ([Rule("edit", "*", "allow")], None),
        ([Rule("edit", "open/*", "allow")], "denied"),
        ([Rule("edit", "*", "allow"), Rule("edit", "shut/*", "deny")], "denied"),
        ([Rule("edit", "*", "allow"), Rule("edit", "open/*", "deny")], "denied"),
        ([Rule("edit", "open/*", "allow"), Rule("edit", "shut", "allow")], None),
    ],
)
def test_rules_judge_target_and_folder_of_a_link_that_is_deleted(top, write, rules, kind):
    write({"open/a": "x\n", "shut/b": "y\n"})
    (top / "shut/link").symlink_to("../open/a")
    registry = registry_of(top, Permissions(rules))
    assert registry.call_sync("apply_patch", {"input": patch("*** Delete File: shut/link")}).kind == kind
    assert (top / "shut/link").is_symlink() is (kind is not None)


def test_an_invalid_patch_is_refused_before_the_approval(top):
    requests, result = ask(top, "apply_patch", {"input": "hello"})
    assert requests == []
    assert result.kind == "invalid_arguments"
    assert "A patch must begin with the line '*** Begin Patch'." in result.text


def test_a_patch_that_is_too_long_is_refused(call):
    result = call("apply_patch", input=patch("*** Add File: a", "+" + "x" * (1 << 20)))
    assert "a patch has at most 1,048,576 characters" in result.text


def test_a_patch_that_changes_nothing_says_so(write, apply):
    write({"a": "1\n"})
    assert apply("*** Update File: a", "-1", "+1").text.startswith("The patch changes nothing")


def test_a_file_that_changed_since_it_was_read_is_not_patched(top, write, call, apply):
    write({"a": "1\n", "b": "2\n"})
    call("read_file", path="a")
    write({"a": "1\n and more\n"})
    result = apply("*** Update File: b", "-2", "+x", "*** Update File: a", "-1", "+2")
    assert result.text == "'a' was changed since it was read. Read it again before you change it. Nothing was changed."
    assert (top / "b").read_text() == "2\n"


def test_a_person_is_asked_about_every_path_of_a_patch(top, write):
    write({"a": "1\n", "b": "2\n"})
    text = patch("*** Update File: a", "*** Move to: sub/c", "-1", "+x", "*** Delete File: b")
    (request,), result = ask(top, "apply_patch", {"input": text})
    assert request.patterns == tuple(f"{top.resolve()}/{name}" for name in ("a", "sub/c", "b"))
    assert request.preview.summary == "+1 -2 lines"
    assert request.preview.details == (
        "--- a/a\n+++ b/sub/c\n@@ -1 +1 @@\n-1\n+x\n--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-2\n"
    )
    assert not result.is_error


@pytest.mark.parametrize(
    "lines",
    [
        ["*** Delete File: secret/key"],
        ["*** Update File: a", "*** Move to: secret/new", "-1", "+x"],
        ["*** Update File: way/key", "*** Move to: stolen"],
        ["*** Add File: src/../secret/new", "+x"],
        ["*** Add File: secret/\0", "+x"],
    ],
)
@pytest.mark.parametrize("rule", [Rule("edit", "secret/*", "deny"), Rule("*", "*/secret/*", "deny", forbid=True)])
def test_no_path_of_a_patch_bypasses_a_rule(top, write, rule, lines):
    write({"secret/key": "KEY\n", "a": "1\n", "src/x": ""})
    (top / "way").symlink_to("secret")
    registry = registry_of(top, Permissions([Rule("edit", "*", "allow"), rule]))
    result = registry.call_sync("apply_patch", {"input": patch("*** Add File: b", "+x", *lines)})
    assert result.kind == "denied"
    assert sorted(path.name for path in top.rglob("*")) == ["a", "key", "secret", "src", "way", "x"]


def test_an_allow_rule_has_to_cover_every_path_of_a_patch(top, write):
    registry = registry_of(top, Permissions([Rule("edit", "src/*", "allow")]))
    both = patch("*** Add File: src/a", "+x", "*** Add File: b", "+x")
    assert registry.call_sync("apply_patch", {"input": both}).kind == "denied"
    assert not registry.call_sync("apply_patch", {"input": patch("*** Add File: src/a", "+x")}).is_error


# Which model gets which ----------------------------------------------------------------------------------------------


PATCHING = {"apply_patch", "write_file"}
REPLACING = {"edit_file", "multi_edit", "write_file"}


def with_plugin(top, **settings) -> ToolRegistry:
    """A registry that has the plugin, with all that it brings."""
    registry = ToolRegistry()
    record = register_plugin(registry, pegboard_files, "files", settings={"root": str(top), **settings})
    assert record.status == "loaded"
    return registry


def offer(registry, model):
    """The edit tools that a model is offered."""
    request = asyncio.run(registry.process(ModelRequest("hello", model=model)))
    return {tool.name for tool in request.tools if "edit" in tool.spec.tags or tool.origin.plugin is None}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("gpt-5", PATCHING),
        ("openai/gpt-5.1-codex", PATCHING),
        ("GPT-5-mini", PATCHING),
        ("codex-mini-latest", PATCHING),
        ("gpt-4.1", REPLACING),
        ("claude-opus-4-5", REPLACING),
        (None, REPLACING),
    ],
)
def test_a_model_gets_the_edit_tools_that_it_knows(top, model, names):
    assert offer(with_plugin(top), model) == names


def test_the_settings_say_which_models_get_patches(top):
    assert offer(with_plugin(top, patch_models=["claude-*"]), "claude-opus-4-5") == PATCHING
    assert offer(with_plugin(top, patch_models=[]), "gpt-5") == REPLACING


def test_where_there_is_no_choice_no_tool_is_left_out(top):
    assert offer(with_plugin(top, tools="read-only"), "claude-opus-4-5") == set()
    registry = with_plugin(top)
    request = asyncio.run(
        registry.process(ModelRequest("hello", tools=asyncio.run(registry.resolve(where="name:edit_file"))))
    )
    assert request.tools.names == ("edit_file",)


def test_a_tool_of_the_host_is_left_alone(top):
    @tool(name="patch")
    def own() -> None:
        """Patches."""

    registry = with_plugin(top)
    registry.register(own)
    assert offer(registry, "gpt-5") == {*PATCHING, "patch"}


def test_in_a_turn_the_name_of_the_model_itself_counts(top):
    model = ScriptedModel(["done"], name="gpt-5")
    asyncio.run(run_turn(model, "hello", with_plugin(top)))
    assert "apply_patch" in model.requests[0].tools
    assert "edit_file" not in model.requests[0].tools


def test_behind_an_excerpt_that_a_model_may_copy_the_end_of_an_error_has_its_own_line(write, call):
    write({"a": "total = 0\n"})
    for text in (
        call("apply_patch", input="*** Begin Patch\n*** Update File: a\n-totals = 0\n+x\n*** End Patch").text,
        call("multi_edit", path="a", edits=[{"old_string": "totals = 0", "new_string": each} for each in "xy"]).text,
    ):
        assert text.splitlines()[-2:] == ["total = 0", "Nothing was changed."]
