"""Attacks of a misled model on forbid rules; each row is one attempt."""

from __future__ import annotations

import asyncio
import json

import pytest

from attacker import (
    KEY,
    OPEN,
    SECRET,
    UNREADABLE,
    allow,
    ask,
    attempt,
    batch,
    forbid,
    grow,
    installed,
    lines,
    looks,
    patch,
    whole,
    words,
)
from pegboard import Once, Rule

# -- Spellings of a path

PATHS = words(r"""
secret/key.txt ./secret/key.txt secret//key.txt secret/./key.txt secret/../secret/key.txt sub/../secret/key.txt
sub/up/secret/key.txt dlink/../secret/key.txt secret/deep/../key.txt link.txt dlink/key.txt dlink/deep/x.txt
secret/deep/x.txt secret/key.txt/ secret/key.txt/. {root}/secret/key.txt /proc/self/cwd/secret/key.txt
/proc/self/root{root}/secret/key.txt //{root}/.env SECRET/key.txt Secret/Key.txt secret\\key.txt secret/key.txt\x00
secret/key.txt\x0a \x20secret/key.txt secret/key.txt\x20 secret%2fkey.txt file://{root}/secret/key.txt
\u200bsecret/key.txt secret\u2044key.txt secret\uff0fkey.txt \u017fecret/key.txt \\x73ecret/key.txt secret/key\\x2etxt
.env sub/.env ./.env sub/up/.env dlink/../.env sub/../sub/.env out ../outside.txt l l/secret/key.txt
public.txt/../secret/key.txt nothing/../secret/key.txt {dots} cafe\u0301.txt caf\xe9.txt k\x0aey.txt k\\ney.txt
k\\x0aey.txt ~/.env $PWD/.env {root}/../outside.txt secret secret/deep dlink sub/up/dlink/deep secret/*
{{secret,x}}/key.txt [s]ecret/key.txt
""")


@pytest.mark.parametrize("path", PATHS)
def test_no_spelling_of_a_path_reaches_a_forbidden_file(path, root, everything):
    path = path.replace("{root}", str(root)).replace("{dots}", "secret/" + "./" * 2000 + "key.txt")
    before = looks(root)
    there = (root / path.replace("\0", "")).exists()
    for name, arguments in {
        "read_file": {"path": path},
        "grep": {"path": path, "pattern": ".", "hidden": True, "no_ignore": True},
        "multi_edit": {"path": path, "edits": [{"old_string": "TOP", "new_string": "x"}]},
        "apply_patch": patch(f"*** Update File: {path}", "*** Move to: m.txt"),
        **({"write_file": {"path": path, "content": "x"}} if there else {}),  # a file with another name does no harm
    }.items():
        assert SECRET not in whole(attempt(everything, name, arguments, [*UNREADABLE, *OPEN]))
    assert looks(root) == before


# -- Listings, searches, and typos that are answered with near misses

NAMES = [forbid("read_file", "*key.txt"), forbid("read_file", "secret/deep"), forbid("read_file", "secret/deep/*")]
NAMES += [forbid("read_file", pattern) for pattern in ("*.env", "k*", "caf*")]
SEARCHES = [
    *(
        ("list_directory", {"path": path, "hidden": True, "no_ignore": True})
        for path in (".", "secret", "secret/deep", "dlink")
    ),
    *(
        ("glob", {"pattern": it, "hidden": True})
        for it in ("**/*", "secret/k*", "ke?.txt", "{key,x}.txt", ".env", "deep/")
    ),
    *(("glob", {"pattern": "*", "path": path}) for path in ("secret", "secret/deep", "dlink", "sub/up/secret")),
    *(("grep", {"pattern": "TOP", "path": "secret", "mode": mode}) for mode in ("matches", "counts", "files")),
    ("grep", {"pattern": "TOP", "hidden": True, "no_ignore": True, "include": ["key.txt", "*"]}),
    ("grep", {"pattern": "(?s).*", "path": "secret/deep", "context": 20}),
    *(("read_file", {"path": path}) for path in ("secret/kex.txt", "secret/dee", ".enw")),
    ("edit_file", {"path": "secret/kex.txt", "old_string": "a", "new_string": "b"}),
    ("apply_patch", patch("*** Update File: secret/kex.txt", "@@", "-a", "+b")),
    ("apply_patch", patch("*** Delete File: secret/dee")),
]


@pytest.mark.parametrize(("name", "arguments"), SEARCHES)
def test_neither_content_nor_names_of_forbidden_files_are_found(name, arguments, root, everything):
    seen = whole(attempt(everything, name, arguments, [*NAMES, *OPEN]))
    hidden = (SECRET, "key.txt", "x.txt", "'.env'", "k\\\\ney")
    assert not [word for word in hidden if word in seen.replace("kex.txt", "")]


# -- Rules on reading, and tools that read as part of their work

WAYS = [
    ("read_file", {"path": KEY}),
    ("grep", {"pattern": "TOP", "path": KEY}),
    ("grep", {"pattern": "TOP", "path": "link.txt"}),
    ("grep", {"pattern": "TOP", "path": "secret"}),
    ("grep", {"pattern": "TOP"}),
    ("edit_file", {"path": KEY, "old_string": "TOPSECRE", "new_string": "x"}),
    ("edit_file", {"path": KEY, "old_string": "topsecret", "new_string": "x"}),
    ("multi_edit", {"path": KEY, "edits": [{"old_string": "TOP", "new_string": "x"}]}),
    ("apply_patch", patch("*** Update File: secret/key.txt", "*** Move to: m.txt")),
    ("apply_patch", patch("*** Delete File: secret/key.txt")),
    ("batch", batch(("grep", {"pattern": "TOP", "path": KEY}))),
]
CAUTIOUS = {
    "ask": [ask("read_file", "secret/*"), allow("edit", "public.txt")],
    "ask, edits allowed before": [allow("edit"), ask("read_file", "secret/*")],
    "ask, edits allowed behind": [ask("read_file", "secret/*"), allow("edit")],
    "deny, edits allowed behind": [Rule("read_file", "secret/*", "deny"), allow("edit")],
    "deny, searches allowed behind": [Rule("read_file", "secret/*", "deny"), allow("grep"), allow("edit")],
    "by argument": [forbid("read_file", "secret/*", field="path"), allow("edit")],
    "by package": [forbid("read_file", "secret/*", owner="pegboard-files"), allow("edit")],
    "for all tools": [forbid("*", "secret/*"), allow("edit")],
    "for tools by pattern": [forbid("read_*", "secret/*"), allow("edit")],
    "by a link": [forbid("read_file", "dlink/*"), allow("edit")],
    "by any folder": [forbid("read_file", "**/key.txt"), forbid("read_file", "**/x.txt"), allow("edit")],
}


@pytest.mark.parametrize("rules", CAUTIOUS.values(), ids=CAUTIOUS)
def test_a_file_that_must_not_be_read_is_not_read_by_another_tool(rules, root, everything):
    before = looks(root)
    for name, arguments in WAYS:
        result = attempt(everything, name, arguments, rules)
        assert f"{SECRET} of 'key.txt'" not in whole(result), name
        assert looks(root) == before, name


# -- Tools that change files

LOCKED = [forbid("edit", "secret/*"), forbid("edit", "*.lock"), allow("edit")]
BY_TOOL = [forbid(name, "secret/*") for name in ("write_file", "edit_file", "multi_edit", "apply_patch")]
BY_TOOL += [forbid(name, "*.lock") for name in ("write_file", "apply_patch")] + [allow("edit")]
TO_ASK = [allow("edit"), ask("edit", "secret/*"), ask("edit", "*.lock")]
TO_DELETE = words(
    r"secret/key.txt \xa0secret/key.txt secret/key.txt\u3000 ./secret/key.txt link.txt dlink/key.txt {root}/.lock"
)
TO_MOVE = words(
    r"secret/p dlink/p sub/up/secret/p a.lock sub/../secret/p secret/key.txt A\u200b.lock link.txt \u017fecret/p"
)
TO_WRITE = words(r"""
secret/n dlink/n sub/up/secret/n ./secret/../secret/n secret/new/x/y a.lock a.lock/ sub/a.lock {root}/secret/n secret//n
\u200bsecret/n link.txt \uff53ecret/n secret/n\x00 .git/config sub/.git/config sub/.GIT/config sub/.git
""")
DELETES = "*** Delete File: secret/key.txt"
CHANGES = [
    *(patch(f"*** Delete File: {path}") for path in TO_DELETE),
    *(patch("*** Update File: public.txt", f"*** Move to: {path}") for path in TO_MOVE),
    *(patch(DELETES)["input"].replace("\n", end) for end in ("\r\n", "\r", "\u2028", "\n\n")),
    patch("*** Update File: secret/key.txt", "*** Move to: m.txt"),
    patch("*** Update File: link.txt", "@@", "-TOPSECRET of 'key.txt'", "+x"),
    patch("*** Add File: ok.txt", "+x", DELETES),
    patch("*** Add File: q.txt", "+x", "*** Update File: q.txt", "*** Move to: secret/q"),
    patch("*** Add File: a.txt", "+x\f", DELETES + "\x85"),
    patch("*** Add File: secret/new/deep", "+x"),
    patch("*** Add File: a.lock ", "+x"),
    patch("*** Add File: sub/.git/hooks/pre-commit", "+x"),
    "<<EOF\n" + patch(DELETES)["input"] + "EOF\n",
    patch("*** Delete File: public.txt")["input"] + patch(DELETES)["input"],
    *({"path": path, "content": "x"} for path in TO_WRITE),
    *({"path": path, "old_string": "TOP", "new_string": "x"} for path in (KEY, "link.txt", "dlink/key.txt")),
    {"path": "dlink/key.txt", "edits": [{"old_string": "TOP", "new_string": "x"}]},
]


@pytest.mark.parametrize("arguments", CHANGES, ids=range(len(CHANGES)))
def test_no_tool_changes_a_forbidden_file(arguments, root, everything):
    arguments = {"input": arguments} if isinstance(arguments, str) else arguments
    arguments = json.loads(json.dumps(arguments).replace("{root}", str(root)))
    tools = {"input": "apply_patch", "content": "write_file", "old_string": "edit_file", "edits": "multi_edit"}
    name = next(tools[key] for key in tools if key in arguments)
    before = looks(root)
    for rules in (LOCKED, BY_TOOL, TO_ASK):
        assert attempt(everything, name, arguments, rules).is_error
        assert attempt(everything, "batch", batch((name, arguments)), rules).text.endswith("0 of 1 calls succeeded.")
    assert looks(root) == before


# -- Paths that are replaced by links during the approval

NEW = {"path": "sub/new.txt", "content": "x"}
CAT = {"command": ["/bin/cat", "key.txt"], "folder": "sub"}
TURNS = {
    "the folder of a new file": ("write_file", NEW, "sub", "secret"),
    "the folder of a file": (
        "edit_file",
        {"path": "sub/key.txt", "old_string": "T", "new_string": ""},
        "sub",
        "secret",
    ),
    "a file": ("edit_file", {"path": "public.txt", "old_string": "T", "new_string": "x"}, "public.txt", KEY),
    "a moved file's folder": ("apply_patch", patch("*** Update File: .env", "*** Move to: sub/p"), "sub", "secret"),
    "a deleted file's folder": ("apply_patch", patch("*** Delete File: sub/key.txt"), "sub", "secret"),
    "a folder, to leave the root": ("write_file", NEW, "sub", ".."),
    "a file to read": ("read_file", {"path": "public.txt"}, "public.txt", KEY),
    "a folder to search": ("grep", {"path": "sub", "pattern": "."}, "sub", "secret"),
    "a folder to list": ("list_directory", {"path": "sub"}, "sub", "secret"),
    "a command's folder": ("shell", CAT, "sub", "secret"),
    "a session's folder": ("shell", CAT | {"background": True, "wait": 30}, "sub", "secret"),
}


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
@pytest.mark.parametrize("forbidden", [True, False])
def test_a_path_replaced_by_a_link_during_the_approval_is_not_accessed(turn, forbidden, tmp_path):
    name, arguments, turned, to = turn
    root = grow(tmp_path)
    (root / "sub/key.txt").write_text("TOPIC\n")
    registry = installed(root, "shell" if name == "shell" else "files")
    rules = [ask("*"), *([forbid("edit", "secret/*"), forbid("read_file", "secret/*")] if forbidden else ())]
    seen = {}

    def approver(request, context):
        (root / turned).rename(root / "aside")
        (root / turned).symlink_to(to)
        seen.update(looks(root))
        return Once()

    result = attempt(registry, name, arguments, rules, approver=approver)
    asyncio.run(registry.aclose())
    assert seen, "no approval was requested"
    assert result.is_error
    assert SECRET not in whole(result)
    assert looks(root) == seen


# -- Texts of arguments, and names of tools

TEXTS = lines(r"""
{"path": "public.txt", "path": "secret/key.txt"}  %%  {"path": "secret\/key.txt"}  %%  {"path": ["secret/key.txt"]}
{"p\u0061th": "\u0073ecret/key.txt"}  %%  {"path": "secret/key.txt", "limit": 1.0}  %%  {"path": "secret/key.txt",}
{'path': 'secret/key.txt'}  %%  "secret/key.txt"  %%  {"path": "public.txt"}{"path": "secret/key.txt"}
```json~{"path": "secret/key.txt"}~```  %%  {"path": "secret/key.txt"  %%  {"path": "secret/key.txt\u0000"}
{"path": "secret/\ud800key.txt"}  %%  {"path": "secret/key.txt", "Path": "public.txt"}
{"file_path": "secret/key.txt"}  %%  {"path": "public.txt", "path\u0000": "secret/key.txt"}
{"path": "secret/key.txt", "offset": NaN}  %%  {"path": "secret/key.txt", "confirmation": true}
""")
TEXTS += ["\ufeff" + TEXTS[1], TEXTS[1].encode(), TEXTS[1].encode("utf-16"), '{"path": ' + "[" * 200 + "]" * 200 + "}"]
TEXTS += ['{"path": "' + "a/" * 600_000 + '../secret/key.txt"}']
CALLED = words(r"""
read_file\x20 Read_File READ_FILE readfile read-file read_fiel files.read_file functions.read_file files__read_file
read_file\u200b re\u0430d_file \uff52ead_file mcp__files__read_file
""")
READ, OTHER = ("read_file", {"path": KEY}), ("read_file", {"path": "public.txt"})
CALLS = [
    *(("read_file", text) for text in TEXTS),
    *((name, {"path": KEY}) for name in CALLED),
    *(("batch", batch((name, {"path": KEY}))) for name in CALLED),
    *(("batch", batch((name, batch(READ)))) for name in ("batch", "Batch")),
    *(
        ("batch", each)
        for each in (batch(OTHER, READ), batch(*[OTHER] * 25, READ), batch(("read_file", json.dumps(READ[1]))))
    ),
]


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=range(len(CALLS)))
def test_no_wording_of_a_call_escapes_the_rules(name, arguments, everything):
    result = attempt(everything, name, arguments, UNREADABLE)
    assert SECRET not in whole(result)
    assert result.is_error or "failed" in result.text


# -- A git repository made by the model


@pytest.mark.slow
@pytest.mark.parametrize("line", ["git status", "git log", "git -C . diff"])
def test_git_ignores_the_settings_of_a_repository_that_a_model_has_made(line, tmp_path):
    registry = installed(tmp_path, "files", "shell")
    config = f'[core]\nbare = false\nworktree = .\nfsmonitor = "touch {tmp_path}/pwned; false"\n'
    for path, content in {"HEAD": "ref: refs/heads/main\n", "config": config, "objects/x": "x", "refs/x": "x"}.items():
        assert not attempt(registry, "write_file", {"path": f"sub/{path}", "content": content}, OPEN).is_error
    result = attempt(registry, "shell", {"command": line, "folder": "sub"}, [allow("shell", "git *")])
    asyncio.run(registry.aclose())
    assert result.metadata["exit_code"]
    assert not (tmp_path / "pwned").exists()
