"""Events on their way: those who can wait are held up, and nothing is lost."""

from __future__ import annotations

import asyncio

from pegboard.turn import events
from pegboard.turn.events import EventQueue


async def test_who_can_wait_is_held_up_until_there_is_room(monkeypatch):
    monkeypatch.setattr(events, "_MOST_WAITING", 2)
    box = EventQueue()
    box.put_nowait(1)
    box.put_nowait(2)
    held = asyncio.ensure_future(box.put(3))
    await asyncio.sleep(0)
    assert not held.done()
    assert await box.get() == 1
    await held
    assert [await box.get(), await box.get()] == [2, 3]


def test_who_can_not_wait_is_never_held_up(monkeypatch):
    monkeypatch.setattr(events, "_MOST_WAITING", 1)
    box = EventQueue()
    for number in range(5):
        box.put_nowait(number)
    assert [asyncio.run(box.get()) for _ in range(5)] == [0, 1, 2, 3, 4]
