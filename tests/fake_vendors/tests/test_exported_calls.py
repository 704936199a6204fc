"""Calls round trip: what the SDKs' response types hold, dumped as their users dump them, is read as the same calls."""

from __future__ import annotations

import asyncio
from itertools import islice

import pytest

from fake_vendors import Call
from fake_vendors.rules import answers
from fake_vendors.rules.corpus import SPECS, arguments_of
from fake_vendors.rules.exporters import EXPORTERS
from fake_vendors.rules.raw_tools import UNREGISTERED
from pegboard import ModelRequest, Tool
from pegboard.dispatch.arguments import parse_call
from pegboard.toolsets import resolve_tools

MOST = 100
"""Tools in a request."""

CALLED = [spec for spec in SPECS if spec.kind != "provider" and spec.name.removeprefix("raw_") not in UNREGISTERED]


def batches(items):
    """At most so many at a time."""
    each = iter(items)
    while batch := list(islice(each, MOST)):
        yield batch


def request_for(specs):
    tools = asyncio.run(resolve_tools([Tool(spec) for spec in specs], ()))
    return ModelRequest("x", model="m", tools=tools)


def calls_of(name, specs):
    """One call for every known set of arguments of each tool."""
    calls: list[Call] = []
    for spec in specs:
        freeform = name in answers.WITH_FREEFORM and spec.kind == "freeform"
        for each in arguments_of(spec.name):
            calls.append(Call(spec.name, each["input"] if freeform else each, f"call_{len(calls)}", freeform=freeform))
    return calls


def read_back(response, request):
    """`(name, arguments)` of each call, arguments as dispatch reads them."""
    return [(each.name, parse_call(each, request.tools.get).arguments) for each in response.calls]


@pytest.mark.parametrize("specs", list(batches(CALLED)), ids=lambda specs: specs[0].name)
@pytest.mark.parametrize("name", answers.NAMES)
def test_an_answer_at_once_is_read_as_the_calls_that_it_holds(name, specs):
    request, calls = request_for(specs), calls_of(name, specs)

    for dump in answers.whole(name, calls):
        response = EXPORTERS[name]().response(dump, request)
        assert read_back(response, request) == [(call.name, answers.arguments_of(call)) for call in calls]
        assert [each.id for each in response.calls] == [call.id for call in calls]
        assert not any(each.invalid for each in response.calls)
        assert (response.finish_reason, response.complete) == ("tool_calls", True)


@pytest.mark.parametrize("specs", list(batches(CALLED)), ids=lambda specs: specs[0].name)
@pytest.mark.parametrize("name", answers.NAMES)
def test_a_stream_is_read_as_the_calls_that_it_brings(name, specs):
    request, calls = request_for(specs), calls_of(name, specs)
    reader = EXPORTERS[name]().reader(request)

    for chunk in answers.streamed(name, calls):
        reader.feed(chunk)
    response = reader.response()

    assert read_back(response, request) == [(call.name, answers.arguments_of(call)) for call in calls]
    assert [each.id for each in response.calls] == [call.id for call in calls]
    assert (response.finish_reason, response.complete) == ("tool_calls", True)
