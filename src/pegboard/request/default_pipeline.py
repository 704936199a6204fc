"""`DEFAULT_PIPELINE`: the steps that come with pegboard, in the order in which they stand."""

from __future__ import annotations

from typing import Any, Final

from pegboard.errors import RegistrationError
from pegboard.request.pipeline import built_in
from pegboard.request.processor import Processor
from pegboard.request.processors.budget_tools import BudgetTools
from pegboard.request.processors.instructions import instructions
from pegboard.request.processors.limit_results import LimitResults
from pegboard.request.processors.pack_tools import pack_tools
from pegboard.request.processors.repair_history import repair_history
from pegboard.request.processors.tool_requests import tool_requests
from pegboard.tools.origin import HOST

DEFAULT_PIPELINE: Final = built_in(
    ("tool_requests", tool_requests),
    ("instructions", instructions),
    # here stands what plugins and the host bring
    ("repair_history", repair_history),
    ("limit_results", LimitResults()),
    ("budget_tools", BudgetTools()),
    ("pack_tools", pack_tools),
)


def check_processor(name: str, thing: Any) -> None:
    """Refuses what can't hang on the board as a processor.

    Raises:
        RegistrationError: A built-in one has the name, or the function takes something that there isn't, or is none.
    """
    if name in DEFAULT_PIPELINE:
        raise RegistrationError(
            f"processor {name!r} is taken: pegboard has one; registry.pipeline.replace puts another there"
        )
    Processor.of(name, thing, HOST)


__all__ = ["DEFAULT_PIPELINE", "check_processor"]
