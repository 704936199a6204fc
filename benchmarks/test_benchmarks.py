"""The benchmarks run, at sizes far too small for meaningful figures."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fake_vendors.rules.exporters import EXPORTERS

BENCHMARKS = Path(__file__).resolve().parent
INSIDE = BENCHMARKS / "inside"
ADAPTERS = sorted(path.stem for path in (INSIDE / "adapters").glob("*.py"))


FORMATS = {"floor": {"openai"}, "pegboard": set(EXPORTERS) - {"mcp"}}  # of pegboard-mcp, with an SDK of its own


@pytest.fixture
def harness(monkeypatch):
    """Imports a module of the harness, whose modules are scripts in folders."""
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
    harness("many").ROUNDS = 2
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
        ("call", 1, {"async", "trivial", "plain", "inline"}),
        ("flood", 5, {"cpu_us", "floor_us", "x_floor"}),
        ("dispatch", 5, {"cpu_us", "floor_us", "x_floor"}),
        ("keyed", 130, {"cpu_us", "floor_us", "x_floor", "few_cpu_us", "few_x_floor"}),
        ("lasting", 200, {"grown_kib", "peak_kib", "kept_bytes"}),
        ("export", 20, None),
    ],
)
def test_each_group_gives_its_numbers(measure, adapter, group, size, keys):
    assert measure(adapter, group, size).keys() == (keys or FORMATS[adapter])


@pytest.mark.parametrize(
    ("group", "keys"),
    [
        ("laden", {"nothing", "rules", "declared", "path", "callbacks", "events", "everything"}),
        (
            "parts",
            {
                *("one async call", "defining a tool", "refusing a wrong type inside"),
                *("a first export to Gemini", "a first export to gemini-schema"),
            },
        ),
        ("check", {"cpu_us", "wall_us", "floor_us", "x_floor"}),
        ("process", {"cpu_us", "wall_us", "floor_us", "x_floor"}),
        ("processed", {"cpu_us", "wall_us", "floor_us", "x_floor"}),
        ("searched", {"index", "query"}),
    ],
)
def test_a_group_that_an_adapter_does_not_support_is_left_out(measure, monkeypatch, group, keys):
    monkeypatch.syspath_prepend(str(INSIDE))
    assert measure("pegboard", group, 1).keys() == keys
    assert measure("floor", group, 1) is None


def test_rules_callbacks_and_observers_of_a_laden_call_run(harness, monkeypatch):
    """Otherwise the figure would be that of a plain call."""
    opened = harness("opened")
    adapter = opened.load(str(INSIDE / "adapters" / "pegboard.py"))
    seen = []

    async def before(tool):
        seen.append(f"before {tool.name}")

    async def after(tool):
        seen.append(f"after {tool.name}")

    async def observe(event):
        seen.append(event.type)

    for callback in (before, after, observe):
        monkeypatch.setattr(adapter, callback.__name__, callback)

    async def one_call():
        host, call = await opened.opened(adapter, "yielding", adapter.laden(("rules", "callbacks", "events")))
        with pytest.raises(ValueError, match="permission"):
            await call(json.dumps({"text": "a secret"}))
        await host.close()

    asyncio.run(one_call())

    assert seen.count("before find_orders_00007") == 2
    assert seen.count("after find_orders_00007") == 2
    ends = [each.removeprefix("call_") for each in seen if " " not in each]
    assert ends == ["pending", "running", "completed", "pending", "refused"]


@pytest.mark.parametrize(("part", "text"), [("declared", "a secret"), ("path", "/etc/passwd")])
def test_the_rule_about_a_declared_argument_applies(harness, part, text):
    """Otherwise the figure would be that of a call without rules."""
    opened = harness("opened")
    adapter = opened.load(str(INSIDE / "adapters" / "pegboard.py"))

    async def one_call():
        host, call = await opened.opened(adapter, "yielding", adapter.laden((part,)))
        with pytest.raises(ValueError, match="permission"):
            await call(json.dumps({"text": text}))
        await host.close()

    asyncio.run(one_call())


def test_the_instructions_of_a_call_are_counted_for_each_part_left_out():
    argv = [sys.executable, INSIDE / "counted.py", INSIDE / "adapters" / "pegboard.py", "ruled by a path"]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    found = [tuple(each) for each in json.loads(done.stdout).values()]
    parts = ("nothing", "readlink", "resolving", "matching", "all of these")
    assert found == [("one ruled by a path", part, calls) for part in parts for calls in (100, 400)]


def test_instructions_are_those_of_the_calls_by_which_two_processes_differ(harness, monkeypatch):
    module = harness("instructions")
    done = {"7": ["a call", "nothing", 100], "8": ["a call", "nothing", 400], "9": ["a call", "x", 100]}
    done |= {"10": ["a call", "x", 400]}
    counts = {"7": "1,000,000", "8": "31,000,000", "9": "1,000,000", "10": "16,000,000", "1": "99,000,000"}
    told = "".join(f"=={process}== I   refs:      {count}\n" for process, count in counts.items())
    ended = subprocess.CompletedProcess([], 0, json.dumps(done), told)
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: ended)

    found = module.counted(Path(sys.executable), "")

    assert found == {"a call": {"nothing": 100.0, "x": 50.0}}
    assert list(module.rows(found)) == [("a call", "nothing", "100.0", ""), ("a call", "x", "50.0", "50.0")]


def test_file_tools_are_measured_beside_ripgrep(harness):
    found = harness("files").in_files(200, 1)

    assert list(found) == [f"{what} 200 files" for what in ("grep a word in", "grep an expression in", "glob a few of")]
    assert all(each.keys() == {"theirs_wall_ms", "theirs_cpu_ms", "wall_ms", "cpu_ms"} for each in found.values())
    reading = harness("figures").in_files("glob a few of 200 files")({"files": found})
    assert (
        reading.value == found["glob a few of 200 files"]["cpu_ms"] / found["glob a few of 200 files"]["theirs_cpu_ms"]
    )


def test_a_declared_rule_is_held_against_the_call_without_rules(harness):
    figures = harness("figures")
    ours = {
        part: {"cpu_us": us, "floor_us": 10.0, "x_floor": us / 10} for part, us in (("nothing", 20.0), ("path", 50.0))
    }

    reading = figures.over("laden", ["path"], ["laden", "nothing"])({"laden": {"pegboard": ours}})

    assert (reading.value, reading.ours) == (2.5, "50 us, beside 20")
    assert figures.over("laden", ["path"], ["laden", "nothing"])({}) is None


def test_the_modules_of_a_first_program_are_counted(harness):
    figures = harness("figures")
    read = figures.loaded_modules("import, define, call once")

    assert read({"modules": {"import, define, call once": {"modules": 200}}}).value == 200
    assert read({}) is None


def test_a_batch_that_mixes_up_its_answers_ends_the_measurement(harness):
    many = harness("many")
    texts = [json.dumps({**harness("workload").ARGUMENTS, "text": text}) for text in ("one", "other")]

    def answers(*words):
        return [json.dumps({**harness("workload").ANSWER, "text": word}) for word in words]

    many._check(answers("one", "other"), texts)
    with pytest.raises(AssertionError):
        many._check(answers("other", "one"), texts)


def test_a_group_without_peers_is_measured_with_pegboard_and_bare_python_only(harness, tmp_path):
    bench = harness("bench")
    pythons = {"pegboard": Path(sys.executable), "strands": Path(sys.executable)}
    made = bench.Bench(pythons, bench.QUICK, tmp_path)

    assert [name for name, *_ in made.adapters("lasting")] == ["floor", "pegboard"]
    assert [name for name, *_ in made.adapters("check")] == ["floor", "pegboard", "strands"]


def test_every_group_has_sizes(harness):
    bench, groups = harness("bench"), harness("measure").GROUPS
    assert set(bench.FULL.inside) == set(bench.QUICK.inside) == set(bench.FULL.repeated) == set(groups)


def test_the_growth_of_a_batch_is_the_ratio_of_two_sizes(harness):
    figures = harness("figures")
    ours = {"cpu_us": 60.0, "few_cpu_us": 40.0, "x_floor": 3.0, "few_x_floor": 2.0}
    reading = figures.keyed_growth({"keyed": {"pegboard": ours}})
    assert reading.value == 1.5
    assert reading.ours == "60 us after 40"
    assert figures.keyed_growth({}) is None


def test_memory_is_flat_below_a_mebibyte_and_a_byte_a_call(harness):
    figures, report = harness("figures"), harness("report")
    grown = {"grown_kib": 2048.0, "peak_kib": 2048.0, "kept_bytes": 0.4}

    rows = [report._goal_row(figure, {"lasting": {"pegboard": grown, "floor": grown}}) for figure in figures.FIGURES]

    assert [row[-2] for row in rows if row is not None] == ["**no**", "yes"]


def test_a_child_process_is_compared_by_wall_time(harness):
    figures = harness("figures")
    ours = {"cpu_us": 300.0, "wall_us": 900.0, "floor_us": 450.0, "x_floor": 2.0}

    reading = figures.far({"process": {"pegboard": ours, "slow": {"x_floor": 3.0}}})

    assert (reading.floor, reading.peer, reading.ours, reading.value) == ("450 us", "slow 3.00 x", "900 us", 2.0)
    assert figures.far({}) is None


def test_pegboard_refuses_every_bad_input_and_the_floor_none(measure):
    ours, floor = measure("pegboard", "refuse", 1), measure("floor", "refuse", 1)

    assert {each["verdict"] for each in ours.values()} == {"refused"}
    assert "refused" not in {each["verdict"] for each in floor.values()}


def test_every_adapter_has_the_members_that_the_readme_requires():
    for name in ADAPTERS:
        space = {}
        exec(compile((INSIDE / "adapters" / f"{name}.py").read_text(), name, "exec", dont_inherit=True), space)

        assert {"DISTRIBUTION", "IMPORT", "FLAVOUR", "Host"} <= space.keys()
        assert all(hasattr(space["Host"], method) for method in ("add", "half", "caller", "close"))


def test_every_peer_has_an_adapter_and_is_pinned_without_addresses(harness):
    peers = harness("peers").read_pins()

    assert {*peers, "floor"} == {*ADAPTERS, "servers"}
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
    """Without peers: plugins are made, commands are timed, and the page lists the goals that weren't measured."""
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


def test_a_short_soak_loses_nothing():
    command = [sys.executable, str(BENCHMARKS / "soak.py"), "--rounds", "3", "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert all(counts["reported"] >= 1 for counts in found["files"].values())
    assert found["batches"]["calls"] > 0


def test_the_servers_give_their_numbers(harness, tmp_path):
    run, python = harness("bench"), Path(sys.executable)
    bench = run.Bench({"pegboard": python}, run.QUICK, tmp_path)
    found = harness("served").served(bench, python, ("sdk", "pegboard"))
    assert found.keys() == {"sdk", "pegboard"}
    for parts in found.values():
        assert parts.keys() == {"start", "stdio", "list", "http", "crowd", "session"}


def test_commands_are_measured_beside_bare_processes():
    command = [sys.executable, str(BENCHMARKS / "commands.py"), "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("| command | ms | x the bare process |")
    assert "| a program that does nothing | " in done.stdout
