"""Check of a resolution by callbacks, such as a lock's, which may leave tools out."""

from __future__ import annotations

from typing import Any, Final

from attrs import evolve

from pegboard.dispatch.callbacks import Chain, title_of
from pegboard.errors import log_failure
from pegboard.tools.spec import Problem
from pegboard.toolsets.resolve import ResolvedTools

_STEP: Final = "checked"
_SUBJECT: Final = "check of tools"


async def check_tools(
    resolved: ResolvedTools, chain: Chain, config: Any, *, required: str | None = None, missing: str | None = None
) -> ResolvedTools:
    """The tools that all `check_tools` callbacks leave of those with resolved names; a failed one is a problem.

    `required` is a plugin without whose check no tool passes, nor after a failed check; `missing` says why it doesn't
    check. `config` is what the registry was loaded with.
    """
    failures = [] if missing is None else [missing]
    for link in chain:
        try:
            answer = await chain.ask(link, resolved, config)
            resolved = resolved if answer is None else _check(answer, resolved)
        except Exception as error:  # noqa: BLE001  of any kind that a callback raises
            cause = error.__cause__ or error
            log_failure(title_of(link), cause)
            failures.append(f"{link.owner} couldn't check the tools: {cause}")
    if not failures:
        return resolved
    if required is not None:
        why = f"[{required}] required = true"
        resolved = resolved.without(_STEP, dict.fromkeys(resolved.names, f"{why}: {failures[0]}"))
        failures = [f"no tool is offered, as {why}: {each}" for each in failures]
    return evolve(resolved, problems=(*resolved.problems, *(Problem(each, subject=_SUBJECT) for each in failures)))


def _check(answer: Any, before: ResolvedTools) -> ResolvedTools:
    """The answer of a callback; raises `TypeError` or `ValueError` for another than it may give."""
    if type(answer) is not ResolvedTools:
        raise TypeError(f"answered {type(answer).__name__}; it may answer ResolvedTools or None")
    if len({*answer.names}) < len(answer) or not {*answer.names} <= {*before.names}:
        raise ValueError("its answer has tools of other names, or several of one")
    return answer
