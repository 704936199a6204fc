"""`ToolsetBase`: the wrappers as methods."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from pegboard.tools.context import ReadonlyContext
from pegboard.tools.spec import ToolAnnotations
from pegboard.tools.tool import Tool
from pegboard.toolsets.annotated import AnnotatedToolset
from pegboard.toolsets.approval import ApprovalToolset
from pegboard.toolsets.cached import CachedToolset, Key, whole_identity
from pegboard.toolsets.custom import PredicateFunction
from pegboard.toolsets.filtered import FilteredToolset
from pegboard.toolsets.predicate import Predicate
from pegboard.toolsets.prefixed import PrefixedToolset
from pegboard.toolsets.prepared import Prepare, PreparedToolset
from pegboard.toolsets.renamed import RenamedToolset
from pegboard.toolsets.reshape import Reshape
from pegboard.toolsets.reshaped import ReshapedToolset
from pegboard.toolsets.search.tool import SEARCH_TOOL
from pegboard.toolsets.search.toolset import Always, SearchableToolset
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import WrapperToolset


class ToolsetBase(ABC):
    """A base for toolsets that gives them the wrappers as methods; each gives a new toolset round this one.

    A toolset of another class gets them by `wrap(toolset)`.

    Attributes:
        name: What people know it by; a subclass sets it, on the class or in `__init__`.
    """

    name: str

    @abstractmethod
    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The tools for this context, now."""

    def filtered(self, predicate: Predicate | PredicateFunction | str) -> FluentToolset:
        """Only the tools for which a predicate is so: data, text, or a plain function of tool and context."""
        return FluentToolset(FilteredToolset(self, predicate))

    def prefixed(self, prefix: str) -> FluentToolset:
        """Every name with a prefix: `"git"` makes `git_push` of `push`.

        Raises:
            InvalidNameError: No name can start with this prefix.
        """
        return FluentToolset(PrefixedToolset(self, prefix))

    def renamed(self, names: Mapping[str, str]) -> FluentToolset:
        """Some tools under other names: old -> new.

        Raises:
            InvalidNameError: A new name isn't valid.
            RegistrationError: Two tools would get the same name.
        """
        return FluentToolset(RenamedToolset(self, names))

    def prepared(self, prepare: Prepare) -> FluentToolset:
        """The tools as `prepare(context, tools)` makes them for each context; plain or async."""
        return FluentToolset(PreparedToolset(self, prepare))

    def with_annotations(
        self, annotations: ToolAnnotations, where: Predicate | PredicateFunction | str | None = None
    ) -> FluentToolset:
        """Hints that you vouch for, in place of the tools' own; `where` picks the tools."""
        return FluentToolset(AnnotatedToolset(self, annotations, where))

    def requiring_approval(self, predicate: Predicate | PredicateFunction | str | None = None) -> FluentToolset:
        """A person confirms every call of these tools; of all of them without a predicate."""
        return FluentToolset(ApprovalToolset(self, predicate))

    def reshaped(self, reshapes: Mapping[str, Reshape]) -> FluentToolset:
        """Tools whose arguments look different to the model: tool name -> `Reshape`."""
        return FluentToolset(ReshapedToolset(self, reshapes))

    def searchable(self, *, name: str = SEARCH_TOOL, limit: int = 5, always: Always = None) -> FluentToolset:
        """The tool `search_tools`, and these tools, deferred until a search has found them.

        Args:
            name: The search tool's name.
            limit: How many tools a search finds where the model doesn't say, 1 to 20.
            always: What is never deferred: a predicate, its text, a plain function of tool and context, or a list of
                names.

        Raises:
            InvalidNameError: The name isn't valid.
            ValueError: The limit isn't from 1 to 20.
            ExpressionError: The text of `always` doesn't parse.
        """
        return FluentToolset(SearchableToolset(self, name=name, limit=limit, always=always))

    def cached(
        self, ttl: float, clock: Callable[[], float] = time.monotonic, key: Key = whole_identity
    ) -> FluentCachedToolset:
        """The tools, asked for at most once in `ttl` seconds for each user, agent, model, provider and session.

        Args:
            ttl: Seconds.
            clock: Gives seconds.
            key: What tells two contexts apart; needed where the tools depend on the state or on `extra`.

        Raises:
            ValueError: `ttl` isn't above zero.
        """
        return FluentCachedToolset(CachedToolset(self, ttl, clock, key))


class FluentToolset(WrapperToolset, ToolsetBase):
    """Any toolset, with the wrappers as methods."""


class FluentCachedToolset(FluentToolset):
    """A cached toolset, with the wrappers as methods."""

    def __init__(self, inner: CachedToolset) -> None:
        super().__init__(inner)
        self._cache = inner

    def clear(self) -> None:
        """Forgets what was kept."""
        self._cache.clear()


def wrap(toolset: Toolset) -> FluentToolset:
    """Any toolset, with the wrappers as methods."""
    return FluentToolset(toolset)


__all__ = ["FluentCachedToolset", "FluentToolset", "ToolsetBase", "wrap"]
