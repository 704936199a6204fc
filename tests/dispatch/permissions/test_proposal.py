from __future__ import annotations

import pytest

from pegboard.dispatch.permissions.commands import command_parts


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("ls -la", "ls *"),
        ("git push origin", "git push *"),
        ("git", "git *"),
        ("npm run test -- -x", "npm run test *"),
        ("git -C x push", "git -C x push"),
        ("git remote add a b", "git remote add *"),
        ("pytest tests", "pytest *"),
        ("pytest $X", "pytest *"),
        ("rm x", "rm x"),
        ("sudo ls", "sudo ls"),
        ("python -c 'a b'", "python -c 'a b'"),
        ("./run x", "./run x"),
        ("> f", "> f"),
        ("A=b", "A=b"),
        ("rm *.py", None),
        ("rm '*'", None),
        ("rm $X", None),
        ("git $X", None),
        ("$X", None),
        ("echo $(ls)", None),
    ],
)
def test_what_always_would_allow(line, pattern):
    assert command_parts(line)[0].always == pattern
