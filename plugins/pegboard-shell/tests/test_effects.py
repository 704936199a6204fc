"""Which commands count as reading, and which may destroy something."""

from __future__ import annotations

import pytest

from pegboard_shell.effects import destroys, only_reads


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat a | grep b 2>/dev/null | wc -l",
        "cd src && git log --oneline | head -5",
        "find . -name '*.py'",
        "sed -n 1,10p a.txt",
        "sort < data",
        "git diff HEAD~1; git branch",
        ["grep", "-rn", "rm -rf", "src"],
        "date +%s",
    ],
)
def test_what_surely_changes_nothing_reads(command):
    assert only_reads({"command": command})
    assert not destroys({"command": command})


@pytest.mark.parametrize(
    "command",
    [
        "make",
        "ls > file",
        "echo $(touch x)",
        "PAGER=x git log",
        "find . -delete",
        "find . -exec touch {} ;",
        "sort -uo a b",
        "sed -n 'w x' a",
        "sed -i s/a/b/ a",
        "git branch new",
        "git -c core.pager=x log",
        "git diff --output=x",
        "rg --pre x y",
        "./ls",
        "uniq a b",
        "printf -v x y",
        "env ls",
        "sudo ls",
        "echo 'open",
        "",
        [],
    ],
)
def test_what_may_change_something_doesnt_read(command):
    assert not only_reads({"command": command})


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "cd y; sudo rm -rf /",
        "ls | xargs rm",
        "sh -c 'git reset --hard'",
        "git push --force origin main",
        "git push -f",
        "find . -delete",
        ["rm", "x"],
        "python -c 'import os; os.system(\"rm x\")'",
        "docker system prune",
        "echo 'open",
        "",
    ],
)
def test_what_may_destroy_something_says_so(command):
    assert destroys({"command": command})


@pytest.mark.parametrize(
    "command", ["make", "git commit -m 'rm old files'", "docker run --rm x", "git push", "npm test"]
)
def test_what_only_sounds_like_it_doesnt(command):
    assert not destroys({"command": command})
