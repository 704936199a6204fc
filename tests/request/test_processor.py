from __future__ import annotations

import asyncio

import pytest

from pegboard.callbacks import ChainError
from pegboard.errors import RegistrationError
from pegboard.request.model_request import ModelRequest
from pegboard.request.pipeline import Placed, Processor, Runner
from pegboard.tools.context import NOBODY
from pegboard.tools.policy import HOST, Origin

REQUEST = ModelRequest("a")
RUNNER = Runner()


def ask(function, **facts):
    return asyncio.run(Processor("p", function, **facts).ask(REQUEST, NOBODY, RUNNER))


@pytest.mark.parametrize("built_in", [True, False])
def test_a_function_gets_what_it_asks_for_by_name(built_in):
    assert ask(lambda: 1, built_in=built_in) == 1
    assert ask(lambda request: request, built_in=built_in) is REQUEST
    assert ask(lambda context: context, built_in=built_in) is NOBODY
    assert ask(lambda runner, request: (runner, request), built_in=built_in) == (RUNNER, REQUEST)
    assert ask(lambda request, other=2: other, built_in=built_in) == 2


@pytest.mark.parametrize("built_in", [True, False])
def test_what_it_raises_is_told_alike(built_in):
    with pytest.raises(ChainError) as caught:
        ask(lambda: 1 / 0, built_in=built_in)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_function_that_asks_for_something_else_is_refused_at_once():
    with pytest.raises(RegistrationError, match=r"request processor 'p': .* asks for 'tools'; there are request, "):
        Processor("p", lambda tools: None)


@pytest.mark.parametrize("function", [None, 5, "text"])
def test_what_is_no_function_is_refused(function):
    with pytest.raises(RegistrationError, match=r"request processor 'p': .* is not a callable object"):
        Processor("p", function)


@pytest.mark.parametrize("name", ["", None, 5])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(RegistrationError, match="name has to be a text"):
        Processor(name, print)


def test_its_summary_is_the_first_line_of_its_docstring():
    def remember(request):
        """Adds what is remembered.

        And more.
        """

    class Limit:
        """Limits."""

        def __call__(self, request):
            """Cuts what is long."""

    assert Processor("p", remember).summary == "Adds what is remembered."
    assert Processor("p", Limit()).summary == "Cuts what is long."
    assert Processor("p", lambda: None).summary == ""


def test_a_placed_one_stands_before_or_after_another():
    files = Origin("files")
    function = Placed(lambda request: None, after="x").function
    assert Processor.of("p", Placed(function, after="x"), files) == Processor("p", function, files, registered=True)
    assert Processor.of("p", function, HOST) == Processor("p", function, registered=True)


@pytest.mark.parametrize("places", [{}, {"before": "a", "after": "b"}])
def test_one_place_has_to_be_named(places):
    with pytest.raises(ValueError, match="name one of the two"):
        Placed(print, **places)
