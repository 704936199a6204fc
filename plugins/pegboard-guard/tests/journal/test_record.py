from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, strategies as st

from pegboard_guard.journal.record import START, NoRecordError, decode, encode, time_text

texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)
facts = st.dictionaries(texts.filter(lambda key: key not in ("n", "at", "prev", "hash")), values, max_size=4)


@given(facts, st.integers(1, 10**9))
def test_what_is_written_is_read_back(said, number):
    line, digest = encode(number, "now", said, START)
    record = decode(line.removesuffix(b"\n"))
    assert (record.number, record.previous, record.hash) == (number, START, digest)
    assert {key: record.facts[key] for key in said} == said


@given(facts)
def test_a_line_is_one_line_of_printable_ascii(said):
    line, _ = encode(1, "now", said, START)
    assert line.endswith(b"\n")
    assert line[:-1].decode("ascii").isprintable()


def test_the_hash_is_that_of_the_line_without_its_last_member():
    """So that anybody can check it with other tools."""
    line, digest = encode(7, "now", {"kind": "call", "tool": "é\u202e"}, "a" * 64)
    data = json.loads(line)
    assert data.pop("hash") == digest
    body = json.dumps(data, separators=(",", ":")).encode()
    assert hashlib.sha256(body).hexdigest() == digest


@given(st.data())
def test_any_changed_byte_makes_it_no_record(data):
    line, _ = encode(3, "now", {"kind": "call", "tool": "look"}, START)
    line = line[:-1]
    place = data.draw(st.integers(0, len(line) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[place]))
    with pytest.raises(NoRecordError):
        decode(line[:place] + bytes([byte]) + line[place + 1 :])


@pytest.mark.parametrize("line", [b"", b"{}", b"x" * 500, b'{"n":1}', b',"hash":"' + b"0" * 64 + b'"}'])
def test_other_lines_are_no_records(line):
    with pytest.raises(NoRecordError):
        decode(line)


@pytest.mark.parametrize(
    "body", ["[1]", '{"n":1}', '{"n":"1","prev":""}', '{"n":true,"prev":""}', '{"n":1,"prev":2}', "[" * 5000 + "}"]
)
def test_what_has_a_fitting_hash_and_isn_t_of_this_form_is_no_record(body):
    digest = hashlib.sha256(body[:-1].encode() + b"}").hexdigest()
    with pytest.raises(NoRecordError):
        decode(f'{body[:-1]},"hash":"{digest}"}}'.encode())


def test_times_are_utc_to_the_microsecond():
    assert time_text(0.125) == "1970-01-01T00:00:00.125000Z"
