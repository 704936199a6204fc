"""The plugin and its settings."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import entry_points

import pytest

import pegboard_files
from pegboard import Permissions, ReadonlyContext, Rule, ToolContext, ToolError, ToolRegistry
from pegboard.schema.converter import read_table
from pegboard.testing import check_plugin
from pegboard_files.edit_tools import EditTools
from pegboard_files.editing import MAX_EDITED
from pegboard_files.tools import FileTools, Settings


@pytest.fixture
def registry(top) -> ToolRegistry:
    registry = ToolRegistry()
    pegboard_files.pegboard_register_tools(registry.register, {"root": str(top)})
    return registry


def test_the_plugin_stands_behind_one_entry_point():
    (entry,) = [each for each in entry_points(group="pegboard") if each.name == "files"]
    assert entry.load() is pegboard_files


def test_four_tools_only_read(registry):
    specs = {tool.name: tool.spec for tool in registry.tools() if "edit" not in tool.spec.tags}
    assert sorted(specs) == ["glob", "grep", "list_directory", "read_file"]
    for spec in specs.values():
        assert spec.annotations.to_json() == {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
        assert spec.tags == ("files",)
        assert spec.permission is None, "what only reads needs no permission"
        assert spec.permission_arguments == {"path": "path"}
        assert spec.concurrency.to_json() == {"mode": "path", "key": ["path"], "access": "read"}
        assert spec.title
        assert spec.description


def test_every_parameter_is_described_and_bounded(registry):
    for tool in registry.tools():
        schema = tool.spec.input_schema
        assert schema["additionalProperties"] is False
        for name, part in schema["properties"].items() if tool.spec.kind == "function" else ():
            assert part["description"], (tool.name, name)
            if part["type"] == "integer":
                assert "minimum" in part, (tool.name, name)
            if part["type"] == "string":
                assert "maxLength" in part or "enum" in part, (tool.name, name)


def test_a_call_gives_text_for_the_model_and_data_for_programs(write, registry):
    write({"src/a.py": "def find():\n    return 1\n"})
    result = registry.call_sync("grep", {"pattern": "def", "path": "src"})
    assert not result.is_error
    assert result.text == "src/a.py\n1:def find():"
    assert result.structured_content["matches"][0]["line"] == 1
    listed = registry.call_sync("list_directory", '{"path": "src"}')
    assert listed.structured_content["entries"] == [{"name": "a.py", "kind": "file", "size": 25}]
    found = registry.call_sync("glob", {"pattern": "*.py"})
    assert found.text == "src/a.py"
    read = registry.call_sync("read_file", {"path": "src/a.py", "limit": 1})
    assert read.text == "1\tdef find():\n[Lines 1-1 of 2. To continue, use offset=2.]"


def test_a_pattern_may_begin_with_the_searched_folders_whole_path(top, write, tmp_path):
    write({"a.py": "x", "src/b.py": "x", "src/c.txt": "x", ".work/d.py": "x"})
    (tmp_path / "link").symlink_to(top)
    registry = ToolRegistry()
    pegboard_files.pegboard_register_tools(registry.register, {"root": str(tmp_path / "link")})

    def find(name, **arguments):
        return registry.call_sync(name, arguments).text

    for whole in (top, tmp_path / "link"):
        assert find("glob", pattern=f"{whole}/**/*.py") == "a.py\nsrc/b.py"
        assert find("glob", pattern=f"{whole}/*.py") == "a.py"
        assert find("glob", pattern=f"{whole}/src/*.py", path=f"{whole}/src") == "src/b.py"
        assert find("glob", pattern="*.py", exclude=[f"{whole}/src/"]) == "a.py"
        assert find("glob", pattern=f"{whole}/.work/*.py") == ".work/d.py"
        assert find("grep", pattern="x", include=[f"{whole}/src/*"], exclude=[f"{whole}/src/*.txt"]) == "src/b.py\n1:x"
    assert "No path matches" in find("glob", pattern=f"{tmp_path}/*.txt")


def test_brackets_in_a_pattern_are_a_class_and_literal(write, registry):
    write({"app/[id]/page.tsx": "x", "app/[...all]/a[1].ts": "x", "b1.ts": "x", "b[1].ts": "x"})

    def find(name, **arguments):
        return registry.call_sync(name, arguments).text

    assert find("glob", pattern="app/[id]/page.tsx") == find("glob", pattern="app/[id]/*") == "app/[id]/page.tsx"
    assert find("glob", pattern="app/[[]id]/*") == find("glob", pattern="app/\\[id\\]/*") == "app/[id]/page.tsx"
    assert find("glob", pattern="**/[...all]/a[1].{ts,js}") == "app/[...all]/a[1].ts"
    assert find("glob", pattern="b[1].ts") == "b1.ts\nb[1].ts"
    assert find("glob", pattern="[xy].ts") == "[No path matches.]"
    assert find("glob", pattern="*.ts*", exclude=["[id]/", "b[1].ts"]) == "app/[...all]/a[1].ts"
    assert find("grep", pattern="x", include=["app/[id]/**"]) == "app/[id]/page.tsx\n1:x"
    assert find("grep", pattern="x", include=["b[1].ts"]) == "b1.ts\n1:x\n\nb[1].ts\n1:x"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("read_file", {"path": "../secret.txt"}), "outside of the working folder"),
        (("read_file", {"path": "/etc/passwd"}), "outside of the working folder"),
        (("read_file", {"path": "a.txt", "offset": 0}), "offset: must be at least 1"),
        (("read_file", {"path": ""}), "path: must have at least 1 character"),
        (("grep", {"pattern": "x", "limit": 9_999}), "limit: must be at most 2000"),
        (("grep", {"pattern": "("}), "not a valid regular expression"),
        (("glob", {"pattern": "["}), "not a valid pattern"),
        (("list_directory", {"path": "nowhere"}), "'nowhere' doesn't exist"),
    ],
)
def test_what_a_model_does_wrong_is_an_error_result_that_says_what(top, write, registry, call, text):
    write({"a.txt": "x\n"})
    result = registry.call_sync(*call)
    assert result.is_error
    assert text in result.text
    assert str(top) not in result.text


DENY_ENV = Rule("*", "*.env", "deny", forbid=True)
SECRETS = {"a.txt": "KEY=1\n", ".env": "KEY=2\n", "secret/key": "KEY=3\n", "src/b.env": "KEY=4\n"}


def seen(files, *rules, work_dir=None, mode="default"):
    """What each tool gives, by its name, with the tools at `files` and these rules."""
    registry = ToolRegistry(permissions=Permissions(rules, mode))
    pegboard_files.pegboard_register_tools(registry.register, files)

    def see(name, **arguments):
        return registry.call_sync(name, arguments, ReadonlyContext(work_dir=work_dir)).text

    return see


@pytest.mark.parametrize("root", ["absolute", "relative", "link", "work_dir"])
def test_rules_judge_the_path_as_the_tools_resolve_it(tmp_path, top, write, monkeypatch, root):
    write(SECRETS)
    (top / "way").symlink_to("secret")
    (tmp_path / "elsewhere" / "secret").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(top)
    monkeypatch.chdir(tmp_path / "elsewhere")
    settings = {"absolute": {"root": str(top)}, "relative": {"root": "../top"}, "link": {"root": f"{tmp_path}/alias"}}
    work_dir = str(top) if root == "work_dir" else None
    see = seen(settings.get(root, {}), Rule("read_file", f"{top}/secret/*", "deny", forbid=True), work_dir=work_dir)
    assert see("read_file", path="a.txt") == "1\tKEY=1"
    for path in ("secret/key", "./a/../secret//key", "way/key", f"{top}/secret/key", f"{top}/way/../secret/key"):
        assert "KEY=3" not in see("read_file", path=path)
        assert "is denied" in see("read_file", path=path)
    elsewhere = Rule("read_file", f"{tmp_path}/elsewhere/*", "allow")
    asks = seen(settings.get(root, {}), Rule("read_file", "*", "ask"), elsewhere, work_dir=work_dir)
    assert "no approver" in asks("read_file", path="a.txt")


@pytest.mark.parametrize("rule", [DENY_ENV, Rule("read_file", "*.env", "deny"), Rule("*", "*.env", "ask")])
def test_what_rules_deny_is_neither_found_nor_listed_nor_searched(top, write, rule):
    write(SECRETS)
    see = seen({"root": str(top)}, rule)
    left_out = "[Paths denied by the permission rules are not shown.]"
    assert see("grep", pattern="KEY", hidden=True) == f"a.txt\n1:KEY=1\n\nsecret/key\n1:KEY=3\n{left_out}"
    assert see("glob", pattern="**", hidden=True) == f"a.txt\nsecret/key\n{left_out}"
    assert see("list_directory", hidden=True) == f"a.txt  6 bytes\nsecret/\nsrc/\n{left_out}"
    assert see("list_directory", path="secret") == "key  6 bytes"
    for path in (".env", "src/b.env"):
        assert "KEY" not in see("read_file", path=path) + see("grep", pattern="KEY", path=path)
    assert "b.env" not in see("read_file", path="src/b.en")


def test_a_denied_folder_is_not_listed_and_what_was_asked_about_as_a_whole_is(top, write):
    write(SECRETS)
    see = seen({"root": str(top)}, Rule("read_file", f"{top}/secret", "deny"))
    assert "secret" not in see("list_directory") + see("glob", pattern="*")
    assert see("list_directory", path="secret").startswith("The permission rules deny access to 'secret'.")
    asks = seen({"root": str(top)}, Rule("grep", "*", "ask"), Rule("grep", f"{top}", "allow"))
    assert asks("grep", pattern="KEY").startswith("a.txt\n1:KEY=1")


def test_a_file_that_is_swapped_for_a_denied_one_after_it_was_judged_is_not_read(top, write):
    """What was judged is what is opened: the call is decided on again before it runs, and the tool looks again."""
    write(SECRETS)
    rules = Permissions([Rule("read_file", "*/secret/*", "deny")])
    registry = ToolRegistry(permissions=rules)
    pegboard_files.pegboard_register_tools(registry.register, {"root": str(top)})

    def swap(context, tool, arguments, call_next):
        (top / "a.txt").unlink()
        (top / "a.txt").symlink_to("secret/key")
        return call_next()

    registry.add_callback("wrap_tool", swap)
    result = registry.call_sync("read_file", {"path": "a.txt"})
    assert result.kind == "denied"


@pytest.mark.parametrize("name", ["grep", "glob", "list_directory"])
@pytest.mark.parametrize("path", ["{}", "{}/x", "{}/..", "{}/../../a.txt", "{}/"])
def test_what_rules_deny_is_denied_in_the_same_words_whether_or_not_it_is_there(top, write, name, path):
    """A file, a folder and links, there or leading there; also by the name that it really has."""
    write({"secret/key": "KEY\n", "secret/sub/key": "KEY\n", "a.txt": ""})
    (top / "way").symlink_to("secret")
    (top / "secret" / "out").symlink_to("/etc")
    see = seen({"root": str(top)}, Rule("read_file", "secret/*", "deny"))
    facts = {} if name == "list_directory" else {"pattern": "KEY"}
    for folder in ("secret", "way"):
        missing = see(name, path=path.format(f"{folder}/nope"), **facts)
        assert missing.startswith("The permission rules deny access to ")
        for entry in ("key", "sub", "out"):
            assert see(name, path=path.format(f"{folder}/{entry}"), **facts) == missing.replace("nope", entry)


ATTEMPTS = [
    *(
        ("read_file", {"path": path})
        for path in ("secret/key", "./secret//key", "src/../secret/key", "{top}/secret/key")
    ),
    *(("read_file", {"path": path}) for path in ("way/key", "way/../secret/key", "file", "chain", "src/up/secret/key")),
    *(("read_file", {"path": path}) for path in ("hid\u200bden/key", "hid\\u200bden/key", "secret/kei", "secret/key/")),
    *(("grep", {"pattern": "KEY", "path": path}) for path in (".", "secret", "secret/key", "way", "file", "src/up")),
    ("grep", {"pattern": "KEY", "hidden": True, "no_ignore": True, "include": ["secret/**"]}),
    *(("grep", {"pattern": "KEY", "mode": mode, "context": 5}) for mode in ("files", "counts")),
    *(("glob", {"pattern": pattern, "hidden": True}) for pattern in ("**", "secret/*", "*key*", "secret/**/*")),
    *(("glob", {"pattern": "*", "path": path}) for path in ("secret", "way", "src/up/secret")),
    *(("list_directory", {"path": path}) for path in ("secret", "way", "src/../secret", "hid\\u200bden")),
]


@pytest.mark.parametrize(("name", "arguments"), ATTEMPTS)
@pytest.mark.parametrize("pattern", ["{top}/*ecret/*", "secret/*", "*/secret/*"])
def test_no_tool_bypasses_a_forbid_rule(top, write, name, arguments, pattern):
    """By no path, by no other tool, and by no name that only looks the same."""
    write({"secret/key": "KEY\n", "src/a": "", "hid\u200bden/key": "KEY\n"})
    for link, target in {"way": "secret", "file": "secret/key", "chain": "file", "src/up": ".."}.items():
        (top / link).symlink_to(target)
    rules = [Rule("*", "*/hidden/*", "deny", forbid=True), Rule("*", pattern.format(top=top), "deny", forbid=True)]
    see = seen({"root": str(top)}, *rules, mode="bypass")
    arguments = {key: each.format(top=top) if isinstance(each, str) else each for key, each in arguments.items()}
    text = see(name, **arguments)
    assert "KEY" not in text.replace("'KEY'", "")
    assert not re.search(r"\bkey\b(?!')", text.replace(str(arguments.get("path")), ""))


def test_results_are_json_whatever_files_are_called(top, registry):
    try:
        os.close(os.open(os.fsencode(top) + b"/caf\xe9.txt", os.O_CREAT | os.O_WRONLY))
    except OSError:
        (top / "caf\n.txt").write_text("")  # some file systems of macOS only take UTF-8
    for name, arguments in (("list_directory", {}), ("glob", {"pattern": "*"}), ("grep", {"pattern": "x"})):
        result = registry.call_sync(name, arguments)
        assert not result.is_error
        json.dumps(result.to_json(), ensure_ascii=False).encode()


def test_a_wrong_setting_is_refused_before_anything_is_registered():
    brought: list[object] = []
    with pytest.raises(ValueError, match=r"plugins\.files\.roots: unknown key\. Did you mean 'root'"):
        pegboard_files.pegboard_register_tools(brought.append, {"roots": "/"})
    assert brought == []


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("", ("re2", "pathspec", "bracex", "attrs", "pegboard_files.tools", "asyncio", "difflib")),
        ("pegboard_files.pegboard_register_tools([].append, {})", ("re2", "pathspec", "bracex", "mimetypes")),
    ],
)
def test_what_only_a_call_needs_waits_for_it(code, heavy):
    """Listing imports plugins without a manifest."""
    code = f"import sys, pegboard_files; {code}\nprint([name for name in {heavy!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"rooot": "x"}, "plugins.files.rooot: unknown key. Did you mean 'root'?"),
        (
            {"x": 1},
            "plugins.files.x: unknown key. There are root, hidden, no_ignore, time_limit, read_first*",
        ),
        ({"root": 1}, "plugins.files.root: must be the path of a folder, or a list of some, got 1"),
        ({"root": ""}, 'plugins.files.root: must be the path of a folder, or a list of some, got ""'),
        ({"root": "a\0b"}, 'plugins.files.root: must be the path of a folder, or a list of some, got "a\\u0000b"'),
        ({"root": []}, "plugins.files.root: must be the path of a folder, or a list of some, got an array"),
        ({"tools": "some"}, "plugins.files.tools: must be one of read-only, coding, all, got 'some'"),
        ({"patch_models": "gpt"}, "plugins.files.patch_models: must be an array, got str"),
        ({"hidden": "yes"}, "plugins.files.hidden: must be a boolean, got str"),
        ({"no_ignore": 1}, "plugins.files.no_ignore: must be a boolean, got int"),
        ({"time_limit": 0}, "plugins.files.time_limit: must be a number of seconds above 0, got 0"),
        ({"time_limit": True}, "plugins.files.time_limit: must be a number, got bool"),
        ({"time_limit": math.nan}, "plugins.files.time_limit: must be a number of seconds above 0, got NaN"),
        ({"time_limit": math.inf}, "plugins.files.time_limit: must be a number of seconds above 0, got Infinity"),
    ],
)
def test_a_mistake_is_named_with_its_key_and_value(table, text):
    with pytest.raises(ValueError, match="^" + re.escape(text).replace(r"\*", ".*") + "$"):
        read_table(Settings, table, "plugins.files")


SETS = {
    "read-only": ["glob", "grep", "list_directory", "read_file"],
    "coding": ["apply_patch", "edit_file", "glob", "grep", "list_directory", "read_file", "write_file"],
    "all": ["apply_patch", "edit_file", "glob", "grep", "list_directory", "multi_edit", "read_file", "write_file"],
}


@pytest.mark.parametrize(("chosen", "names"), SETS.items())
def test_the_settings_choose_a_set_of_tools(chosen, names):
    registry = ToolRegistry()
    pegboard_files.pegboard_register_tools(registry.register, {"tools": chosen})
    assert sorted(tool.name for tool in registry.tools()) == names


@pytest.fixture
def several(tmp_path, top):
    """Calls tools with two roots, in both of which they may edit."""
    registry = ToolRegistry(permissions=Permissions([Rule("edit", "*", "allow")]))
    other = tmp_path / "other"
    other.mkdir()
    roots = [str(top), str(other), str(tmp_path / "missing")]
    pegboard_files.pegboard_register_tools(registry.register, {"root": roots})
    return lambda name, **arguments: registry.call_sync(name, arguments)


def test_relative_paths_are_in_the_first_root_and_absolute_ones_in_any(tmp_path, write, several):
    write({"a.txt": "first KEY\n", "../other/sub/b.txt": "second KEY\n"})
    other = tmp_path / "other"
    assert several("read_file", path="a.txt").text == "1\tfirst KEY"
    assert several("read_file", path=f"{other}/sub/b.txt").text == "1\tsecond KEY"
    assert several("list_directory", path=str(other)).structured_content["path"] == str(other)
    assert several("glob", pattern="*.txt", path=str(other)).text == f"{other}/sub/b.txt"
    assert several("grep", pattern="KEY", path=str(other)).text == f"{other}/sub/b.txt\n1:second KEY"
    assert several("grep", pattern="KEY").text == "a.txt\n1:first KEY"
    edited = several("edit_file", path=f"{other}/sub/b.txt", old_string="second", new_string="2nd")
    assert edited.text == f"Edited '{other}/sub/b.txt': 1 replacement, at line 1."


def test_a_patch_may_move_a_file_from_one_root_to_another(tmp_path, top, write, several):
    write({"a.txt": "1\n"})
    moved = f"*** Begin Patch\n*** Update File: a.txt\n*** Move to: {tmp_path}/other/a.txt\n*** End Patch"
    assert several("apply_patch", input=moved).text.endswith(f"M {tmp_path}/other/a.txt")
    assert (tmp_path / "other" / "a.txt").read_text() == "1\n"
    assert not (top / "a.txt").exists()


def test_with_several_roots_there_is_still_no_way_out_of_each(tmp_path, write, several):
    write({"../other/b.txt": "", "a": ""})
    (tmp_path / "other" / "link").symlink_to(tmp_path / "secret.txt")
    other = tmp_path / "other"
    for path in (f"{other}/../secret.txt", f"{other}/link", f"{tmp_path}/secret.txt", f"{other}2/x", "../other/b.txt"):
        assert "outside of the working folder" in several("read_file", path=path).text
    missing = several("read_file", path=f"{other}/c.txt")
    assert missing.text == f"'{other}/c.txt' doesn't exist. Did you mean '{other}/b.txt'?"


def lines_of(count: int, kinds: int = 150) -> str:
    """Lines of few kinds in no order, which take difflib long to compare."""
    draw = random.Random(count)
    return "".join(f"{draw.randrange(kinds)}\n" for _ in range(count))


def letters_of(count: int) -> str:
    """Lines of the same letters in another order each, which take difflib long to compare."""
    draw = random.Random(count)
    return "".join("".join(draw.sample("abcdefghijklmnopqrstuvwxyz" * 10, 260)) + "\n" for _ in range(count))


def edit(old: str, **more: object) -> tuple[str, dict[str, object]]:
    return "edit_file", {"path": "f", "old_string": old, "new_string": "z", **more}


def patch(*lines: str) -> tuple[str, dict[str, object]]:
    return "_apply_patch", {"input": "\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"])}


LARGE = {
    "near miss": lambda: ("x\n" * 200_000, *edit("x\n" * 100_000 + "y")),
    "similar lines": lambda: (letters_of(20_000), *edit(letters_of(3))),
    "overlapping": lambda: ("a" * MAX_EDITED, *edit("a" * (1 << 20))),
    "CRLF": lambda: ("x\r\n" * 20_000_000, *edit("x\n" * 500_000)),
    "NFD": lambda: ("e\u0301" * 20_000_000, *edit("\u00e9" * 300_000)),
    "every NFD": lambda: (("e\u0301" * 500 + "\n") * 200, *edit("\u00e9", replace_all=True)),
    "diff": lambda: (lines_of(190_000), "write_file", {"path": "f", "content": lines_of(189_000)}),
    "patch": lambda: ("\u2001x\n" * 1_900_000, *patch(*["- x"] * 200_000, "-y")),
    "NFD patch": lambda: ("e\u0301\n" * 40_000, *patch(*[" \u00e9"] * 40_000, *["+x"] * 40_000)),
    "lines of the patch": lambda: ("\u00e9l\u00e8ve du 1er\n" * 1_900_000, *patch("-nicht d\u00e2", "+x")),
    "similar long lines": lambda: (("w\u00f6rd " * 50 + "\n") * 200_000, *edit("w\u00f6rd " * 50 + "x")),
    "marks": lambda: ("a" + "\u0301\u0323" * 100_000, *edit("\u0323b")),
    "marks looked for": lambda: ("\u00e9", *edit("a" + "\u0301\u0323" * 100_000)),
    "marks in a patch": lambda: ("\u00e9\n", *patch("-a" + "\u0301\u0323" * 100_000, "+x")),
    "grep": lambda: ("ab\n" * 20_000_000, "grep", {"pattern": "(a|b)*$", "mode": "counts"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_no_tool_works_on_after_the_time_limit_of_its_call(top, write, case):
    content, name, arguments = case()
    write({"f": content})
    settings = Settings(root=str(top), read_first=False)
    tools = FileTools(settings) if name == "grep" else EditTools(settings)
    begin = time.monotonic()
    with suppress(ToolError):
        getattr(tools, name)(**arguments, call=ToolContext(deadline=begin + 0.5))
    assert time.monotonic() - begin < 20  # seconds to minutes without a deadline


@pytest.mark.slow
def test_the_plugin_keeps_the_contract() -> None:
    """It loads whole, its manifest is true, its schemas judge as they say, importing it is cheap."""
    check_plugin("files")
