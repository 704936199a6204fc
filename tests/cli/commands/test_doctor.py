"""`registry doctor`, and `registry config trust`."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from cli_demo import DEMO
from installed import install, write
from pegboard import PluginRecord, Problem
from pegboard.cli.commands.doctor import cache_findings
from pegboard.config import is_trusted
from pegboard.errors import ManifestError

BROKEN = "raise RuntimeError('no luck')"


def found(run) -> dict[str, list[str]]:
    """Cause by subject."""
    code, out, _ = run("doctor", "--json")
    findings = json.loads(out)["findings"]
    assert code == (1 if findings else 0)
    causes: dict[str, list[str]] = {}
    for finding in findings:
        causes.setdefault(finding["subject"], []).append(finding["cause"])
    return causes


@pytest.mark.usefixtures("registry")
def test_no_problems(run):
    code, out, err = run("doctor")
    checked, result = err.splitlines()
    assert (code, out, result) == (0, "", "no problems found")
    assert checked.startswith(
        "checked: cache, configuration, 0 tools, 0 plugins, manifests, requirements, entry points"
    )
    assert run("doctor", "--json") == (0, '{"findings":[]}\n', "")


@pytest.mark.slow
def test_rules_are_checked_on_request(run, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('deny = ["no_such_tool"]\n')
    found = json.loads(run("doctor", "--rules", str(rules), "--json")[1])["findings"]
    causes = {one["cause"] for one in found if one["subject"] == str(rules)}
    assert [cause.partition(",")[0] for cause in causes] == ["rule deny no_such_tool: *: no tool"]
    rules.write_text("den = []\n")
    assert "Did you mean 'deny'?" in run("doctor", "--rules", str(rules))[1]


def test_problems_of_plugins(run, registry):
    problems = (
        Problem("broke", plugin="a", distribution="pegboard-a"),
        Problem("no METADATA", distribution="odd"),
        Problem("b\x1b", plugin="b"),
    )
    registry.contributions.change(lambda catalogue: catalogue.evolve(problems=problems))
    code, out, err = run("doctor")
    assert (code, err.splitlines()[-1]) == (1, "3 problems")
    assert out == (
        "plugin 'a' (pegboard-a)\n  broke\n"
        '  Update it, or ask its author; block = ["a"] disables it, --debug shows tracebacks.\n'
        "distribution odd\n  no METADATA\n  Reinstall it.\nplugin 'b' (sys.path)\n  b\\u{1b}\n"
        '  Update it, or ask its author; block = ["b"] disables it, --debug shows tracebacks.\n'
    )


@pytest.mark.slow
def test_an_invalid_setting_is_corrected_by_the_user(run, empty_site):
    empty_site.add("strict", STRICT)
    wrong = "plugins.strict.rooot: unknown key. Did you mean 'root'?"
    fix = 'Correct the setting; block = ["strict"] disables the plugin.'
    for _ in range(2):  # afresh, and from the cache
        _, out, err = run("doctor", "--set", "strict.rooot=1")
        assert out == f"plugin 'strict' (pegboard-strict)\n  {wrong}\n  {fix}\n"
        assert err.endswith("\n1 problem\n")


STRICT = """
from pegboard import hookimpl
from pegboard.errors import check_keys

@hookimpl
def pegboard_register_tools(register, settings):
    check_keys(settings, ["root"], "plugins.strict")
"""


@pytest.mark.slow
@pytest.mark.parametrize("has_manifest", [False, True])
def test_side_effects_of_loading_a_plugin_are_reported(run, empty_site, demo_manifest, has_manifest):
    code = f"import os\nos.environ['EVIL'] = '1'\n{DEMO}"
    empty_site.add("demo", code, manifest=demo_manifest if has_manifest else None)
    note = "while it was loaded, it changed the environment: EVIL"
    if has_manifest:
        assert found(run)["distribution pegboard-demo"] == [f"plugin 'demo': {note}"]
    else:
        assert note in found(run)["plugin 'demo' (pegboard-demo)"]
        assert note in run("plugins")[1]


def test_a_tool_held_back_is_reported_with_a_fix(run, registry):
    from pegboard import Origin, Tool, ToolSpec

    tools = [Tool(ToolSpec("same"), origin=Origin(name, f"pegboard-{name}", "1")) for name in ("a", "b")]
    registry.contributions.change(lambda catalogue: catalogue.with_tools(tools, "keep")[0])
    (causes,) = found(run).values()
    assert "'same' is held back" in causes[0]
    assert "[prefix]" in run("doctor")[1]


def test_misspelt_schema_keywords_and_examples_in_doubt_are_reported(run, registry):
    from pegboard import Tool, ToolSpec

    given = {"type": "object", "requierd": ["a"]}
    registry.register(Tool(ToolSpec("plain")), Tool(ToolSpec("odd", input_schema=given)))
    misspelt = "its input schema: (root): unknown keyword 'requierd'; did you mean 'required'?"
    doubt = {"type": "object", "properties": {"a": {"multipleOf": 0.1}}}
    registry.register(Tool(ToolSpec("doubt", input_schema=doubt, examples=({"a": 0.3},))))
    disagrees = "its input schema: jsonschema rejects example 1, jsonschema-rs disagrees"
    assert found(run) == {"tool 'odd'": [misspelt], "tool 'doubt'": [disagrees]}


HOOK = "from pegboard import hookimpl\n@hookimpl\ndef pegboard_register_"
DIAGNOSE = f"{DEMO}\n@hookimpl\ndef pegboard_diagnose"
ASYNC = "async def odd(tool, context):\n    return True\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (DEMO.replace("@hookimpl\n", ""), "pegboard_register_tools is never called: put @hookimpl above it"),
        (f"{HOOK}tools(register):\n    yield\n", "pegboard_register_tools returns a generator"),
        (f"{HOOK}tools():\n    return []\n", "pegboard_register_tools returns a list"),
        (f"{HOOK}tools():\n    pass\n", "it registers nothing"),
        ("", "it registers nothing"),
        (f"{ASYNC}{HOOK}predicates(register):\n    register('odd', odd)\n", "'odd' has to be a plain function"),
        (f"{HOOK}predicates(register):\n    register('tag', print)\n", "'tag' can't name a predicate"),
        (f"{DIAGNOSE}(report):\n    report('its file is damaged', 'Restore it.')\n", "its file is damaged"),
        (f"{DIAGNOSE}(registry):\n    raise OSError(type(registry).__name__)\n", "OSError: ToolRegistry"),
        (f"{DIAGNOSE}():\n    raise OSError('no luck')\n", "pegboard_diagnose: OSError: no luck"),
        (f"{DIAGNOSE}():\n    raise KeyboardInterrupt\n", "pegboard_diagnose: RuntimeError: KeyboardInterrupt"),
    ],
)
def test_mistakes_of_authors_are_reported_with_a_fix(run, site, code, cause):
    site.add("slip", code)
    findings = [each for each in json.loads(run("doctor", "--json")[1])["findings"] if "slip" in each["subject"]]
    assert any(cause in each["cause"] for each in findings), findings
    assert all(each["fix"] for each in findings)


@pytest.mark.slow
def test_a_plugin_whose_secret_is_missing_says_what_it_lacks(run, site, home):
    site.add("slip", f"{DIAGNOSE}(report):\n    report('its search is off', 'Set a key.')\n")
    write(home / "config/pegboard/pegboard.toml", '[plugins.slip]\nkey = { env = "NO_SUCH_KEY" }')
    missing = "setting 'key' is left out: the environment has no NO_SUCH_KEY"
    assert {missing, "its search is off"} <= {*found(run)["plugin 'slip' (pegboard-slip)"]}


@pytest.mark.slow
def test_a_note_of_a_plugin_is_no_problem(run, empty_site):
    registers = f"{HOOK}predicates(register):\n    register('noted', lambda tool, context: True)\n"
    notes = "@hookimpl\ndef pegboard_diagnose(report):\n    report('one of its tools is missing', None)\n"
    empty_site.add("noted", registers + notes)
    code, out, err = run("doctor")
    assert (code, err.splitlines()[-1]) == (0, "no problems found")
    assert out == "plugin 'noted' (pegboard-noted)\n  one of its tools is missing\n"
    code, out, _ = run("doctor", "--json")
    note = {"subject": "plugin 'noted' (pegboard-noted)", "cause": "one of its tools is missing"}
    assert (code, json.loads(out)) == (0, {"findings": [note]})


@pytest.mark.slow
def test_a_plugin_whose_toolsets_come_from_its_settings_is_no_finding_without_them(run, site):
    site.add("idle", f"{HOOK}toolsets(register, settings):\n    [*map(register, settings)]\n")
    findings = json.loads(run("doctor", "--json")[1])["findings"]
    assert not [each for each in findings if "idle" in each["subject"]]


@pytest.mark.slow
def test_private_uses_of_pegboard_are_reported_once_a_package_without_importing_it(run, empty_site):
    """Its plugins work."""
    use = "from pegboard.dispatch.events import CallEvent\n"
    empty_site.add("one", f"{DEMO}\n{use}")
    point = "[pegboard]\none = one_tools\ntwo = one_tools.two\n"
    (empty_site.root / "pegboard_one-1.0.dist-info" / "entry_points.txt").write_text(point)
    write(empty_site.root / "one_tools" / "two.py", f"raise SystemExit\n{use}{use}from pegboard import registry\n")
    cause = (
        "it uses private parts of pegboard, which may change with each release: one_tools/__init__.py:{}: "
        "pegboard.dispatch.events.CallEvent (use pegboard.events.CallEvent); one_tools/two.py:2: "
        "pegboard.dispatch.events.CallEvent (use pegboard.events.CallEvent); one_tools/two.py:3: "
        "pegboard.dispatch.events.CallEvent (use pegboard.events.CallEvent); and 1 more"
    ).format(DEMO.count("\n") + 2)
    assert cause in found(run)["plugin 'one' (pegboard-one)"]
    assert cause not in found(run)["plugin 'two' (pegboard-one)"]
    assert "count_words" in run("list", "--names")[1]


@pytest.mark.slow
def test_a_diagnosis_that_hangs_is_reported(run, site, monkeypatch):
    site.add("slip", f"import threading\n{DIAGNOSE}():\n    threading.Event().wait()\n")
    run("list")
    monkeypatch.setattr("pegboard.plugins.side_effects.LOAD_SECONDS", 0.1)
    assert any("took longer than 0.1 s" in cause for cause in found(run)["plugin 'slip' (pegboard-slip)"])


@pytest.mark.slow
def test_a_misspelt_entry_point_group_is_reported(run, site):
    install(site.root, "pegboard-astray", "1", "[pegboard.plugins]\nastray = astray_tools\n")
    install(site.root, "other-thing", "1", "[console_scripts]\nother = astray_tools:main\n")
    install(site.root, "some-skills", "1", "[pegboard.skills]\nall = other.skills\n")
    cause = "its entry points are in the group 'pegboard.plugins'; those of plugins belong in 'pegboard'"
    assert found(run) == {**found(run), "distribution pegboard-astray": [cause]}
    assert not {"distribution other-thing", "distribution some-skills"} & found(run).keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[console_scripts]\nno value\n", "line 2 of its entry_points.txt has no '=': 'no value'"),
        ("[pegboard]\nno value\n", "line 2 of its entry_points.txt has no '=': 'no value'"),
        ("\n# none\ntorn = torn\n[pegboard]\n", "line 3 of its entry_points.txt is in no [group]: 'torn = torn'"),
        (b"\xff\xfe", "entry_points.txt isn't UTF-8"),
    ],
)
def test_entry_points_that_can_not_be_read_are_reported(run, site, text, words):
    install(site.root, "torn", "1", text)
    (cause,) = found(run)["distribution torn"]
    assert words in cause


NEEDS = """Metadata-Version: 2.1
Name: {}
Version: 1
Requires-Dist: {}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requirement", "cause"),
    [
        ("surely-missing>=2", "it requires surely-missing>=2, which isn't installed"),
        ("Other_thing<1; python_version > '3'", "it requires Other_thing<1, and 1.0 is installed"),
        *((each, None) for each in ("other-thing>=0.9", "surely-missing; extra == 'x'")),
        *((each, None) for each in ("surely-missing; python_version < '3'", "???")),
    ],
)
def test_unmet_requirements_of_plugins_are_reported_as_by_pip_check(run, empty_site, requirement, cause):
    metadata = NEEDS.format("pegboard-demo", requirement)
    install(empty_site.root, "pegboard-demo", entry_points="[pegboard]\ndemo = cli_demo\n", metadata=metadata)
    install(empty_site.root, "other-thing")
    causes = found(run).get("distribution pegboard-demo", [])
    assert [each for each in causes if "requires" in each] == ([cause] if cause else [])


@pytest.mark.slow
def test_a_requirement_that_cannot_be_checked_hides_no_other(run, empty_site):
    metadata = NEEDS.format(
        "pegboard-demo", "???\nRequires-Dist: odd>=1\nRequires-Dist: gone @ https://x.test/gone.zip"
    )
    install(empty_site.root, "pegboard-demo", entry_points="[pegboard]\ndemo = cli_demo\n", metadata=metadata)
    install(empty_site.root, "odd", metadata="Metadata-Version: 2.1\nName: odd\n")
    unreadable, without_version, missing = found(run)["distribution pegboard-demo"]
    assert unreadable.startswith("its requirement '???' can't be checked: ")
    assert without_version.startswith("its requirement 'odd>=1' can't be checked: ")
    assert missing.replace("gone @", "gone@") == "it requires gone@ https://x.test/gone.zip, which isn't installed"


@pytest.mark.slow
def test_unmet_requirements_of_what_a_plugin_requires_are_reported(run, empty_site):
    for name, requirement in (("pegboard-demo", "middle"), ("middle", "pegboard-demo"), ("aside", "surely-missing")):
        point = "[pegboard]\ndemo = cli_demo\n" if name == "pegboard-demo" else None
        install(empty_site.root, name, entry_points=point, metadata=NEEDS.format(name, requirement))
    assert not any(subject in found(run) for subject in ("distribution middle", "distribution aside"))
    write(empty_site.root / "middle-1.0.dist-info/METADATA", NEEDS.format("middle", "surely-missing"))
    assert found(run)["distribution middle"] == ["it requires surely-missing, which isn't installed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("file:///no/such%20folder", "it is installed from the folder /no/such folder, which doesn't exist"),
        ("file:///", "its code is missing: there is no module 'gone_tools'"),
        (None, "its code is missing: there is no module 'gone_tools'"),
    ],
)
def test_a_missing_folder_is_told_from_a_broken_plugin(run, empty_site, url, cause):
    folder = install(empty_site.root, "gone", entry_points="[pegboard]\ngone = gone_tools\n", editable=url is not None)
    if url is not None:
        write(folder / "direct_url.json", json.dumps({"url": url, "dir_info": {"editable": True}}))
    empty_site.add("broken", "import surely_missing_library")
    findings = {each["subject"]: each for each in json.loads(run("doctor", "--json")[1])["findings"]}
    gone, broken = findings["plugin 'gone' (gone)"], findings["plugin 'broken' (pegboard-broken)"]
    assert (gone["cause"], gone["fix"].endswith("run: registry uninstall gone")) == (cause, True)
    assert broken["cause"].startswith("ModuleNotFoundError: No module named 'surely_missing_library'")


@pytest.mark.slow
def test_a_plugin_that_disturbs_others_costs_only_time(run, site, demo_manifest):
    """Plugins are loaded together to compare them with their manifests; one that then differs is loaded by itself."""
    ends = DEMO.replace(
        "from pegboard", "import os, sys\nif 'demo_tools' in sys.modules: os._exit(1)\nfrom pegboard", 1
    )
    site.add("other", ends, manifest=demo_manifest.replace("demo", "other"))
    assert not any("pegboard.json" in subject for subject in found(run))


@pytest.mark.slow
def test_a_plugin_in_a_zip_file_is_reported(run, site, monkeypatch, tmp_path):
    archive = tmp_path / "zipped-1-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as wheel:
        wheel.writestr("zipped_tools.py", DEMO)
        wheel.writestr("zipped-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 1\n")
        wheel.writestr("zipped-1.dist-info/entry_points.txt", "[pegboard]\nzipped = zipped_tools\n")
    monkeypatch.syspath_prepend(str(archive))
    assert any("is in the archive" in cause for cause in found(run)["plugin 'zipped' (zipped)"])


@pytest.mark.slow
def test_failing_plugins_and_hidden_commands_are_reported(run, site):
    site.add("broken", BROKEN)
    install(site.root, "pegboard-odd", "1", "[pegboard]\nodd = odd_tools\n", metadata="nothing")
    causes = found(run)
    assert "no luck" in causes["plugin 'broken' (pegboard-broken)"][0]
    assert any("odd" in subject for subject in causes)
    assert "its command 'list' is hidden" in causes["plugin 'demo' (pegboard-demo)"][0]


@pytest.fixture
def with_demo(registry):
    registry.contributions.change(lambda catalogue: catalogue.evolve(plugins={"demo": PluginRecord("demo")}))


def test_a_package_that_only_an_import_hook_finds_has_no_manifest(run, site, monkeypatch):
    def nowhere(_plugins):
        raise ManifestError("can't find where it lies")

    monkeypatch.setattr("pegboard.cli.commands.doctor.manifest_files", nowhere)
    assert "manifest" not in str(found(run))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "finding"),
    [
        *((each, None) for each in ("wipe", "demo:wipe", "elsewhere:wipe")),
        ("wpe", ("no tool is called 'wpe'", "Did you mean 'wipe'?")),
        ("xyz", None),
        ("demo:wpe", ("no tool is called 'demo:wpe'", "Did you mean 'demo:wipe'?")),
        ("dmo:wipe", ("no tool is called 'dmo:wipe'", "Did you mean 'demo:wipe'?")),
    ],
)
def test_misspelt_renames_are_reported(run, site, home, key, finding):
    write(home / "config/pegboard/pegboard.toml", f'[rename]\n"{key}" = "clear"')
    causes = [
        one for one in json.loads(run("doctor", "--json")[1])["findings"] if one["subject"] == "configuration: rename"
    ]
    assert [(one["cause"], one["fix"]) for one in causes] == ([finding] if finding else [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "finding"),
    [
        ('[tools.wpe]\nqueue = "q"', "configuration: tools: no plugin registers a tool called 'wpe'"),
        ('[tools."w*"]\nexecutor = "thread"', None),
        ('[tools.wipe]\nexecutor = "far"', "tool 'wipe': no installed plugin provides 'far'."),
        (
            '[tools.wipe]\nexecutor = "eu"\n[executors.eu]\nkind = "far"',
            "configuration: executors.eu: no installed plugin provides 'far'.",
        ),
    ],
)
def test_tools_placed_nowhere_are_reported(run, site, home, config, finding):
    write(home / "config/pegboard/pegboard.toml", config)
    wrong = [f"{of}: {causes[0]}" for of, causes in found(run).items() if of.startswith(("configuration", "tool"))]
    assert [each.startswith(finding or "-") for each in wrong] == ([True] if finding else [])


def test_a_cause_shared_by_plugins_is_reported_once(run, registry):
    problems = (
        Problem("void", plugin="a", distribution="d"),
        Problem("void", plugin="b", distribution="d"),
        Problem("void", plugin="a", distribution="d"),
    )
    registry.contributions.change(lambda catalogue: catalogue.evolve(problems=problems))
    assert found(run) == {"plugins 'a', 'b' (d)": ["void"]}


@pytest.mark.parametrize(
    ("config", "subject", "cause"),
    [
        ('block = ["dmo"]', "configuration: block", "no plugin is called 'dmo'"),
        ('enable = ["demo", "elsewhere"]', None, None),
        ('[prefix]\ndemmo = "d_"', "configuration: prefix", "no plugin is called 'demmo'"),
        ('where = "reed_only"', "configuration: where", "there is no predicate"),
        ("[plugins.demmo]\nx = 1", "configuration: plugins", "no plugin is called 'demmo'"),
        ('enable = ["dmo"]', "configuration: enable", "no plugin is called 'dmo'"),
        ("blok = []", "configuration", "unknown key. Did you mean 'block' or 'lock'?"),
    ],
)
@pytest.mark.usefixtures("with_demo")
def test_configuration(run, home, config, subject, cause):
    write(home / "config/pegboard/pegboard.toml", config)
    causes = found(run)
    if subject is None:
        assert causes == {}
    else:
        assert cause in causes[subject][0]


@pytest.mark.usefixtures("with_demo")
def test_errors_in_an_untrusted_project_are_reported(run, home):
    file = home / "here" / "pegboard.toml"
    file.write_text("blok = []")
    cause = f"{file}: blok: unknown key. Did you mean 'block' or 'lock'? (ignored)"
    assert found(run) == {"configuration": [cause]}
    code, out, err = run("list", "--names")
    assert (code, out, cause in err) == (0, "", True)


class TestProject:
    @pytest.fixture
    def project(self, registry, home) -> Path:
        file = home / "here" / "pegboard.toml"
        file.write_text('block = ["x"]\n[plugins.files]\nroot = "/"\nwhen = 2020-01-01\n')
        return file

    def test_ignored_settings_are_reported_until_the_project_is_trusted(self, run, project):
        assert list(found(run)) == [f"{project}: plugins.files"]
        _, out, err = run("config")
        shown = json.loads(out)
        assert "x" not in shown["block"]
        assert "this project's file blocks x; until you trust it, plugins with more than tools stay loaded" in err
        assert (shown["plugins"], shown["files"]) == ({}, [str(project)])
        code, _, err = run("config", "trust")
        assert (code, err) == (0, f"{project} is trusted as it is now; once it changes, it has to be trusted again\n")
        assert found(run) == {}
        assert json.loads(run("config", "show")[1])["plugins"] == {"files": {"root": "/", "when": "2020-01-01"}}

    def test_trust_can_be_revoked(self, run, project):
        run("config", "trust", str(project))
        assert run("config", "trust", "--undo")[2] == f"{project} is no longer trusted\n"
        assert run("config", "trust", "--undo")[2] == f"{project} was not trusted\n"
        assert "is ignored" in run("config", "show")[2]

    def test_several_files_are_trusted_at_once(self, run, project):
        other = project.with_name("notes.md")
        other.write_text("Notes.")
        run("config", "trust", str(project), str(other))
        assert [is_trusted(file, file.read_bytes()) for file in (project, other)] == [True, True]

    def test_the_files_that_are_read(self, run, project, home):
        code, out, _ = run("config", "path")
        assert code == 0
        assert out == f"{home}/config/pegboard/pegboard.toml  (not found)\n{project}\n"


def test_trust_without_a_project_is_a_usage_error(run, registry):
    code, _, err = run("config", "trust")
    assert code == 2
    assert "no pegboard.toml in this folder or above" in err


NOT_PRIVATE = "the cache isn't used, as it isn't a folder that only you can write to"


class TestCache:
    @pytest.fixture
    def folder(self, home) -> Path:
        folder = home / "cache" / "pegboard"
        (folder / "manifests").mkdir(parents=True, mode=0o700)
        folder.chmod(0o755)
        return folder

    def causes(self) -> list[str]:
        return [cause for _, cause, _ in cache_findings()]

    def test_a_missing_cache_is_fine(self, home):
        assert self.causes() == []

    @pytest.mark.parametrize(
        ("rights", "below", "found"),
        [
            (0o755, 0o700, []),
            (0o777, 0o700, [NOT_PRIVATE]),
            (0o755, 0o750, [NOT_PRIVATE]),
            (0o755, 0o500, [NOT_PRIVATE]),  # it can't be written
        ],
    )
    def test_permissions_of_the_folders(self, folder, rights, below, found):
        folder.chmod(rights)
        (folder / "manifests").chmod(below)
        assert self.causes() == found

    def test_a_file_in_place_of_a_folder_and_another_owner(self, folder, monkeypatch):
        (folder / "snapshots").write_text("")
        (folder / "snapshots").chmod(0o600)
        assert self.causes() == [NOT_PRIVATE]
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)
        assert self.causes() == [NOT_PRIVATE] * 3

    def test_a_folder_that_can_not_be_checked(self, home):
        (home / "cache" / "pegboard").write_text("")
        assert any("can't be checked" in cause for cause in self.causes())
