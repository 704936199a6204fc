"""The forms that have a name, and can be made of themselves; and a form with something noted on it."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Final

from attrs import Factory, define, field, frozen

from pegboard.tools.forms.constraint import ConstrainedForm
from pegboard.tools.forms.form import ALL_KINDS, Form, Hook, Kinds, WrappedForm, Writer, is_plain
from pegboard.typing import JsonMapping, JsonSchema

_MAKING: Final = RLock()
_TELLING: Final = frozenset({"description", "title", "examples", "default", "deprecated", "format", "$comment"})


@define(eq=False)
class LateHook:
    """A hook that is made when it is first asked for, once for all threads.

    Attributes:
        make: Makes it; may ask for it again meanwhile, and then gets one that looks for the other when called.
    """

    make: Callable[[], Hook]
    _made: Hook | None = field(default=None, init=False)
    _making: bool = field(default=False, init=False)

    def get(self) -> Hook:
        """The hook."""
        if self._made is not None:
            return self._made
        with _MAKING:
            if self._making:
                return self._later
            self._making = True
            try:
                self._made = self._made or self.make()
            finally:
                self._making = False
            return self._made

    def _later(self, value: Any) -> Any:
        return self.get()(value)


@define(eq=False)
class NamedForm(Form):
    """A form that can be made of itself.

    Attributes:
        name: Under which it stands in a schema's `$defs` where it is made of itself.
    """

    name: str
    _structure: LateHook = field(
        init=False, repr=False, default=Factory(lambda self: LateHook(self.make_structure), takes_self=True)
    )
    _unstructure: LateHook = field(
        init=False, repr=False, default=Factory(lambda self: LateHook(self.make_unstructure), takes_self=True)
    )

    def structure(self) -> Hook:
        """Made once."""
        return self._structure.get()

    def unstructure(self) -> Hook | None:
        """Made once."""
        return None if is_plain(self) else self._unstructure.get()

    def make_structure(self) -> Hook:
        """Makes the hook."""
        raise NotImplementedError

    def make_unstructure(self) -> Hook:
        """Makes the hook, for a form with something to do."""
        raise NotImplementedError


@define(eq=False)
class AliasForm(NamedForm, WrappedForm):
    """A type alias that is made of itself: `type Json = str | list[Json]`.

    Attributes:
        form: What it stands for; set once that is read.
    """

    form: Form = field(init=False)

    def wanted(self) -> str:
        """Its name: what it stands for has no end in words."""
        return f"a {self.name}"

    def kinds(self) -> Kinds:
        """As what it stands for; any while that is being read."""
        return self.form.kinds() if self.is_read() else ALL_KINDS

    def is_hashable(self) -> bool:
        """As what it stands for; it may turn out so while that is being read."""
        return not self.is_read() or self.form.is_hashable()

    def is_read(self) -> bool:
        """Whether it is known what it stands for."""
        return hasattr(self, "form")

    def make_structure(self) -> Hook:
        """As what it stands for."""
        return self.form.structure()

    def make_unstructure(self) -> Hook:
        """As what it stands for."""
        hook = self.form.unstructure()
        assert hook is not None
        return hook


@frozen(eq=False)
class NotedForm(WrappedForm):
    """A form with something that its schema says beside: a description, examples.

    Attributes:
        form: What it is noted on.
        notes: The keywords.
    """

    form: Form
    notes: JsonMapping

    def converts(self) -> bool:
        """Whether the notes may make the schema take what the form doesn't."""
        return not self.notes.keys() <= _TELLING

    def schema(self, writer: Writer) -> JsonSchema:
        """The form's, with the notes."""
        return {**writer.write(self.form), **self.notes}


def bare(form: Form) -> Form:
    """What is behind notes and constraints."""
    while isinstance(form, NotedForm | ConstrainedForm):
        form = form.form
    return form
