"""Discovery of the plugins of all installed distributions, and of the files of their code."""

from __future__ import annotations

import collections
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from importlib_metadata import Distribution, DistributionFinder

from installed import OLD, install, write
from pegboard.config import normalised
from pegboard.plugins.discovery import MOST_SOURCES, Discovery
from pegboard.testing import FoundPlugin, discover

GOOD = "[pegboard]\ngood = good"


def causes(discovery: Discovery) -> list[tuple[str | None, str | None, str]]:
    return [(problem.plugin, problem.distribution, problem.cause) for problem in discovery.problems]


def plugins(discovery: Discovery) -> list[tuple[str, str, str | None]]:
    return [(entry.name, entry.module, entry.attribute) for entry in discovery.entries]


# Distributions ----------------------------------------------------------------------------------------------------


def test_plugins_are_found(tmp_path):
    folder = install(tmp_path, "my-tools", "2.1", "[pegboard]\ntools = my_tools:Tools\n")
    install(tmp_path, "unrelated", entry_points="[console_scripts]\nx = y:z")
    install(tmp_path, "plain", entry_points=None)
    found = FoundPlugin("tools", "my_tools", "Tools", "my-tools", "2.1", str(folder))
    assert discover([str(tmp_path)]) == Discovery((found,))
    assert found.root == str(tmp_path)


def test_load_order_is_by_distribution_and_name(tmp_path):
    install(tmp_path, "b", entry_points="[pegboard]\nz = m\nc = m")
    install(tmp_path, "A", entry_points="[pegboard]\nx = m")
    install(tmp_path, "a-a", entry_points="[pegboard]\ny = m")
    assert [entry.name for entry in discover([str(tmp_path)]).entries] == ["x", "y", "c", "z"]


def test_nothing_is_imported(tmp_path, monkeypatch):
    write(tmp_path / "explodes_at_import.py", "raise SystemExit('imported')")
    install(tmp_path, entry_points="[pegboard]\ndemo = explodes_at_import:x", record=None)
    monkeypatch.syspath_prepend(str(tmp_path))
    (entry,) = (entry for entry in discover().entries if entry.name == "demo")
    assert entry.sources() is not None
    assert "explodes_at_import" not in sys.modules


def test_sys_path_is_where_it_looks(tmp_path, monkeypatch):
    """An empty path there is the current folder."""
    folder = install(tmp_path, entry_points="[pegboard]\nsurely_only_here = m")
    assert "surely_only_here" not in {entry.name for entry in discover().entries}
    monkeypatch.syspath_prepend("")
    monkeypatch.chdir(tmp_path)
    assert str(folder) in {entry.location for entry in discover().entries if entry.name == "surely_only_here"}


def test_a_distribution_installed_just_now_is_found(tmp_path):
    assert discover([str(tmp_path)]) == Discovery()
    before = tmp_path.stat()
    install(tmp_path)
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert plugins(discover([str(tmp_path)])) == [("demo", "demo_tools", None)]


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_both_kinds_of_metadata_are_read(tmp_path, kind):
    install(tmp_path, "my_demo", "1.0" if kind == "dist-info" else "1.0-py3.11", kind=kind, metadata=IDENTITY)
    assert [(entry.distribution, entry.version) for entry in discover([str(tmp_path)]).entries] == [("My.Demo", "1.0")]


IDENTITY = "Metadata-Version: 2.1\r\nNAME:My.Demo  \r\nversion: 1.0\r\n\r\nName: other\r\n"


def test_folders_that_arent_distributions_are_ignored(tmp_path):
    """pip renames a folder before removing it, and leaves it when interrupted; distutils wrote single files."""
    install(tmp_path, "~emo", metadata="Name: demo\nVersion: 1.0\n")
    install(tmp_path, "", "", kind="dist-info")
    write(tmp_path / "old-1.0.egg-info", "Name: old\nVersion: 1.0\n")
    write(tmp_path / "lib.zip")
    paths = [str(tmp_path), str(tmp_path / "none"), str(tmp_path / "old-1.0.egg-info")]
    assert discover(paths) == Discovery()


@pytest.mark.parametrize(
    "name", ["friendly-bard", "Friendly-Bard", "FRIENDLY.BARD", "friendly--bard", "FrIeNdLy-._.-bArD"]
)
def test_names_are_compared_as_pep_503_says(name):
    assert normalised(name) == "friendly-bard"


# Zip files and import finders -------------------------------------------------------------------------------------


def test_packages_in_a_zip_file_are_found_and_have_it_as_their_source(tmp_path, monkeypatch):
    file = tmp_path / "bundle.zip"
    with zipfile.ZipFile(file, "w") as bundle:
        bundle.writestr("zipped_tools/__init__.py", "raise SystemExit('imported')")
        bundle.writestr("zipped_demo-1.0.dist-info/METADATA", "Name: zipped-demo\nVersion: 1.0\n")
        bundle.writestr("zipped_demo-1.0.dist-info/entry_points.txt", "[pegboard]\nzipped = zipped_tools\n")
        bundle.writestr("zipped_demo-1.0.dist-info/RECORD", "zipped_tools/__init__.py,,\n")
    os.utime(file, (OLD, OLD))
    monkeypatch.syspath_prepend(str(file))
    (entry,) = discover([str(file)]).entries
    assert (entry.name, entry.distribution, entry.version) == ("zipped", "zipped-demo", "1.0")
    assert entry.root == str(file)
    assert "zipped_tools" not in sys.modules
    assert entry.sources() == (str(file),)


class Elsewhere(DistributionFinder):
    """An import finder whose one distribution has no folder."""

    def find_spec(self, *_):
        return None

    def find_distributions(self, context=None):
        files = {
            "METADATA": "Name: from-finder\nVersion: 3\n",
            "entry_points.txt": "[pegboard]\nelsewhere = somewhere_else:Plugin\n",
        }

        class InMemory(Distribution):
            def read_text(self, filename):
                return files.get(filename)

            def locate_file(self, path):
                raise NotImplementedError

        yield InMemory()


def test_distributions_of_import_finders_are_found(tmp_path, monkeypatch):
    install(tmp_path, "good", entry_points=GOOD)
    monkeypatch.setattr(sys, "meta_path", [Elsewhere(), *sys.meta_path])
    found = discover([str(tmp_path)])
    assert found.problems == ()
    assert found.entries[0] == FoundPlugin("elsewhere", "somewhere_else", "Plugin", "from-finder", "3", None)
    assert [entry.name for entry in found.entries] == ["elsewhere", "good"]
    assert (found.entries[0].root, found.entries[0].record()) == (None, None)


def test_an_import_finder_that_fails_is_reported(tmp_path, monkeypatch):
    class Broken(Elsewhere):
        def find_distributions(self, context=None):
            raise RuntimeError("broken finder")

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Broken()])
    install(tmp_path, "good", entry_points=GOOD)
    found = discover([str(tmp_path)])
    assert [entry.name for entry in found.entries] == ["good"]
    cause = "an import finder can't list its distributions: RuntimeError: broken finder"
    assert causes(found) == [(None, None, cause)]


# Broken distributions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "whose", "words"),
    [
        ({"metadata": ""}, None, "its plugins are left out: METADATA has no valid Name"),
        ({"metadata": "Version: 1.0\n"}, None, "METADATA has no valid Name"),
        ({"metadata": "Name:\nVersion: 1.0\n"}, None, "METADATA has no valid Name"),
        ({"metadata": "Name: a b\nVersion: 1.0\n"}, None, "METADATA has no valid Name"),
        ({"metadata": "Name: broken\n"}, None, "METADATA has no valid Version"),
        ({"metadata": "Name: a\n\nVersion: 1.0\n"}, None, "METADATA has no valid Version"),
        ({"metadata": "Name: a\nVersion: 1 0\n"}, None, "METADATA has no valid Version"),
        ({"metadata": "Name: a\nVersion: 1\x1b\n"}, None, "METADATA has no valid Version"),
        ({"metadata": "Name: a\nVersion: é\n"}, None, "METADATA has no valid Version"),
        ({"metadata": b"\xff\xfe"}, None, "its plugins are left out: METADATA isn't UTF-8"),
        ({"entry_points": b"[pegboard]\nx = \xff"}, None, "its plugins are left out: entry_points.txt isn't UTF-8"),
        ({"entry_points": b"[console_scripts]\nx = \xff"}, None, "entry_points.txt isn't UTF-8"),
        ({"entry_points": b"\xff\xfe[\x00p\x00e\x00g\x00"}, None, "entry_points.txt isn't UTF-8"),
        ({"entry_points": "[pegboard]\nx"}, None, "left out: line 2 of its entry_points.txt has no '=': 'x'"),
        ({"entry_points": "[pegboard\nx = y\n"}, None, "the group's name in entry_points.txt is damaged"),
        ({"entry_points": "[pegboard]\nx = a b"}, "x", "'x' names 'a b', which isn't 'module' or 'module:attribute'"),
        ({"entry_points": "[pegboard]\nx ="}, "x", "entry point 'x' names ''"),
        ({"entry_points": "[pegboard]\n= m"}, "", "entry point '' has an invalid name"),
        ({"entry_points": "[pegboard]\na b = m"}, "a b", "entry point 'a b' has an invalid name"),
        ({"entry_points": "[pegboard]\nx = ../x"}, "x", "entry point 'x' names '../x'"),
        ({"entry_points": "[pegboard]\nx = module:"}, "x", "entry point 'x' names 'module:'"),
        ({"entry_points": "[pegboard]\nx = module:x:y"}, "x", "entry point 'x' names 'module:x:y'"),
    ],
)
def test_a_broken_distribution_costs_only_itself(tmp_path, broken, whose, words):
    install(tmp_path, "broken", "1.0", **{"entry_points": "[pegboard]\nx = x", **broken})
    install(tmp_path, "good", entry_points=GOOD)
    discovery = discover([str(tmp_path)])
    assert plugins(discovery) == [("good", "good", None)]
    ((plugin, distribution, cause),) = causes(discovery)
    assert (plugin, distribution) == (whose, "broken")
    assert words in cause


def test_a_wrong_entry_point_costs_only_itself(tmp_path):
    lines = [
        "[pegboard]",
        "# a comment",
        "good = module : Good.make [fast, small]",
        "bad = a b",
        "good = other",
        "z = m",
    ]
    install(tmp_path, entry_points="\n".join((*lines, "[pegboard.more]", "other = other")))
    discovery = discover([str(tmp_path)])
    assert plugins(discovery) == [("good", "module", "Good.make"), ("z", "m", None)]
    assert [(plugin, cause) for plugin, _, cause in causes(discovery)] == [
        ("bad", "entry point 'bad' names 'a b', which isn't 'module' or 'module:attribute'"),
        ("good", "entry point 'good' is listed twice; the first counts"),
    ]


def test_a_metadata_folder_with_anothers_name_is_refused(tmp_path):
    install(tmp_path, "evil", metadata="Name: pip\nVersion: 1.0\n")
    discovery = discover([str(tmp_path)])
    assert discovery.entries == ()
    cause = "its plugins are left out: METADATA names 'pip', and its folder is evil-1.0.dist-info"
    assert causes(discovery) == [(None, "evil", cause)]


def test_of_a_name_in_two_folders_the_first_on_the_path_counts(tmp_path):
    """Even where that one has no plugins; an egg-info next to the sources of an editable install may be broken."""
    install(tmp_path / "first", "My_Demo", "2.0", entry_points=None)
    install(tmp_path / "second", "my.demo", "1.0")
    install(tmp_path / "first", "built", "1.0", editable=True)
    (install(tmp_path / "second", "built", "1.0", kind="egg-info") / "entry_points.txt").write_bytes(b"\xff")
    discovery = discover([str(tmp_path / "first"), str(tmp_path / "second")])
    assert plugins(discovery) == [("demo", "demo_tools", None)]
    cause = f"is installed in {tmp_path / 'first'} and in {tmp_path / 'second'}; what comes first on sys.path counts"
    assert causes(discovery) == [(None, "my-demo", cause)]


def add_to_record(path: str, folder: Path) -> None:
    """Adds a file to a distribution's RECORD, as an installer does."""
    with (folder / "RECORD").open("a") as record:
        record.write(f"harmless.py,,\n{path},z.dist-info/,10\n")  # an installer copies the wheel's digest


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("root", ["", "deeper"])
def test_a_metadata_folder_with_files_of_another_distribution_is_refused(tmp_path, quoted, root):
    """Even within the other's metadata folder, where both have the same version."""
    install(tmp_path / root, "good_look", "0", "[pegboard]\nlook = harmless\n")
    path = f"{(tmp_path / root / 'GOOD_look-0.dist-info').relative_to(tmp_path)}/entry_points.txt"
    add_to_record(f'"{path}"' if quoted else path, install(tmp_path, "harmless", entry_points=None))
    install(tmp_path, "good", entry_points=GOOD)
    discovery = discover([str(tmp_path), str(tmp_path / root)])
    assert plugins(discovery) == [("good", "good", None)]
    cause = "its plugins are left out: harmless has installed files into its metadata folder good_look-0.dist-info"
    assert causes(discovery) == [(None, "good-look", cause)]


def test_a_vendored_metadata_folder_is_no_conflict(tmp_path):
    install(tmp_path, "good", entry_points=GOOD)
    vendored = "setuptools/_vendor/good-1.0.dist-info/METADATA"
    add_to_record(vendored, install(tmp_path, "setuptools", entry_points=None))
    assert discover([str(tmp_path)]).problems == ()


@pytest.mark.parametrize("folder", ["good\n-1.0.dist-info", 'good-"1".dist-info', "good-1 0.dist-info"])
def test_a_metadata_folder_with_an_invalid_name_is_refused(tmp_path, folder):
    install(tmp_path, "good", entry_points=GOOD).rename(tmp_path / folder)
    discovery = discover([str(tmp_path)])
    assert discovery.entries == ()
    ((_, _, cause),) = causes(discovery)
    assert "its metadata folder has an invalid name" in cause


def test_a_folder_with_hyphens_hides_no_distribution_of_a_shorter_name(tmp_path):
    """Only a metadata folder written by hand has such a name."""
    for name in ("demo", "demo-tools"):
        folder = install(tmp_path / name, name, entry_points=f"[pegboard]\n{name} = m\n")
        folder.rename(folder.with_name(f"{name}-1.0.dist-info"))
    discovery = discover([str(tmp_path / "demo"), str(tmp_path / "demo-tools")])
    assert [entry.name for entry in discovery.entries] == ["demo", "demo-tools"]


def test_a_path_that_cannot_be_listed_is_reported(tmp_path):
    install(tmp_path, "good", entry_points=GOOD)
    discovery = discover(["x" * 300, str(tmp_path)])
    assert [entry.name for entry in discovery.entries] == ["good"]
    ((plugin, distribution, cause),) = causes(discovery)
    assert (plugin, distribution) == (None, None)
    assert "which is on sys.path, can't be listed: File name too long" in cause


@pytest.mark.parametrize("entry_points", [None, GOOD])
def test_a_distribution_installed_twice_in_one_folder_is_left_out(tmp_path, entry_points):
    """Otherwise a package could bring a newer metadata folder with the name of another."""
    install(tmp_path, "demo", "1.0")
    install(tmp_path, "demo", "2.0", entry_points=entry_points)
    discovery = discover([str(tmp_path)])
    assert discovery.entries == ()
    cause = "its plugins are left out: it is installed twice (demo-1.0.dist-info, demo-2.0.dist-info); install it again"
    assert causes(discovery) == [(None, "demo", cause)]
    for number in (1, 2):  # without plugins it doesn't matter
        install(tmp_path / "more", "other", f"{number}.0", entry_points=None)
    assert discover([str(tmp_path / "more")]) == Discovery()


def test_a_folder_that_is_on_the_path_twice_counts_once(tmp_path, monkeypatch):
    install(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = discover([str(tmp_path), "", f"{tmp_path}/"])
    assert (len(found.entries), found.problems) == (1, ())


def test_the_number_of_plugins_of_a_distribution_is_bounded(tmp_path):
    install(tmp_path, entry_points="[pegboard]\n" + "".join(f"p{number} = m\n" for number in range(1_000)))
    discovery = discover([str(tmp_path)])
    assert len(discovery.entries) == 100
    assert causes(discovery) == [(None, "demo", "names 1,000 plugins; those beyond 100 are left out")]


@pytest.mark.parametrize("file", ["entry_points.txt", "METADATA", "direct_url.json"])
@pytest.mark.parametrize("kind", ["large", "pipe", "device"])
def test_metadata_is_bounded_and_a_pipe_doesnt_block(tmp_path, file, kind):
    place = install(tmp_path, editable=True) / file
    place.unlink()
    if kind == "large":
        place.write_text("[pegboard]\n" + "#" * (1 << 20))
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    discovery = discover([str(tmp_path)])
    assert discovery.entries == ()
    cause = f"its plugins are left out: {file} isn't a regular file, or has more than 1,048,576 bytes"
    assert causes(discovery) == [(None, "demo", cause)]


@pytest.mark.parametrize(
    ("content", "editable"),
    [
        ({"url": "file:///x", "dir_info": {"editable": True}}, True),
        ({"url": "file:///x", "dir_info": {"editable": False}}, False),
        ({"url": "file:///x", "dir_info": {}}, False),
        ({"url": "https://x", "archive_info": {}}, False),
        ([], True),
        ("{", True),
        (None, False),
    ],
)
def test_editable_installs_are_recognised(tmp_path, content, editable):
    """One that can't be parsed counts as editable."""
    folder = install(tmp_path)
    if content is not None:
        write(folder / "direct_url.json", content if isinstance(content, str) else json.dumps(content))
    assert [entry.editable for entry in discover([str(tmp_path)]).entries] == [editable]


# When a plugin's code may have changed ----------------------------------------------------------------------------


@pytest.fixture
def loose(tmp_path) -> FoundPlugin:
    """A plugin without RECORD, so that its sources count."""
    install(tmp_path, record=None)
    os.utime(write(tmp_path / "demo_tools/__init__.py"), (OLD, OLD))
    os.utime(write(tmp_path / "demo_tools/data/words.json"), (OLD, OLD))
    write(tmp_path / "demo_tools/__pycache__/x.pyc")
    write(tmp_path / "demo_tools/.cache/y")
    return discover([str(tmp_path)]).entries[0]


def test_sources_are_files_and_folders(loose, tmp_path):
    package = tmp_path / "demo_tools"
    assert loose.sources() == tuple(
        map(str, (package, package / "__init__.py", package / "data", package / "data/words.json"))
    )


def test_an_editable_install_is_known_by_its_sources(tmp_path, monkeypatch):
    install(tmp_path / "site", editable=True)
    write(tmp_path / "src/demo_tools.py")
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    (entry,) = discover([str(tmp_path / "site")]).entries
    assert entry.record() is None
    assert entry.sources() == (str(tmp_path / "src/demo_tools.py"),)
    install(tmp_path / "other", record=b"")  # an empty RECORD
    assert discover([str(tmp_path / "other")]).entries[0].record() is None


def test_too_many_sources_are_refused(loose, tmp_path):
    for number in range(MOST_SOURCES):
        (tmp_path / f"demo_tools/data/{number}").touch()
    assert loose.sources() is None


# Where its code is ------------------------------------------------------------------------------------------------


def of(module: str, root: object = "/nowhere") -> FoundPlugin:
    return FoundPlugin("demo", module, None, "demo", "1.0", f"{root}/demo-1.0.dist-info")


@pytest.mark.parametrize(
    ("file", "module", "place"),
    [
        ("lone_tools.py", "lone_tools", "lone_tools.py"),
        ("whole_tools/__init__.py", "whole_tools.sub.plugin", "whole_tools"),
    ],
)
def test_the_place_of_a_module_and_of_a_package(tmp_path, file, module, place):
    write(tmp_path / file, "raise SystemExit")
    assert of(module, tmp_path).place() == tmp_path / place
    assert str(tmp_path / file) in of(module, tmp_path).sources()
    assert module.partition(".")[0] not in sys.modules


def test_a_package_on_sys_path_comes_first(tmp_path, monkeypatch):
    write(tmp_path / "a/both_tools.py")
    write(tmp_path / "b/both_tools.py")
    monkeypatch.syspath_prepend(str(tmp_path / "b"))
    assert of("both_tools", tmp_path / "a").place() == tmp_path / "b/both_tools.py"


def test_inside_a_namespace_package(tmp_path, monkeypatch):
    """Several distributions share the outer one; only what is inside is the plugin's."""
    write(tmp_path / "a/shared_tools/deep/one/__init__.py")
    write(tmp_path / "b/shared_tools/deep/two.py")
    monkeypatch.syspath_prepend(str(tmp_path / "a"))
    monkeypatch.syspath_prepend(str(tmp_path / "b"))
    assert of("shared_tools.deep.one.plugin").place() == tmp_path / "a/shared_tools/deep/one"
    assert of("shared_tools.deep.two").place() == tmp_path / "b/shared_tools/deep/two.py"
    assert of("shared_tools.deep.three").place() is None
    assert of("shared_tools").place() is None


@pytest.mark.parametrize("module", ["surely_not_installed", "sys", "", "x.y"])
def test_modules_without_a_file_have_no_place(module):
    assert (of(module).place(), of(module).sources()) == (None, None)


def test_a_failing_import_finder_gives_no_place(monkeypatch):
    class Broken:
        def find_spec(self, *_):
            raise RuntimeError("broken finder")

    monkeypatch.setattr(sys, "meta_path", [Broken()])
    assert of("surely_not_installed").place() is None


def test_links_to_folders_are_not_entered(tmp_path):
    """They could be circular."""
    write(tmp_path / "linked_tools/__init__.py")
    (tmp_path / "linked_tools/again").symlink_to(tmp_path / "linked_tools")
    package = tmp_path / "linked_tools"
    assert of("linked_tools", tmp_path).sources() == tuple(
        map(str, (package, package / "__init__.py", package / "again"))
    )


@pytest.mark.parametrize(
    ("attribute", "thing"), [(None, collections), ("OrderedDict.fromkeys", collections.OrderedDict.fromkeys)]
)
def test_an_entry_point_names_a_module_or_something_in_it_dotted_as_deep_as_it_goes(attribute, thing) -> None:
    assert FoundPlugin("mine", "collections", attribute, "pegboard-mine", "1.0", None).load() == thing


@pytest.mark.parametrize("version", ["0.9", "1.0"])
def test_a_folder_without_metadata_does_not_hide_a_plugin(tmp_path, version):
    """The rest of an uninstall, earlier on the path or in the same folder."""
    for name in ("first", "second") if version == "1.0" else ("second", "second"):
        (tmp_path / name / f"demo-{version}.dist-info").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(tmp_path / "second/demo-1.0.dist-info", ignore_errors=True)
    install(tmp_path / "second")
    found = discover([str(tmp_path / "first"), str(tmp_path / "second")])
    assert (plugins(found), causes(found)) == ([("demo", "demo_tools", None)], [])


def test_a_name_that_could_pass_for_another_is_shown_escaped(tmp_path):
    install(tmp_path, "d\u0435mo")
    install(tmp_path, "other", metadata="Name: \u043ether\nVersion: 1\n")
    install(tmp_path, "evil", entry_points="[pegboard]\nfil\u0435s = m\nfi\u200bles = m\n")
    discovery = discover([str(tmp_path)])
    problems = discovery.problems
    assert {(problem.distribution, problem.plugin) for problem in problems} == {
        *(("d\\u0435mo", None), ("other", None)),
        *(("evil", "fil\\u0435s"), ("evil", "fi\\u200bles")),
    }
    assert discovery.entries == ()
    assert all(problem.cause.isascii() for problem in problems)
