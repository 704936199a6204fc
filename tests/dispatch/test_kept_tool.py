from __future__ import annotations

import pytest

from pegboard.dispatch.kept import KeptResults
from pegboard.dispatch.kept_tool import kept_result_tool
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.policy import ResultLimits


@pytest.fixture
def kept(tmp_path):
    keeping = KeptResults(parent=str(tmp_path))
    yield keeping
    keeping.close()


@pytest.fixture
def read(kept, send):
    """Calls the tool as a model does."""
    tool = kept_result_tool(kept, limits=ResultLimits(lines=3, bytes=20))

    def read(arguments, session=None):
        return send(tool, arguments, context=ToolContext(ReadonlyContext(session=session))).result

    return read


def test_making_the_tool_makes_its_name_known(kept):
    assert kept.reader is None
    tool = kept_result_tool(kept, name="more")
    assert (kept.reader, tool.name) == ("more", "more")
    assert tool.spec.annotations.read_only_hint


def test_the_model_reads_on_to_the_end(kept, read):
    one = kept.keep("1\n2\n3\n4\n5\n")
    first = read({"id": one.id})
    assert first.text == f'1\n2\n3\n[There are 5 lines. Read on with read_result(id="{one.id}", line=4).]'
    assert first.metadata == {"truncated": True}
    rest = read({"id": one.id, "line": 4})
    assert (rest.text, rest.metadata) == ("4\n5\n[The end.]", {"truncated": False})


def test_it_may_ask_for_fewer_lines_and_gets_no_more_than_there_may_be(kept, read):
    one = kept.keep("1\n2\n3\n4\n5\n")
    assert read({"id": one.id, "lines": 1}).text.startswith("1\n[There are 5 lines. Read on")
    assert read({"id": one.id, "lines": 100}).text.startswith("1\n2\n3\n[")


def test_a_line_that_is_too_long_is_read_in_parts(kept, read):
    one = kept.keep("x" * 30)
    assert f'Read on with read_result(id="{one.id}", line=1, byte=20).' in read({"id": one.id}).text
    assert read({"id": one.id, "byte": 20}).text == "x" * 10 + "\n[The end.]"


@pytest.mark.parametrize("arguments", [{"id": "unknown"}, {"id": "unknown", "line": 7}])
def test_what_isnt_kept_is_an_error_that_says_what_to_do(read, arguments):
    result = read(arguments)
    assert (result.kind, result.is_error) == ("tool_failure", True)
    assert result.text == (
        "no result 'unknown' is kept.\nCall the tool that gave the result again, and ask it for less."
    )


def test_another_session_cant_read_it(kept, read):
    one = kept.keep("secret", session="ann")
    assert read({"id": one.id}, "ann").text.startswith("secret")
    assert read({"id": one.id}, "bob").text.startswith(f"no result '{one.id}' is kept.")


@pytest.mark.parametrize("arguments", [{}, {"id": "a", "line": 0}, {"id": "a", "byte": -1}, {"id": "a", "lines": 0}])
def test_arguments_that_make_no_sense_are_refused(read, arguments):
    assert read(arguments).kind == "invalid_arguments"
