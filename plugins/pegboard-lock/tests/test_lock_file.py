from __future__ import annotations

import json
from pathlib import Path

import pytest

from pegboard import Origin, Policy, Tool, tool, tool_of
from pegboard.config import trust
from pegboard_lock import Comparison, Lock, LockError, Present, lock_of, parse_lock, read_lock, write_lock
from pegboard_lock.lock_file import MOST_BYTES, is_binding


@tool(read_only=True)
def size(path: str, share: float = 1.0) -> int:
    "The size of a file, in bytes: é."
    return 0


PLUGINS = tool_of(size).evolve(origin=Origin("files", None), policy=Policy(timeout=2.0, executor="process"))


def lock_tools(*tools: Tool, folder: Path = Path("/")) -> Lock:
    """A lock of tools."""
    return lock_of(Comparison(Lock(), folder), Present(tools))


def test_it_is_ascii_json_with_sorted_keys_and_is_read_as_it_was_written():
    text = lock_tools(PLUGINS).to_text()
    assert text.isascii()
    assert text.endswith("}\n")
    assert json.loads(text)["tools"]["size"]["policy"] == {"executor": "process", "timeout": 2}
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    assert parse_lock(text.encode(), Path("x")).to_text() == text


def test_the_same_tools_give_the_same_text_in_any_order():
    other = PLUGINS.with_spec(name="another")
    assert lock_tools(PLUGINS, other).to_text() == lock_tools(other, PLUGINS).to_text()


def test_windows_line_ends_are_read():
    text = lock_tools(PLUGINS).to_text()
    assert parse_lock(text.replace("\n", "\r\n").encode(), Path("x")).to_text() == text


def _rename(name):
    entry = json.loads(lock_tools(PLUGINS).to_text())["tools"]["size"]
    return {**entry, "spec": {**entry["spec"], "name": name}}


def _change(change):
    data = json.loads(lock_tools(PLUGINS).to_text())
    change(data)
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "damaged"),
        (b"\xff\xfe", "damaged"),
        (b"[]", "it is no JSON object"),
        (b"[" * 100_000, "damaged"),
        (b'{"format": 1, "tools": {}, "toolsets": {}}', "distributions must be an object of objects"),
        (b'{"format": 1,\n<<<<<<< mine\n=======\n>>>>>>> theirs\n}', "merge markers"),
        (b'{"format": 2}', "later one: update pegboard-lock"),
        (b'{"format": "1"}', "not a lock's"),
        (b'{"format": true}', "not a lock's"),
        (b'{"format": 1, "tools": {"a": {}, "a": {}}}', "a"),
        (_change(lambda data: data["tools"]["size"].pop("plugin")), "tools.size must have declared_trust, digest"),
        (_change(lambda data: data["tools"]["size"].update(digest="sha256:0")), "its digest isn't that"),
        (_change(lambda data: data["tools"]["size"].update(distribution=["a"])), "must be texts or null"),
        (_change(lambda data: data["tools"]["size"].update(declared_trust="yes")), "declared_trust true or false"),
        (_change(lambda data: data["tools"].update(other=data["tools"]["size"])), "has the definition of 'size'"),
        (_change(lambda data: data["tools"]["size"]["spec"].update(what=1)), "what: unknown key"),
        (_change(lambda data: data["tools"].update({"a" * 900: _rename("a" * 900)})), "damaged: 'aaa"),
        (_change(lambda data: data["tools"]["size"]["spec"].update({"\x1b[2J": 1})), r"damaged: \\u{1b}"),
        (_change(lambda data: data["toolsets"].update(web={"definitions": {"a": []}})), "toolsets.web: definitions"),
    ],
)
def test_what_is_no_lock_is_refused_with_the_cause(content, cause):
    with pytest.raises(LockError, match=cause) as caught:
        parse_lock(content, Path("some.lock"))
    assert str(caught.value).startswith("some.lock: ")
    assert len(str(caught.value)) < 500


def test_two_tools_of_one_name_are_refused(tmp_path):
    text = lock_tools(PLUGINS).to_text()
    entry = json.dumps(json.loads(text)["tools"]["size"])
    file = tmp_path / "pegboard.lock"
    file.write_text(text.replace('"tools": {', f'"tools": {{ "size": {entry},'))
    with pytest.raises(LockError, match="damaged: Detected duplicate key"):
        read_lock(file)


def test_a_missing_and_a_huge_file_are_refused(tmp_path):
    file = tmp_path / "pegboard.lock"
    with pytest.raises(LockError, match="no such file; 'registry lock' writes it"):
        read_lock(file)
    with file.open("wb") as huge:
        huge.truncate(100_000_000)
    with pytest.raises(LockError, match=f"can't be read: larger than {MOST_BYTES} bytes"):
        read_lock(file)


def test_a_lock_outside_of_a_project_binds_and_one_in_a_project_once_it_is_trusted(tmp_path):
    file = tmp_path / "pegboard.lock"
    content = lock_tools(PLUGINS).to_text().encode()
    file.write_bytes(content)
    assert is_binding(file, content)
    (tmp_path / "pegboard.toml").touch()
    assert not is_binding(file, content)
    trust(file)
    assert is_binding(file, content)
    assert not is_binding(file, content + b" ")


def test_writing_trusts_what_was_trusted_or_is_new_or_is_accepted_as_a_whole(tmp_path):
    (tmp_path / "pegboard.toml").touch()
    file, empty = tmp_path / "pegboard.lock", Lock()
    assert write_lock(file, empty, whole=False)  # it is new
    assert write_lock(file, lock_tools(PLUGINS), whole=False)  # it was trusted
    foreign = empty.to_text().encode() + b"\n"
    file.write_bytes(foreign)
    assert not write_lock(file, lock_tools(PLUGINS.with_spec(name="other")), whole=False)
    assert not is_binding(file, file.read_bytes())
    assert write_lock(file, lock_tools(PLUGINS), whole=True)
    assert is_binding(file, file.read_bytes())


def test_a_lock_that_was_trusted_once_isnt_again_by_a_change_to_an_untrusted_one(tmp_path):
    (tmp_path / "pegboard.toml").touch()
    file = tmp_path / "pegboard.lock"
    write_lock(file, lock_tools(PLUGINS), whole=True)
    file.write_text("{}")
    assert not write_lock(file, lock_tools(PLUGINS), whole=False)
    assert not is_binding(file, file.read_bytes())


def test_a_folder_that_cant_be_written_is_an_error(tmp_path):
    with pytest.raises(LockError, match="can't be written"):
        write_lock(tmp_path / "no" / "pegboard.lock", Lock(), whole=True)
