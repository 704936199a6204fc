"""`check_plugin`: one call that puts a plugin through the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pegboard.errors import PluginError, cause_of
from pegboard.plugins.loaded import LoadedPlugin
from pegboard.testing.arguments import check_arguments
from pegboard.testing.budget import HEAVY, check_budget
from pegboard.testing.examples import check_examples
from pegboard.testing.loading import check_loading, check_manifest
from pegboard.testing.manners import check_spec
from pegboard.testing.notebook import Notebook
from pegboard.testing.report import Report
from pegboard.testing.subject import subject_of


def check_plugin(
    plugin: Any,
    *,
    settings: Mapping[str, Any] | None = None,
    run_examples: bool = True,
    heavy: Iterable[str] = HEAVY,
    most_modules: int | None = None,
) -> Report:
    """Puts a plugin through what a board relies on; for its author's tests.

    It loads whole and says the same each time, in every process; its manifest, where its package has one, says what
    its code says; every tool has a description and valid schemas; each tool's check takes its examples and arguments
    made from its schema, ordinary ones and those at the bounds, and refuses those that break one of the schema's
    rules. The examples of its read-only tools run without a fault and never block the event loop. Importing it loads
    nothing heavy. Nothing is left to chance.

    Args:
        plugin: The name of an installed plugin (its entry point's), or its module, class or object.
        settings: Its settings, as `[plugins.NAME]` in a pegboard.toml gives them.
        run_examples: Whether to run the declared examples of the tools that are marked read-only. None may crash,
            give what its output schema forbids, run into its time limit, or block the event loop for more than 0.1 s.
        heavy: Packages that importing the plugin's module must not load; `()` allows all. For a plugin that is given
            by name or as a module.
        most_modules: How many modules importing it may load beyond pegboard's, its own included; `None` sets no limit.

    Returns:
        What was checked, with warnings and notes.

    Raises:
        AssertionError: The contract is broken; the text lists everything that was found, and what to do.
    """
    __tracebackhide__ = True  # pytest shows the author's line, not ours
    given = plugin if isinstance(plugin, str) else getattr(plugin, "__name__", type(plugin).__name__)
    try:
        subject = subject_of(plugin)
    except PluginError as error:
        notebook = Notebook(given)
        notebook.finding(error.cause)
        return notebook.report()
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        notebook = Notebook(given)
        notebook.finding(f"it can't be imported: {cause_of(error)}")
        return notebook.report()
    notebook = Notebook(subject.name)
    own = settings or {}
    loaded = check_loading(subject, own, notebook)
    if loaded is not None:
        _check_tools(loaded, notebook)
    if loaded is not None and not loaded.faults:
        check_manifest(subject, own, notebook)
        if run_examples:
            check_examples(subject, own, notebook)
    check_budget(subject, notebook, heavy=heavy, most_modules=most_modules)
    return notebook.report()


def _check_tools(loaded: LoadedPlugin, notebook: Notebook) -> None:
    for tool in loaded.tools:
        notebook.tools.append(tool.name)
        check_spec(tool.spec, notebook)
        check_arguments(tool, notebook)
    for toolset in loaded.toolsets:
        notebook.note(f"toolset {toolset.name!r} is asked for its tools at run time only; they weren't checked")
