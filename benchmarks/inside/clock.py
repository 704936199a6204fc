"""Timing by processor time, each short batch beside a batch of bare Python.

A shared machine's speed changes within seconds, so a figure of one process says little beside that of another.
The ratio of two batches that ran one after the other within milliseconds says much: it is what is kept.
"""

from __future__ import annotations

import statistics
import time

BATCH_SECONDS = 0.004


async def batch(action, times):
    """Processor and wall seconds of one run of `action`, on the average of `times`."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        await action()
    return (time.process_time() - cpu) / times, (time.perf_counter() - wall) / times


async def fitting(action):
    """How often `action` runs in about 4 ms."""
    _, once = await batch(action, 3)
    return max(1, min(1000, int(BATCH_SECONDS / max(once, 1e-7))))


async def duel(action, floor, rounds, *, warm=20, by="cpu"):
    """Runs both in turns; the median over the rounds, each round beside the floor's batches before and after it.

    Args:
        action: A coroutine function: what is measured.
        floor: A coroutine function: bare Python doing the same.
        rounds: How many batches of each.
        warm: How often both run before.
        by: What the floor is counted in: "cpu", or "wall" where another process does the work.

    Returns:
        `cpu_us` and `wall_us` of one action, `floor_us` of one floor, and `x_floor`.
    """
    await batch(action, warm)
    await batch(floor, warm)
    times, floor_times = await fitting(action), await fitting(floor)
    counted = ("cpu", "wall").index(by)
    samples, floors = [], [(await batch(floor, floor_times))[counted]]
    for _ in range(rounds):
        samples.append(await batch(action, times))
        floors.append((await batch(floor, floor_times))[counted])
    cpus, walls = zip(*samples, strict=True)
    return {
        "cpu_us": statistics.median(cpus) * 1e6,
        "wall_us": statistics.median(walls) * 1e6,
        "floor_us": statistics.median(floors) * 1e6,
        "x_floor": statistics.median(ratios(walls if by == "wall" else cpus, floors)),
    }


def ratios(values, floors):
    """Each value over the mean of the floors before and after it."""
    return [2 * value / (floors[number] + floors[number + 1]) for number, value in enumerate(values)]
