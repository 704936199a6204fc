"""Errors: what happened, to which thing, and what to do; facts in attributes."""

from __future__ import annotations

import asyncio
import json
import re

import attrs
import pytest
from hypothesis import given, strategies as st

import pegboard
from pegboard import (
    Always,
    Ask,
    BudgetTools,
    Concurrency,
    Config,
    ImageContent,
    Limits,
    LinkContent,
    ModelConfig,
    ModelRequest,
    Permissions,
    Reshape,
    Tool,
    ToolRegistry,
    load,
)
from pegboard.errors import (
    HIDDEN,
    ConfigError,
    DefinitionError,
    ExpressionError,
    InvalidNameError,
    PegboardError,
    PluginError,
    UnknownToolError,
    cause_of,
    detail_of,
    did_you_mean,
    hide,
    suggest,
)
from pegboard.execution import PermissionRequired


def test_near_misses_are_few_and_always_the_same() -> None:
    """Whatever the case, best first."""
    known = ["read_file", "READ_files", "write_file", "glob"]
    assert suggest("Read_File", known) == suggest("Read_File", reversed(known))
    assert suggest("Read_File", known)[0] == "read_file"
    assert did_you_mean(["a", "b"]) == " Did you mean 'a' or 'b'?"
    assert did_you_mean([]) == ""


def test_definition_errors_name_the_place() -> None:
    """The tool, the parameter, what is wrong, what to do."""
    error = DefinitionError("no type", tool="t", parameter="p[].q", annotation=int, hint="Give it one.")
    assert str(error) == "tool 't': 'p[].q': no type. Give it one."
    assert str(DefinitionError("It ends.", hint="So?")) == "It ends. So?"
    assert str(DefinitionError("no type")) == "no type"
    assert (error.tool, error.parameter, error.annotation) == ("t", "p[].q", int)


@pytest.mark.parametrize(
    ("text", "position", "shown"),
    [
        ("a and", 5, "why\n  a and\n       ^"),
        ("a\nb", 2, "why\n  a?b\n    ^"),
        ("x" * 100, 50, f"why\n  ...{'x' * 80}...\n  {' ' * 43}^"),
    ],
)
def test_expression_errors_point_at_the_fault(text: str, position: int, shown: str) -> None:
    """In one line, however long the text is."""
    assert str(ExpressionError("why", text=text, position=position)) == shown


def test_other_errors_name_the_thing() -> None:
    """The file and the key; the plugin and its distribution; the tool and its near misses."""
    assert str(ConfigError("wrong", file="f.toml", key="a.b")) == "f.toml: a.b: wrong"
    assert str(PluginError("p", "broke", distribution="d")) == "plugin 'p' (from d): broke"
    assert str(UnknownToolError("grp", ["grep"])) == "no tool is called 'grp'. Did you mean 'grep'?"


# What went wrong, in one line ----------------------------------------------------------------------------------------


class MuteError(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class HostileError(Exception):
    @property
    def __cause__(self) -> None:
        raise SystemExit(3)

    __traceback__ = __cause__


@pytest.mark.parametrize("error", [InvalidNameError, UnknownToolError])
def test_a_refused_name_is_shown_escaped(error: type[Exception]) -> None:
    """With the Cyrillic letter it looks like `add`."""
    assert str(error("\u0430dd")).partition("dd")[0].endswith("'\\u0430")


def test_an_error_whose_attributes_raise_still_has_a_detail() -> None:
    assert detail_of(HostileError()) == "HostileError (its text failed: SystemExit)"
    assert "ValueError: a" in detail_of(ValueError("a"))


def test_the_cause_is_one_line() -> None:
    """Line breaks become spaces, long texts are truncated."""
    assert cause_of(ValueError("a\n  b")) == "ValueError: a b"
    assert cause_of(ValueError()) == "ValueError"
    assert cause_of(MuteError()) == "MuteError"
    assert cause_of(ValueError("x" * 10_000)) == "ValueError: " + "x" * 500


def attrs_classes():
    """The public attrs classes with attributes that are checked or converted."""
    for name in pegboard.__all__:
        cls = getattr(pegboard, name)
        if isinstance(cls, type) and attrs.has(cls):
            checked = [each for each in attrs.fields(cls) if each.init and (each.validator or each.converter)]
            yield from (pytest.param(cls, each, id=f"{name}.{each.name}") for each in checked)


@pytest.mark.parametrize(("cls", "attribute"), [*attrs_classes()])
@given(value=st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just([1]))
def test_a_wrong_attribute_is_refused_in_plain_words(cls, attribute, value):
    required = {each.alias: "x" for each in attrs.fields(cls) if each.init and each.default is attrs.NOTHING}
    try:
        cls(**{**required, attribute.alias: value})
        raised = None
    except (TypeError, ValueError, PegboardError) as error:
        raised = error
    assert raised is None or [type(each) for each in raised.args] == [str]
    assert raised is None or any(each.alias in f"{raised}" for each in attrs.fields(cls))
    assert re.search(r"<class |Attribute\(|NOTHING|must be [<>]|not supported between|has no len", f"{raised}") is None


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Limits(timeout=-1), "timeout must be a number of at least 0, got -1"),
        (lambda: Limits(depth="x"), "depth must be a number of at least 1, got 'x'"),
        (lambda: Permissions([1]), "rules must be of type Rule, got 1"),
        (lambda: Permissions(1), "rules must be a collection of Rule, got 1"),
        (lambda: PermissionRequired("edit", "src"), "patterns must be a collection of str, got 'src'"),
        (lambda: LinkContent("a", "b", 1), "mime_type must be a string, got 1"),
        (lambda: Reshape(rename=1), "rename: 'int' object is not iterable"),
        (lambda: ImageContent("x", "image/png"), "data must be of type bytes or bytearray or memoryview, got 'x'"),
    ],
)
def test_an_error_names_the_attribute_and_what_it_takes(make, reason):
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("option", "make"),
    [
        ("tags", lambda names: Tool.from_schema("f", {}, tags=names)),
        ("key", lambda names: Concurrency("key", names)),
        ("patterns", lambda names: PermissionRequired("edit", names)),
        ("pinned", lambda names: BudgetTools(10, pinned=names)),
        ("block", lambda names: Config(block=names)),
        ("enable", lambda names: Config(enable=names)),
        ("untrusted", lambda names: Config(untrusted=names)),
        ("block", lambda names: load(block=names)),
        ("toolsets", lambda names: asyncio.run(ToolRegistry().resolve(toolsets=names))),
    ],
)
def test_a_lone_string_is_no_collection_of_names(option, make):
    with pytest.raises((TypeError, DefinitionError), match=f"{option} must be a collection of str, got 'files'"):
        make("files")


@pytest.mark.parametrize(
    ("option", "make"),
    [
        ("stop", lambda text: ModelConfig(stop=text)),
        ("instructions", lambda text: ModelRequest(instructions=text)),
        ("patterns", lambda text: Ask("edit", patterns=text)),
        ("always", lambda text: Ask("edit", always=text)),
        ("patterns", Always),
    ],
)
def test_texts_may_be_a_lone_string(option, make):
    assert getattr(make("files"), option) == ("files",)


@given(
    st.from_regex(r"[a-z0-9]{4,7}", fullmatch=True)
    | st.text(min_size=8).map(str.strip).filter(lambda secret: len(secret) >= 8),
    st.data(),
)
def test_a_secret_is_hidden_however_json_escapes_it(secret, data):
    """As PHP escapes `/`, and others any character."""
    units = [secret[at].encode("utf-16-be", "surrogatepass").hex() for at in range(len(secret))]
    spelled = ""
    for character, unit in zip(secret, units, strict=True):
        code = "".join(f"\\u{unit[at : at + 4]}" for at in range(0, len(unit), 4))
        plain = json.dumps(character, ensure_ascii=False)[1:-1]
        forms = [plain, code, code.upper().replace("\\U", "\\u"), *(["\\/"] if character == "/" else [])]
        spelled += data.draw(st.sampled_from(forms))
    assert hide(f'{{"key": "{spelled}"}}', [secret]) == f'{{"key": "{HIDDEN}"}}'
