"""The search index of tools."""

from __future__ import annotations

import sqlite3
import threading

import pytest
from hypothesis import given, strategies as st

from pegboard import ToolIndex, ToolSpec
from pegboard.toolsets import search as index_module, search_table as table
from pegboard.toolsets.search import _MOST_INDEXED, _MOST_PARAMETERS, _parameter_names, _row_of

PATH = {"type": "object", "properties": {"path": {"type": "string"}}}

SPECS = [
    ToolSpec("read_file", "Reads a text file.", PATH),
    ToolSpec("write_file", "Writes a file.", PATH),
    ToolSpec("store", "Keeps a value.", title="Put away", tags=["memory"]),
    ToolSpec("getURLs2", "Fetches pages."),
    ToolSpec("buecher", "Über Bücher und Größen."),
    ToolSpec("tianqi", "查询天气预报"),
    ToolSpec("send_message", "Sends a message."),
    ToolSpec("current_user", "Tells who it is."),
]

INDEX = ToolIndex(SPECS)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,30}", fullmatch=True)

syntax = st.sampled_from(
    ['"', "*", "-", "(", ")", "NEAR(", " AND ", " OR ", "NOT", "name:", "^", "{", "+", ",", "'", "\x00", "\ud800", "“"]
)

questions = st.lists(st.one_of(syntax, st.text(max_size=12), names)).map("".join)

specs = st.builds(
    ToolSpec,
    names,
    st.text(st.characters(codec="utf-8"), max_size=60),
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), st.just({}), max_size=3).map(
        lambda properties: {"type": "object", "properties": properties}
    ),
    title=st.one_of(st.none(), st.text(max_size=12)),
    tags=st.lists(names, max_size=3),
)


def found(words: str, index: ToolIndex = INDEX, limit: int = 10) -> list[str]:
    return [each.name for each in index.search(words, limit=limit)]


@pytest.mark.parametrize(
    ("words", "first"),
    [
        *((each, "store") for each in ("sto", "STORING", "memory", "put away")),
        *((each, "getURLs2") for each in ("urls", "geturls", "pages")),
        ("bucher", "buecher"),
        ("größe", "buecher"),
        ("天气", "tianqi"),
        ("明天的天气", "tianqi"),
        ("send messages to somebody", "send_message"),
    ],
)
def test_words_of_every_text_of_a_tool_match(words, first):
    hits = INDEX.search(words)
    assert hits[0].name == first
    assert not hits[0].near
    assert hits[0].score > 0


def test_a_name_weighs_more_than_labels_and_those_more_than_a_description():
    index = ToolIndex(
        [
            ToolSpec("one", "Some pony, that is all."),
            ToolSpec("two", "Some horse, that is it.", title="Pony"),
            ToolSpec("pony_three", "Some horse, that is it."),
            *(ToolSpec(f"other_{n}", "Nothing of that kind at all.") for n in range(20)),
        ]
    )
    assert found("pony", index) == ["pony_three", "two", "one"]


@given(st.lists(names, min_size=1, max_size=8, unique=True), st.data())
def test_a_tool_with_more_matching_words_ranks_higher(others, data):
    more, word = data.draw(st.sampled_from(["first", "second"])), "wanted"
    texts = {"first": f"{word} filler", "second": f"{word} filler"} | {more: f"{word} extra"}
    index = ToolIndex([ToolSpec(name, text) for name, text in texts.items()] + [ToolSpec(f"o_{n}") for n in others])
    assert found("wanted extra", index)[0] == more


def test_ties_are_ordered_by_name():
    same = [ToolSpec(name, "Does the same.") for name in ("c", "a", "b")]
    assert found("same", ToolIndex(same)) == found("same", ToolIndex(same[::-1])) == ["a", "b", "c"]


def test_the_limit_holds():
    assert found("file", limit=1) == found("file")[:1]
    with pytest.raises(ValueError, match="at least 1"):
        INDEX.search("file", limit=0)


def test_names_within_a_query_come_first():
    asked = "is current_user or send_message good to read a text file?"
    assert set(found(asked)[:2]) == {"current_user", "send_message"}
    assert found(asked)[2] == "read_file"


@pytest.mark.slow
@given(st.lists(specs, min_size=1, max_size=12, unique_by=lambda spec: spec.name))
def test_every_tool_is_found_first_by_its_own_name(given):
    index = ToolIndex(given)
    assert [found(spec.name, index, 1) for spec in given] == [[spec.name] for spec in given]
    index.close()


@given(st.sampled_from([word for spec in SPECS[:3] for word in spec.name.split("_")]), st.integers(2, 9))
def test_prefixes_of_words_match(word, length):
    assert any(word in name for name in found(word[:length]))


@given(questions)
def test_no_query_raises(question):
    hits = INDEX.search(question)
    assert len(hits) <= 10
    assert {hit.name for hit in hits} <= set(INDEX.names)


@pytest.mark.parametrize("question", ["", "  ", "\x00", '"', "“”", "🌤", "\ud800", "*"])
def test_a_query_without_words_finds_nothing(question):
    assert INDEX.search(question) == ()


class TestNear:
    def test_a_misspelt_name_finds_the_near_one(self):
        (hit,) = INDEX.search("stroe")
        assert (hit.name, hit.near) == ("store", True)

    def test_a_misspelt_word_finds_tools_with_the_near_word(self):
        assert "send_message" in found("mesage")
        assert all(hit.near for hit in INDEX.search("mesage"))

    def test_near_misses_are_used_only_if_no_word_matches(self):
        hits = INDEX.search("stroe memory")
        assert [(hit.name, hit.near) for hit in hits] == [("store", False)]

    def test_a_query_without_near_misses_finds_nothing(self):
        assert INDEX.search("zzzzqqq xx") == ()

    def test_no_more_than_asked_for(self):
        index = ToolIndex([ToolSpec(f"weather_{n}") for n in range(9)])
        assert len(index.search("wether", limit=2)) == 2


class TestUpdate:
    def test_only_changed_specs_are_indexed_again(self, monkeypatch):
        indexed = []

        row_of = index_module._row_of
        monkeypatch.setattr(index_module, "_row_of", lambda spec: indexed.append(spec.name) or row_of(spec))
        index = ToolIndex(SPECS)
        indexed.clear()
        again = [ToolSpec("store", "Keeps a value.", title="Put away", tags=["memory"]), *SPECS[:2], ToolSpec("new")]
        assert index.update(again) is True
        assert indexed == ["new"]
        assert index.update(again) is False
        assert index.names == ("new", "read_file", "store", "write_file")
        assert len(index) == 4

    def test_a_changed_tool_is_found_by_its_new_words_only(self):
        index = ToolIndex([ToolSpec("a", "Old words."), ToolSpec("b")])
        index.update([ToolSpec("a", "New text."), ToolSpec("b")])
        assert (found("text", index), found("words", index)) == (["a"], [])

    def test_of_two_specs_of_one_name_the_first_is_found(self):
        index = ToolIndex([ToolSpec("a", "First."), ToolSpec("a", "Second.")])
        assert (found("first", index), found("second", index)) == (["a"], [])

    def test_names_that_differ_in_case_only_are_different(self):
        index = ToolIndex([ToolSpec("a", "Lower."), ToolSpec("A", "Upper.")])
        index.update([ToolSpec("A", "Upper.")])
        assert (found("lower", index), found("upper", index)) == ([], ["A"])

    @pytest.mark.slow
    @given(st.lists(st.lists(specs, max_size=6, unique_by=lambda spec: spec.name), min_size=1, max_size=4), questions)
    def test_an_updated_index_equals_a_new_one(self, steps, question):
        updated = ToolIndex()
        for step in steps:
            updated.update(step)
        fresh = ToolIndex(steps[-1])
        for asked in (question, *(spec.name for spec in steps[-1]), "a"):
            ours, theirs = updated.search(asked), fresh.search(asked)
            assert [(hit.name, hit.near) for hit in ours] == [(hit.name, hit.near) for hit in theirs]
            assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs])
        updated.close()
        fresh.close()

    def test_threads_that_search_different_tools_find_only_their_own(self):
        index = ToolIndex()
        mistakes = []

        def work(own):
            mine = [ToolSpec(f"{own}_{n}", "Same words.") for n in range(20)]
            for _ in range(20):
                mistakes.extend(
                    hit.name for hit in index.search_among(mine, "same words") if not hit.name.startswith(own)
                )

        threads = [threading.Thread(target=work, args=(own,)) for own in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert mistakes == []


def test_a_dumped_index_finds_the_same():
    connection = sqlite3.connect(":memory:")
    connection.deserialize(INDEX.dump())
    assert [name for name, _ in table.best(connection, "write file", 10)] == found("write file")
    connection.close()


def test_an_sqlite_without_fts5_is_an_error(monkeypatch):
    monkeypatch.setattr(table, "CREATION", "CREATE VIRTUAL TABLE words USING fts99 (a)")
    with pytest.raises(RuntimeError, match="FTS5: no such module"):
        ToolIndex()


NESTED = {
    "type": "object",
    "properties": {
        "outer": {"type": "object", "properties": {"inner": {"type": "string"}}},
        "rows": {"type": "array", "items": {"properties": {"cell": {"enum": [{"properties": {"data": 1}}]}}}},
        "choice": {"anyOf": [{"properties": {"left": {}}}, {"$ref": "#/$defs/other"}, True]},
    },
    "default": {"properties": {"never": 1}},
    "$defs": {"other": {"properties": {"right": True}}},
}


def test_all_texts_of_a_tool_are_indexed_and_names_of_parameters_at_any_depth():
    spec = ToolSpec("getUser", "Tells of a user.", NESTED, title="User facts", tags=["crm"])
    index = ToolIndex([spec, ToolSpec("other")])
    words = "getUser get facts crm outer rows choice inner right cell left tells"
    assert all(found(word, index) == ["getUser"] for word in words.split())
    assert found("data", index) == found("never", index) == []


def test_what_is_indexed_is_bounded():
    schema = {"type": "object", "properties": {f"p{n}": {"properties": {f"q{n}": {}}} for n in range(600)}}
    assert len(_parameter_names(ToolSpec("a", input_schema=schema))) == _MOST_PARAMETERS
    assert len(_row_of(ToolSpec("a", "x" * 100_000))[3]) == _MOST_INDEXED
