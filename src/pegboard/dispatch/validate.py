"""The stages `validate` and `revalidate`: the schema judges the arguments, then the tool's own check."""

from __future__ import annotations

from pegboard.dispatch.failure import detail_of
from pegboard.dispatch.work import CallError, Work
from pegboard.tools.problem import MOST_PROBLEMS
from pegboard.tools.tool import Tool


def validate(work: Work) -> None:
    """Judges `work.arguments`.

    Raises:
        CallError: `invalid_arguments`, with every problem.
    """
    tool, arguments = work.tool, work.arguments
    assert tool is not None
    # The short way is for what a strict parser has made; the judge looks at anything else with more care.
    if not (work.parsed and tool.judge.accepts(arguments)) and (problems := tool.judge.problems(arguments)):
        raise refusal(tool, problems)
    if tool.checks is not None and (problems := tuple(tool.checks(arguments) or ())[:MOST_PROBLEMS]):
        raise refusal(tool, problems)


def revalidate(work: Work) -> None:
    """Judges again what a callback changed."""
    if work.changed:
        validate(work)


def refusal(tool: Tool, problems: tuple[str, ...]) -> CallError:
    """The error that lists what is wrong with the arguments, in the tool's own words where it has some."""
    detail = None
    if tool.format_validation_error is not None:
        try:
            return CallError("invalid_arguments", f"{tool.format_validation_error(problems)}", problems=problems)
        except Exception as error:  # noqa: BLE001  its wording failed; the problems are still what they are
            detail = detail_of(error)
    listed = "\n".join(f"- {problem}" for problem in problems)
    text = f"Invalid arguments for {tool.name}:\n{listed}\nCorrect them and call the tool again."
    return CallError("invalid_arguments", text, detail=detail, problems=problems)
