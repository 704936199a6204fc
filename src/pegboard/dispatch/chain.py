"""`Chain`: the callbacks of one stage that isn't a call's, as those round models and turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from attrs import frozen

from pegboard.chains import Link, LinkError
from pegboard.dispatch.limits import cancels_the_call
from pegboard.dispatch.link import InnerError, answer_of, answer_round
from pegboard.dispatch.work import Surroundings
from pegboard.errors import log_failure


@frozen(eq=False)
class Chain:
    """Callbacks in their order, plugins' first, each asked within its time limit.

    Attributes:
        links: The callbacks.
        around: How they are asked.
    """

    links: tuple[Link, ...]
    around: Surroundings

    def __bool__(self) -> bool:
        """Whether anybody is there."""
        return bool(self.links)

    async def answers(self, *facts: Any) -> Any:
        """The first answer that is not `None`, and who gave it; no later one is asked.

        Returns:
            `(answer, link)`, or `None` where nobody answers.

        Raises:
            LinkError: A callback failed, or took too long; `link` is who, `__cause__` what it raised.
        """
        for link in self.links:
            try:
                answer = await answer_of(link, self.around, *facts)
            except BaseException as error:
                raise _own(link, error) from error
            if answer is not None:
                return answer, link
        return None

    async def tell(self, *facts: Any) -> None:
        """Tells everybody; who fails is named to the operator, and costs nobody else anything."""
        for link in self.links:
            try:
                await answer_of(link, self.around, *facts)
            except BaseException as error:
                if cancels_the_call(error):
                    raise
                log_failure(f"callback of {link.owner}", error)

    async def around_all(self, run: Callable[[], Awaitable[Any]], *facts: Any) -> Any:
        """What the outermost wrapper gives; the first in order is the outermost, `run` the innermost.

        Raises:
            LinkError: A wrapper failed by itself.
            BaseException: What `run` raised, where the wrappers let it through.
        """
        for link in reversed(self.links):
            run = partial(self._round, link, run, facts)
        return await run()

    async def _round(self, link: Link, run: Callable[[], Awaitable[Any]], facts: tuple[Any, ...]) -> Any:
        try:
            return await answer_round(link, self.around, run, *facts)
        except InnerError as inner:
            raise inner.error from None
        except BaseException as error:
            raise _own(link, error) from error

    def __iter__(self) -> Iterator[Link]:
        return iter(self.links)


def _own(link: Link, error: BaseException) -> BaseException:
    """The failure of one callback; a cancellation of whoever asks stays one."""
    return error if cancels_the_call(error) else LinkError(link, error)


__all__ = ["Chain"]
