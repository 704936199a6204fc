"""`in_order`: results in the order of the calls that they answer."""

from __future__ import annotations

from collections.abc import Sequence

from pegboard.messages.message import ResultPart


def in_order(answers: Sequence[ResultPart], calls: Sequence[str]) -> list[ResultPart]:
    """The results in the order of the calls' ids; those of no call last, as they came.

    Args:
        answers: The results.
        calls: The calls' ids; one may stand there twice, and is then answered in order.
    """
    places: dict[str, list[int]] = {}
    for place in range(len(calls) - 1, -1, -1):
        places.setdefault(calls[place], []).append(place)
    placed = [(places[part.call_id].pop() if places.get(part.call_id) else len(calls), part) for part in answers]
    return [part for _, part in sorted(placed, key=lambda each: each[0])]


__all__ = ["in_order"]
