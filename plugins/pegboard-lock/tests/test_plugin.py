from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from installed import write
from pegboard import (
    Config,
    Once,
    Reject,
    Tool,
    ToolRegistry,
    ToolsetFunction,
    load,
    load_config,
    register_plugin,
    tool,
    tool_of,
)
from pegboard.config import trust
from pegboard_lock import (
    CodeDigests,
    Comparison,
    Lock,
    LockPlugin,
    Present,
    accept_toolset,
    lock_of,
    pins_of,
    read_lock,
    write_lock,
)


@tool(read_only=True)
def size(path: str) -> str:
    "Return the size of a file."
    return f"{len(path)}"


@tool(read_only=True)
def name(path: str) -> str:
    "Return its name."
    return path


SIZE, NAME = tool_of(size), tool_of(name)
_OLD = SIZE.with_spec(description="Old.")


@pytest.fixture
def make_registry(tmp_path):
    """Makes a registry with the lock of these tools, and settings."""

    def make_registry(*locked, tools=(SIZE, NAME), toolsets=(), **settings):
        if locked:
            lock = lock_of(Comparison(Lock(), tmp_path), Present(locked))
            write_lock(tmp_path / "pegboard.lock", lock, whole=True)
        registry = ToolRegistry()
        registry.contributions.config = Config(lock={"file": str(tmp_path / "pegboard.lock"), **settings})
        register_plugin(registry, LockPlugin, "lock")
        registry.register(*tools, *toolsets)
        return registry

    return make_registry


async def test_tools_as_locked_are_offered_without_a_problem(make_registry):
    resolved = await make_registry(SIZE, NAME).resolve()
    assert (resolved.names, resolved.problems) == (("name", "size"), ())


async def test_a_drifted_tool_is_held_back_with_the_commands_to_run(make_registry):
    registry = make_registry(SIZE.with_spec(description="Old."), NAME)
    resolved = await registry.resolve()
    assert resolved.names == ("name",)
    (problem,) = resolved.problems
    assert problem.tool == "size"
    assert 'wording: description was "Old."' in problem.cause
    assert "'registry diff size --functions test_plugin.py'" in problem.cause
    assert "'registry lock size --functions test_plugin.py'" in problem.cause
    assert "lock: wording" in str(resolved.explain("size"))
    assert "'registry lock size --functions" in str(resolved.explain("size"))


async def test_a_held_tool_cant_be_called(make_registry):
    registry = make_registry(SIZE.with_spec(description="Old."), NAME)
    assert (await registry.call("size", {"path": "a"})).kind == "not_offered"
    assert (await registry.call("name", {"path": "a"})).text == "a"
    assert (await registry.decide("size", {"path": "a"})).action == "deny"


async def test_an_added_tool_is_held_back_and_a_removed_one_reported(make_registry):
    resolved = await make_registry(SIZE, NAME.with_spec(name="gone")).resolve()
    assert resolved.names == ("size",)
    assert {problem.tool for problem in resolved.problems} == {"name", "gone"}


async def test_a_class_may_warn(make_registry):
    resolved = await make_registry(SIZE.with_spec(description="Old."), NAME, wording="warn").resolve()
    assert resolved.names == ("name", "size")
    assert "has changed: wording" in resolved.problems[0].cause


async def test_a_class_may_ask_and_each_call_shows_the_drift(make_registry):
    registry, asked = make_registry(SIZE.with_spec(description="Old."), NAME, wording="ask"), []

    def approver(request, _context):
        asked.append(request)
        return Once() if len(asked) == 1 else Reject()

    registry.approver = approver
    resolved = await registry.resolve()
    assert resolved.names == ("name", "size")
    first, second, third = [
        await registry.call(name, {"path": "abc"}, resolved=resolved) for name in ("size", "size", "name")
    ]
    assert (first.text, second.kind, third.text) == ("3", "rejected", "abc")
    assert len(asked) == 2
    assert 'description was "Old."' in asked[0].to_text()


@pytest.mark.parametrize("bind_grants", [False, True])
async def test_a_call_asks_for_what_had_drifted_when_its_tools_were_resolved(make_registry, tmp_path, bind_grants):
    registry = make_registry(SIZE.with_spec(description="Old."), NAME, wording="ask", bind_grants=bind_grants)
    resolved = await registry.resolve()
    asking, other = resolved.tools[1], resolved.tools[0]
    assert (registry.may_ask(asking), registry.may_ask(other)) == (True, False)
    write_lock(tmp_path / "pegboard.lock", lock_of(Comparison(Lock(), tmp_path), Present([SIZE, NAME])), whole=True)
    after = await registry.resolve()
    for tools, action in ((resolved, "ask"), (after, "allow")):
        assert (await registry.decide("size", {"path": "a"}, resolved=tools)).action == action


async def test_a_lazy_tool_asks_once_it_is_loaded(make_registry):
    lazy = Tool.lazy(SIZE.spec, lambda: size)
    registry = make_registry(lazy.with_spec(description="Old."), tools=[lazy], wording="ask")
    assert (await registry.call("size", {"path": "abc"})).kind == "denied"
    registry.approver = lambda *_: Once()
    assert (await registry.call("size", {"path": "abc"})).text == "3"


async def test_what_is_accepted_meanwhile_no_longer_asks(make_registry, tmp_path):
    registry = make_registry(SIZE.with_spec(description="Old."), NAME, wording="ask")
    await registry.resolve()
    assert (await registry.decide("size", {"path": "a"})).action == "ask"
    write_lock(tmp_path / "pegboard.lock", lock_of(Comparison(Lock(), tmp_path), Present([SIZE, NAME])), whole=True)
    assert (await registry.decide("size", {"path": "a"})).action == "allow"


async def test_without_a_lock_everything_is_offered(make_registry):
    assert (await make_registry().resolve()).names == ("name", "size")


async def _count_functions(registry) -> Counter[str]:
    """The functions of pegboard that a call without resolved tools enters, the second time."""
    assert (await registry.call("size", {"path": "abc"})).text == "3"
    entered: Counter[str] = Counter()

    def note(frame, event, _):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("pegboard"):
            entered[frame.f_code.co_qualname.partition(".<locals>.<")[0]] += 1

    sys.setprofile(note)
    try:
        await registry.call("size", {"path": "abc"})
    finally:
        sys.setprofile(None)
    return entered


async def test_without_a_lock_a_call_only_looks_whether_there_is_one(make_registry, tmp_path):
    plain, registry = ToolRegistry(), make_registry()
    plain.register(SIZE)
    more = await _count_functions(registry) - await _count_functions(plain)
    asked = {"ToolRegistry._is_checked", "ToolRegistry._load", "Contributions.unloaded"}
    asked |= {"Contributions.is_checked", "Catalogue.callbacks", "is_due"}
    assert {*more} == asked | {"LockPlugin._applies", "LockPlugin._read_settings", "let_pin"}
    assert not registry.may_ask(SIZE)
    write_lock(tmp_path / "pegboard.lock", lock_of(Comparison(Lock(), tmp_path), Present([NAME])), whole=True)
    assert (await registry.call("size", {"path": "abc"})).kind == "not_offered"


@pytest.mark.parametrize("content", [None, "{}", "<<<<<<< mine\n", "[" * 1_000])
async def test_without_a_usable_lock_that_is_required_nothing_is_offered(make_registry, tmp_path, content):
    if content is not None:
        (tmp_path / "pegboard.lock").write_text(content)
    registry = make_registry(required=True)
    resolved = await registry.resolve()
    assert resolved.names == ()
    assert "no tool is offered, as [lock] required = true: plugin 'lock' couldn't check" in resolved.problems[0].cause
    assert (await registry.call("size", {"path": "a"})).kind == "not_offered"


@pytest.mark.slow  # it looks for all installed plugins
async def test_a_plugin_that_fails_to_load_holds_all_tools_back_and_its_lock_accepts_nothing(
    make_registry, tmp_path, monkeypatch
):
    make_registry(SIZE)
    config = Config(lock={"file": str(tmp_path / "pegboard.lock"), "required": True}, enable=("lock",))
    accept_toolset(config, "web", None, [])
    monkeypatch.setitem(sys.modules, "pegboard_lock.plugin", None)
    registry = load(config=config)
    registry.register(SIZE)
    resolved = await registry.resolve()
    assert resolved.names == ()
    assert "plugin 'lock' is quarantined" in resolved.problems[0].cause
    assert pins_of(config, "web", None) is None


async def test_a_damaged_lock_that_isnt_required_is_a_problem(make_registry, tmp_path):
    (tmp_path / "pegboard.lock").write_text("{}")
    resolved = await make_registry().resolve()
    assert resolved.names == ("name", "size")
    assert "couldn't check the tools" in resolved.problems[0].cause


async def test_a_projects_lock_holds_back_before_it_is_trusted_and_with_required_accepts_nothing(
    make_registry, tmp_path
):
    registry = make_registry(SIZE.with_spec(description="Old."), NAME)
    (tmp_path / "pegboard.toml").touch()
    assert (await registry.resolve()).names == ("name",)
    strict = make_registry(required=True)
    resolved = await strict.resolve()
    assert resolved.names == ()
    assert "registry config trust" in resolved.problems[0].cause
    trust(tmp_path / "pegboard.lock")
    assert (await strict.resolve()).names == ("name",)


@pytest.mark.parametrize("content", [None, "{}", "locked"])
async def test_a_lock_that_isnt_trusted_doesnt_put_the_users_lock_out_of_effect(tmp_path, monkeypatch, content):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    own, project = tmp_path / "config" / "pegboard", tmp_path / "project"
    for folder in (own, project):
        folder.mkdir(parents=True)
        (folder / "pegboard.toml").touch()
    other = tool_of(name).with_spec(name="other")
    locks = [lock_of(Comparison(Lock(), own), Present([each, other, NAME])) for each in (_OLD, SIZE)]
    locks[1] = Lock({key: each for key, each in locks[1].tools.items() if key != "other"}, locks[1].distributions)
    write_lock(own / "pegboard.lock", locks[0], whole=True)
    if content is not None:
        (project / "pegboard.lock").write_text(locks[1].to_text() if content == "locked" else content)
    monkeypatch.chdir(project)
    registry = ToolRegistry()
    registry.contributions.config = load_config(project="search")
    register_plugin(registry, LockPlugin, "lock")
    registry.register(SIZE, NAME, other)
    resolved = await registry.resolve()
    assert resolved.names == (("name",) if content == "locked" else ("name", "other"))
    assert "wording" in str(resolved.explain("size"))
    assert ("damaged" in str(resolved.problems) or "format" in str(resolved.problems)) == (content == "{}")
    assert "no longer there" not in str(resolved.problems)
    trust(project / "pegboard.toml")
    registry.contributions.config = load_config(project="search")
    assert (await registry.resolve()).names == resolved.names, "the project's lock accepts nothing"
    if content == "locked":
        trust(project / "pegboard.lock")
        assert (await registry.resolve()).names == ("name", "size"), "it is the one in effect now"


@pytest.mark.parametrize("fault", ["a file of a long name", "a tool that can't be named", "a failure"])
async def test_whatever_a_projects_lock_has_the_users_lock_stays_in_effect(tmp_path, monkeypatch, fault):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own, project = tmp_path / "config" / "pegboard", tmp_path / "project"
    for folder in (own, project):
        write(folder / "pegboard.toml")
    write_lock(own / "pegboard.lock", lock_of(Comparison(Lock(), own), Present([_OLD, NAME])), whole=True)
    lock = lock_of(Comparison(Lock(), project), Present([SIZE, NAME, NAME.with_spec(name="gone")]))
    if fault == "a file of a long name":
        lock.tools["gone"]["distribution"] = f"file:{'a' * 5_000}"
    text = lock.to_text()
    if fault == "a tool that can't be named":
        text = text.replace('"gone"', '"go ne"')
    write(project / "pegboard.lock", text)
    if fault == "a failure":
        of_code = Comparison.of_code
        monkeypatch.setattr(Comparison, "of_code", lambda own, *more: 1 / (own.base != project) and of_code(own, *more))
    monkeypatch.chdir(project)
    registry = ToolRegistry()
    registry.contributions.config = load_config(project="search")
    register_plugin(registry, LockPlugin, "lock")
    registry.register(SIZE, NAME)
    resolved = await registry.resolve()
    assert resolved.names == ("name",)
    assert "wording" in str(resolved.explain("size"))
    assert str(project) in str(resolved.problems) or fault == "a file of a long name"


async def test_two_locks_are_compared_with_the_same_tools_also_where_grants_are_bound_to_code(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    own, project = tmp_path / "config" / "pegboard", tmp_path / "project"
    for folder in (own, project):
        write(folder / "pegboard.toml", "[lock]\nbind_grants = true\nwording = 'ask'\n")
        lock = lock_of(Comparison(Lock(), folder), Present([_OLD, NAME]))
        write(folder / "pegboard.lock", lock.to_text())
    monkeypatch.chdir(project)
    registry = ToolRegistry()
    registry.contributions.config = load_config(project="search")
    register_plugin(registry, LockPlugin, "lock")
    registry.register(SIZE, NAME)
    resolved = await registry.resolve()
    assert resolved.names == ("name", "size")
    assert [each.tool for each in resolved.problems if not each.note] == ["size"]
    assert [registry.may_ask(each) for each in resolved.tools] == [False, True]
    assert all(each.spec.meta for each in resolved.tools)


async def test_wrong_settings_are_a_problem(make_registry):
    resolved = await make_registry(SIZE, NAME, wordings="hold").resolve()
    assert "lock.wordings: unknown key. Did you mean 'wording'?" in resolved.problems[0].cause
    resolved = await make_registry(SIZE, NAME, wording="never").resolve()
    assert "wording" in resolved.problems[0].cause


async def test_a_toolset_whose_server_is_another_is_held_back(make_registry, tmp_path):
    class Server:
        name, identity = "web", {"command": "old"}

        def tools(self, context):
            return [SIZE]

    server = Server()
    registry = make_registry(tools=(), toolsets=(server,))
    resolved = await registry.resolve()
    from pegboard.toolsets import identity_of

    identities = {each.name: identity_of(each) for each in resolved.toolsets}
    lock = lock_of(Comparison(Lock(), tmp_path), Present(resolved.tools, identities, frozenset({"web"})))
    write_lock(tmp_path / "pegboard.lock", lock, whole=True)
    assert (await registry.resolve()).names == ("size",)
    server.identity = {"command": "new"}
    resolved = await registry.resolve()
    assert resolved.names == ()
    assert "toolset 'web' comes from another server" in resolved.problems[0].cause
    assert "'registry lock web --live'" in resolved.problems[0].cause
    server.tools = lambda _: []
    (problem,) = (await registry.resolve()).problems
    assert "toolset 'web' comes from another server" in problem.cause


async def test_a_tool_of_a_toolset_that_changes_between_two_requests_is_held_back_in_the_second(
    make_registry, tmp_path
):
    offered = [SIZE]
    registry = make_registry(tools=(), toolsets=(ToolsetFunction("web", lambda: list(offered)),))
    first = await registry.resolve()
    lock = lock_of(Comparison(Lock(), tmp_path), Present(first.tools, {"web": None}, frozenset({"web"})))
    write_lock(tmp_path / "pegboard.lock", lock, whole=True)
    first = await registry.resolve()
    offered[0] = SIZE.with_spec(description="New.")
    second = await registry.resolve()
    assert (first.names, second.names) == (("size",), ())
    assert (await registry.call("size", {"path": "abc"}, resolved=first)).text == "3"


async def test_many_changed_tools_are_held_back_with_few_problems(make_registry):
    many = [SIZE.with_spec(name=f"t{n}") for n in range(31)]
    wide = [each.with_spec(input_schema={"type": "object", "properties": {"path": {"minLength": 1}}}) for each in many]
    registry = make_registry(*many, tools=wide)
    resolved = await registry.resolve()
    assert (resolved.names, len(resolved.problems)) == ((), 21)
    assert "11 more problems" in resolved.problems[-1].cause


async def test_the_search_for_values_ends_in_time_however_many_tools_have_changed(make_registry, monkeypatch):
    """Else the check would take too long, and a check that isn't required and fails holds nothing back."""
    from pegboard_lock import check, compare

    monkeypatch.setattr(check, "_SECONDS", -1.0)
    monkeypatch.setattr(compare, "_values", lambda *_: pytest.fail("values are sought"))
    many = [SIZE.with_spec(name=f"t{n}") for n in range(300)]
    wide = [each.with_spec(input_schema={"type": "object", "properties": {"path": {"minLength": 1}}}) for each in many]
    resolved = await make_registry(*many, tools=wide).resolve()
    assert resolved.names == ()
    assert "incompatible: no value was found" in resolved.problems[0].cause


async def test_a_comparison_that_takes_all_the_time_is_made_once_and_the_next_one_later(make_registry, monkeypatch):
    from pegboard_lock import check, drift

    compared, now = [], [100.0]

    def compare_slowly(_old, _new, deadline):
        compared.append(deadline > now[0])
        now[0] = deadline + 1

    monkeypatch.setattr(check, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(drift, "compare_arguments", compare_slowly)
    registry = make_registry(*(each.with_spec(description="Old.") for each in (SIZE, NAME)))
    for expected in ([True, False], [True], []):
        assert (await registry.resolve()).names == ()
        assert compared == expected
        compared.clear()


async def test_grants_may_be_bound_to_the_code(tmp_path):
    file = tmp_path / "fns.py"
    file.write_text("def double(n: int) -> str:\n    return str(2 * n)\n")

    def double():
        code = compile(file.read_text(), str(file), "exec")
        names = {}
        exec(code, names)
        return names["double"]

    digests = []
    for text in ("2 * n", "3 * n"):
        file.write_text(f"def double(n: int) -> str:\n    return str({text})\n")
        registry = ToolRegistry()
        lock_file = tmp_path / "pegboard.lock"
        registry.contributions.config = Config(lock={"file": str(lock_file), "bind_grants": True})
        register_plugin(registry, LockPlugin, "lock")
        registry.register(double())
        write_lock(lock_file, lock_of(Comparison(Lock(), tmp_path), Present(registry.tools())), whole=True)
        resolved = await registry.resolve()
        assert resolved.tools is not (await registry.resolve()).tools
        assert resolved.tools[0] is (await registry.resolve()).tools[0]
        assert (await registry.call("double", {"n": 2}, resolved=resolved)).text in ("4", "6")
        digests.append(resolved.tools[0].digest)
        assert registry.get("double").digest not in digests
    assert digests[0] != digests[1]


async def test_grants_are_bound_to_the_code_of_a_toolset_too(make_registry, tmp_path):
    folder = tmp_path / "tools"

    class Commands:
        name, identity = "mine", {"code": [str(folder)]}

        def tools(self, context):
            return [SIZE]

    digests = set[str]()
    for text in ("1", "22", "1"):
        write(folder / "size.sh", text)
        resolved = await make_registry(NAME, tools=(), toolsets=(Commands(),), added="warn", bind_grants=True).resolve()
        digests.add(resolved.tools[0].digest)
    assert len(digests) == 2


async def test_a_lock_that_changes_under_its_old_time_and_size_is_read_again(make_registry, tmp_path):
    file, registry = tmp_path / "pegboard.lock", make_registry(SIZE, NAME)
    assert (await registry.resolve()).names == ("name", "size")
    facts = file.stat()
    other = lock_of(
        Comparison(Lock(), tmp_path), Present([SIZE.with_spec(description="Return the size of a FILE."), NAME])
    )
    with file.open("r+") as opened:
        opened.write(other.to_text())
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    while file.stat().st_ctime_ns == facts.st_ctime_ns:  # the system's clock has coarse steps
        file.chmod(0o600)
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (facts.st_size, facts.st_mtime_ns)
    assert (await registry.resolve()).names == ("name",)


def test_unchanged_tools_are_checked_without_comparing_any_again(make_registry, monkeypatch):
    """The shape of its cost: one look at the file, one for each tool."""
    many = [SIZE.with_spec(name=f"t{n}") for n in range(200)]
    registry = make_registry(*many, tools=many)
    assert len(asyncio.run(registry.resolve())) == 200
    from pegboard_lock import check, plugin

    monkeypatch.setattr(check, "drift_of", lambda *_: pytest.fail("compared again"))
    monkeypatch.setattr(plugin, "read_lock", lambda *_: pytest.fail("read again"))
    assert len(asyncio.run(registry.resolve())) == 200


async def test_code_that_changes_holds_every_tool_of_its_distribution_and_a_version_warns(make_registry, tmp_path):
    file = tmp_path / "fns.py"
    file.write_text("def double(n: int) -> int:\n    return 2 * n\n")
    names = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    double = Tool.from_function(names["double"])
    registry = make_registry(double, NAME, tools=(names["double"], NAME))
    assert (await registry.resolve()).names == ("double", "name")
    file.write_text("def double(n: int) -> int:\n    return 3 * n\n")
    again = make_registry(tools=(names["double"], NAME))
    resolved = await again.resolve()
    assert resolved.names == ("name",)
    assert "code: the code of file:fns.py has changed" in resolved.problems[0].cause
    assert "'registry lock file:fns.py --functions fns.py'" in resolved.problems[0].cause
    lock = read_lock(tmp_path / "pegboard.lock")[0]
    entry = {**CodeDigests(tmp_path).entry("file:fns.py"), "version": "1"}
    write_lock(tmp_path / "pegboard.lock", Lock(lock.tools, {**lock.distributions, "file:fns.py": entry}), whole=True)
    resolved = await again.resolve()
    assert resolved.names == ("double", "name")
    assert "version: file:fns.py was 1, is None" in resolved.problems[0].cause
    file.unlink()
    gone = await make_registry(tools=(names["double"], NAME)).resolve()
    assert "reach: distribution" in gone.problems[0].cause


async def test_toolsets_are_compared_also_when_they_cant_say_what_they_are(make_registry, tmp_path):
    class Server:
        name = "web"

        @property
        def identity(self):
            raise OSError("no server")

        def tools(self, context):
            return [SIZE]

    registry = make_registry(tools=(), toolsets=(Server(),))
    tools = (await registry.resolve()).tools
    lock = lock_of(Comparison(Lock(), tmp_path), Present(tools, {"web": {"url": "x"}}, frozenset({"web"})))
    write_lock(tmp_path / "pegboard.lock", lock, whole=True)
    assert (await registry.resolve()).names == ()
