from __future__ import annotations

import pytest

from pegboard.dispatch.permissions.commands import MOST_STARTS, starts, wrapped_commands
from pegboard.dispatch.permissions.rule import HOLE
from pegboard.dispatch.permissions.shell import Command


@pytest.mark.parametrize(
    ("words", "own", "found"),
    [
        ("git push", 0, ["git push"]),
        ("-n git push", 0, ["git push", "push"]),
        ("-u root git push", 0, ["root git push", "git push"]),
        ("--user=root git push", 0, ["git push"]),
        ("-- git push", 0, ["git push"]),
        ("A=b git push", 0, ["git push"]),
        ("5 git push", 1, ["git push"]),
        ("-s KILL 5 git push", 1, ["5 git push", "git push"]),
        ("-n", 0, []),
        ("5", 1, []),
        ("- git", 0, ["- git"]),
    ],
)
def test_where_a_command_may_start(words, own, found):
    assert [" ".join(each) for each in starts(words.split(), own)] == found


def test_a_word_that_the_shell_fills_in_may_be_anything():
    assert list(starts([HOLE, "git"], 0)) == [[HOLE, "git"], ["git"]]


def test_the_ways_to_read_a_command_come_to_an_end():
    found = list(starts(["-x", "y"] * 100, 0))
    assert len(found) == MOST_STARTS
    assert found[-1] == [HOLE]


def test_what_runs_nothing_else():
    assert list(wrapped_commands(Command(["ls", "-l"]))) == []
    assert list(wrapped_commands(Command([">", "sudo"], is_program=False))) == []
    assert list(wrapped_commands(Command([]))) == []


def test_a_here_document_of_a_shell_is_what_it_runs():
    assert list(wrapped_commands(Command(["bash"], scripts=["ls"]))) == ["ls"]
    assert list(wrapped_commands(Command(["bash", "file"], scripts=["ls"]))) == []
