"""Searches."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pegboard import ToolError
from pegboard_files import searching as match, text as blocks
from pegboard_files.root import Deadline, open_root
from pegboard_files.searching import MAX_TEXT, Search, line_pattern, lines_in
from pegboard_files.text import MAX_LINE, BinaryFileError
from pegboard_files.tools import FileTools, Settings


def match_lines(pattern: str, text: str, *, literal=False, case="sensitive") -> list[str]:
    """The lines of `text` that match."""
    block = text.encode()
    found = line_pattern(pattern, literal=literal, case=case)
    return [block[block.rfind(b"\n", 0, start) + 1 :].split(b"\n")[0].decode() for start, _ in lines_in(block, found)]


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("b", ["abc", "b b"]),
        ("^b", ["b b"]),
        ("c$", ["abc"]),
        (r"\bb\b", ["b b"]),
        ("^$", [""]),
        (r"c\s+b", []),
        (r"[^x]", ["abc", "b b", "é"]),
        ("x*", ["abc", "", "b b", "é"]),
        (".é|é.|^.$", ["é"]),
        (r"\x{e9}", ["é"]),
        (r"\p{L}{3}", ["abc"]),
        ("(?i)ABC", ["abc"]),
    ],
)
def test_a_match_stays_in_its_line_and_each_line_counts_once(pattern, lines):
    assert match_lines(pattern, "abc\n\nb b\né\n") == lines


def test_the_last_line_needs_no_end():
    assert match_lines("c$", "abc") == ["abc"]
    assert match_lines("^", "abc\n") == ["abc"]
    assert match_lines("$", "a\n\nb") == ["a", "", "b"]


def test_literal_text_is_taken_as_it_is():
    assert match_lines("a.b(", "a.b(\naxb(\n", literal=True) == ["a.b("]


@pytest.mark.parametrize(
    ("pattern", "case", "literal", "lines"),
    [
        ("abc", "sensitive", False, ["abc"]),
        ("abc", "ignore", False, ["abc", "ABC"]),
        ("ABC", "ignore", True, ["abc", "ABC"]),
        ("abc", "smart", False, ["abc", "ABC"]),
        ("Abc", "smart", False, []),
        (r"\Sbc", "smart", False, ["abc", "ABC"]),
        (r"\p{Lu}bc", "smart", False, ["abc", "ABC"]),
        (r"\\Abc", "smart", True, []),
    ],
)
def test_case_counts_as_it_was_asked_for(pattern, case, literal, lines):
    assert match_lines(pattern, "abc\nABC\n", case=case, literal=literal) == lines


def test_letters_beyond_ascii_have_cases_too():
    assert match_lines("été", "ÉTÉ\n", case="ignore") == ["ÉTÉ"]


@pytest.mark.parametrize("pattern", ["a\nb", r"a\nb", r"a\\\n"])
def test_a_pattern_over_lines_is_refused_with_what_to_do(pattern):
    with pytest.raises(ToolError, match="context"):
        line_pattern(pattern, literal=False, case="sensitive")


WORDS = ["дюйм", "дюймы", "ждюйм", "(дюйм)", "дюйм, ильм", "ильм дюйм", "дюйм_", "ё-дюйм", "a", "mir", "ä дюйм é"]


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"\bдюйм\b",
            r"\bдюйм",
            r"дюйм\b",
            r"\bдюйм\b|\ba\b",
            r"\bдюйм\b, \bильм\b",
            r"ильм \bдюйм\b",
            r"\b(дюйм|a)\b",
        ),
        *(r"\b[ж-я]+\b", r"\\bдюйм", r"\bä\b.*\bé\b", r"дюйм\b-|\bдюйм\b"),
        *(r"\bильм\b\s+\bдюйм\b", r"\b(ильм|a)\b дюйм", r"ё\b-дюйм", r"(\bильм\b).дюйм", r".*\bдюйм\b.*$"),
    ],
)
def test_an_edge_of_a_word_is_one_beside_letters_that_are_not_ascii_too(pattern):
    assert match_lines(pattern, "\n".join(WORDS)) == [word for word in WORDS if re.search(pattern, word)]


PART = st.tuples(
    st.sampled_from(["", r"\b"]),
    st.sampled_from(["д", "[ж-я]", "(д|ж)", "(д)|ж", "дж+"]),
    st.sampled_from(["", r"\b"]),
    st.sampled_from(["", " ", r"\s+", "-", ".", ".*", "|"]),
).map("".join)


@given(st.lists(PART, min_size=1, max_size=3).map("".join), st.text(st.sampled_from("дaж -"), min_size=1, max_size=8))
def test_no_line_is_missed_that_a_pattern_with_edges_of_words_matches(pattern, line):
    assert match_lines(pattern, line) or not re.search(pattern, line)


@pytest.mark.parametrize(
    ("pattern", "is_noted"),
    [
        (r"^\w+ \w+$", True),
        (r"жил\w+", True),
        (r"\bжилй\b", False),
        (r"жилй|\w+", True),
        (r"\\word", False),
        (r"\p{L}+x", False),
        ("x", False),
    ],
)
def test_where_ascii_escapes_may_miss_letters_a_note_says_so(write, files, pattern, is_noted):
    write({"a": "жилй дюйм\n"})
    note = files.grep(pattern).structured_content["note"]
    assert (r"\w, \d and \b match ASCII only" in note) is is_noted


@pytest.mark.parametrize(("content", "is_noted"), [("café\n", True), ("caf é\nx\n", True), ("é\ncaf\n", False)])
def test_the_note_on_ascii_escapes_comes_where_a_line_that_matches_has_other_letters(write, files, content, is_noted):
    write({"a": content})
    answer = files.grep(r"caf\b").structured_content
    assert (bool(answer["matches"]), "match ASCII only" in answer["note"]) == (True, is_noted)


def test_an_escaped_backslash_before_an_n_is_no_line_end():
    assert match_lines(r"a\\n", "a\\n\n") == ["a\\n"]
    assert match_lines(r"a\n", "a\\n\n", literal=True) == ["a\\n"]


@pytest.mark.parametrize("pattern", ["(", "[a", "*", r"(?=a)", r"(a)\1", "a{1001}", r"\Z", "\ud800", r"\bд("])
def test_an_invalid_pattern_is_refused_with_the_reason(pattern):
    with pytest.raises(ToolError, match=r"not a valid regular expression: .+RE2") as caught:
        line_pattern(pattern, literal=False, case="sensitive")
    assert "(?m)" not in caught.value.text


def test_a_pattern_that_compiles_to_too_much_is_refused():
    with pytest.raises(ToolError, match="too complex"):
        line_pattern(r"(?:\pL\pN){20}", literal=False, case="sensitive")


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+$", r"(.*a){20}b", r"(?:a?){50}a{50}b"])
def test_a_pattern_that_hangs_other_engines_comes_back(pattern):
    assert match_lines(pattern, "a" * 5_000 + "!\n") in ([], ["a" * 5_000 + "!"])


@given(st.text(min_size=1, max_size=20), st.booleans(), st.sampled_from(["sensitive", "ignore", "smart"]))
def test_any_pattern_is_compiled_or_refused_with_an_error(pattern, literal, case):
    """Property: a model may write anything; a literal text without line ends is always found."""
    try:
        found = line_pattern(pattern, literal=literal, case=case)
    except ToolError:
        assert not literal or "\n" in pattern
        return
    if literal:
        assert list(lines_in(b"x" + pattern.encode() + b"\n", found))


SIMPLE = st.text(st.sampled_from("ab .*+?^$|"), min_size=1, max_size=6)
TEXTS = st.text(st.sampled_from("ab \n"), max_size=30)


@given(SIMPLE, TEXTS)
def test_lines_are_found_as_python_finds_them_line_by_line(pattern, text):
    """Property: searching a block is searching each of its lines."""
    try:
        expected = re.compile(pattern)
        found = line_pattern(pattern, literal=False, case="sensitive")
    except (re.error, ToolError):
        return
    lines = text.removesuffix("\n").split("\n") if text else []
    block = text.encode()
    numbers = [block.count(b"\n", 0, start) for start, _ in lines_in(block, found)]
    assert numbers == [number for number, line in enumerate(lines) if expected.search(line)]


CODE = {
    ".gitignore": "*.log\nbuild/\n",
    ".env": "TOKEN=needle\n",
    "README.md": "# needle\n\nA Needle in a haystack.\n",
    "src/main.py": "import needle\n\n\ndef find(needle):\n    return needle\n",
    "src/deep/other.rs": "fn NEEDLE() {}\n",
    "src/deep/none.rs": "fn other() {}\n",
    "src/unicode.txt": "Nädel, needlé\n",
    "app.log": "needle\n",
    "build/out.py": "needle\n",
    "image.png": b"\x89PNG\0needle\n",
    "late.bin": b"needle\n" + b"x" * 200_000 + b"\0",
    "windows.txt": "one needle\r\ntwo\r\n",
}


def grep_lines(files: FileTools, *arguments, **options) -> list[str]:
    data = files.grep(*arguments, **options).structured_content
    return [f"{match['path']}:{match['line']}:{match['text']}" for match in data["matches"]]


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"pattern": "needle"}, ["needle"]),
        ({"pattern": "needle", "path": "src"}, ["needle", "src"]),
        ({"pattern": "needle", "path": "src/main.py"}, ["--with-filename", "needle", "src/main.py"]),
        ({"pattern": "needle", "case": "ignore"}, ["-i", "needle"]),
        ({"pattern": "needle", "case": "smart"}, ["-S", "needle"]),
        ({"pattern": "Needle", "case": "smart"}, ["-S", "Needle"]),
        ({"pattern": "find(needle", "literal": True}, ["-F", "find(needle"]),
        ({"pattern": "needle", "hidden": True}, ["--hidden", "needle"]),
        ({"pattern": "needle", "no_ignore": True}, ["--no-ignore", "needle"]),
        ({"pattern": "needle", "include": ["*.py", "*.md"]}, ["-g", "*.py", "-g", "*.md", "needle"]),
        ({"pattern": "needle", "exclude": ["deep/", "*.md"]}, ["-g", "!deep/", "-g", "!*.md", "needle"]),
        (
            {"pattern": "needle", "include": ["src/**/*.{py,rs}"], "case": "ignore"},
            ["-ig", "src/**/*.{py,rs}", "needle"],
        ),
        ({"pattern": r"^\s+return|^#"}, [r"^\s+return|^#"]),
        ({"pattern": "nowhere"}, ["nowhere"]),
    ],
)
def test_the_lines_are_ripgreps(top, write, ripgrep, options, flags):
    """But for the file that turns out to be binary late, which ripgrep warns of, and we search as a text."""
    write(CODE)
    (top / ".git").mkdir()
    (top / "late.bin").unlink()
    theirs = [line.removesuffix("\r") for line in ripgrep(top, "-n", *flags)]
    assert grep_lines(FileTools(Settings(root=str(top))), **options) == theirs


LINES = st.lists(st.text(st.sampled_from("abcé ."), max_size=8), max_size=8).map("\n".join)
PATTERNS = st.sampled_from(["a", "b+c", "^a", "c$", "é", ".", "a|b", "[^a]", r"a\.", "(ab)*c", "^$", r"\s"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(["a.txt", "b.txt", "c.md"]), LINES, min_size=1),
    PATTERNS,
    st.fixed_dictionaries({"case": st.sampled_from(["sensitive", "ignore"]), "context": st.integers(0, 2)}),
)
def test_any_lines_are_found_as_ripgrep_finds_them(tmp_path_factory, ripgrep, texts, pattern, options):
    """Property: matches, numbers and context are ripgrep's."""
    top = tmp_path_factory.mktemp("any")
    for name, text in texts.items():
        (top / name).write_text(text, encoding="utf-8")
    answer = FileTools(Settings(root=str(top))).grep(pattern, **options)
    flags = ["--heading", "-n", f"-C{options['context']}", *(["-i"] * (options["case"] == "ignore"))]
    theirs = ripgrep(top, *flags, pattern)
    if theirs:
        assert answer.text.split("\n") == theirs
    else:
        assert answer.text.startswith("[No line matches in")


DATA = st.lists(
    st.sampled_from(
        [b"a", b"ab", b"b", b"\n", b"\r\n", b"\r", b"\0", b"\xc3\xa9", b"\xff\xfe", b"\xef\xbb\xbf", b"x" * 70_000]
    ),
    max_size=8,
).map(b"".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DATA, PATTERNS, st.sampled_from(["matches", "files", "counts"]))
def test_a_file_that_a_walk_met_is_searched_as_one_that_was_named(top, data, pattern, mode):
    """Property: whether it is read at once, or block by block."""
    (top / "a").write_bytes(data)
    with open_root(str(top)) as root:
        compiled, deadline = line_pattern(pattern, literal=False, case="sensitive"), Deadline(60)
        met, named = (Search(root, compiled, mode, 100, 1, deadline) for _ in "12")
        met.run([("a",)])
        try:
            named.search(("a",))
        except BinaryFileError:
            named.binary += 1
    assert met == named


def test_a_file_without_a_match_is_opened_once(write, files, monkeypatch):
    write({"a.txt": "hay\n", "b.txt": "needle\n", "c.txt": "hay\n" * 20_000})
    opened = []
    real_open = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *args, **kwargs: opened.append(path) or real_open(path, *args, **kwargs)
    )
    assert grep_lines(files, "needle") == ["b.txt:1:needle"]
    assert [opened.count(name) for name in ("a.txt", "b.txt", "c.txt")] == [1, 2, 2]


def test_context_belongs_to_one_match_each(write, files):
    write({"a.txt": "".join(f"{n}{' x' if n in (3, 5, 12) else ''}\n" for n in range(1, 14))})
    matches = files.grep("x", context=3).structured_content["matches"]
    assert [(match["line"], match["before"], match["after"]) for match in matches] == [
        (3, ["1", "2"], ["4"]),
        (5, [], ["6", "7", "8"]),
        (12, ["9", "10", "11"], ["13"]),
    ]


def test_the_text_reads_as_ripgreps_with_headings(write, files):
    write({"a.txt": "1\n2 x\n3\n4\n5\n6 x\n", "b.txt": "x\n"})
    assert files.grep("x", context=1).text == "a.txt\n1-1\n2:2 x\n3-3\n--\n5-5\n6:6 x\n\nb.txt\n1:x"
    assert files.grep("x").text == "a.txt\n2:2 x\n6:6 x\n\nb.txt\n1:x"


def test_files_and_counts_in_place_of_lines(write, files):
    write({"b/two.txt": "x\ny\nx\n", "a.txt": "x\n", "c.txt": "y\n"})
    by_file = files.grep("x", mode="files")
    assert by_file.structured_content["files"] == [
        {"path": "a.txt", "count": None},
        {"path": "b/two.txt", "count": None},
    ]
    assert by_file.structured_content["matches"] == []
    assert by_file.text == "a.txt\nb/two.txt"
    assert files.grep("x", mode="counts").text == "a.txt:1\nb/two.txt:2"


def test_the_limit_counts_lines_or_files_and_says_that_there_is_more(write, files):
    write({"a.txt": "x\n" * 3, "b.txt": "x\n" * 3})
    lines = files.grep("x", limit=4)
    assert [(match["path"], match["line"]) for match in lines.structured_content["matches"]] == [
        ("a.txt", 1),
        ("a.txt", 2),
        ("a.txt", 3),
        ("b.txt", 1),
    ]
    assert lines.structured_content["truncated"]
    note = "[Stopped after 4 matching lines; there are more. Use a narrower search, or a higher limit.]"
    assert lines.text.endswith(note)
    assert not files.grep("x", limit=6).structured_content["truncated"]
    for mode in ("files", "counts"):
        some = files.grep("x", mode=mode, limit=1).structured_content
        assert [file["path"] for file in some["files"]] == ["a.txt"]
        assert some["truncated"]
        assert not files.grep("x", mode=mode, limit=2).structured_content["truncated"]


def test_the_text_stays_below_its_limit_with_context_too(write, files):
    write({f"{n}.txt": ("y" * 300 + "\nx\n") * 200 for n in range(5)})
    for context in (0, 5):
        answer = files.grep("x|y", limit=2_000) if not context else files.grep("x", context=context, limit=2_000)
        assert answer.structured_content["truncated"]
        assert 20_000 < len(answer.text.encode()) <= 50 << 10


def test_of_a_long_line_the_part_round_the_match_is_shown(write, files):
    write({"a.txt": "é" * 3_000 + "needle" + "é" * 3_000 + "\nneedle" + "b" * 1_000 + "\n" + "c" * 1_000 + "needle\n"})
    middle, start, end = files.grep("needle").structured_content["matches"]
    assert middle["text"] == "…" + "é" * 100 + "needle" + "é" * (MAX_TEXT - 106) + "…"
    assert start["text"] == "needle" + "b" * (MAX_TEXT - 6) + "…"
    assert end["text"] == "…" + "c" * (MAX_TEXT - 6) + "needle"


def test_long_lines_of_context_are_cut(write, files):
    write({"a.txt": "y" * 1_000 + "\nx\n"})
    assert files.grep("x", context=1).structured_content["matches"][0]["before"] == ["y" * MAX_TEXT + "…"]


def test_binary_files_are_left_out_and_counted_and_are_those_that_cannot_be_read(write, files):
    write({"a.bin": b"\0needle\n", "b.log": b"needle\n" + b"x\n" * 5_000 + b"\0needle\n", "c.txt": "needle\n"})
    answer = files.grep("needle")
    found = [(match["path"], match["line"]) for match in answer.structured_content["matches"]]
    assert found == [("b.log", 1), ("b.log", 5_002), ("c.txt", 1)]
    assert "1 binary file skipped." in answer.text
    assert files.read_file("b.log", 5_002).startswith("5002\t\0needle")
    with pytest.raises(ToolError, match="is a binary file"):
        files.read_file("a.bin")


def test_a_binary_file_that_was_named_is_an_error(write, files):
    write({"a.bin": b"\0needle\n"})
    with pytest.raises(ToolError, match=r"'a\.bin' is a binary file"):
        files.grep("needle", "a.bin")


def test_a_hidden_or_ignored_file_that_was_named_is_searched(write, files):
    write(CODE)
    assert grep_lines(files, "needle", "app.log", include=["*.py"]) == ["app.log:1:needle"]
    assert grep_lines(files, "needle", ".env") == [".env:1:TOKEN=needle"]


def test_utf16_and_marks_are_understood(write, files):
    write({"a.txt": "héllo\nwörld\n".encode("utf-16"), "b.txt": b"\xef\xbb\xbfw\xc3\xb6rld\n"})
    assert grep_lines(files, "^wörld$") == ["a.txt:2:wörld", "b.txt:1:wörld"]
    assert files.grep("wörld", context=1).structured_content["matches"][0]["before"] == ["héllo"]


def test_crlf_is_not_part_of_the_line(write, files):
    write(CODE)
    assert grep_lines(files, "needle$", "windows.txt") == ["windows.txt:1:one needle"]


def test_bytes_that_are_no_utf8_do_not_hide_a_line(write, files):
    write({"a.txt": b"caf\xe9 needle\n"})
    assert grep_lines(files, "needle") == ["a.txt:1:caf\ufffd needle"]


def test_nothing_found_says_how_much_was_searched_and_left_out(write, files):
    write(CODE)
    answer = files.grep("nowhere")
    assert answer.text == (
        "[No line matches in 7 files. Not shown: 2 hidden (use hidden=true), "
        "2 ignored (use no_ignore=true). 1 binary file skipped.]"
    )
    assert files.grep("nowhere", "README.md").text == "[No line matches in 1 file.]"


def test_an_include_that_names_hidden_files_finds_them(write, files):
    write({".github/ci.yml": "needle\n", ".env": "needle\n"})
    assert grep_lines(files, "needle", include=[".github/**"]) == [".github/ci.yml:1:needle"]


def test_links_are_not_followed_while_walking(tmp_path, top, write, files):
    write({"real.txt": "needle\n"})
    (top / "inside.txt").symlink_to("real.txt")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("needle\n")
    (top / "dir").symlink_to(tmp_path / "outside")
    assert grep_lines(files, "needle") == ["real.txt:1:needle"]
    assert grep_lines(files, "needle", "inside.txt") == ["real.txt:1:needle"]
    with pytest.raises(ToolError, match="outside"):
        files.grep("needle", "dir")


def test_pipes_are_passed_over(top, write, files):
    write({"a.txt": "needle\n"})
    os.mkfifo(top / "pipe")
    assert grep_lines(files, "needle") == ["a.txt:1:needle"]
    with pytest.raises(ToolError, match="not a regular file"):
        files.grep("needle", "pipe")


def test_what_cannot_be_opened_is_counted(write, files, monkeypatch):
    write({"a.txt": "needle\n", "b.txt": "needle\n"})
    real_open = os.open

    def refuse(path, *args, **kwargs):
        if path == "a.txt":
            raise PermissionError(13, "no")
        return real_open(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    answer = files.grep("needle")
    assert [match["path"] for match in answer.structured_content["matches"]] == ["b.txt"]
    assert "1 unreadable entry skipped." in answer.text
    with pytest.raises(ToolError, match="Permission denied"):
        files.grep("needle", "a.txt")


def test_a_search_stops_at_its_time_limit_and_says_so(top, write):
    write({"a.txt": "needle\n"})
    answer = FileTools(Settings(root=str(top), time_limit=1e-9)).grep("needle")
    assert answer.structured_content["truncated"]
    assert answer.text == "[Stopped after 1e-09 seconds; not all files were searched. Use a narrower search.]"
    one = FileTools(Settings(root=str(top), time_limit=1e-9)).grep("needle", "a.txt")
    assert one.structured_content["truncated"]


def test_lines_are_numbered_over_block_borders(write, files, monkeypatch):
    monkeypatch.setattr(blocks, "FIRST_BLOCK", 16)
    monkeypatch.setattr(blocks, "_SMALLEST", 16)
    write({"a.txt": "".join(f"line {n}\n" for n in range(1, 301))})
    assert grep_lines(files, "0$", limit=2_000) == [f"a.txt:{n}:line {n}" for n in range(10, 301, 10)]


def test_blocks_shrink_where_a_pattern_is_slow(write, files, monkeypatch):
    monkeypatch.setattr(blocks, "FIRST_BLOCK", 64)
    monkeypatch.setattr(blocks, "_SMALLEST", 16)
    monkeypatch.setattr(blocks, "_QUICK", 0.0)
    write({"a.txt": "".join(f"line {n}\n" for n in range(1, 101))})
    assert len(grep_lines(files, "line", limit=2_000)) == 100


@pytest.mark.parametrize("before", [MAX_LINE - 3, MAX_LINE, MAX_LINE + 70_000])
def test_an_enormous_line_is_searched_in_pieces_and_nothing_falls_between_them(write, files, before):
    write(
        {"a.txt": "x" * before + "needle" + "x" * MAX_LINE + "\nneedle\n", "b.txt": "needle" + "x" * before + "needle"}
    )
    assert [line.split(":")[:2] for line in grep_lines(files, "needle")] == [
        ["a.txt", "1"],
        ["a.txt", "2"],
        ["b.txt", "1"],
    ]


def test_context_is_looked_for_no_longer_than_the_time_limit(write, files, monkeypatch):
    write({"a.txt": "before\nneedle\n"})
    monkeypatch.setattr(match, "lines_of", lambda file, deadline: iter(()))
    assert files.grep("needle", context=1).structured_content["matches"][0]["before"] == []
