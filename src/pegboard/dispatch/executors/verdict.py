"""What a call in a child process comes to: the response where it answered, and what is said where it didn't."""

from __future__ import annotations

import signal

from pegboard.dispatch.executors.conversation import Ended, Ending
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.dispatch.executors.response import ExecutionResponse


def response_for(ended: Ended, request: ExecutionRequest, code: int | None, printed: str) -> ExecutionResponse:
    """The response for a call whose child did not answer.

    Args:
        ended: How the conversation ended.
        request: The call.
        code: The child's exit code, below 0 the number of a signal; `None` where it had to be killed.
        printed: The end of what the child printed.
    """
    name, said = request.tool, f"\nIt printed last:\n{printed}" if printed else ""
    if ended.ending is Ending.TIMED_OUT:
        text = f"{name} gave no result within {request.timeout:g} s. Its process was ended."
        return ExecutionResponse.failed("timeout", text, detail=f"the child process was ended at the limit.{said}")
    if ended.ending is Ending.STOPPED:
        return ExecutionResponse.failed("aborted", f"{name} was aborted. Its process was ended.")
    if ended.ending is Ending.NOT_STARTED:
        text = f"{name} was not run: its process could not be started."
        return ExecutionResponse.failed("crashed", text, detail=f"the child process {how_it_ended(code)}.{said}")
    if ended.ending is Ending.STALE:
        text = f"{name} has changed since it was loaded and was not run."
        return ExecutionResponse.failed("tool_failure", text, detail=f"{ended.reason}; start the program again")
    text = f"{name} crashed. What it had done by then may stand; the same call may crash again."
    cause = f"the child process {how_it_ended(code)}"
    if ended.reason is not None:
        cause = f"the child process was ended: {ended.reason}"
    return ExecutionResponse.failed("crashed", text, detail=f"{cause}.{said}")


def how_it_ended(code: int | None) -> str:
    """`"was ended by signal 11 (SIGSEGV)"`, `"ended with exit code 3"`, ..."""
    if code is None:
        return "hung up and had to be killed"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was ended by signal {-code}"


def with_printed(response: ExecutionResponse, tool: str, printed: str) -> ExecutionResponse:
    """Tells the operator what a call printed: in the detail of its error, else by the logger `pegboard` (`INFO`)."""
    if not printed:
        return response
    if response.is_error:
        return response.evolve(detail=f"{response.detail or ''}\nIt printed last:\n{printed}".lstrip())
    import logging

    logging.getLogger("pegboard").info("%s printed:\n%s", tool, printed)
    return response
