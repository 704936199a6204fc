from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from pegboard.schema.docstrings import Docstring, attribute_docs, parse_docstring

GOOGLE = """Search the warehouse
    and return rows.

    Runs the query.

    - one
      deeper

    Args:
        query: What to look for,
            in plain words.
        limit (int, optional): The largest number.
        *names: More of them.
        **others:
            The rest.

            In two paragraphs:
            - a
            - b

    Returns:
        The rows
        found.

    Raises:
        ValueError: Never shown to the model.

    Note:
        Slow.

    And a last word.
    """
NUMPY = """Search the warehouse
    and return rows.

    Runs the query.

    Parameters
    ----------
    query : str
        What to look for,
        in plain words.
    limit, most : int, optional
        The largest number.
    *names
        More of them.

    Returns
    -------
    list
        The rows found.

    Notes
    -----
    Slow.
    """
SPHINX = """Search the warehouse
    and return rows.

    Runs the query.

    :param query: What to look for,
        in plain words.
    :type query: str
    :param int limit: The largest number.
    :returns: The rows found.
    :raises ValueError: Never shown to the model.
    """
SUMMARY = "Search the warehouse and return rows."


@pytest.mark.parametrize(
    ("text", "behind", "more"),
    [
        (
            GOOGLE,
            "\n\n- one\n  deeper\n\nNote:\n    Slow.\n\nAnd a last word.",
            {"names": "More of them.", "others": "The rest.\n\nIn two paragraphs:\n- a\n- b"},
        ),
        (NUMPY, "\n\nNotes\n-----\nSlow.", {"most": "The largest number.", "names": "More of them."}),
        (SPHINX, "", {}),
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_sections_are_separated_from_the_description(text, behind, more):
    parsed = parse_docstring(text)
    assert parsed.summary == SUMMARY
    assert parsed == Docstring(
        f"Search the warehouse\nand return rows.\n\nRuns the query.{behind}",
        {"query": "What to look for, in plain words.", "limit": "The largest number.", **more},
        "The rows found.",
    )


@pytest.mark.parametrize("title", ["Args", "Arguments", "Parameters", "Params", "Keyword Args", "Other Parameters"])
def test_google_titles_of_parameters(title):
    assert parse_docstring(f"Do.\n\n{title}:\n    a: The first.\n").parameters == {"a": "The first."}


@pytest.mark.parametrize(
    "text",
    [
        "Returns:\n    The sum.",
        "Return:\n    The\n    sum.",
        "Returns:\n    int: The sum.",
        "Returns:\n    dict[str, int]: The sum.",
        "Yields:\n    The sum.",
        ":return: The sum.",
    ],
)
def test_the_description_of_the_result_is_read(text):
    assert parse_docstring(f"Do.\n\n{text}\n").returns == "The sum."


def test_several_sections_of_parameters_are_read():
    parsed = parse_docstring("Do.\n\nArgs:\n    a: The first.\n\nKeyword Args:\n    b: The second.\n\nLast words.")
    assert parsed == Docstring("Do.\n\nLast words.", {"a": "The first.", "b": "The second."})


def test_a_docstring_may_begin_with_a_section():
    assert parse_docstring("Args:\n        a: The first.\n    ") == Docstring("", {"a": "The first."})
    assert parse_docstring("\n    Args:\n        a: The first.\n    ") == Docstring("", {"a": "The first."})
    assert parse_docstring("\n    Returns:\n        The sum.\n    ") == Docstring("", {}, "The sum.")


def test_what_only_looks_like_a_section_is_text():
    text = "Do it.\n\n    Note: this isn't a section.\n\n    Args: nor this.\n    "
    parsed = parse_docstring(text)
    assert parsed == Docstring("Do it.\n\nNote: this isn't a section.\n\nArgs: nor this.")
    assert parse_docstring("") == Docstring()


@pytest.mark.parametrize(
    ("section", "parameters", "text"),
    [
        ("Args:", {}, ""),
        ("Args:\n    x - one\n      more\n    y: two\n    y2 three", {"y": "two"}, "x - one\n  more\ny2 three"),
        ("Args:\n    x: one\n  y: two", {"x": "one", "y": "two"}, ""),
        ("Args:\n\n    : x", {}, ": x"),
        ("Args:\n    x (dict[str, int], optional): one: two\n    `y`: two", {"x": "one: two", "y": "two"}, ""),
        ("Args:\n    x: one\n    **y** (int): two", {"x": "one", "y": "two"}, ""),
        (
            ":param x: one\n    more\n:param int y: two\n\nText.\n\n:return: three",
            {"x": "one more", "y": "two"},
            "Text.",
        ),
        (":param x: one\nText.", {"x": "one"}, "Text."),
        (":param dict[str, int] x: one\n:param *y: two", {"x": "one", "y": "two"}, ""),
        ("Parameters\n----------\nx, *y : int\n    One.\n\nText here.", dict.fromkeys("xy", "One."), "Text here."),
        (
            "Parameters\n----------\nx\n    One.\n\nWarnings\n--------\nSlow.\n\nRaises\n------\nValueError",
            {"x": "One."},
            "Warnings\n--------\nSlow.",
        ),
    ],
)
def test_what_can_be_read_of_a_section_is_used_and_the_rest_stays_text(section, parameters, text):
    parsed = parse_docstring(f"Do.\n\n{section}\n")
    assert (parsed.parameters, parsed.description) == (parameters, f"Do.\n\n{text}".strip())


@pytest.mark.parametrize(
    "section",
    [
        "Args:\n    x: One.\n    Note: never\n        twice.\n    y: Two.",
        ":param x: One.\n:param Note: never\n    twice.\n:type x: int\n:param y: Two.",
        "Parameters\n----------\nx : int\n    One.\nNote\n    never\n    twice.\ny\n    Two.",
    ],
)
def test_what_is_said_of_no_parameter_stays_text(section):
    parsed = parse_docstring(f"Do.\n\n{section}", "xy")
    assert parsed.parameters == {"x": "One.", "y": "Two."}
    assert "Note" in parsed.description
    assert parsed.description.endswith("twice.")


def test_an_empty_description_is_left_out():
    assert parse_docstring("Do.\n\nArgs:\n    a:\n    b: The second.").parameters == {"b": "The second."}


@given(st.text(alphabet="ab :-\n\t*(", max_size=40), st.sampled_from(["Args:", ":param", "Parameters\n----", ""]))
@example("(b: c", "Args:\n    a ")
@example("", "Returns:")
def test_parsing_never_fails(text, marker):
    parsed = parse_docstring(f"Do.\n\n{marker}{text}")
    assert parsed.summary.startswith("Do.")
    assert all(isinstance(each, str) for each in parsed.parameters.values())


class Base:
    """A base.

    Attributes:
        name: What it is called.
        size: How large it is.
    """


class Derived(Base):
    """A derived one.

    Args:
        size: How large it is here.
    """


class Silent(Derived): ...


def test_attributes_are_documented_by_the_class_and_its_bases():
    expected = {"name": "What it is called.", "size": "How large it is here."}
    assert attribute_docs(Derived) == expected
    assert attribute_docs(Silent) == expected
    assert attribute_docs(Base)["size"] == "How large it is."
