"""The benchmarks work, at sizes far too small to say anything."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
INSIDE = BENCHMARKS / "inside"
ADAPTERS = sorted(path.stem for path in (INSIDE / "adapters").glob("*.py"))


@pytest.fixture
def harness(monkeypatch):
    """Imports a module of the harness; its modules stand in folders, as scripts do."""
    before = set(sys.modules)
    for folder in (BENCHMARKS, INSIDE):
        monkeypatch.syspath_prepend(str(folder))
    yield __import__
    for name in set(sys.modules) - before:
        place = str(getattr(sys.modules[name], "__file__", ""))
        if str(BENCHMARKS) in place or name.startswith("measured_"):
            del sys.modules[name]


@pytest.fixture
def measure(harness):
    """Measures one group with one adapter, in this process."""
    module = harness("measure")
    return lambda adapter, group, size: asyncio.run(
        module.GROUPS[group](module.load(str(INSIDE / "adapters" / f"{adapter}.py")), size)
    )


@pytest.mark.parametrize("adapter", ["floor", "pegboard"])
@pytest.mark.parametrize(
    ("group", "size", "keys"),
    [
        ("define", 50, {"cpu_us", "floor_us", "x_floor"}),
        ("resident", 5, {"defined_kib", "called_kib"}),
        ("half", 20, {"first_ms", "again_ms", "floor_ms", "first_x_floor", "again_x_floor", "first_x_again"}),
        ("call", 1, {"async", "plain", "inline"}),
        ("flood", 5, {"cpu_us", "floor_us", "x_floor"}),
    ],
)
def test_each_group_gives_its_numbers(measure, adapter, group, size, keys):
    assert measure(adapter, group, size).keys() == keys


def test_pegboard_refuses_every_bad_input_and_the_floor_none(measure):
    ours, floor = measure("pegboard", "refuse", 1), measure("floor", "refuse", 1)

    assert {each["verdict"] for each in ours.values()} == {"refused"}
    assert "refused" not in {each["verdict"] for each in floor.values()}


def test_every_adapter_says_what_the_readme_asks_of_it():
    for name in ADAPTERS:
        space = {}
        exec(compile((INSIDE / "adapters" / f"{name}.py").read_text(), name, "exec", dont_inherit=True), space)

        assert {"DISTRIBUTION", "IMPORT", "FLAVOUR", "Board"} <= space.keys()
        assert all(hasattr(space["Board"], method) for method in ("add", "half", "caller", "close"))


def test_every_peer_has_an_adapter_and_is_pinned_without_addresses(harness):
    peers = harness("peers").read_pins()

    assert {*peers, "floor"} == set(ADAPTERS)
    for peer in peers.values():
        assert peer.pins
        assert all(re.fullmatch(r"[a-z0-9-]+==[A-Za-z0-9.+]+", pin) for pin in peer.pins)


def test_pins_are_read_as_they_are_written(harness, tmp_path):
    module = harness("peers")
    path = tmp_path / "peers.txt"
    path.write_text((BENCHMARKS / "peers.txt").read_text())

    module.write_pins(module.read_pins(), path)

    assert path.read_text() == (BENCHMARKS / "peers.txt").read_text()


def test_one_quick_run_lists_starts_and_reports(tmp_path):
    """Without peers: plugins are made, commands timed, and the page says which goals weren't measured."""
    page, numbers = tmp_path / "page.md", tmp_path / "numbers.json"
    argv = [sys.executable, BENCHMARKS / "run.py", "--quick", "--python", sys.executable, "--peers", ""]
    argv += ["--groups", "start,command", "--output", page, "--json", numbers]

    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    results = json.loads(numbers.read_text())
    assert results["modules"]["`import pegboard`"]["heavy"] == []
    assert results["command"]["list --json, 5 plugins, warm"]["x_bare"] > 0
    assert "`registry --help`" in page.read_text()
    assert "not measured" in page.read_text()


def test_a_goal_is_met_at_its_limit_and_missed_above(harness):
    report, figures = harness("report"), harness("figures")
    figure = figures.Figure("calls", figures.against_floor("call", ["async"]), "2 x", 2.0, held="parsing")

    def page(ratio):
        ours = {"cpu_us": 20.0, "floor_us": 10.0, "x_floor": ratio}
        return report._goal_row(figure, {"call": {"pegboard": {"async": ours}}})

    assert page(2.0)[-2:] == ("yes", "parsing")
    assert page(2.1)[-2:] == ("**no**", "parsing")
    assert report._goal_row(figure, {}) is None


def test_a_ratio_to_a_peer_is_that_of_their_ratios_to_the_floor(harness):
    figures = harness("figures")
    read = figures.against_peer(figures.DEFINE)
    found = {"pegboard": {"x_floor": 2.0, "cpu_us": 40.0}, "slow": {"x_floor": 16.0}, "quick": {"x_floor": 8.0}}

    reading = read({"define": found})

    assert reading.value == 0.25
    assert reading.ours == "40 us"
    assert read({"define": {}}) is None
