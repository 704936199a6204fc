"""`--functions FILE.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

SOURCE = '''
"""Some functions."""
import sys
from os.path import join
from typing import NewType

from sibling import imported
from pegboard import tool

CONSTANT = 3

def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b

@tool(name="renamed", read_only=True)
async def other(text: str) -> str:
    """Tell it in capitals."""
    return text.upper()

def _private(x: int) -> int:
    return x

alias = add
Id = NewType("Id", int)
unnamed = lambda x: x

class Thing:
    pass

def unspeakable(x: Thing.__class__) -> None:
    """Can't be a tool."""
'''


@pytest.fixture
def file(tmp_path):
    (tmp_path / "sibling.py").write_text("def imported(x: int) -> int:\n    return x\n")
    file = tmp_path / "fns.py"
    file.write_text(SOURCE)
    return str(file)


@pytest.mark.usefixtures("registry")
class TestFunctions:
    def test_only_public_functions_that_the_file_defines(self, say, file):
        code, out, err = say("list", "--names", "--functions", file)
        assert (code, out.split()) == (0, ["add", "renamed"])
        assert "unspeakable" in err

    def test_they_are_called(self, say, file):
        assert say("call", "add", "a=40", "--functions", file)[:2] == (0, "42\n")
        assert say("call", "renamed", "text=x", "--functions", file)[:2] == (0, "X\n")

    @pytest.mark.parametrize(
        ("source", "told"),
        [
            ("def (", "fns.py, line 1: SyntaxError"),
            ("x = 1\n\nraise ValueError('no')", "fns.py, line 3: ValueError: no"),
            ("import sys\nsys.exit(3)", "fns.py, line 2: SystemExit: 3"),
            ("x = 1", "defines no public function"),
        ],
    )
    def test_a_file_that_does_not_do(self, say, file, source, told):
        Path(file).write_text(source)
        code, out, err = say("list", "--functions", file)
        assert (code, out) == (2, "")
        assert told in err
        assert "Traceback" not in err

    def test_a_file_that_is_no_python(self, say, tmp_path):
        (tmp_path / "fns.txt").write_text("")
        assert "its name has to end in .py" in say("list", "--functions", str(tmp_path / "fns.txt"))[2]

    def test_a_file_that_is_not_there(self, say):
        assert say("list", "--functions", "nowhere.py")[0] == 2

    def test_the_later_file_counts(self, say, file, tmp_path):
        later = tmp_path / "later.py"
        later.write_text("def add() -> str:\n    return 'later'\n")
        assert say("call", "add", "--functions", file, "--functions", str(later))[:2] == (0, "later\n")
