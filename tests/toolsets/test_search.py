"""Finding tools by words."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    CombinedToolset,
    Concurrency,
    ExpressionError,
    InvalidNameError,
    ReadonlyContext,
    StaticToolset,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolSpec,
    searchable,
    wrap,
)
from pegboard.request.model_request import ModelRequest
from pegboard.toolsets import search as index_module, search_table as table
from pegboard.toolsets.predicates import tagged
from pegboard.toolsets.search import (
    _FOUND_TOOLS,
    _MOST_ARGUMENTS,
    _MOST_FOUND,
    _MOST_INDEXED,
    _MOST_PARAMETERS,
    Found,
    ToolIndex,
    _arguments_text,
    _earlier_names,
    _found_text,
    _parameter_names,
    _remember,
    _row_of,
    found_names,
    search_tool,
)
from toolsets.samples import PlainToolset, late_tool, make_tool, names as names_toolset, offered

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
        ("sto", "store"),
        ("STORING", "store"),
        ("memory", "store"),
        ("put away", "store"),
        ("urls", "getURLs2"),
        ("geturls", "getURLs2"),
        ("pages", "getURLs2"),
        ("bucher", "buecher"),
        ("größe", "buecher"),
        ("天气", "tianqi"),
        ("明天的天气", "tianqi"),
        ("send messages to somebody", "send_message"),
    ],
)
def test_words_of_every_text_of_a_tool_find_it(words, first):
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
def test_of_two_tools_the_one_that_has_another_word_too_is_better(others, data):
    more, word = data.draw(st.sampled_from(["first", "second"])), "wanted"
    texts = {"first": f"{word} filler", "second": f"{word} filler"} | {more: f"{word} extra"}
    index = ToolIndex([ToolSpec(name, text) for name, text in texts.items()] + [ToolSpec(f"o_{n}") for n in others])
    assert found("wanted extra", index)[0] == more


def test_ties_are_settled_by_name_whatever_the_order_of_the_specs():
    same = [ToolSpec(name, "Does the same.") for name in ("c", "a", "b")]
    assert found("same", ToolIndex(same)) == found("same", ToolIndex(same[::-1])) == ["a", "b", "c"]


def test_the_limit_holds():
    assert found("file", limit=1) == found("file")[:1]
    with pytest.raises(ValueError, match="at least 1"):
        INDEX.search("file", limit=0)


def test_names_of_several_words_in_a_question_come_first():
    asked = "is current_user or send_message good to read a text file?"
    assert set(found(asked)[:2]) == {"current_user", "send_message"}
    assert found(asked)[2] == "read_file"


@given(st.lists(specs, min_size=1, max_size=12, unique_by=lambda spec: spec.name))
def test_every_tool_is_found_first_by_its_own_name(given):
    index = ToolIndex(given)
    assert [found(spec.name, index, 1) for spec in given] == [[spec.name] for spec in given]
    index.close()


@given(st.sampled_from([word for spec in SPECS[:3] for word in spec.name.split("_")]), st.integers(2, 9))
def test_whatever_a_word_of_a_name_begins_with_finds_the_tool(word, length):
    assert any(word in name for name in found(word[:length]))


@given(questions)
def test_no_question_raises(question):
    hits = INDEX.search(question)
    assert len(hits) <= 10
    assert {hit.name for hit in hits} <= set(INDEX.names)


@pytest.mark.parametrize("question", ["", "  ", "\x00", '"', "“”", "🌤", "\ud800", "*"])
def test_what_holds_no_word_finds_nothing(question):
    assert INDEX.search(question) == ()


class TestNear:
    def test_a_misspelt_name_finds_the_near_one(self):
        (hit,) = INDEX.search("stroe")
        assert (hit.name, hit.near) == ("store", True)

    def test_a_misspelt_word_finds_tools_with_the_near_word(self):
        assert "send_message" in found("mesage")
        assert all(hit.near for hit in INDEX.search("mesage"))

    def test_where_any_word_is_found_nothing_is_guessed(self):
        hits = INDEX.search("stroe memory")
        assert [(hit.name, hit.near) for hit in hits] == [("store", False)]

    def test_what_is_near_to_nothing_finds_nothing(self):
        assert INDEX.search("zzzzqqq xx") == ()

    def test_no_more_than_asked_for(self):
        index = ToolIndex([ToolSpec(f"weather_{n}") for n in range(9)])
        assert len(index.search("wether", limit=2)) == 2


class TestUpdate:
    def test_only_what_has_changed_is_indexed_anew(self, monkeypatch):
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

    @given(st.lists(st.lists(specs, max_size=6, unique_by=lambda spec: spec.name), min_size=1, max_size=4), questions)
    def test_updates_come_to_the_same_as_beginning_anew(self, steps, question):
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


class TestSaved:
    def test_what_was_saved_goes_on_where_it_was(self, monkeypatch):
        data = INDEX.dump({"made": "now"})
        index = ToolIndex(saved=data)
        assert index.facts == {"made": "now"}
        assert (len(index), index.search("file")) == (0, ())
        monkeypatch.setattr(index_module, "_row_of", None)  # nothing is indexed anew
        copies = [ToolSpec.from_json(spec.to_json()) for spec in SPECS]
        assert index.update(copies) is False
        assert [hit.name for hit in index.search("write file")] == found("write file")

    def test_what_has_changed_since_is_told_and_indexed(self):
        index = ToolIndex(saved=ToolIndex([ToolSpec("a", "Old."), ToolSpec("b")]).dump())
        assert index.update([ToolSpec("a", "New."), ToolSpec("c")]) is True
        assert (found("new", index), found("old", index), index.names) == (["a"], [], ("a", "c"))

    def test_facts_are_put_over_older_ones(self):
        index = ToolIndex(saved=ToolIndex().dump({"a": "1", "b": "1"}))
        assert ToolIndex(saved=index.dump({"b": "2"})).facts == {"a": "1", "b": "2"}

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda data: b"",
            lambda data: b"no database" * 1000,
            lambda data: data[: len(data) // 2],
            lambda data: data[:4096] + b"\xff" * 4096 + data[8192:],
            lambda data: data[:-4096] + b"\0" * 4096,
        ],
    )
    def test_what_is_damaged_is_refused(self, spoil):
        data = ToolIndex([ToolSpec(f"tool_{n}", f"Words {n}. " * 20) for n in range(100)]).dump()
        with pytest.raises(ValueError, match="can't be used"):
            ToolIndex(saved=spoil(data))

    def test_another_versions_is_refused(self, monkeypatch):
        data = INDEX.dump()
        monkeypatch.setattr(table, "FORMAT", 99)
        with pytest.raises(ValueError, match="another version"):
            ToolIndex(saved=data)

    def test_parts_that_do_not_fit_together_are_refused(self):
        connection = sqlite3.connect(":memory:")
        connection.deserialize(INDEX.dump())
        connection.execute("DELETE FROM words WHERE rowid = 1")
        connection.commit()
        with pytest.raises(ValueError, match="fit together"):
            ToolIndex(saved=connection.serialize())
        connection.close()


def test_an_sqlite_without_fts5_is_told(monkeypatch):
    monkeypatch.setattr(table, "_CREATION", "CREATE VIRTUAL TABLE words USING fts99 (a)")
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


def test_all_texts_of_a_tool_are_indexed():
    spec = ToolSpec("getUser", "Tells of a user.", NESTED, title="User facts", tags=["crm"])
    name, *texts = _row_of(spec)
    assert name == "getUser"
    assert texts == [
        "getUser get user",
        "User facts crm outer rows choice inner cell right left",
        "Tells of a user.",
    ]


def test_names_of_parameters_are_found_at_any_depth_and_data_is_none():
    assert _parameter_names(ToolSpec("a", input_schema=NESTED)) == [
        "outer",
        "rows",
        "choice",
        "inner",
        "cell",
        "right",
        "left",
    ]


def test_what_is_indexed_is_bounded():
    schema = {"type": "object", "properties": {f"p{n}": {"properties": {f"q{n}": {}}} for n in range(600)}}
    assert len(_parameter_names(ToolSpec("a", input_schema=schema))) == _MOST_PARAMETERS
    assert len(_row_of(ToolSpec("a", "x" * 100_000))[3]) == _MOST_INDEXED


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": ["integer", "null"]}, "any": {}, "all": True},
    "required": ["path", "any"],
}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (ToolSpec("a", input_schema=SCHEMA), "path (string, required), limit (integer or null), any (required), all"),
        (ToolSpec("a"), "none"),
        (ToolSpec("a", input_schema={"type": "object", "properties": 5, "required": 5}), "none"),
        (ToolSpec("a", input_schema={"properties": {"b": {"type": 5}}, "required": 5}), "b"),
        (ToolSpec("a", kind="freeform"), "free text"),
    ],
)
def test_arguments_stand_in_one_line(spec, text):
    assert _arguments_text(spec) == text


def found_text(query, specs, *, near=False):
    return _found_text(query, [Found(spec, 1.0, near) for spec in specs])


def test_the_whole_answer():
    specs = [ToolSpec("a", "Does\n\nthis.", SCHEMA), ToolSpec("b", title="That"), ToolSpec("c")]
    assert found_text("q", specs) == (
        "3 tools were found. They can be called from your next answer on.\n\n"
        "a: Does this.\n  arguments: path (string, required), limit (integer or null), any (required), all\n\n"
        "b: That\n  arguments: none\n\n"
        "c\n  arguments: none"
    )


def test_it_is_bounded_whatever_a_tool_says():
    schema = {"type": "object", "properties": {f"{n}{'p' * 5_000}": {"type": "string"} for n in range(300)}}
    specs = [ToolSpec(f"t{n}", "x" * 100_000, schema) for n in range(20)]
    assert f"and {300 - _MOST_ARGUMENTS} more" in _arguments_text(specs[0])
    assert len(found_text("q" * 100_000, specs)) < 60_000


def context(*names, request=None):
    return ToolContext(request or ReadonlyContext(state={_FOUND_TOOLS: list(names)} if names else {}))


@pytest.mark.parametrize(
    ("kept", "names"),
    [
        (["a", "b", "a"], ("a", "b")),
        (("a",), ("a",)),
        (["a", 1, None, ["b"], "c"], ("a", "c")),
        ("abc", ()),
        ({"a": 1}, ()),
        (None, ()),
    ],
)
def test_a_state_may_say_anything(kept, names):
    assert found_names({_FOUND_TOOLS: kept}) == names


def test_names_are_added_and_the_latest_stand_last():
    call = context("a", "b")
    _remember(call, ["c", "a"])
    assert call.state[_FOUND_TOOLS] == ["b", "c", "a"]


def test_the_oldest_names_go_first():
    call = context(*(f"t{n}" for n in range(_MOST_FOUND)))
    _remember(call, ["new"])
    assert call.state[_FOUND_TOOLS] == [*(f"t{n}" for n in range(1, _MOST_FOUND)), "new"]


def test_calls_of_one_answer_say_what_those_before_them_have_found():
    """They don't see each other's changes, and the host takes over the last one's."""
    request = ReadonlyContext(state={})
    first, second = context(request=request), context(request=request)
    _remember(first, ["a"])
    _remember(second, ["b"])
    assert second.state[_FOUND_TOOLS] == ["a", "b"]


def test_what_the_host_has_taken_over_and_then_dropped_stays_dropped():
    """A host may go on with one context whose state changes."""
    state = {}
    request = ReadonlyContext(state=state)
    _remember(context(request=request), ["a"])
    state[_FOUND_TOOLS] = ["a"]
    _remember(context(request=request), ["b"])
    state[_FOUND_TOOLS] = ["b"]
    call = context(request=request)
    _remember(call, ["c"])
    assert call.state[_FOUND_TOOLS] == ["b", "c"]


def test_nothing_is_kept_for_nobody_nor_for_a_request_that_is_gone():
    _remember(ToolContext(), ["a"])
    call = ToolContext()
    _remember(call, ["b"])
    assert call.state[_FOUND_TOOLS] == ["b"]
    _remember(context(request=ReadonlyContext(state={})), ["a"])
    gc.collect()
    assert not [reference for reference, _ in _earlier_names.values() if reference() is None]


MAIL = make_tool("send_mail", description="Sends a mail.", deferred=True)
POST = make_tool("send_post", description="Sends a letter.", deferred=True)
SHOWN = make_tool("send_fax", description="Sends a fax.")


def board(*tools, **options):
    registry = ToolRegistry()
    registry.register(search_tool(**options), *tools)
    return registry


def searched(registry, *queries, context=None, name="search_tools", **arguments):
    """What a turn of searches gives."""
    context = context or ReadonlyContext(state={})

    async def turn():
        resolved = await registry.resolve(context)
        calls = [ToolCall(name, {"query": query, **arguments}, query) for query in queries]
        return await registry.dispatch(calls, resolved, context)

    return asyncio.run(turn())


def test_what_the_model_is_told_of_it():
    spec = search_tool("find", limit=3).spec
    assert spec.name == "find"
    assert spec.input_schema["properties"]["limit"]["default"] == 3
    assert spec.annotations.read_only_hint
    assert not spec.deferred
    assert spec.concurrency == Concurrency("key")


def test_deferred_tools_of_the_request_are_found_and_noted():
    outcome = searched(board(MAIL, POST, SHOWN), "mail")
    (result,) = outcome.results
    assert result.text.startswith("1 tool was found.")
    assert "send_mail: Sends a mail." in result.text
    assert (result.is_error, result.title, result.metadata) == (False, "Tools for mail", {"found": ["send_mail"]})
    assert outcome.actions.state_delta == {_FOUND_TOOLS: ["send_mail"]}


def test_tools_that_were_found_before_are_found_again():
    context = ReadonlyContext(state={_FOUND_TOOLS: ["send_fax"]})
    assert searched(board(SHOWN), "fax", context=context).results[0].metadata == {"found": ["send_fax"]}


def test_what_the_request_does_not_offer_is_not_found():
    registry = board(MAIL, POST)

    async def turn():
        resolved = await registry.resolve(where="not name:send_mail")
        return await registry.dispatch([ToolCall("search_tools", {"query": "send"}, "1")], resolved)

    assert asyncio.run(turn()).results[0].metadata == {"found": ["send_post"]}


def test_the_limit_is_the_models_or_else_the_hosts():
    registry = board(*(make_tool(f"send_{n}", deferred=True) for n in range(9)), limit=2)
    assert len(searched(registry, "send").results[0].metadata["found"]) == 2
    assert len(searched(registry, "send", limit=4).results[0].metadata["found"]) == 4
    assert searched(registry, "send", limit=99).results[0].kind == "invalid_arguments"


def test_nothing_found_is_no_error_and_leaves_the_state_alone():
    outcome = searched(board(MAIL), "zzzz")
    assert not outcome.results[0].is_error
    assert outcome.actions.state_delta == {}


@pytest.mark.parametrize("query", ["", '"', "NEAR(", "*", "\x00", "天气", "a" * 100_000])
def test_no_query_fails(query):
    assert not searched(board(MAIL), query).results[0].is_error


def test_a_call_outside_of_any_request_finds_nothing():
    function = search_tool().handler.function
    result = asyncio.run(function({"query": "mail"}, ToolContext()))
    assert result.text.startswith("No tool fits 'mail'.")


def processed(registry, context):
    """The names of the tools that a request offers once it has been made ready."""
    request = asyncio.run(registry.process(ModelRequest(), context))
    return [tool.name for tool in request.offered]


def test_what_was_found_is_offered_by_the_next_request_whoever_deferred_it():
    registry = board(MAIL, POST, SHOWN)
    assert processed(registry, ReadonlyContext()) == ["search_tools", "send_fax"]
    found = ReadonlyContext(state=searched(registry, "mail").actions.state_delta)
    assert processed(registry, found) == ["search_tools", "send_fax", "send_mail"]
    assert processed(registry, ReadonlyContext(state={_FOUND_TOOLS: ["gone"]})) == ["search_tools", "send_fax"]


def test_a_request_that_leaves_deferred_tools_out_lets_them_be_found_and_none_be_called():
    registry, context = board(MAIL, SHOWN), ReadonlyContext(state={})

    async def turn():
        request = await registry.process(ModelRequest(), context)
        calls = [ToolCall("search_tools", {"query": "mail"}, "1"), ToolCall("send_mail", {}, "2")]
        return await registry.dispatch(calls, request.tools, context)

    search, call = asyncio.run(turn()).results
    assert search.metadata == {"found": ["send_mail"]}
    assert call.kind == "not_offered"


MAIL_TOOLSET = make_tool("send_mail", description="Sends a mail.", tags=["net"])
READ = make_tool("read_file", description="Reads a file.")
USER = make_tool("current_user", description="Tells the user.", deferred=True)
INNER = PlainToolset("inner", [MAIL_TOOLSET, READ, USER])


def state_of(*found):
    return ReadonlyContext(state={_FOUND_TOOLS: list(found)})


def deferred(offer):
    return [tool.name for tool in offer if tool.spec.deferred]


def turn(registry, context, *calls):
    async def run():
        resolved = await registry.resolve(context)
        return resolved, await registry.dispatch([ToolCall(*call) for call in calls], resolved, context)

    return asyncio.run(run())


def test_a_search_tool_and_the_others_deferred():
    offer = offered(searchable(INNER))
    assert names_toolset(offer) == ["search_tools", "send_mail", "read_file", "current_user"]
    assert deferred(offer) == ["send_mail", "read_file", "current_user"]
    assert offer.problems == ()


def test_what_was_found_is_not_deferred_any_more():
    toolset = searchable(INNER)
    assert deferred(offered(toolset, state_of("read_file", "no_such_tool"))) == ["send_mail", "current_user"]
    assert deferred(offered(toolset)) == ["send_mail", "read_file", "current_user"]


@pytest.mark.parametrize(
    "always",
    [
        ["send_mail"],
        ("send_mail", "no_such_tool"),
        "tag:net",
        tagged("net"),
        lambda tool, context: tool.name == "send_mail",
    ],
)
def test_always_is_never_deferred(always):
    assert deferred(offered(searchable(INNER, always=always))) == ["read_file", "current_user"]


def test_where_always_fails_the_tool_is_deferred_and_a_note_says_so():
    offer = offered(searchable(INNER, always=lambda tool, context: {"send_mail": True}[tool.name]))
    assert deferred(offer) == ["read_file", "current_user"]
    assert "is deferred, as 'always' failed: KeyError" in str(offer.problems[0])
    assert not offer.has_failed


def test_with_nothing_to_find_there_is_no_search_tool():
    assert names_toolset(offered(searchable(PlainToolset("empty")))) == []
    everything = offered(searchable(INNER, always="name:*"))
    assert (names_toolset(everything), deferred(everything)) == (["send_mail", "read_file", "current_user"], [])


def test_what_only_processes_requests_is_left_alone():
    silent = make_tool("memory").evolve(offered=False)
    assert deferred(offered(searchable(PlainToolset("inner", [silent, READ])))) == ["read_file"]
    assert names_toolset(offered(searchable(PlainToolset("inner", [silent])))) == ["memory"]


def test_the_same_tools_come_out_each_time():
    toolset = searchable(INNER)
    for context in (state_of(), state_of("read_file")):
        first, second = offered(toolset, context), offered(toolset, context)
        assert [a is b for a, b in zip(first, second, strict=True)] == [True] * 4


def test_a_tool_that_has_the_search_tools_name_is_held_back():
    inner = PlainToolset("inner", [make_tool("search_tools", description="Mine."), READ])
    offer = offered(searchable(inner))
    assert (names_toolset(offer), [each.name for each in offer.dropped]) == (
        ["search_tools", "read_file"],
        ["search_tools"],
    )
    assert "give it another, searchable(..., name=...)" in str(offer.problems[0])
    assert names_toolset(offered(searchable(inner, name="find"))) == ["find", "search_tools", "read_file"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": "no name"}, InvalidNameError),
        ({"limit": 0}, ValueError),
        ({"limit": 21}, ValueError),
        ({"always": "tag:"}, ExpressionError),
    ],
)
def test_wrong_options_are_refused_at_once(options, error):
    with pytest.raises(error):
        searchable(INNER, **options)


def test_tools_that_are_loaded_late_stay_deferred_once_they_are_loaded():
    late, _ = late_tool(READ)
    (_, tool) = offered(searchable(PlainToolset("late", [late])))
    assert tool.spec.deferred
    assert tool.handler.load().spec.deferred


def test_tools_that_the_host_runs_are_deferred_and_found_too():
    inner = PlainToolset("inner", [Tool(ToolSpec("bare", "Runs elsewhere."))])
    assert deferred(offered(searchable(inner))) == ["bare"]
    assert deferred(offered(searchable(inner), state_of("bare"))) == []


class TestOnABoard:
    def test_what_is_found_is_offered_by_the_next_resolution(self):
        registry = ToolRegistry()
        registry.register(searchable(INNER))
        resolved, outcome = turn(registry, ReadonlyContext(), ("search_tools", {"query": "mail"}, "1"))
        assert resolved.get("send_mail").spec.deferred
        later = ReadonlyContext(state=outcome.actions.state_delta)
        resolved, outcome = turn(registry, later, ("send_mail", {}, "2"))
        assert not resolved.get("send_mail").spec.deferred
        assert not outcome.results[0].is_error

    @pytest.mark.parametrize(
        "outside",
        [
            lambda toolset: toolset.prefixed("my"),
            lambda toolset: toolset.renamed({"send_mail": "post"}),
            lambda toolset: toolset.prefixed("my").renamed({"my_send_mail": "post"}).prefixed("x" * 62),
        ],
    )
    def test_tools_that_are_renamed_further_out_are_found_by_either_name(self, outside):
        registry = ToolRegistry()
        registry.register(outside(searchable(INNER, name="seek")))
        resolved = asyncio.run(registry.resolve())
        (seek,) = [tool.name for tool in resolved if not tool.spec.deferred]
        _, outcome = turn(registry, ReadonlyContext(), (seek, {"query": "sends a mail"}, "1"))
        (name,) = outcome.results[0].metadata["found"]
        assert resolved.get(name).spec.description == "Sends a mail."
        after = asyncio.run(registry.resolve(ReadonlyContext(state=outcome.actions.state_delta)))
        assert not after.get(name).spec.deferred
        assert len(deferred(after)) == 2

    def test_two_searchable_toolsets_share_the_search_tool_that_is_left(self):
        registry = ToolRegistry()
        mail, files = PlainToolset("mail", [MAIL_TOOLSET]), PlainToolset("files", [READ])
        registry.register(searchable(mail), searchable(files))
        calls = [("search_tools", {"query": query}, query) for query in ("mail", "file")]
        resolved, outcome = turn(registry, ReadonlyContext(), *calls)
        assert [problem.tool for problem in resolved.problems] == ["search_tools"]
        assert outcome.actions.state_delta == {_FOUND_TOOLS: ["send_mail", "read_file"]}
        after = asyncio.run(registry.resolve(ReadonlyContext(state=outcome.actions.state_delta)))
        assert deferred(after) == []

    def test_with_names_of_their_own_nothing_clashes(self):
        registry = ToolRegistry()
        registry.register(
            searchable(PlainToolset("mail", [MAIL_TOOLSET]), name="find_mail_tools"),
            searchable(PlainToolset("files", [READ]), name="find_file_tools"),
        )
        resolved = asyncio.run(registry.resolve())
        assert resolved.problems == ()
        assert resolved.names == ("find_file_tools", "find_mail_tools", "read_file", "send_mail")

    def test_several_toolsets_are_searched_as_one(self):
        toolset = searchable(CombinedToolset("all", [PlainToolset("a", [MAIL_TOOLSET]), PlainToolset("b", [READ])]))
        assert names_toolset(offered(toolset)) == ["search_tools", "send_mail", "read_file"]

    def test_users_find_only_what_they_are_offered(self):
        registry = ToolRegistry()
        inner = StaticToolset("all", [MAIL_TOOLSET, READ]).filtered("not user:bob or name:read_file")
        registry.register(inner.searchable())
        for user, found in (("ann", {"send_mail"}), ("bob", set()), ("ann", {"send_mail"})):
            context = ReadonlyContext(user=user)
            _, outcome = turn(registry, context, ("search_tools", {"query": "mail"}, "1"))
            assert set(outcome.results[0].metadata["found"]) == found


def test_a_call_outside_of_any_request_searches_what_the_toolset_offers_now():
    (search, *_) = offered(wrap(INNER).searchable())
    call = ToolContext(ReadonlyContext(user="ann"))
    result = asyncio.run(search.handler.function({"query": "file"}, call))
    assert result.metadata == {"found": ["read_file"]}
    assert call.state[_FOUND_TOOLS] == ["read_file"]
    assert INNER.contexts[-1] is call.request


@pytest.mark.parametrize("limit", [0, -1, 21])
def test_a_limit_outside_of_its_bounds_is_refused(limit):
    with pytest.raises(ValueError, match="from 1 to 20"):
        search_tool(limit=limit)
