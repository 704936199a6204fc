"""Whole turns: requests, calls, and their results in the next request."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from fake_vendors import Call, Citation, Round, Usage
from fake_vendors.contract.vendor import PNG, Trip, needs, rarely
from pegboard import ImageContent, Message, ModelConfig, ModelRequest, NamedTool, ToolRegistry
from pegboard.messages import CallDelta, HostedPart, MediaPart, ReasoningDelta, ReasoningPart, TextDelta

LOOK = Round(
    text=("Let me ", "look."),
    calls=[Call("weather", {"city": "Oslo"}), Call("clock"), Call("photo")],
    usage=Usage(20, 9, cached=5, reasoning=2),
)
DONE = Round(text="It rains.", usage=Usage(30, 4))


def test_parallel_calls_an_error_and_a_picture_go_back_to_the_model(way, registry):
    played = way.play([LOOK, DONE], registry=registry)
    assert (played.outcome.ended, played.outcome.text) == ("answered", "It rains.")
    assert [call.name for call in played.calls] == ["weather", "clock", "photo"]
    assert played.results[:2] == ["It rains in Oslo.", "tool_failure"]
    assert played.holds(1, *way.vendor.results)
    assert PNG[:12] in json.dumps(played.bodies[1])


def test_the_tools_of_the_registry_are_offered_and_the_model_is_named(way, registry):
    played = way.play([DONE], registry=registry)
    assert all(played.holds(0, {"name": name}) for name in ("book", "clock", "photo", "weather"))
    assert way.vendor.asked(played.server.requests[0]) == way.vendor.model
    assert played.server.requests[0].streamed is way.streamed


def test_a_model_that_the_request_names_is_asked_instead(way):
    played = way.play([DONE], ModelRequest("Go on.", model="another"))
    assert way.vendor.asked(played.server.requests[0]) == "another"


def test_what_all_answers_used_is_added_up(way, registry):
    usage = way.play([LOOK, DONE], registry=registry).outcome.usage
    wanted = {"input_tokens": 50, "output_tokens": 13, "cached_tokens": 5, "reasoning_tokens": 2}
    assert {name: getattr(usage, name) for name in way.vendor.usage} == {
        name: wanted[name] for name in way.vendor.usage
    }


def test_deltas_are_streamed(streaming, registry):
    thought = streaming.vendor.thoughts[0][0]
    look = Round(text=("It ", "is ", "noon."), reasoning=thought, calls=[Call("weather", {"city": "Oslo"})])
    played = streaming.play([look, Round()], registry=registry)
    deltas = [event.delta for event in played.of("AnswerDelta")]
    assert [each.text for each in deltas if isinstance(each, TextDelta)] == ["It ", "is ", "noon."]
    assert "".join(each.text for each in deltas if isinstance(each, ReasoningDelta)) == thought.text
    pieces = [each for each in deltas if isinstance(each, CallDelta)]
    assert {each.name for each in pieces} == {"weather"}
    assert json.loads("".join(each.arguments for each in pieces)) == {"city": "Oslo"}


def test_reasoning_goes_back_unchanged(way, registry):
    for thought, back in way.vendor.thoughts:
        played = way.play([Round(reasoning=thought, calls=[Call("clock")]), DONE], registry=registry)
        assert isinstance(played.messages[1].parts[0], ReasoningPart) or not thought.text
        assert played.holds(1, back)


@needs("choice")
def test_a_tool_that_must_be_called_is_named(way, registry):
    played = way.play([DONE], ModelRequest("Go on.", tool_choice=NamedTool("weather")), registry)
    assert played.holds(0, way.vendor.choice)


def test_a_strict_tool_is_held_to_its_schema_and_its_nulls_are_left_out(way, registry):
    called = Round(calls=[Call("book", {"city": "Oslo", **way.vendor.nulls})])
    request = ModelRequest("Go on.", config=ModelConfig(strict=True))
    played = way.play([called, DONE], request, registry)
    assert played.results == ["1 in Oslo"]
    assert way.vendor.strict is None or played.holds(0, way.vendor.strict)


def test_an_answer_that_is_a_value_comes_in_the_providers_own_response_format(way):
    rounds = [Round(text=json.dumps({"result": {"city": city, **way.vendor.nulls}})) for city in (7, "Oslo")]
    played = way.play(rounds, ModelRequest("Go on.", model=way.vendor.forming), output_type=Trip)
    assert (played.outcome.output, played.calls) == (Trip("Oslo"), [])
    assert played.holds(0, way.vendor.form)
    assert "result.city: " in json.dumps(played.bodies[1])  # what was wrong with the first


def test_where_the_format_cant_say_it_or_goes_without_tools_a_tool_takes_the_answer(way, registry):
    if way.vendor.name != "google":  # it takes any schema, beside tools, too
        called = Round(calls=[Call("final_result", {"result": {"Oslo": 2}})])
        played = way.play([called], registry=registry, output_type=dict[str, int])
        assert played.outcome.output == {"Oslo": 2}
        assert played.holds(0, {"name": "final_result"})
        assert not played.holds(0, way.vendor.form)


@needs("hosted")
def test_what_the_provider_has_run_itself_comes_back_and_is_not_run(way, registry):
    hosted = way.vendor.hosted
    registry.register(hosted.tool)
    played = way.play([Round(text="Well.", hosted=hosted.ran, calls=[Call("clock")]), DONE], registry=registry)
    parts = [part for part in played.messages[1].parts if isinstance(part, HostedPart)]
    assert [part.role for part in parts] == list(hosted.roles)
    assert played.holds(0, hosted.entry)
    assert played.holds(1, *hosted.back)
    assert played.results == ["tool_failure"]


def test_citations_are_kept(way):
    cited = Round(text="It rains.", citations=[Citation("https://a.example", "A", "It rains.", 0, 9)])
    played = way.play([cited])
    wanted = ["https://a.example"] if way.vendor.cites else []
    assert [each.uri for each in played.outcome.response.citations] == wanted


def deferred():
    made = ToolRegistry()
    made.register(rarely)
    return made


@needs("deferring")
def test_deferred_tools_are_left_to_the_providers_own_search(way):
    deferring = way.vendor.deferring
    played = way.play([Round(hosted=deferring.ran, calls=[Call("rarely")]), DONE], registry=deferred())
    assert played.holds(0, *deferring.entries)
    assert played.holds(0, {"name": "rarely", "defer_loading": True})
    assert played.results == ["done"]
    assert played.holds(1, *deferring.ran)


def test_deferred_tools_are_left_to_pegboards_search_where_the_model_has_none(way):
    for facts in way.vendor.deferring.without if way.vendor.deferring else ({},):
        played = way.play([DONE], registry=deferred(), facts=facts)
        assert not played.holds(0, {"name": "rarely"})
        assert "defer_loading" not in json.dumps(played.bodies[0])


def test_what_is_configured_is_sent(way):
    config, expected = way.vendor.configured
    played = way.play([DONE], ModelRequest("Go on.", instructions="Be kind.", config=config))
    assert played.holds(0, *expected)
    assert "Be kind." in json.dumps(played.bodies[0])


def test_options_of_the_provider_go_into_the_body(way):
    options, expected = way.vendor.option
    played = way.play([DONE], ModelRequest("Go on.", config=ModelConfig(provider_options=options)))
    assert played.holds(0, expected)


def test_pictures_of_the_user_go_out(way):
    look = ModelRequest([Message("user", [MediaPart(ImageContent(b"\x89PNG"))])])
    assert "iVBORw==" in json.dumps(way.play([DONE], look).bodies[0])


@needs("refused")
def test_a_refusal_ends_the_turn_with_the_models_words_or_a_code(way):
    response = way.play([Round(refusal="I won't.")]).outcome.response
    assert response.finish_reason == way.vendor.refused
    assert "I won't." in (response.text, response.error_message) or response.error_code  # one SDK drops the words


def test_nothing_at_all_is_an_answer(way):
    assert way.play([Round()]).outcome.text == ""


def test_an_answer_at_the_token_limit_runs_no_calls(way, registry):
    cut = Round(calls=[Call("weather", {"city": "Oslo"})], finish="length")
    assert way.play([cut, DONE], registry=registry).results == ["cut_off"]


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (Call("weather", {"city": 7}), "invalid_arguments"),
        (Call("weather", {"town": "Oslo"}), "invalid_arguments"),
        (Call("no_such_tool", {"a": 1}), "unknown_tool"),
        (Call("no such tool!"), "unknown_tool"),
    ],
)
def test_a_call_that_can_not_run_is_answered_and_the_turn_goes_on(way, registry, call, kind):
    look = Round(calls=[call, Call("weather", {"city": "Oslo"})])
    played = way.play([look, DONE], registry=registry, server={"undeclared_calls": True})  # the name goes back mapped
    assert played.results == [kind, "It rains in Oslo."]
    assert played.outcome.ended == "answered"


@needs("as_text")
@pytest.mark.parametrize("arguments", ['{"city": ', "[1, 2]"])
def test_a_call_whose_arguments_are_no_object_is_answered_and_the_turn_goes_on(way, registry, arguments):
    look = Round(calls=[Call("weather", arguments), Call("weather", {"city": "Oslo"})])
    assert way.play([look, DONE], registry=registry).results == ["invalid_arguments", "It rains in Oslo."]


def test_calls_that_have_come_whole_start_before_the_answer_has_ended(way, registry):
    look = Round(text="I look.", calls=[Call("weather", {"city": city}) for city in ("Oslo", "Rome")])
    early = {"registry": registry, "start_early": lambda call, tool: call.arguments != {}}
    for played in (way.play([look, DONE], **early), way.play([evolve(look, finish="length"), DONE], **early)):
        kinds = [type(event).__name__ for event in played.events]
        assert kinds.index("CallPending") < kinds.index("Answered")
        assert played.results[0] == "It rains in Oslo."
        assert played.outcome.calls == len(played.results) == kinds.count("CallPending") == 2


def test_a_call_without_an_id_gets_one(way, registry):
    played = way.play([Round(calls=[Call("weather", {"city": "Oslo"}, id=None)]), DONE], registry=registry)
    assert played.results == ["It rains in Oslo."]


def test_the_same_id_twice_is_two_calls(way, registry):
    twice = [Call("weather", {"city": city}, id="a") for city in ("Oslo", "Rome")]
    played = way.play([Round(calls=twice), DONE], registry=registry)
    assert played.results == ["It rains in Oslo.", "It rains in Rome."]


def test_a_new_call_under_an_old_index_is_a_call_of_its_own(streaming, registry):
    calls = [Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"}, same_index=True)]
    assert streaming.play([Round(calls=calls), DONE], registry=registry).results == [
        "It rains in Oslo.",
        "It rains in Rome.",
    ]


def test_arguments_that_never_end_never_run(streaming, registry):
    endless = Round(text="Well,", calls=[Call("weather", {"city": "Oslo"})], never_ends=300)
    played = streaming.play([endless, DONE], registry=registry)
    assert len(played.results) == (1 if streaming.vendor.in_pieces else 301)
    assert set(played.results) == {"cut_off"}
    assert (played.outcome.ended, played.outcome.text) == ("answered", "It rains.")


def test_the_next_question_goes_on_where_no_tools_are_offered(way, registry):
    first = way.play([LOOK, DONE], registry=registry)
    request = ModelRequest([*first.messages, Message.user("Thanks.")])
    assert way.play([Round(text="Bye.")], request, server={"undeclared_calls": True}).outcome.text == "Bye."
