from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.kept import ResultStore, _remove_folder, kept_result_tool
from pegboard.dispatch.truncate import Size, TextPosition
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.spec import ResultLimits

FEW = ResultLimits(lines=2, bytes=10)


@pytest.fixture
def told():
    return []


@pytest.fixture
def kept(tmp_path, told):
    keeping = ResultStore(parent=str(tmp_path), observe=lambda who, error: told.append((who, type(error))))
    yield keeping
    keeping.close()


def test_nothing_is_made_before_something_is_kept(kept, tmp_path):
    assert list(tmp_path.iterdir()) == []
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_kept_in_a_file_of_its_own_that_only_this_user_may_read(kept, tmp_path):
    one, other = kept.keep("a\nb"), kept.keep("a\nb")
    assert Path(one.path).read_text() == "a\nb"
    assert (one.size, one.id != other.id, one.path != other.path) == (Size(2, 3), True, True)
    assert stat.S_IMODE(Path(one.path).stat().st_mode) == 0o600
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_closing_removes_everything_and_the_next_text_begins_anew(kept, tmp_path):
    first = kept.keep("a")
    kept.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LookupError):
        kept.read(first.id)
    again = kept.keep("b")
    assert kept.read(again.id).text == "b"


def test_what_nobody_holds_any_more_is_removed(tmp_path):
    keeping = ResultStore(parent=str(tmp_path))
    keeping.keep("a")
    del keeping
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_the_program_removes_it_and_that_of_a_forked_child_does_not(tmp_path):
    program = f"""
import os, sys
from pegboard.dispatch.kept import ResultStore, _remove_folder
keeping = ResultStore(parent={str(tmp_path)!r})
path = keeping.keep("a").path
if os.fork() == 0:
    sys.exit()
os.wait()
print(os.path.exists(path))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True\n"
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_goes_where_there_are_too_many(tmp_path):
    keeping = ResultStore(most=2, parent=str(tmp_path))
    first, second, third = (keeping.keep(text) for text in "abc")
    assert len(keeping) == 2
    assert not Path(first.path).exists()
    with pytest.raises(LookupError, match=f"no result '{first.id}' is kept"):
        keeping.read(first.id)
    assert [keeping.read(each.id).text for each in (second, third)] == ["b", "c"]


def test_the_oldest_go_where_they_are_too_long_together(tmp_path):
    keeping = ResultStore(most_bytes=10, parent=str(tmp_path))
    texts = [keeping.keep(text) for text in ("aaaa", "bbbb", "cccccc")]
    assert [Path(each.path).exists() for each in texts] == [False, True, True]


def test_a_text_that_is_too_long_by_itself_is_not_kept(tmp_path):
    keeping = ResultStore(most_bytes=10, parent=str(tmp_path))
    before = keeping.keep("a")
    assert keeping.keep("é" * 6) is None
    assert keeping.read(before.id).text == "a"
    assert ResultStore(most=0).keep("a") is None


def test_where_nothing_can_be_written_nothing_is_kept_and_the_operator_is_told(tmp_path, told):
    keeping = ResultStore(parent=str(tmp_path / "missing"), observe=lambda who, error: told.append((who, type(error))))
    assert keeping.keep("a") is None
    assert told == [("keeping a result", FileNotFoundError)]


def test_a_full_disk_leaves_no_half_text(kept, told, monkeypatch, tmp_path):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            os.close(self.descriptor)

        def write(self, data):
            os.write(self.descriptor, data[:1])
            raise OSError(28, "No space left on device")

    def opened(descriptor, mode):
        full = Full()
        full.descriptor = descriptor
        return full

    monkeypatch.setattr(os, "fdopen", opened)
    assert kept.keep("a" * 100) is None
    assert told == [("keeping a result", OSError)]
    (folder,) = tmp_path.iterdir()
    assert list(folder.iterdir()) == []
    assert len(kept) == 0


def test_where_somebody_has_cleaned_up_a_new_folder_is_made(kept, tmp_path):
    first = kept.keep("a")
    Path(first.path).unlink()
    Path(first.path).parent.rmdir()
    with pytest.raises(LookupError, match="can't be read any more"):
        kept.read(first.id)
    assert kept.read(kept.keep("b").id).text == "b"


def test_what_was_removed_by_others_is_no_matter_when_it_is_its_turn(tmp_path):
    keeping = ResultStore(most=1, parent=str(tmp_path))
    Path(keeping.keep("a").path).unlink()
    assert keeping.read(keeping.keep("b").id).text == "b"


def test_many_threads_may_keep_at_once(tmp_path):
    keeping = ResultStore(most=20, parent=str(tmp_path))
    threads = [threading.Thread(target=lambda: [keeping.keep("text") for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (folder,) = tmp_path.iterdir()
    assert len(keeping) == len(list(folder.iterdir())) == 20


# Reading on -----------------------------------------------------------------------------------------------------------


def test_a_session_reads_only_its_own(kept):
    one, nobodys = kept.keep("a", session="one"), kept.keep("b")
    assert kept.read(one.id, session="one").text == "a"
    assert kept.read(nobodys.id).text == "b"
    for session, each in (("two", one), (None, one), ("one", nobodys)):
        with pytest.raises(LookupError, match="no result"):
            kept.read(each.id, session=session)


def test_it_is_read_line_by_line(kept):
    one = kept.keep("1\n2\n3\n4\n5")
    page = kept.read(one.id, limits=FEW)
    assert (page.text, page.start, page.next, page.whole) == ("1\n2\n", TextPosition(1), TextPosition(3), Size(5, 9))
    page = kept.read(one.id, line=3, limits=FEW)
    assert (page.text, page.next) == ("3\n4\n", TextPosition(5))
    page = kept.read(one.id, line=5, limits=FEW)
    assert (page.text, page.next) == ("5", None)


def test_reading_never_begins_inside_a_character(kept):
    one = kept.keep("漢字")
    page = kept.read(one.id, byte=1)
    assert (page.text, page.start) == ("字", TextPosition(1, 3))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"line": 0}, "there are lines 1 to 2"),
        ({"line": 3}, "nothing stands at line 3"),
        ({"byte": -1}, "bytes from 0"),
        ({"byte": 4}, "line 1 has fewer than 4 bytes"),
        ({"line": 2, "byte": 5}, "line 2 has fewer than 5 bytes"),
    ],
)
def test_where_nothing_stands_nothing_is_read(kept, place, message):
    with pytest.raises(LookupError, match=message):
        kept.read(kept.keep("abc\ndef").id, **place)


def test_far_into_a_long_text_it_is_read_in_steps(kept):
    text = "".join(f"{number:07}\n" for number in range(300_000))
    assert kept.read(kept.keep(text).id, line=299_999, limits=FEW).text == "0299998\n"


@given(
    st.lists(st.sampled_from(["a", "\n", "é", "漢", "😀", "\u0301"]), min_size=1, max_size=60).map("".join),
    st.integers(1, 5),
    st.integers(6, 20),
)
def test_page_after_page_the_whole_text_is_read(text, lines, most):
    keeping = ResultStore()
    one = keeping.keep(text)
    place, pages = TextPosition(1), []
    while place is not None:
        page = keeping.read(one.id, line=place.line, byte=place.byte, limits=ResultLimits(lines, most))
        pages.append(page.text)
        assert page.next is None or page.text
        place = page.next
    keeping.close()
    assert "".join(pages) == text


def test_a_folder_is_removed_only_by_the_process_that_made_it(tmp_path):
    _remove_folder(str(tmp_path), os.getpid() + 1)
    assert tmp_path.exists()
    _remove_folder(str(tmp_path), os.getpid())
    assert not tmp_path.exists()


# Kept tool ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    keeping = ResultStore(parent=str(tmp_path))
    yield keeping
    keeping.close()


@pytest.fixture
def read(store, send):
    """Calls the tool as a model does."""
    tool = kept_result_tool(store, limits=ResultLimits(lines=3, bytes=20))

    def read(arguments, session=None):
        return send(tool, arguments, context=ToolContext(ReadonlyContext(session=session))).result

    return read


def test_making_the_tool_makes_its_name_known(store):
    assert store.reader is None
    tool = kept_result_tool(store, name="more")
    assert (store.reader, tool.name) == ("more", "more")
    assert tool.spec.annotations.read_only_hint


def test_the_model_reads_on_to_the_end(store, read):
    one = store.keep("1\n2\n3\n4\n5\n")
    first = read({"id": one.id})
    assert first.text == f'1\n2\n3\n[There are 5 lines. Read on with read_result(id="{one.id}", line=4).]'
    assert first.metadata == {"truncated": True}
    rest = read({"id": one.id, "line": 4})
    assert (rest.text, rest.metadata) == ("4\n5\n[The end.]", {"truncated": False})


def test_it_may_ask_for_fewer_lines_and_gets_no_more_than_there_may_be(store, read):
    one = store.keep("1\n2\n3\n4\n5\n")
    assert read({"id": one.id, "lines": 1}).text.startswith("1\n[There are 5 lines. Read on")
    assert read({"id": one.id, "lines": 100}).text.startswith("1\n2\n3\n[")


def test_a_line_that_is_too_long_is_read_in_parts_by_the_tool(store, read):
    one = store.keep("x" * 30)
    assert f'Read on with read_result(id="{one.id}", line=1, byte=20).' in read({"id": one.id}).text
    assert read({"id": one.id, "byte": 20}).text == "x" * 10 + "\n[The end.]"


@pytest.mark.parametrize("arguments", [{"id": "unknown"}, {"id": "unknown", "line": 7}])
def test_what_isnt_kept_is_an_error_that_says_what_to_do(read, arguments):
    result = read(arguments)
    assert (result.kind, result.is_error) == ("tool_failure", True)
    assert result.text == (
        "no result 'unknown' is kept.\nCall the tool that gave the result again, and ask it for less."
    )


def test_another_session_cant_read_it(store, read):
    one = store.keep("secret", session="ann")
    assert read({"id": one.id}, "ann").text.startswith("secret")
    assert read({"id": one.id}, "bob").text.startswith(f"no result '{one.id}' is kept.")


@pytest.mark.parametrize("arguments", [{}, {"id": "a", "line": 0}, {"id": "a", "byte": -1}, {"id": "a", "lines": 0}])
def test_arguments_that_make_no_sense_are_refused(read, arguments):
    assert read(arguments).kind == "invalid_arguments"
