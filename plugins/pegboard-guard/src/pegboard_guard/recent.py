"""`Recent`: what is kept of those that were used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from attrs import define, field

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
MOST: Final = 1000


@define(eq=False)
class Recent(Generic[K, V]):
    """A value for each key, for so many keys; the one that has been left alone the longest is forgotten first.

    Not locked: who shares one locks it.

    Attributes:
        make: Makes the value of a key that isn't there.
        most: How many keys are kept.
    """

    make: Callable[[], V]
    most: int = MOST
    _kept: OrderedDict[K, V] = field(factory=OrderedDict[K, V], init=False)

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: K) -> V:
        """The value of a key, made where there is none."""
        value = self._kept.pop(key, None)
        if value is None:
            value = self.make()
        self._kept[key] = value
        if len(self._kept) > self.most:
            self._kept.popitem(last=False)
        return value

    def known(self, key: K) -> V | None:
        """The value of a key, or `None`; nothing is made."""
        return self._kept.get(key)
