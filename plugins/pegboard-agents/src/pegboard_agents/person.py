"""The tools `ask_user` and `write_todos`, by which a model asks its user and shows its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from attrs import Factory, frozen

from pegboard import CallError, Confirmation, ToolContext, ToolError, ToolResult, tool
from pegboard.json import json_text
from pegboard.schema import validator_of

TODOS: Final = "todos"
"""The key of the list in the session's state."""

NO_PERSON: Final = (
    "The user can't be asked. Continue with the most likely answer and state your assumptions, "
    "or stop and say what you need to know."
)

ShortText = Annotated[str, {"minLength": 1, "maxLength": 500}]


@frozen
class Choice:
    """One answer to choose from.

    Attributes:
        label: Short text of the answer. Each option needs a different label.
        description: What choosing it means.
    """

    label: ShortText
    description: Annotated[str, {"maxLength": 500}] = ""


@frozen
class Question:
    """One question.

    Attributes:
        question: The complete question.
        options: Answers to choose from. Leave it empty for a free text answer.
        multiple: Set it to true to let the user choose several options.
    """

    question: ShortText
    options: Annotated[list[Choice], {"maxItems": 10}] = Factory(list[Choice])
    multiple: bool = False


@tool(title="Ask the user", read_only=True, open_world=False, tags=("needs-turn",))
async def ask_user(
    context: ToolContext, questions: Annotated[list[Question], "The questions, 1 to 4.", {"minItems": 1, "maxItems": 4}]
) -> ToolResult:
    """Ask the user up to 4 questions. Returns the answers.

    Use it when you need information or a decision from the user. Offer likely answers as options, your recommendation
    first. The user can always answer in other words.
    """
    form = _form(questions)
    try:
        answer = await context.request_confirmation(_words(questions), {"form": form})
    except CallError as error:
        if error.kind != "denied":
            raise
        return ToolResult.error("denied", NO_PERSON, detail=error.detail or error.text)
    return _result(questions, form, answer)


def _form(questions: Sequence[Question]) -> dict[str, Any]:
    """The JSON Schema of the answers, for the host's dialogue and the validation of its answer."""
    properties: dict[str, Any] = {}
    for number, question in enumerate(questions, 1):
        labels = [choice.label for choice in question.options]
        if len(set(labels)) < len(labels):
            raise ToolError(f"questions.{number - 1}.options: each option needs a different label.")
        one: dict[str, Any] = {"type": "string", **({"enum": labels} if labels else {})}
        many = {"type": "array", "items": one, "uniqueItems": True}
        first: dict[str, Any] = {"default": labels[:1] if question.multiple else labels[0]} if labels else {}
        properties[f"answer{number}"] = {
            "title": question.question,
            **(many if question.multiple and labels else one),
            **first,
        }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _words(questions: Sequence[Question]) -> str:
    """The questions with their options in one line, for a dialogue without forms."""
    parts: list[str] = []
    for question in questions:
        options = [
            f"{each.label} ({each.description})" if each.description else each.label for each in question.options
        ]
        how = "choose some of" if question.multiple else "choose"
        parts.append(f"{question.question} [{how}: {', '.join(options)}]" if options else question.question)
    return " / ".join(parts)


def _result(questions: Sequence[Question], form: Mapping[str, Any], answer: Confirmation) -> ToolResult:
    """The user's answer, for the model."""
    if not answer.confirmed:
        words = f"answered in other words: {answer.feedback}" if answer.feedback else "declined to answer"
        facts: Any = {"answers": {}, "words": answer.feedback, "answered": answer.feedback is not None}
        return ToolResult(f"The user {words}.", facts)  # pyright: ignore[reportArgumentType]  converted
    given: Any = answer.payload
    if is_plain := given == {"form": form}:  # a yes, from a dialogue without forms
        given = {name: each["default"] for name, each in form["properties"].items() if "default" in each}
        if not given:
            facts: Any = {"answers": {}, "words": "yes", "answered": True}
            return ToolResult("The user answered: yes.", facts)  # pyright: ignore[reportArgumentType]  converted
    text = json_text(dict(form))
    problems = validator_of(text).problems(given) if isinstance(given, dict) else ("(root): must be an object",)
    if problems:
        raise ToolError(f"The answer doesn't match the questions ({problems[0]}). Ask again.")
    answers: dict[str, Any] = {
        question.question: given[f"answer{number}"] for number, question in enumerate(questions, 1)
    }
    lines = [f"{text}\n{each if isinstance(each, str) else ', '.join(each)}" for text, each in answers.items()]
    facts: Any = {"answers": answers, "words": "yes" if is_plain else None, "answered": True}
    head = (
        "The user answered yes, so the first option of each question is chosen:" if is_plain else "The user answered:"
    )
    return ToolResult(f"{head}\n" + "\n\n".join(lines), facts)  # pyright: ignore[reportArgumentType]  converted


@frozen
class Todo:
    """One task.

    Attributes:
        content: What to do.
        status: State of the task.
        priority: Priority of the task.
    """

    content: ShortText
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


@tool(title="Write the todo list", read_only=True, idempotent=True, open_world=False, tags=("needs-turn",))
def write_todos(
    context: ToolContext, todos: Annotated[list[Todo], "The complete list, in order.", {"maxItems": 100}]
) -> ToolResult:
    """Create or replace the task list shown to the user. Returns the number of tasks by status.

    Use it for work of three or more steps. Call it again with the complete list when you start or finish a task. Keep
    one task in progress at a time, and mark it completed as soon as it is done.
    """
    counts = Counter(todo.status for todo in todos)
    listed = [{"content": each.content, "status": each.status, "priority": each.priority} for each in todos]
    context.state[TODOS] = listed
    context.metadata(f"{counts['completed']} of {len(todos)} done", todos=listed)
    summary = ", ".join(f"{number} {status}" for status, number in counts.items()) or "empty"
    more = "" if counts["in_progress"] < 2 else " More than one task is in progress: work on one at a time."
    return ToolResult(f"Task list updated: {summary}.{more}", {"todos": listed})  # pyright: ignore[reportArgumentType]  converted
