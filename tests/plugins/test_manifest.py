"""Manifests of plugins, as data and as the file in a package."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from installed import OLD, install, write
from pegboard import ModelRequest, ModelRequest as Request, Origin, Policy, Tool, ToolAnnotations, ToolSpec, load
from pegboard.catalogue import PublishedTools
from pegboard.errors import ManifestError
from pegboard.plugins.manifest import (
    _MOST_BYTES,
    _MOST_INSTRUCTIONS,
    _MOST_NAMES,
    PluginManifest,
    RequestFacts,
    find_manifest,
    manifest_path,
    manifest_text,
    read_manifest,
    read_manifest_file,
    write_manifest,
)
from pegboard.testing import FoundPlugin, discover
from pegboard.tools.handler import LazyHandler

SPEC = ToolSpec(
    "read_file",
    "Reads a file.",
    input_schema={"type": "object", "properties": {"zeta": {"type": "string"}, "alpha": {"default": 1.0}}},
    annotations=ToolAnnotations(read_only_hint=True),
    tags=("fs",),
    examples=[{"zeta": "é\u202e"}],
)
WHOLE = PluginManifest(
    "demo",
    "demo",
    "1.0",
    tools=(SPEC, ToolSpec("delete")),
    hooks=("pegboard_register_tools", "pegboard_before_tool"),
    names={
        "toolsets": ("remote",),
        "predicates": ("local",),
        "processors": ("p",),
        "exporters": ("e",),
        "executors": ("x",),
    },
    commands={"c": "Do it.", "d": ""},
)
FOUND = FoundPlugin("demo", "demo_tools", None, "demo", "1.0", None)


# As data


def test_commands_may_have_no_help():
    manifest = PluginManifest.from_json(changed(commands=["c", "d"]), FOUND)
    assert manifest.commands == {"c": "", "d": ""}
    assert manifest.differences(WHOLE) == []


def test_faults_are_truncated_in_number_and_length():
    manifest = PluginManifest("p", faults=("x" * 5000, "", *["y"] * 2000))
    read = PluginManifest.from_json(manifest.to_json(), FOUND).faults
    assert read[:3] == ("x" * 1000, "?", "y")
    assert len(read) == _MOST_NAMES


names = st.lists(st.text(min_size=1, max_size=8), max_size=3).map(tuple)
specs = st.builds(ToolSpec, st.from_regex(r"[a-z_][a-z0-9_-]{0,5}", fullmatch=True), st.text(max_size=20))


@given(
    st.builds(
        PluginManifest,
        st.just("demo"),
        st.just("demo"),
        st.just("1.0"),
        tools=st.lists(specs, max_size=3, unique_by=lambda spec: spec.name).map(tuple),
        hooks=names,
        commands=st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=3),
    )
)
@example(WHOLE)
def test_any_manifest_is_read_back_as_it_was(manifest):
    again = PluginManifest.from_json(json.loads(json.dumps(manifest.to_json())), FOUND)
    assert again == manifest
    assert [spec.input_schema_text for spec in again.tools] == [spec.input_schema_text for spec in manifest.tools]


@pytest.mark.parametrize(("trusted", "source"), [(True, None), (False, "llm-tools-sqlite")])
def test_published_tools_keep_their_trust_and_source(trusted, source):
    origin = Origin("demo", "demo", "1.0", "remote", trusted, source)
    manifest = PluginManifest("demo", published=PublishedTools((Tool(ToolSpec("a"), origin=origin),)))
    (read,) = PluginManifest.from_json(manifest.to_json(), FOUND).published.tools
    assert read.origin == origin


def published_in(**facts: object) -> PluginManifest:
    data = {
        "published": {"tools": [{"toolset": "remote", "trusted": True, "spec": {"name": "a"}} | facts], "files": {}}
    }
    return PluginManifest.from_json(data | {"tools": []}, FOUND)


def test_published_tools_of_a_cache_without_sources_are_read():
    assert published_in().published.tools[0].origin == Origin("demo", "demo", "1.0", "remote")


@pytest.mark.parametrize("source", ["a b", "", 5, ["a"], "a" * 129])
def test_a_cached_source_that_is_no_distributions_name_is_refused(source):
    with pytest.raises(ManifestError, match="source: "):
        published_in(source=source)


def changed(**changes: object) -> dict[str, object]:
    return {key: value for key, value in {**WHOLE.to_json(), **changes}.items() if value is not ...}


def deep(levels: int) -> dict[str, object]:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"x": value}
    return {"x": value}


def test_a_spec_may_be_nested():
    manifest = PluginManifest.from_json(changed(tools=[{"name": "a", "meta": deep(98)}]), FOUND)
    assert manifest.tools[0].digest


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "the manifest: must be an object, got list"),
        (changed(hooks="x"), "hooks: must be an array, got str"),
        (changed(hooks=["ok", 3]), r"hooks\[1\]: must be a string"),
        (changed(hooks=["x"] * (_MOST_NAMES + 1)), "hooks: must be at most 1,000 texts"),
        (changed(hooks=["x" * 5000]), r"hooks\[0\]: must be of 1 to 1,000 characters"),
        (changed(commands="x"), "commands: must be an object, got str"),
        (changed(commands=[{}]), r"commands\[0\]: must be a string"),
        (changed(commands={"greet": 3}), "commands.greet: must be a string"),
        (changed(commands={"greet": None}), "commands.greet: must be a string"),
        (changed(toolset=["x"]), "'toolset' is unknown"),
        (changed(tools={}), "tools: must be an array, got dict"),
        (changed(tools=[3]), r"tools\[0\]: must be an object, got int"),
        (changed(tools=[{"name": "a b"}]), r"tools\[0\]: 'a b' can't name a tool"),
        (changed(tools=[{"name": "a", "inputSchema": 3}]), r"tools\[0\]: inputSchema: expected dict, found int"),
        (changed(tools=[{"name": "a", "zap": 3}]), r"tools\[0\]: zap: unknown key"),
        (changed(tools=[{"name": "a", "kind": "odd"}]), r"tools\[0\]: "),
        (changed(tools=[{"name": "a", "meta": deep(100)}]), r"tools\[0\]: it is nested too many levels deep"),
        (changed(tools=[{"name": "a"}, {"name": "a"}]), r"tools\[1\]: tool 'a' is listed twice"),
    ],
)
def test_an_invalid_manifest_is_refused_with_the_place(data, words):
    with pytest.raises(ManifestError, match=words):
        PluginManifest.from_json(data, FOUND)


# As a file


def plugin(root: Path, module: str = "demo_tools", record: str | None = None, **facts: object) -> FoundPlugin:
    install(root, entry_points=f"[pegboard]\ndemo = {module}\n", record=record, **facts)
    return discover([str(root)]).entries[0]


def with_manifest(root: Path, *manifests: PluginManifest) -> FoundPlugin:
    """A plugin with a package and a manifest in it."""
    found = plugin(root)
    write(root / "demo_tools/__init__.py", "raise SystemExit('imported')")
    if manifests:
        write_manifest(manifest_path(found), manifests)
    return found


def test_a_manifest_is_written_and_read(tmp_path):
    read = read_manifest(with_manifest(tmp_path, WHOLE))
    assert read is not None
    assert [spec.name for spec in read.tools] == ["delete", "read_file"]
    assert {spec.name: spec for spec in read.tools} == {spec.name: spec for spec in WHOLE.tools}
    assert read.names == WHOLE.names
    assert "demo_tools" not in sys.modules


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("demo_tools", "demo_tools/pegboard-manifest.json"),
        ("demo_tools.deep.plugin", "demo_tools/pegboard-manifest.json"),
        ("solo", "solo.pegboard-manifest.json"),
        ("shared.inner.plugin", "shared/inner/pegboard-manifest.json"),
        ("shared.single", "shared/single.pegboard-manifest.json"),
    ],
)
def test_an_installed_manifest_is_found_by_record(tmp_path, module, file):
    found = plugin(tmp_path, module, f"{module.split('.')[0]}/__init__.py,sha256=x,0\n{file},sha256=y,99\n")
    assert find_manifest(found) == tmp_path / file
    write_manifest(write(tmp_path / file), [WHOLE])
    assert read_manifest(found) is not None


def test_a_manifest_that_record_doesnt_name_is_ignored(tmp_path):
    found = plugin(tmp_path, record="demo_tools/__init__.py,,\nx/demo_tools/pegboard-manifest.json,,\n")
    write_manifest(write(tmp_path / "demo_tools/pegboard-manifest.json"), [WHOLE])
    assert find_manifest(found) is None
    assert read_manifest(found) is None


def test_a_missing_module_has_no_manifest_path(tmp_path):
    """That of a single module is next to it."""
    found = plugin(tmp_path, "solo_tools")
    assert read_manifest(found) is None
    with pytest.raises(ManifestError, match="can't find the file of module 'solo_tools'"):
        manifest_path(found)
    write(tmp_path / "solo_tools.py")
    assert manifest_path(found) == tmp_path / "solo_tools.pegboard-manifest.json"
    write_manifest(manifest_path(found), [WHOLE])
    assert read_manifest(found) is not None


def test_a_manifest_older_than_the_sources_is_ignored(tmp_path, monkeypatch):
    found = with_manifest(tmp_path, WHOLE)
    source = tmp_path / "demo_tools/__init__.py"
    os.utime(manifest_path(found), (OLD, OLD))
    for written, is_read in ((OLD, True), (OLD + 1, False)):
        os.utime(source, (OLD, written))
        assert (read_manifest(found) is not None) is is_read
    monkeypatch.setattr(FoundPlugin, "sources", lambda _self: (f"{source}.gone",))  # removed since
    assert read_manifest(found) is not None


def test_a_manifest_of_another_version_is_void(tmp_path):
    found = with_manifest(tmp_path, PluginManifest("demo", "demo", "0.9"))
    with pytest.raises(
        ManifestError, match=r"void: it was written for demo 0\.9, and demo 1\.0 is installed"
    ) as caught:
        read_manifest(found)
    assert str(manifest_path(found)) in str(caught.value)


@pytest.mark.parametrize(
    ("manifests", "plugin"),
    [
        ([], None),
        ([PluginManifest("other", "demo", "1.0")], None),
        ([PluginManifest("other", "demo", "1.0"), WHOLE], "demo"),
        ([PluginManifest("demo", "DEMO", "1.0")], "demo"),
    ],
)
def test_one_file_has_the_manifests_of_several_plugins(tmp_path, manifests, plugin):
    """In any spelling of the distribution."""
    read = read_manifest(with_manifest(tmp_path, *manifests))
    assert (read and read.plugin) == plugin


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "isn't JSON"),
        (b"[" * 100_000, "isn't JSON"),
        (b'{"format": NaN}', "isn't JSON: expected value"),
        (b"\xff", "isn't JSON"),
        (b"[]", "must be an object, got list"),
        (b'{"format": 7}', "format 7 isn't known here, only 1: update pegboard"),
        (b"{}", "format None isn't known"),
        (b'{"format": 1}', "distribution: must be a string, got NoneType"),
        (b'{"format": 1, "distribution": "demo", "version": 1}', "version: must be a string"),
        (b'{"format": 1, "distribution": "demo", "version": "1.0"}', "plugins: must be an object, got NoneType"),
        (
            b'{"format": 1, "distribution": "demo", "version": "1.0", "plugins": {"demo": {"tools": [{}]}}}',
            r"plugins\.demo: tools\[0\]: name: missing",
        ),
        (
            b'{"format": 1, "distribution": "demo", "version": "1.0", "plugins": {"demo": {"published": {}}}}',
            r"plugins\.demo: 'published' is found out by loading a plugin",
        ),
    ],
)
def test_a_broken_file_is_named(tmp_path, content, words):
    found = with_manifest(tmp_path)
    manifest_path(found).write_bytes(content)
    with pytest.raises(ManifestError, match=words):
        read_manifest(found)


def test_a_file_that_cannot_be_read_or_is_huge_is_refused(tmp_path):
    with pytest.raises(ManifestError, match="can't be read: Is a directory"):
        read_manifest_file(tmp_path)
    file = tmp_path / "m.json"
    with file.open("wb") as stream:
        stream.truncate(_MOST_BYTES + 1)
    with pytest.raises(ManifestError, match="can't be read: larger than"):
        read_manifest_file(file)


def test_the_text_doesnt_depend_on_the_order():
    other = PluginManifest("other", "demo", "1.0")
    mixed = PluginManifest("demo", "demo", "1.0", tools=WHOLE.tools[::-1], hooks=WHOLE.hooks[::-1])
    sorted_ = PluginManifest("demo", "demo", "1.0", tools=WHOLE.tools, hooks=WHOLE.hooks)
    assert manifest_text([other, mixed]) == manifest_text([sorted_, other])
    assert manifest_text([other]).endswith("}\n")


def test_the_order_of_properties_is_kept():
    """It reaches the model."""
    text = manifest_text([WHOLE])
    assert text.index('"zeta"') < text.index('"alpha"')
    assert '"default": 1.0' in text


@pytest.mark.parametrize(
    ("manifests", "words"),
    [
        ([WHOLE, PluginManifest("other", "demo", "2.0")], "of one distribution and version"),
        ([PluginManifest("other")], "of one distribution and version"),
        ([PluginManifest("p", "demo", "1.0", faults=("'x' was refused",))], "plugin 'p' has faults: 'x' was refused"),
    ],
)
def test_manifests_that_cant_be_written_together_are_refused(manifests, words):
    with pytest.raises(ManifestError, match=words):
        manifest_text(manifests)


def test_a_manifest_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ManifestError, match="can't be written: No such file"):
        write_manifest(tmp_path / "none/m.json", [WHOLE])


# Tools that process requests, before and after their plugin is imported ----------------------------------------------

CODE = """
from pegboard import Tool, hookimpl, nonblocking, tool

def take_name(arguments):
    return {"who": arguments["name"]}

@tool(instructions="Greet politely.", prepare_arguments=take_name)
def greet(who: str) -> str:
    '''Greets.'''
    return f"hello {who}"

def plain(request, context):
    return request.with_instructions(f"plain for {context.user}")

@nonblocking
def on_the_loop(request):
    return request.with_instructions("quick")

async def later(context, request):
    return request.with_instructions("later")

@hookimpl
def pegboard_register_tools(register):
    register(greet)
    for name, function in (("a", plain), ("b", on_the_loop), ("c", later)):
        register(Tool.processor(name, function))
"""


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ([], "must be a table, got list"),
        ({"offerd": True}, "offerd: unknown key"),
        ({"offered": 1}, "offered: must be a boolean, got int"),
        ({"processes": "no"}, "processes: must be a boolean, got str"),
        ({"instructions": 5}, "instructions: must be a string, got int"),
        ({"policy": 5}, "policy: must be an object, got int"),
        ({"policy": {"speed": 5}}, "policy.speed: unknown key"),
        ({"policy": {"timeout": "5"}}, "policy.timeout must be a number"),
        ({"policy": {"queue": "a b"}}, "policy.queue must be 1 to 64 of"),
        ({"instructions": "x" * (_MOST_INSTRUCTIONS + 1)}, "instructions: must be at most "),
    ],
)
def test_invalid_request_facts_are_refused_with_their_place(data, wrong):
    with pytest.raises(ManifestError, match=rf"requests\.a[.:] ?{wrong}"):
        PluginManifest.from_json(changed(requests={"a": data}), FOUND)


@pytest.mark.parametrize(
    ("facts", "data"),
    [
        ({}, {}),
        ({"process_request": print, "offered": False}, {"offered": False, "processes": True}),
        ({"instructions": "Be kind."}, {"instructions": "Be kind."}),
        ({"instructions": ""}, {}),
        ({"instructions": 5}, {}),
        ({"instructions": "x" * 200_000}, {"instructions": "x" * _MOST_INSTRUCTIONS}),  # too long, so that it is named
        ({"by_arguments": {"read_only": bool}}, {"may_read_only": True}),
        ({"prepare_arguments": dict}, {"prepares": True}),
        ({"policy": Policy(max_concurrency=2)}, {}),
        (
            {"policy": Policy(executor="far", queue="gpu", sends=["state.a"], memory_limit=1 << 30, max_concurrency=2)},
            {"policy": {"executor": "far", "queue": "gpu", "sends": ["state.a"], "memoryLimit": 1 << 30}},
        ),
    ],
)
def test_request_facts_of_a_tool_are_read_back_from_json(facts, data):
    made = RequestFacts.of(Tool(ToolSpec("a"), **facts))
    assert made.to_json() == data
    read = PluginManifest.from_json(changed(requests={"a": data}), FOUND).requests["a"]
    assert read == made


def test_a_manifest_has_request_facts_in_order():
    facts = {"b": RequestFacts(offered=False), "a": RequestFacts(processes=True)}
    manifest = PluginManifest("demo", "demo", "1.0", tools=(ToolSpec("a"), ToolSpec("b")), requests=facts)
    assert PluginManifest.from_json(manifest.to_json(), FOUND) == manifest
    assert list(manifest.to_json()["requests"]) == ["a", "b"]
    assert "requests" not in PluginManifest("demo").to_json()


@pytest.fixture
def registry(site):
    """A registry in which the plugin is listed from the cache, and not imported."""
    site("polite", CODE)
    asyncio.run(load(discovery=discover([str(site.folder)])).aclose())
    sys.modules.pop("polite_made_up", None)
    made = load(discovery=discover([str(site.folder)]))
    assert "polite_made_up" not in sys.modules
    yield made
    asyncio.run(made.aclose())


def test_request_facts_of_listed_tools_are_known_before_the_import(registry):
    offered = {tool.name: tool.offered for tool in registry.tools()}
    assert offered == {"a": False, "b": False, "c": False, "greet": True}
    assert registry.get("greet").instructions == "Greet politely."
    assert registry.get("greet").process_request is None
    resolved = asyncio.run(registry.resolve())
    assert [tool.name for tool in ModelRequest("hello", tools=resolved).offered] == ["greet"]
    assert "polite_made_up" not in sys.modules


def test_processing_a_request_imports_the_plugin(registry):
    made = asyncio.run(registry.process(ModelRequest("hello")))
    assert made.instructions == ("plain for None", "quick", "later", "Greet politely.")
    assert made.problems == ()
    assert "polite_made_up" in sys.modules
    again = asyncio.run(registry.process(ModelRequest("hello")))
    assert again.instructions == made.instructions


def test_a_call_whose_arguments_the_plugin_prepares_is_parsed_before_its_import(registry):
    call = registry.parse({"name": "greet", "arguments": {"name": "Ann"}, "id": "1"})
    assert (call.error, "polite_made_up" in sys.modules) == (None, False)
    assert asyncio.run(registry.dispatch([call])).results[0].text == "hello Ann"


def test_a_tool_that_no_longer_processes_requests_changes_nothing():
    late = LazyHandler(lambda: Tool(ToolSpec("a")))
    listed = RequestFacts(processes=True).on(Tool(ToolSpec("a"), late), late)
    request = Request("hello")
    assert asyncio.run(listed.process_request(request, None, None)) is None
