"""Patches: reading them, and finding their lines."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard import ToolError
from pegboard_files import patch as module
from pegboard_files.editing import EditedText
from pegboard_files.patch import Chunk, FilePatch, PatchedText, read_patch
from pegboard_files.root import Deadline


def wrap(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def apply_rows(before: str, *lines: str) -> str:
    """A text after the update of one file."""
    (file,) = read_patch(wrap("*** Update File: a", *lines))
    return PatchedText(EditedText(before), "a", Deadline(30)).apply(file.chunks)


def test_a_patch_adds_deletes_updates_and_moves():
    text = wrap(
        *("*** Add File: new.txt", "+one", "+", "+ two"),
        *("*** Delete File: old dir/x.txt", "*** Add File: empty"),
        *(
            "*** Update File: a.py",
            "*** Move to: b.py",
            "@@ class A:",
            "@@   def f",
            " x",
            "-y",
            "+z",
            "*** End of File",
        ),
    )
    assert read_patch(text) == (
        FilePatch("add", "new.txt", content="one\n\n two\n"),
        FilePatch("delete", "old dir/x.txt"),
        FilePatch("add", "empty"),
        FilePatch(
            "update",
            "a.py",
            "b.py",
            chunks=(Chunk(("class A:", "  def f"), ((" ", "x"), ("-", "y"), ("+", "z")), at_end=True),),
        ),
    )


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "\n  {}\n\n",
        "<<'EOF'\n{}\nEOF",
        "apply_patch <<'EOF'\n{}\nEOF",
        '<<"EOF"\n{}\nEOF\n',
        "<<EOF\n{}\nEOF",
        "```patch\n{}\n```",
        "```\n{}\n```\n",
    ],
)
def test_blanks_a_here_document_or_a_fence_around_a_patch_are_ignored(form):
    assert read_patch(form.format(wrap("*** Delete File: a"))) == (FilePatch("delete", "a"),)


def test_blank_lines_between_sections_are_ignored():
    sections = [("*** Add File: a", "+one"), ("*** Delete File: b",), ("*** Update File: c", "-x", "+y")]
    text = wrap(*sections[0], *sections[1], *sections[2])
    assert read_patch(wrap("", *sections[0], "", " ", *sections[1], "", *sections[2])) == read_patch(text)
    with pytest.raises(ToolError, match="Line 4 of the patch, '': each line of a new file must begin"):
        read_patch(wrap("*** Add File: a", "+one", "", "+two"))


def test_a_patch_with_crlf_is_read():
    assert read_patch(wrap("*** Add File: a", "+x").replace("\n", "\r\n")) == (FilePatch("add", "a", content="x\n"),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must begin with the line"),
        ("*** Delete File: a\n*** End Patch", "must begin with the line"),
        ("*** Begin Patch\n*** Delete File: a", "must end with the line"),
        ("<<'EOF\n*** Begin Patch\n*** End Patch\nEOF", "must begin with the line"),
        (wrap(), "changes no file"),
        (
            wrap("*** Rename File: a"),
            r"Line 2 .*'\*\*\* Rename File: a': expected one of \*\*\* Add File: PATH,",
        ),
        (wrap("hello"), "Line 2 .*'hello'"),
        (wrap("*** Add File: a", "x"), "Line 3 .*each line of a new file must begin with"),
        (wrap("*** Add File:"), "the path is missing"),
        (wrap("*** Update File: a", "*** Move to:", " x"), "the path is missing"),
        (wrap("*** Update File: a"), "the update of 'a' has no changes"),
        (wrap("*** Update File: a", "@@ f"), "expected a line that begins with"),
        (wrap("*** Update File: a", "@@", "x"), "Line 4 .*this line must begin with"),
        (wrap("*** Update File: a", "*** End of File"), "expected a line that begins with"),
        (wrap(*(f"*** Delete File: {n}" for n in range(201))), "more than 200 files"),
    ],
)
def test_an_invalid_patch_is_refused_with_the_line_and_what_is_expected(text, why):
    with pytest.raises(ToolError, match=why):
        read_patch(text)


PIECES = """
*** Begin Patch|*** End Patch|*** Update File: a|*** Add File: b|*** Move to: c|*** Delete File: d|*** End of File
@@|@@ f| x|-x|+x||x|EOF|<<EOF
""".strip().replace("\n", "|")


@given(st.lists(st.sampled_from(PIECES.split("|"))).map("\n".join))
def test_any_text_is_a_patch_or_refused(text):
    try:
        files = read_patch(text)
    except ToolError:
        return
    assert files


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ("a\nb\nc\n", ["-b", "+x"], "a\nx\nc\n"),
        ("a\nb\nc\n", [" a", "-b", "+x", " c"], "a\nx\nc\n"),
        ("a\nb\nc\nd\n", ["-a", "+1", "@@", "-d", "+4"], "1\nb\nc\n4\n"),
        ("f:\n x\ng:\n x\n", ["@@ g:", "-  x".replace("  ", " "), "+ y"], "f:\n x\ng:\n y\n"),
        ("A\nf\nx\nB\nf\nx\n", ["@@ B", "@@ f", "-x", "+y"], "A\nf\nx\nB\nf\ny\n"),
        ("x\ny\nx\n", ["-x", "+z", "*** End of File"], "x\ny\nz\n"),
        ("a\n\nb\n", [" a", "", "-b", "+c"], "a\n\nc\n"),
        ("a\nb\n", ["+c"], "a\nb\nc\n"),
        ("", ["+c"], "c\n"),
        ("a\nb\n", ["-a", "-b"], ""),
        ("a\nb\n", [" a", "-b", "+c", " "], "a\nc\n"),
        ("a\nb\n", ["@@ -1,2 +1,2 @@", "-a", "+c"], "c\nb\n"),
        # without a line end at the end
        ("a\nb", ["-a", "+x"], "x\nb"),
        ("a\nb", ["-b", "+x"], "a\nx\n"),
        ("a\nb", [" b", "+x"], "a\nb\nx\n"),
        # line ends of the file
        ("a\r\nb\r\n", ["-a", "+x", " b", "+y"], "x\r\nb\r\ny\r\n"),
        ("a\r\nb", ["+x"], "a\r\nb\r\nx\r\n"),
        ("a\r\nb", ["-a", "+x"], "x\r\nb"),
        ("a\nb\r\nc\n", ["-a", "+x", " b"], "x\nb\r\nc\n"),
        ("a\r\nb\nc\r\n", [" a", "-b", "+x"], "a\r\nx\nc\r\n"),
        ("a\nb\r\nc\n", ["+x", "-b", "+y"], "a\nx\r\ny\r\nc\n"),
        # indentation of the file, where lines match without regard to it
        ("if x:\n\ta\n\t\tb\n", [" if x:", "     a", "-        b", "+        c"], "if x:\n\ta\n\t\tc\n"),
        (
            "\t\ta\n",
            ["         a", "+            b", "+    c", "+", "+d"],
            "\t\ta\n\t\t\tb\n\tc\n\nd\n",
        ),
        ("    a\n", [" \ta", "+\t\tb", "+\t  c"], "    a\n        b\n      c\n"),
        ("    a\n", [" a", "+  b"], "    a\n      b\n"),
        ("    a\n  b\n", ["   a", "   b", "+      c"], "    a\n  b\n        c\n"),
        ("  a\n", ["-  a", "+    b"], "    b\n"),
    ],
)
def test_a_chunk_changes_its_lines(before, lines, after):
    assert apply_rows(before, *lines) == after


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ("a  \nb\n", [" a", "-b", "+c"], "a  \nc\n"),
        ("\ta\nb\n", ["     a".replace("     ", "  "), "-b", "+c"], "\ta\nc\n"),
        ("\u201ca\u201d \u2014 b\nx\n", ['  "a" - b', "-x", "+y"], "\u201ca\u201d \u2014 b\ny\n"),
        ("a\u2000b\u2001c\u2026\ufeff\nx\n", [" a b c...", "-x", "+y"], "a\u2000b\u2001c\u2026\ufeff\ny\n"),
        ("e\u0301\ni\u0301\n", [" \u00e9", "-\u00ed", "+\u00ed\u00e9"], "e\u0301\ni\u0301e\u0301\n"),
        ("\u00e9 \n\u00ed\n", [" e\u0301", "-i\u0301", "+\u00ed"], "\u00e9 \n\u00ed\n"),
    ],
)
def test_lines_that_only_look_the_same_are_found_and_stay_as_they_are(before, lines, after):
    assert apply_rows(before, *lines) == after


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ("say “hi” — all\n", ['-say "hi" - all', '+say "hi" - none'], "say “hi” — none\n"),
        ("  a… b\r\n", ["-  a... b", "+  a... c", '+  "d"'], '  a… c\r\n  "d"\r\n'),
        ("a…\n", ["-a...", "+a.."], "a..\n"),
        ("“a”\nx\n“b”\n", ['-"a"', " x", '-"b"', '+"c"'], "x\n“c”\n"),
        ("“a”\n", ["-“a”", '+"a"'], '"a"\n'),
        ("“a”\n", ['-"a"', "+"], "\n"),
    ],
)
def test_what_stays_of_a_changed_line_keeps_the_quotes_and_dashes_of_the_file(before, lines, after):
    assert apply_rows(before, *lines) == after


@given(
    st.text(st.sampled_from("ab “”—…\u00a0\ufeff"), min_size=1, max_size=8),
    st.text(st.sampled_from('ab "-.'), max_size=8),
)
def test_a_changed_line_is_the_one_of_the_patch_but_for_its_typography(file, new):
    plain = str.maketrans({"“": '"', "”": '"', "—": "-", "…": "...", "\u00a0": " ", "\ufeff": ""})
    old = file.translate(plain)
    if old.strip() and old != new:
        after = apply_rows(f"{file}\nend\n", f"-{old}", f"+{new}", " end")
        assert after.translate(plain).split("\n")[0].strip() == new.strip()


def test_the_strictest_level_that_finds_lines_decides():
    assert apply_rows("x \nx\n", "-x", "+y") == "x \ny\n"


@pytest.mark.parametrize(
    ("before", "lines", "why"),
    [
        ("a\n", ["-b"], "these lines weren't found:\nb\nRead the file again"),
        ("def f(a):\n", ["-def f(b):"], "most similar text begins at line 1.*:\ndef f\\(a\\):"),
        ("a\nb\n", ["@@ c", "-a"], "the line after '@@' wasn't found:\nc"),
        ("a\nb\n", ["-b", "@@", "-a"], "weren't found after line 2, only before it: changes must be in the order"),
        ("a\nb\n", ["-a", "*** End of File"], "these lines weren't found at its end"),
        ("x\ny\nx\n", ["-x", "+z"], r"more than once \(at lines 1, 3\):\nx\nInclude more of the lines around them"),
        ("f\nx\nf\nx\n", ["@@ f", "-x"], r"more than once \(at lines 2, 4\)"),
        ("a\nb\n", ["@@ a", "+x"], "isn't clear where after '@@ a' to add the new lines"),
        ("x\n" * 100, ["-x"], r"\(at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10\)"),
    ],
)
def test_lines_that_are_not_there_or_in_several_places_are_refused(before, lines, why):
    with pytest.raises(ToolError, match=why):
        apply_rows(before, *lines)


def test_after_a_named_line_the_first_match_counts():
    assert apply_rows("x\nf\nx\nx\n", "@@ f", "-x", "+y") == "x\nf\ny\nx\n"


LINES = st.lists(st.sampled_from("abc"), min_size=1, max_size=12)


@given(LINES, st.data())
def test_a_chunk_whose_lines_are_there_once_makes_just_its_change(lines, data):
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start + 1, len(lines)))
    old, new = lines[start:end], data.draw(LINES)
    times = sum(lines[at : at + len(old)] == old for at in range(len(lines)))
    before = "".join(f"{line}\n" for line in lines)
    chunk = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    if times > 1:
        with pytest.raises(ToolError, match="more than once"):
            apply_rows(before, *chunk)
    else:
        assert apply_rows(before, *chunk) == "".join(f"{line}\n" for line in [*lines[:start], *new, *lines[end:]])


def test_a_patch_bomb_ends_at_the_deadline():
    """A thousand lines that almost match at very many places."""
    text = PatchedText(EditedText("x\n" * 50_000), "a", Deadline(0))
    (file,) = read_patch(wrap("*** Update File: a", *["-x"] * 1_000, "-y"))
    with pytest.raises(ToolError, match="Looking for the lines of the patch took longer than 0 seconds"):
        text.apply(file.chunks)


def test_a_file_of_too_many_lines_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_LINES", 2)
    with pytest.raises(ToolError, match="'a' has more than 2 lines, too many for a patch"):
        apply_rows("x\n" * 3, "-x", "+y")


def test_the_grammar_has_every_header_of_the_parser():
    for header in (module._BEGIN, module._END, *module._HEADERS, module._MOVE, module._LAST):
        assert f'"{header}"' in module.GRAMMAR
