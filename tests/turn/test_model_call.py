"""The model's call in a turn: the callbacks round it, its errors, what is sent again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from pegboard import Turn, TurnLimits, nonblocking, run_turn
from pegboard.errors import CallbackError, ModelError
from pegboard.events import ModelRetried
from pegboard.messages import Message, ModelResponse
from turn.samples import ADD, model_of, results


class TestModelCallbacks:
    def test_before_answers_instead_of_the_model(self, registry, turn):
        registry.add_callback("before_model", nonblocking(lambda request: ModelResponse("from a cache")))
        outcome, model = turn([])
        assert (outcome.text, model.requests) == ("from a cache", [])

    def test_before_may_change_the_request_and_the_next_sees_that(self, registry, turn):
        registry.add_callback("before_model", nonblocking(lambda request: request.with_instructions("Be kind.")))
        registry.add_callback("before_model", nonblocking(lambda request: request.with_instructions("Be brief.")))
        assert turn(["ok"])[1].requests[0].instructions == ("Be kind.", "Be brief.")

    def test_each_after_sees_the_answer_as_the_one_before_has_left_it(self, registry, turn):
        def add(word, seen):
            def after(response, error):
                seen.append(error)
                return response.evolve(message=Message.assistant(response.text + word))

            return nonblocking(after)

        seen, down = [], ModelError("down")
        registry.add_callback("on_model_error", nonblocking(lambda: ModelResponse("sorry")))
        for word in (" one", " two"):
            registry.add_callback("after_model", add(word, seen))
        assert [turn([answer])[0].text for answer in ("ok", down)] == ["ok one two", "sorry one two"]
        assert seen == [None, None, down, down]

    def test_on_error_recovers(self, registry, turn):
        async def recover(context, error):
            return ModelResponse(f"Sorry: {error}, {context.provider}")

        registry.add_callback("on_model_error", recover)
        assert turn([ModelError("down")])[0].text == "Sorry: down, scripted"

    def test_a_wrapper_may_ask_again(self, registry, turn):
        async def twice(call_next):
            first = await call_next()
            return first if first.text else await call_next()

        registry.add_callback("wrap_model", twice)
        assert turn([ModelResponse(()), "second"])[0].text == "second"

    @pytest.mark.parametrize("stage", ["before_model", "after_model", "wrap_model"])
    def test_a_callback_that_fails_is_named(self, registry, turn, stage):
        def broken():
            raise ValueError("oops")

        registry.add_callback(stage, broken)
        with pytest.raises(CallbackError, match=f"{stage}: .*broken of the host: ValueError\\('oops'\\)") as caught:
            turn(["ok"] if stage == "after_model" else [])
        assert (caught.value.stage, caught.value.owner) == (stage, "the host")
        assert caught.value.outcome.ended == "failed"

    @pytest.mark.parametrize("stage", ["before_model", "after_model", "wrap_model"])
    def test_a_callback_that_returns_another_type_is_named(self, registry, turn, stage):
        registry.add_callback(stage, nonblocking(lambda: 5))
        with pytest.raises(CallbackError, match="int"):
            turn(["ok"] if stage == "after_model" else [])

    def test_an_error_of_a_before_callback_may_be_recovered(self, registry, turn):
        def broken():
            raise ValueError("oops")

        registry.add_callback("before_model", broken)
        registry.add_callback("on_model_error", nonblocking(lambda error: ModelResponse(type(error).__name__)))
        assert turn([])[0].text == "CallbackError"

    @pytest.mark.parametrize("raised", [ValueError("odd"), SystemExit("odd")])
    def test_a_model_that_raises_anything_is_a_model_error(self, turn, raised):
        def respond(request):
            raise raised

        with pytest.raises(ModelError, match=f"scripted: {type(raised).__name__}: odd") as caught:
            turn([respond])
        assert caught.value.code == type(raised).__name__
        assert caught.value.outcome.messages == (Message.user("Go on."),)

    def test_a_model_may_answer_plainly_but_with_a_response(self, registry):
        assert asyncio.run(run_turn(model_of(lambda _: ModelResponse("Hello.")), "Hi", registry)).text == "Hello."
        with pytest.raises(ModelError, match="model 'odd' returned str; it must return a ModelResponse"):
            asyncio.run(run_turn(model_of(lambda _: "text"), "Hi", registry))

    def test_arguments_of_wrong_types_are_refused_at_once(self, registry):
        with pytest.raises(TypeError, match="is not a model: it has no provider, respond"):
            Turn(SimpleNamespace(name="x"), "Hi", registry)
        with pytest.raises(TypeError, match=r"registry\.model\('openai/gpt-5'\) makes one$"):
            Turn("openai/gpt-5", "Hi", registry)
        with pytest.raises(TypeError, match=r"^registry must be ToolRegistry, got \[\]$"):
            Turn(model_of(), "Hi", [])
        with pytest.raises(TypeError, match=r"^context must be ReadonlyContext, got 'ann'$"):
            Turn(model_of(), "Hi", registry, "ann")

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            (ModelResponse(Message.user("hi")), "returned a message of role 'user'"),
            (ModelResponse("hi", partial=True), "returned a partial response"),
        ],
    )
    def test_an_invalid_response_is_named(self, turn, answer, text):
        with pytest.raises(ModelError, match=text):
            turn([answer])

    def test_an_error_with_calls_is_an_error_and_none_of_them_runs(self, turn):
        failed = ModelResponse([ADD], "error", error_message="the server broke")
        with pytest.raises(ModelError, match="the server broke") as caught:
            turn([failed])
        assert results(caught.value.outcome) == [("c1", "cut_off")]


class TestRetries:
    @pytest.mark.parametrize("longest", [60.0, None])
    def test_a_request_that_failed_temporarily_is_sent_again(self, turn, longest):
        events = []
        steps = [ModelError("slow down", status=429, retryable=True, retry_after=0.01), "ok"]
        assert turn(steps, listener=events.append, limits=TurnLimits(longest_pause=longest))[0].text == "ok"
        (retry,) = (event for event in events if isinstance(event, ModelRetried))
        assert (retry.attempt, retry.cause) == (1, "slow down")

    @pytest.mark.parametrize(
        "errors",
        [
            [ModelError("busy", retryable=True, retry_after=0.001)] * 2,
            [ModelError("busy", retryable=True, retry_after=3600)],
            [ModelError("busy", status=401)],
        ],
        ids=["twice", "too long a pause", "permanent"],
    )
    def test_a_repeated_or_permanent_failure_or_too_long_a_pause_fails_the_turn(self, turn, errors):
        with pytest.raises(ModelError, match="busy"):
            turn(errors, limits=TurnLimits(retries=1))
