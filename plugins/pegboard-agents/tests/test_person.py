"""The tools `ask_user` and `write_todos`."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio

import pytest

from pegboard import Once, PendingCalls, Permissions, ReadonlyContext, Reject, ToolCall, ToolContext, ToolRegistry
from pegboard.approval import ask_later
from pegboard_agents import ask_user, write_todos
from pegboard_agents.person import NO_PERSON

COLOUR = {"question": "Which colour?", "options": [{"label": "red", "description": "as fire"}, {"label": "blue"}]}
NAME = {"question": "Your name?"}


def registry():
    made = ToolRegistry()
    made.register(ask_user, write_todos)
    return made


def ask(answer, *questions):
    """The result of asking a user who gives this answer."""
    calls = [ToolCall("ask_user", {"questions": list(questions)}, "1")]
    outcome = asyncio.run(registry().dispatch(calls, approver=lambda *_: answer))
    return outcome.results[0]


def test_the_person_sees_the_questions_and_the_form_of_the_answers():
    seen = []
    calls = [ToolCall("ask_user", {"questions": [COLOUR, NAME, {**COLOUR, "multiple": True}]}, "1")]

    def approver(request, _context):
        seen.append(request)
        return Reject("no")

    asyncio.run(registry().dispatch(calls, approver=approver))
    (request,) = seen
    assert request.hint == (
        "Which colour? [choose: red (as fire), blue] / Your name? / Which colour? [choose some of: red (as fire), blue]"
    )
    properties = request.payload["form"]["properties"]
    assert properties["answer1"] == {
        "title": "Which colour?",
        "type": "string",
        "enum": ["red", "blue"],
        "default": "red",
    }
    assert properties["answer2"] == {"title": "Your name?", "type": "string"}
    assert properties["answer3"]["items"]["enum"] == ["red", "blue"]


def test_the_answers_are_for_the_model_by_question():
    result = ask(Once({"answer1": "blue", "answer2": "Ada"}), COLOUR, NAME)
    assert result.structured_content["answers"] == {"Which colour?": "blue", "Your name?": "Ada"}
    assert "Which colour?\nblue" in result.text
    assert ask(Once({"answer1": ["red", "blue"]}), {**COLOUR, "multiple": True}).text.endswith("red, blue")


@pytest.mark.parametrize(
    ("answer", "text", "answered"),
    [
        (Reject("green, please"), "The user answered in other words: green, please.", True),
        (Reject(), "The user declined to answer.", False),
        (Once(), "The user answered yes, so the first option of each question is chosen:\nWhich colour?\nred", True),
    ],
)
def test_free_text_no_answer_and_a_plain_yes_are_answers(answer, text, answered):
    result = ask(answer, COLOUR)
    assert (result.text, result.is_error) == (text, False)
    assert result.structured_content["answered"] is answered


def test_a_plain_yes_takes_the_first_options():
    many = ask(Once(), COLOUR, {**COLOUR, "question": "Which else?", "multiple": True})
    assert many.structured_content["answers"] == {"Which colour?": "red", "Which else?": ["red"]}
    assert ask(Once(), {"question": "May I?"}).text == "The user answered: yes."
    assert "doesn't match the questions" in ask(Once(), COLOUR, NAME).text


@pytest.mark.parametrize("payload", [{"answer1": "green"}, {"answer2": "red"}, "red", {"answer1": ["red"]}, {}])
def test_an_invalid_answer_is_refused(payload):
    assert "doesn't match the questions" in ask(Once(payload), COLOUR).text


@pytest.mark.parametrize("permissions", [Permissions(), Permissions(mode="never_ask")])
def test_without_a_user_to_ask_the_model_gets_advice(permissions):
    given = registry()
    given.permissions = permissions
    result = asyncio.run(given.call("ask_user", {"questions": [NAME]}))
    assert (result.kind, result.text) == ("denied", NO_PERSON)
    assert "ask_user" in result.detail


def test_options_have_labels_of_their_own_and_questions_are_few():
    assert "different label" in ask(Once(), {"question": "?", "options": [{"label": "a"}, {"label": "a"}]}).text
    assert ask(Once()).kind == "invalid_arguments"
    assert ask(Once(), *[NAME] * 5).kind == "invalid_arguments"


def test_the_answer_may_come_later_in_another_process():
    context = ReadonlyContext(session="s")
    calls = [ToolCall("ask_user", {"questions": [COLOUR]}, "1")]
    outcome = asyncio.run(registry().dispatch(calls, None, context, approver=ask_later))
    pending = PendingCalls.loads(outcome.pending.dumps())
    answers = {call.id: Once({"answer1": "red"}) for call in pending}
    resumed = asyncio.run(registry().resume(pending, answers, None, context))
    assert resumed.results[0].text == "The user answered:\nWhich colour?\nred"


# The todo list -------------------------------------------------------------------------------------------------------


def test_the_todo_list_is_stored_in_the_state_and_displayed():
    todos = [{"content": "read", "status": "completed"}, {"content": "write"}]
    outcome = asyncio.run(registry().dispatch([ToolCall("write_todos", {"todos": todos}, "1")]))
    written = [
        {"content": "read", "status": "completed", "priority": "medium"},
        {"content": "write", "status": "pending", "priority": "medium"},
    ]
    (result,) = outcome.results
    assert (result.text, result.title) == ("Task list updated: 1 completed, 1 pending.", "1 of 2 done")
    assert outcome.actions.state_delta == {"todos": written}
    assert result.metadata["todos"] == written


def test_several_in_progress_are_remarked_and_an_unknown_status_is_refused():
    context = ToolContext()
    doing = [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}]
    assert "work on one at a time" in asyncio.run(registry().call("write_todos", {"todos": doing}, context)).text
    bad = asyncio.run(registry().call("write_todos", {"todos": [{"content": "a", "status": "done"}]}))
    assert bad.kind == "invalid_arguments"
    assert asyncio.run(registry().call("write_todos", {"todos": []})).text == "Task list updated: empty."
