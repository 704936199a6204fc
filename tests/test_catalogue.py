from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from pegboard import Catalogue, Origin, PluginRecord, Problem, Tool, ToolSpec
from pegboard.callbacks import Callback
from pegboard.catalogue import CALLBACK_STAGES, EMPTY
from pegboard.errors import DuplicateToolError
from pegboard.plugins import hookspecs
from pegboard.tools import HOST, mapped_name

FILES = Origin("files", "pegboard-files", "0.1.0")
GIT = Origin("git", "pegboard-git", "2.0")


def unchanged(request):
    """A request processor that leaves the request as it is."""


def a_tool(name="read", origin=HOST, **facts):
    return Tool(ToolSpec(name, **facts), origin=origin)


def catalogue_of(*tools, policy="error", on=EMPTY):
    catalogue, _ = on.with_tools(tools, policy)
    return catalogue


def names(catalogue):
    return [tool.name for tool in catalogue.ordered]


@given(st.lists(st.sampled_from("abcdefg"), unique=True))
def test_tools_are_ordered_by_name_in_any_order_of_registration(written):
    assert names(catalogue_of(*map(a_tool, written))) == sorted(written)


def test_a_change_gives_a_new_catalogue_and_leaves_the_old():
    before = catalogue_of(a_tool("a"))
    after = catalogue_of(a_tool("b"), on=before)
    assert (names(EMPTY), names(before), names(after)) == ([], ["a"], ["a", "b"])


@given(st.permutations([a_tool("a", description="A"), a_tool("b", tags=["x"]), a_tool("c")]))
def test_the_digest_depends_on_the_tools_only(tools):
    expected = catalogue_of(a_tool("a", description="A"), a_tool("b", tags=["x"]), a_tool("c")).digest
    assert catalogue_of(*tools).digest == expected
    assert catalogue_of(*(tool.evolve(origin=FILES) for tool in tools)).digest == expected
    assert catalogue_of(*tools[:-1]).digest != expected


# Two tools of one name ------------------------------------------------------------------------------------------------


def test_the_host_cant_register_one_name_twice():
    with pytest.raises(DuplicateToolError) as caught:
        catalogue_of(a_tool("read"), a_tool("read"))
    assert (caught.value.name, caught.value.held_by, caught.value.wanted_by) == ("read", "the host", "the host")
    assert "on_conflict='replace'" in str(caught.value)
    why = r"from plugin 'git' \(pegboard-git 2.0\).*plugin 'files' \(pegboard-f"
    with pytest.raises(DuplicateToolError, match=why):
        catalogue_of(a_tool(origin=FILES), a_tool(origin=GIT))


@pytest.mark.parametrize("policy", ["error", "keep", "replace", "shadow", "prefix"])
@pytest.mark.parametrize("host_first", [True, False])
def test_the_hosts_tool_wins_over_a_plugins_whatever_the_policy_and_the_order(policy, host_first):
    own, theirs = a_tool(), a_tool(origin=FILES)
    catalogue = catalogue_of(*((own, theirs) if host_first else (theirs, own)), policy=policy)
    assert catalogue.ordered == (own,)
    (problem,) = catalogue.problems
    assert (problem.plugin, problem.distribution, problem.tool) == ("files", "pegboard-files", "read")
    assert problem.cause == (
        "tool 'read' is held back: the host has the name; "
        'in pegboard.toml, [prefix] files = "files_" gives its tools a prefix'
    )


def test_keep_keeps_the_earlier_and_reports_the_later():
    first, second = a_tool(origin=FILES), a_tool(origin=GIT)
    catalogue, brought = EMPTY.with_tools([first, second], "keep")
    assert (catalogue.ordered, brought) == ((first,), [first, second])
    assert [problem.plugin for problem in catalogue.problems] == ["git"]


def test_replace_takes_the_later_and_reports_the_earlier_where_another_brought_it():
    first, second = a_tool(origin=FILES), a_tool(origin=GIT)
    catalogue = catalogue_of(first, second, policy="replace")
    assert catalogue.ordered == (second,)
    assert [problem.plugin for problem in catalogue.problems] == ["files"]
    assert catalogue_of(a_tool(), a_tool(), policy="replace").problems == ()
    assert names(catalogue.without_tools([second])) == []


@given(st.permutations(range(4)))
def test_shadows_disposed_in_any_order_leave_the_latest_that_is_left(order):
    tools = [a_tool(version=str(number)) for number in range(4)]
    catalogue = catalogue_of(*tools, policy="shadow")
    assert catalogue.ordered == (tools[-1],)
    left = list(tools)
    for number in order:
        catalogue = catalogue.without_tools([tools[number]])
        left.remove(tools[number])
        assert catalogue.ordered == tuple(left[-1:])
    assert not catalogue.shadowed


@pytest.mark.parametrize(("plugin", "name"), [("git", "git_read"), ("my.git", mapped_name("my.git_read"))])
def test_prefix_gives_the_later_its_plugins_name(plugin, name):
    """Mapped to a valid name where it isn't one."""
    first, second = a_tool(origin=FILES), a_tool(origin=Origin(plugin))
    catalogue, brought = EMPTY.with_tools([first, second], "prefix")
    assert names(catalogue) == [name, "read"]
    assert [tool.name for tool in brought] == ["read", name]
    assert catalogue.without_tools(brought).ordered == ()


def test_a_prefixed_name_that_is_taken_is_an_error_for_the_host_and_holds_back_a_plugins_tool():
    with pytest.raises(DuplicateToolError, match="'host_read'"):
        catalogue_of(a_tool(), a_tool("host_read")).with_tools([a_tool()], "prefix")
    catalogue, _ = catalogue_of(a_tool(origin=FILES), a_tool("git_read")).with_tools([a_tool(origin=GIT)], "prefix")
    assert (names(catalogue), [each.tool for each in catalogue.problems]) == (["git_read", "read"], ["git_read"])


def test_names_special_in_python_are_ordinary():
    odd = ["get", "constructor", "__class__", "__proto__", "tools", "None"]
    catalogue = catalogue_of(*map(a_tool, odd))
    assert names(catalogue) == sorted(odd)
    assert names(catalogue.without_tools([catalogue.tools["__class__"]])) == sorted({*odd} - {"__class__"})


def test_replaced_tools_stay_registered_or_shadowed():
    listed, own, other = a_tool(origin=FILES), a_tool(), a_tool("other")
    live = a_tool(origin=FILES)
    catalogue = catalogue_of(listed, own, other).with_replaced({id(listed): live, id(other): other})
    assert catalogue.tools["read"] is own
    assert catalogue.without_tools([own]).tools["read"] is live


# Everything else that is registered -----------------------------------------------------------------------------------


class Source:
    name = "source"


def test_toolsets_are_in_order_and_removed_by_identity():
    first, second = Source(), Source()
    catalogue = EMPTY.with_toolsets([first, second])
    assert catalogue.toolsets == (first, second)
    assert catalogue.without_toolsets([first]).toolsets == (second,)
    assert catalogue.without_toolsets([Source()]).toolsets == (first, second)
    assert EMPTY.with_toolsets([]) is EMPTY


def test_an_extra_has_its_kind_and_name_until_it_is_removed():
    catalogue = EMPTY.with_extra("exporters", "a", 1, FILES).with_extra("exporters", "b", 2, FILES)
    catalogue = catalogue.with_extra("processors", "a", unchanged, HOST)
    assert catalogue.extras == {"exporters": {"a": 1, "b": 2}, "processors": {"a": unchanged}}
    with pytest.raises(ValueError, match=r"exporter 'a' is already registered by plugin 'files'"):
        catalogue.with_extra("exporters", "a", 3, GIT)
    without = catalogue.without_extra("exporters", "a")
    assert without.extras == {"exporters": {"b": 2}, "processors": {"a": unchanged}}
    assert without.with_extra("exporters", "a", 3, GIT).owners["exporters:a"] is GIT
    assert without.without_extra("models", "a").extras["exporters"] == {"b": 2}


def test_plugins_callbacks_come_before_the_hosts_and_the_hosts_in_order():
    plugins, own, more = Callback(print, "plugin 'a'"), Callback(print), Callback(print)
    catalogue = Catalogue(plugin_callbacks={"before_tool": (plugins,)}, host_callbacks={"before_tool": (own, more)})
    assert catalogue.callbacks("before_tool") == (plugins, own, more)
    assert catalogue.callbacks("after_tool") == ()


def test_each_callback_stage_is_a_hook_with_the_same_arguments():
    for stage, arguments in CALLBACK_STAGES.items():
        code = getattr(hookspecs, f"pegboard_{stage}").__code__
        assert code.co_varnames[: code.co_argcount] == arguments


def test_records_and_problems_are_json():
    record = PluginRecord("files", "pegboard-files", "0.1.0", "partial", ("a",), ("read",), "why")
    assert record.to_json() == {
        "name": "files",
        "distribution": "pegboard-files",
        "version": "0.1.0",
        "status": "partial",
        "hooks": ["a"],
        "tools": ["read"],
        "cause": "why",
    }
    assert Problem("why", "read", plugin="files").to_json() == {"plugin": "files", "cause": "why", "tool": "read"}


@pytest.mark.parametrize("policy", ["keep", "replace", "shadow", "prefix"])
@pytest.mark.parametrize("order", [*itertools.permutations((HOST, FILES, GIT)), (HOST, HOST), (FILES, HOST, HOST)])
def test_disposing_everything_leaves_nothing(policy, order):
    """Whatever conflicts there were, removing what `with_tools` returns removes everything."""
    catalogue, brought = EMPTY.with_tools([a_tool(origin=origin) for origin in order], policy)
    catalogue = catalogue.without_tools(brought)
    assert (catalogue.ordered, dict(catalogue.shadowed)) == ((), {})


def test_a_plugins_tool_is_restored_when_the_hosts_is_removed() -> None:
    """Whichever of the two came first; its problem is removed, too."""
    plugins, hosts = a_tool("same", GIT), a_tool("same")
    for first, second in ((hosts, plugins), (plugins, hosts)):
        catalogue, _ = EMPTY.with_tools([first], "error")
        catalogue, _ = catalogue.with_tools([second], "keep")
        assert catalogue.tools["same"] is hosts
        assert len(catalogue.problems) == 1
        after = catalogue.without_tools([hosts])
        assert after.tools["same"] is plugins
        assert after.problems == ()
