r"""Nothing hidden reaches a person who reads: neither in the approval prompt nor in a terminal."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from pegboard import Grammar, Origin, Tool, ToolRegistry, ToolSpec
from pegboard.errors import SchemaError
from pegboard.text import printable, visible, visible_json
from pegboard.tools import visible_spec


@pytest.mark.parametrize(
    "text",
    ["", "plain", "naïve café", "é ü 漢字 עברית العربية", "日本語です", "👍🏽", "हिन्दी", "각", "x\u0301", "\\u202e \\"],
)
def test_visible_text_is_unchanged(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[2J", r"\u{1b}[2J"),
        ("a\rb", r"a\u{d}b"),
        ("a\nb\tc", r"a\u{a}b\u{9}c"),
        ("\x7f\x9b31m", r"\u{7f}\u{9b}31m"),
        ("rm \u202egnp.exe\u202c", r"rm \u{202e}gnp.exe\u{202c}"),
        ("\u2066a\u2069\u200e\u200f\u061c", r"\u{2066}a\u{2069}\u{200e}\u{200f}\u{61c}"),
        ("a\u200bb\ufeffc\u00add", r"a\u{200b}b\u{feff}c\u{ad}d"),
        ("\u2028\u2029\x85", r"\u{2028}\u{2029}\u{85}"),
        ("lone \ud800", r"lone \u{d800}"),
        ("hi\U000e0068\U000e0069", r"hi\u{e0068}\u{e0069}"),
        ("a\U000e0100b", r"a\u{e0100}b"),
        ("\u3164\u2800\u034f", r"\u{3164}\u{2800}\u{34f}"),
        ("a\u0600\U00013430", r"a\u{600}\u{13430}"),
        ("\u2062\u206a", r"\u{2062}\u{206a}"),
        ("\ufff9a\ufffc\uffff", r"\u{fff9}a\u{fffc}\u{ffff}"),
        ("\ue000\U0010fffd\u0378", r"\u{e000}\u{10fffd}\u{378}"),
        ("a\u00a0b\u3000c\u2009", r"a\u{a0}b\u{3000}c\u{2009}"),
        (r"a\u{202e}b", r"a\u{5c}u{202e}b"),
        ("e\u0301 é", r"e\u{301} é"),
        ("e\u0323\u0301", r"e\u{323}\u{301}"),
        ("e\u0301\u0323", r"e\u{301}\u{323}"),
        ("\u1100\u1161\u11a8", "\u1100" + r"\u{1161}\u{11a8}"),
        ("\u212b\u2126\u037e", r"\u{212b}\u{2126}\u{37e}"),
        ("\u202e\u0301 \u0301", r"\u{202e}\u{301} \u{301}"),
    ],
)
def test_hidden_characters_are_escaped(text, seen):
    assert visible(text) == seen


def test_line_ends_and_tabs_stay_if_allowed():
    assert visible("a\r\nb\n\tc\rd", newlines=True) == "a\\u{d}\nb\n\tc\\u{d}d"


@pytest.mark.parametrize(
    "text", ["👩\u200d💻", "🏳\ufe0f\u200d🌈", "❤\ufe0f", "\u0645\u06cc\u200c\u062e\u0648", "क्\u200dष"]
)
def test_joiners_stay_where_scripts_need_them(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\u200db", r"a\u{200d}b"),
        ("\u200d", r"\u{200d}"),
        ("\u200b\u200d", r"\u{200b}\u{200d}"),
        ("é\u200dé\u200cд\u200dд", "é\\u{200d}é\\u{200c}д\\u{200d}д"),
        ("漢\u200d字\ufe0f", "漢\\u{200d}字\\u{fe0f}"),
        ("❤\u200d\u200d👍", "❤\\u{200d}\\u{200d}👍"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\u{fe0f}"),
        ("\u0645\u200c", "\u0645\\u{200c}"),
        ("❤\ufe00", r"❤\u{fe00}"),
        ("a\ufe0f\u200d", r"a\u{fe0f}\u{200d}"),
    ],
)
def test_other_joiners_are_escaped(text, seen):
    assert visible(text) == seen


texts = st.text(max_size=30) | st.text(
    "ae\\u{}1\u0301\u0323\u00e9\u1100\u1161\u11a8\u212b\u202e\u200d\ufe0f❤م \n\r", max_size=8
)


@pytest.mark.parametrize("part", ["a", "\\u{", "❤\u200d", "\u0301", "\u202e"])
def test_a_long_word_takes_linear_time(part):
    """Milliseconds; were it the square, minutes."""
    assert len(visible(part * 100_000 + "\n", newlines=True)) >= 100_000


@given(texts, st.booleans())
def test_nothing_hidden_is_left(text, newlines):
    """No character of a category without a shape; and what was there is still there, written out."""
    shown = visible(text, newlines=newlines)
    left = {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")}
    assert left <= {" ", "\u200c", "\u200d"} | ({"\n", "\t"} if newlines else set())


@given(texts, st.booleans())
def test_two_texts_that_differ_are_shown_differently(text, newlines):
    """What was there can be read back, whatever it was."""
    shown = visible(text, newlines=newlines)
    assert re.sub(r"\\u\{([0-9a-f]+)\}", lambda match: chr(int(match[1], 16)), shown) == text


@given(texts, st.booleans())
def test_no_two_texts_look_alike_by_their_normal_form(text, newlines):
    """Composed or not, reordered, or another character with the same shape."""
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, text)
        shown = [unicodedata.normalize("NFC", visible(each, newlines=newlines)) for each in (text, other)]
        assert (shown[0] == shown[1]) is (text == other)


@given(st.text())
def test_nothing_visible_is_lost(text):
    kept = "".join(c for c in text if unicodedata.category(c) in ("Lu", "Nd", "Po"))
    assert visible(kept) == kept


values = st.recursive(
    st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(values, st.sampled_from([None, 2]))
def test_json_stays_the_same_value(value, indent):
    text = visible_json(json.dumps(value, ensure_ascii=False, indent=indent))
    assert json.loads(text) == value
    assert set(visible(text, newlines=True)) <= {*text, *"u{5c}"}


def test_json_is_escaped_as_json_does():
    assert visible_json('"é\u202e\x7f\U000e0041\u200d\ud800"') == r'"é\u202e\u007f\udb40\udc41\u200d\ud800"'


def spec_of(schema=None, **facts):
    return ToolSpec("demo", input_schema={"type": "object", **(schema or {})}, **facts)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"description": "Reads\u200b a file.\n\tFast."}, {"description": "Reads\\u{200b} a file.\n\tFast."}),
        ({"title": "a\u202eb"}, {"title": "a\\u{202e}b"}),
        ({"schema": {"description": "\x1b[2J"}}, {"schema": {"description": "\\u{1b}[2J"}}),
        (
            {"schema": {"properties": {"a": {"anyOf": [{"title": "x\u2066"}], "$comment": "\U000e0041"}}}},
            {"schema": {"properties": {"a": {"anyOf": [{"title": "x\\u{2066}"}], "$comment": "\\u{e0041}"}}}},
        ),
    ],
)
def test_hidden_characters_in_a_definition_are_escaped(given, seen):
    assert visible_spec(spec_of(**given)) == spec_of(**seen)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"schema": {"properties": {"a\u200b": {}}}}, r"properties: 'a\\u\{200b\}'"),
        ({"schema": {"properties": {"a": {"enum": ["x", "x\u202e"]}}}}, "enum"),
        ({"schema": {"properties": {"a": {"const": {"k\u2060": 1}}}}}, "const"),
        ({"schema": {"properties": {"a": {"default": ["\x00"]}}}}, "default"),
        ({"schema": {"required": ["a\u200b"]}}, "required"),
        ({"schema": {"x-note\u200b": 1}}, "x-note"),
        ({"schema": {"pattern": "[\u200b]"}}, "pattern"),
        ({"schema": {"patternProperties": {"^\ufeff": {}}}}, "patternProperties"),
        ({"output_schema": {"type": "object", "$defs": {"A\u200b": {}}}}, "\\$defs"),
        ({"examples": [{"a": ["x\u202e"]}]}, "examples"),
        ({"provider_options": {"openai": {"description": "a\u202eb"}}}, "provider_options"),
        ({"kind": "freeform", "grammar": Grammar("regex", "\u200b")}, "grammar"),
    ],
)
def test_a_definition_with_something_hidden_in_names_or_values_is_refused(given, where):
    with pytest.raises(SchemaError, match=where):
        visible_spec(spec_of(**given))


@pytest.mark.parametrize(
    "given",
    [
        {"description": "Plain.", "schema": {"properties": {"a": {"enum": [",", "\t", "\r\n", "é", "👍🏽"]}}}},
        {"description": "👩‍👩‍👧 हिन्दी 日本語", "schema": {"title": "م‌ن", "pattern": "\\u200b\\x00"}},
    ],
)
def test_a_visible_definition_is_unchanged(given):
    spec = spec_of(**given)
    assert visible_spec(spec) == spec


def test_definitions_of_plugins_and_toolsets_are_made_visible_and_the_hosts_own_stay():
    def raw(name, **facts):
        return Tool(spec_of(**facts).evolve(name=name))

    hidden, bad = raw("hidden", description="a\u200b"), raw("bad", schema={"properties": {"\u200b": {}}})
    host = ToolRegistry()
    for options in ({}, {"origin": Origin()}):
        handle = host.register(hidden, bad, **options)
        assert host.get("hidden").spec.description == "a\u200b"
        handle.dispose()

    with pytest.raises(SchemaError):
        host.register(hidden, bad, origin=Origin(plugin="p"))
    host.register(hidden, origin=Origin(plugin="p"))
    assert host.get("hidden").spec.description == "a\\u{200b}"

    class Foreign:
        name = "foreign"

        async def tools(self, context):
            return [hidden, bad]

    registry = ToolRegistry()
    registry.register(Foreign())
    offered = asyncio.run(registry.resolve())
    assert [(tool.name, tool.spec.description) for tool in offered.tools] == [("hidden", "a\\u{200b}")]
    assert "hidden characters" in str(offered.problems[0])


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("plain name.txt", "plain name.txt"),
        ("ünï-名前", "ünï-名前"),
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("caf\udce9", "caf\\udce9"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_unprintable_characters_of_names_are_escaped(name, seen):
    assert printable(name) == seen


@given(st.text())
def test_a_name_is_one_printable_line_of_utf8(name):
    seen = printable(name)
    assert seen.isprintable()
    assert seen.encode().decode() == seen
