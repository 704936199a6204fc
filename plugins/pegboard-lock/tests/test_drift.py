from __future__ import annotations

from pathlib import Path

import pytest

from installed import write
from pegboard import Grammar, Origin, Policy, Tool, ToolAnnotations, tool, tool_of
from pegboard.tools import alike
from pegboard_lock import Comparison, Lock, Present, drift, lock_file, lock_of

BASE = Path("/")


@tool(read_only=True, permission="read", tags=["files"])
def size(path: str, limit: int = 3) -> int:
    """Return the size of a file.

    Args:
        path: The file.
        limit: A limit.
    """
    return 0


TOOL = tool_of(size).evolve(origin=Origin("files"), policy=Policy(timeout=2.0))


def drifts(*after: Tool, before: Tool = TOOL) -> dict[str, str]:
    """The drifts of tools from a lock of one: class -> text."""
    lock = lock_of(Comparison(Lock(), BASE), Present([before]))
    return {each.kind: each.text for each in Comparison(lock, BASE).all_drifts(Present(after))}


def test_an_unchanged_tool_has_none():
    assert drifts(TOOL.evolve()) == {}


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"annotations": ToolAnnotations(destructive_hint=True)}, "reach", "annotations was"),
        ({"permission": "edit"}, "reach", 'permission was "read", is "edit"'),
        ({"requires_confirmation": True}, "reach", "requiresConfirmation"),
        ({"tags": ()}, "reach", 'tags was ["files"], is unset'),
        ({"description": "Return it."}, "wording", 'is "Return it."'),
        ({"title": "Size"}, "wording", "title was unset"),
        ({"meta": {"a": 1}}, "wording", "meta"),
        ({"description": "Return the size of a\u202e file."}, "hidden", "1 more invisible characters"),
        ({"description": r"Return the size of a \u{202e} file."}, "hidden", "1 more invisible characters"),
        ({"output_schema": {"type": "object"}}, "output", "another schema"),
        ({"strict": True}, "policy", "strict was unset, is true"),
        ({"version": "2"}, "version", 'version was unset, is "2"'),
        ({"input_schema": {"type": "object"}}, "widened", "it takes {"),
    ],
)
def test_each_part_of_a_definition_has_its_class(change, kind, text):
    assert text in drifts(TOOL.with_spec(**change))[kind]


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"origin": Origin("other")}, "reach", 'plugin "files" is "other"'),
        ({"origin": Origin("files", trusted=False)}, "reach", "trust true is false"),
        ({"origin": Origin("files", toolset="t")}, "reach", 'toolset unset is "t"'),
        ({"policy": Policy(timeout=9.0)}, "policy", "timeout was 2.0, is 9.0"),
        ({"policy": Policy(timeout=2.0, executor="process")}, "reach", 'executor was unset, is "process"'),
        ({"policy": Policy(timeout=2.0, memory_limit=1 << 30)}, "policy", "memory_limit"),
        ({"presets": {"limit": "1"}}, "reach", "presets"),
    ],
)
def test_where_a_tool_comes_from_and_runs_counts(change, kind, text):
    found = drifts(TOOL.evolve(**change))
    assert list(found) == [kind]
    assert text in found[kind]


def test_texts_on_arguments_are_wording_beside_a_changed_schema():
    schema = TOOL.spec.input_schema
    schema["properties"]["path"]["description"] = "Any file."
    assert list(drifts(TOOL.with_spec(input_schema=schema))) == ["wording"]
    schema["properties"]["path"]["maxLength"] = 5
    assert set(drifts(TOOL.with_spec(input_schema=schema))) == {"wording", "narrowed"}


def test_a_grammar_that_changes_is_incompatible():
    one, other = (Tool.freeform("t", grammar=Grammar("regex", each)) for each in ("a+", "b+"))
    assert list(drifts(other, before=one)) == ["incompatible"]


def test_tools_that_come_and_go():
    assert drifts(TOOL, TOOL.with_spec(name="other")) == {"added": "the lock doesn't have it"}
    assert drifts() == {"removed": "it is no longer there"}


def test_a_new_name_that_looks_like_a_locked_one_is_hidden():
    assert "looks like 'size'" in drifts(TOOL, TOOL.with_spec(name="s1ze"))["hidden"]


def test_look_alikes_are_looked_up_and_not_compared_one_by_one(monkeypatch):
    many = [TOOL.with_spec(name=f"t{number}") for number in range(300)]
    lock, made = lock_of(Comparison(Lock(), BASE), Present(many)), []
    monkeypatch.setattr(drift, "alike", lambda name: made.append(name) or alike(name))
    monkeypatch.setattr(lock_file, "alike", lambda name: made.append(name) or alike(name))
    added = [TOOL.with_spec(name=f"n{number}") for number in range(300)]
    assert len(Comparison(lock, BASE).all_drifts(Present(added))) == 600
    assert len(made) == 600


def test_the_gravest_class_comes_first_and_the_proof_is_of_the_change_of_arguments():
    lock = lock_of(Comparison(Lock(), BASE), Present([TOOL]))
    after = TOOL.with_spec(input_schema={"type": "object"}, description="New.", strict=True)
    found = Comparison(lock, BASE).all_drifts(Present([after]))
    assert [each.kind for each in found] == ["widened", "wording", "policy"]
    assert [each.only_new is not None for each in found] == [True, False, False]
    assert found[0].to_json()["class"] == "widened"
    assert set(found[2].to_json()) == {"class", "tool", "text"}


def test_a_tool_that_cant_be_compared_is_incompatible(monkeypatch):
    monkeypatch.setattr(drift, "compare_arguments", lambda *_: 1 / 0)
    found = drifts(TOOL.with_spec(description="New."))
    assert found == {"incompatible": "it can't be compared: ZeroDivisionError"}


@pytest.mark.parametrize("locked", [{"web": {"identity": "sha256:1"}}, {"web": {"identity": None}}, {}])
def test_another_server_behind_a_toolset_is_reach_also_where_none_was_known(locked):
    of_toolset = TOOL.evolve(origin=Origin("files", toolset="web"))
    lock = Lock(lock_of(Comparison(Lock(), BASE), Present([of_toolset])).tools, toolsets=locked)
    (found,) = Comparison(lock, BASE).all_drifts(Present([of_toolset], {"web": {"url": "x"}}))
    assert (found.kind, found.toolset) == ("reach", "web")


def test_where_a_toolset_comes_from_is_the_same_in_every_clone_of_a_project(tmp_path):
    def entry(base, *command):
        return Comparison(Lock(), base).entry_of_toolset("web", {"command": [*command], "env": ["KEY"]})

    here, there = tmp_path / "here", tmp_path / "there"
    assert entry(here, f"{here}/server.py", "-x", str(here)) == entry(there, f"{there}/server.py", "-x", str(there))
    assert entry(here, f"{there}/server.py") != entry(there, f"{there}/server.py")
    assert entry(here, f"{here}/other.py") != entry(here, f"{here}/server.py")


def test_code_that_a_toolset_names_is_code(tmp_path):
    file = tmp_path / "tools" / "dice.py"
    write(file, "1")
    present = Present([], {"mine": {"code": [str(file.parent)]}}, frozenset({"mine"}))
    lock = lock_of(Comparison(Lock(), tmp_path), present)
    assert lock.toolsets["mine"]["identity"] is None
    assert Comparison(lock, tmp_path).all_drifts(present) == []
    write(file, "22")
    (found,) = Comparison(lock, tmp_path).all_drifts(present)
    assert (found.kind, found.toolset, found.text) == ("code", "mine", "the code of toolset 'mine' has changed")
    file.unlink()
    (found,) = Comparison(lock, tmp_path).all_drifts(Present([], {"mine": {"code": "no list"}}))
    assert found.text == "the code of toolset 'mine' can't be examined"


def test_code_that_the_lock_should_have_and_hasnt_is_code(tmp_path):
    lock = lock_of(Comparison(Lock(), tmp_path), Present([TOOL.evolve(origin=Origin("files", "pegboard-nowhere"))]))
    lost = Lock(lock.tools)
    (found,) = Comparison(lost, tmp_path).all_drifts(Present([TOOL.evolve(origin=Origin("files", "pegboard-nowhere"))]))
    assert (found.kind, found.text) == ("code", "the lock doesn't have the code of pegboard-nowhere")


def test_tools_of_a_toolset_that_isnt_known_now_arent_missed():
    of_toolset = TOOL.evolve(origin=Origin("files", toolset="web"))
    present = Present([of_toolset], {"web": None}, frozenset({"web"}))
    lock = lock_of(Comparison(Lock(), BASE), present)
    assert Comparison(lock, BASE).all_drifts(Present([])) == []
    assert [each.kind for each in Comparison(lock, BASE).all_drifts(Present([], {}, frozenset({"web"})))] == ["removed"]
    assert Comparison(lock, BASE).all_drifts(Present([], silent=frozenset({"web"}))) == []
    assert [each.kind for each in Comparison(lock, BASE).all_drifts(Present([], silent=frozenset()))] == ["removed"]
    again = lock_of(Comparison(lock, BASE), Present([]))
    assert again.to_text() == lock.to_text()
