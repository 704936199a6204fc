from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch import partial as module
from pegboard.dispatch.limits import CallError
from pegboard.dispatch.parse import parse_arguments
from pegboard.dispatch.partial import ArgumentsSoFar, Partial, parse_partial
from strategies import json_values

objects = st.dictionaries(st.text(max_size=4), json_values(), max_size=4)


@settings(max_examples=60)
@given(objects, st.booleans(), st.booleans())
def test_each_beginning_can_be_shown_and_the_last_is_what_the_strict_parser_reads(value, escaped, as_bytes):
    text = json.dumps(value, ensure_ascii=escaped)
    if as_bytes:
        text = text.encode()
    for end in range(len(text)):
        shown = parse_partial(text[:end])
        assert (type(shown.value), shown.complete) == (dict, False)
    assert parse_partial(text) == Partial(parse_arguments(text, most_bytes=1_000_000), complete=True)


@settings(max_examples=100)
@given(st.text(max_size=30) | st.binary(max_size=30) | st.text('{}[]":,0123eE.-tru\\\ud800', max_size=30))
def test_anything_can_be_shown_and_is_complete_where_the_strict_parser_takes_it(text):
    shown = parse_partial(text)
    try:
        read = parse_arguments(text, most_bytes=1_000_000)
    except CallError:
        assert not shown.complete
    else:
        assert shown == Partial(read, complete=bool(text.strip()))
    assert json.dumps(shown.value, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("{", {}),
        ('{"pa', {}),
        ('{"path"', {}),
        ('{"path": ', {}),
        ('{"path": "src/ma', {"path": "src/ma"}),
        ('{"path": "a\\', {"path": "a"}),
        ('{"path": "a\\u00e', {"path": "a"}),
        ('{"path": "a\\ud83d\\ude', {"path": "a"}),
        (b'{"path": "a\xc3', {"path": "a"}),
        ('{"n": 12', {"n": 12}),
        ('{"n": 1.', {}),
        ('{"n": tr', {}),
        ('{"n": [1, {"a": "b', {"n": [1, {"a": "b"}]}),
        ('{"n": 1, "m', {"n": 1}),
    ],
)
def test_what_has_come_is_shown_as_far_as_it_goes(text, value):
    assert parse_partial(text) == Partial(value)


@pytest.mark.parametrize("text", ["[1", '"a', "nul", "12", "x", '{"a": 1e400', '{"a": NaN', "{'a", '{"a": "\ud800'])
def test_what_is_no_object_shows_nothing(text):
    assert parse_partial(text) == Partial({})


def test_what_is_beyond_the_limits_is_not_shown():
    assert parse_partial('{"a": "bcd', most_bytes=9) == Partial({})
    assert parse_partial('{"a": [1, 2', most_nodes=2) == Partial({})
    assert parse_partial('{"a": [1, 2, 3, 4', most_nodes=2) == Partial({})
    assert parse_partial('{"a":' + "[" * 100) == Partial({})
    assert parse_partial('{"a":' + "[" * 100_000) == Partial({})


def test_a_duplicate_key_is_shown_but_never_complete():
    assert parse_partial('{"a": 1, "a": 2}') == Partial({"a": 2})


# Piece by piece ------------------------------------------------------------------------------------------------------


def cut(text, length):
    return [text[start : start + length] for start in range(0, len(text), length)]


def test_pieces_are_gathered_and_shown():
    so_far = ArgumentsSoFar()
    seen = []
    for piece in ['{"pa', 'th": "a', "b", '"}']:
        so_far.feed(piece)
        seen.append(so_far.partial)
    assert seen == [
        Partial({}),
        Partial({"path": "a"}),
        Partial({"path": "ab"}),
        Partial({"path": "ab"}, complete=True),
    ]
    assert so_far.text == b'{"path": "ab"}'


def test_bytes_may_be_cut_inside_a_character():
    so_far = ArgumentsSoFar()
    for piece in cut('{"name": "Zoë 🙂"}'.encode(), 1):
        so_far.feed(piece)
        assert so_far.partial
    assert so_far.partial == Partial({"name": "Zoë 🙂"}, complete=True)


@pytest.fixture
def read(monkeypatch):
    """The lengths of the texts that were read."""
    lengths = []

    def counting(text, **limits):
        lengths.append(len(text))
        return parse_partial(text, **limits)

    monkeypatch.setattr(module, "parse_partial", counting)
    return lengths


def test_nothing_is_read_until_somebody_looks_nor_twice(read):
    so_far = ArgumentsSoFar()
    for piece in cut('{"a": "bcd"}', 3):
        so_far.feed(piece)
    assert read == []
    assert so_far.partial is so_far.partial
    assert read == [12]


def test_looking_after_each_piece_of_a_long_text_reads_in_proportion_to_it(read):
    text = json.dumps({"text": "word " * 40_000})
    so_far = ArgumentsSoFar()
    behind = 0
    for piece in cut(text, 40):
        so_far.feed(piece)
        shown = so_far.partial.value.get("text", "")
        behind = max(behind, 1 - (len(shown) + 20) / len(so_far.text))
    assert sum(read) < 20 * len(text)
    assert behind < 1 / 16
    assert so_far.exact() == Partial(json.loads(text), complete=True)


def test_short_arguments_are_never_behind():
    text = json.dumps({"text": "x" * 4000})
    so_far = ArgumentsSoFar()
    for piece in cut(text, 100):
        so_far.feed(piece)
        assert so_far.partial == so_far.exact()
    assert so_far.partial.complete


def test_no_more_is_kept_than_makes_the_call_too_long():
    so_far = ArgumentsSoFar(most_bytes=10)
    for _ in range(100):
        so_far.feed('{"a": "bcd')
    assert len(so_far.text) == 11
    with pytest.raises(CallError, match="11 bytes"):
        parse_arguments(so_far.text, most_bytes=10)
    assert so_far.partial == Partial({})


def test_a_lone_surrogate_shows_nothing_and_stays_refused():
    so_far = ArgumentsSoFar()
    so_far.feed('{"a": "\ud800"}')
    assert so_far.partial == Partial({})
    with pytest.raises(CallError):
        parse_arguments(so_far.text, most_bytes=100)


def test_the_limits_hold():
    so_far = ArgumentsSoFar(most_nodes=2)
    so_far.feed('{"a": [1, 2]}')
    assert so_far.partial == Partial({})
