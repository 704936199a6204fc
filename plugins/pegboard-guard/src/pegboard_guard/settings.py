"""`GuardSettings`: what `[plugins.guard]` in `pegboard.toml` may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from pegboard_guard.check import flag, one_of
from pegboard_guard.doom_loop import ACTIONS, Action
from pegboard_guard.table import read_table, read_tables

if TYPE_CHECKING:
    from pegboard_guard.journal.guard import Journal
    from pegboard_guard.limits import CallLimits
    from pegboard_guard.order.rules import OrderRules


def _check_doom_loop(_settings: object, _attribute: object, value: object) -> None:
    if type(value) is not int or value < 0 or value == 1:
        raise ValueError(f"doom_loop must be 0 (off) or a whole number from 2 on, got {value!r:.100}")


@frozen
class OrderTable:
    """`[plugins.guard.order]`: lists of tables, one for each kind of rule.

    Attributes:
        after: Each as `ComesAfter`.
        before: Each as `ComesBefore`.
        exclusive: Each as `Exclusive`.
        cooldown: Each as `Cooldown`.
        required: Each as `Required`.
    """

    after: Any = ()
    before: Any = ()
    exclusive: Any = ()
    cooldown: Any = ()
    required: Any = ()

    def rules(self) -> OrderRules:
        """The guard.

        Raises:
            ValueError: As `read_table`, or the rules contradict each other.
            TypeError: As `read_table`.
        """
        from pegboard_guard.order.after import ComesAfter, ComesBefore
        from pegboard_guard.order.cooldown import Cooldown
        from pegboard_guard.order.exclusive import Exclusive
        from pegboard_guard.order.required import Required
        from pegboard_guard.order.rules import OrderRules

        rules = (
            *read_tables(ComesAfter, self.after, "order.after"),
            *read_tables(ComesBefore, self.before, "order.before"),
            *read_tables(Exclusive, self.exclusive, "order.exclusive"),
            *read_tables(Cooldown, self.cooldown, "order.cooldown"),
            *read_tables(Required, self.required, "order.required"),
        )
        try:
            return OrderRules(*rules)
        except ValueError as error:
            raise ValueError(f"order: {error}") from None


# What isn't switched on isn't imported.


def _limits(tables: Any) -> CallLimits | None:
    if tables is None:
        return None
    from pegboard_guard.limit import Limit
    from pegboard_guard.limits import CallLimits

    return CallLimits(*read_tables(Limit, tables, "limits"))


def _order(table: Any) -> OrderRules | None:
    return None if table is None else read_table(OrderTable, table, "order").rules()


def _journal(table: Any) -> Journal | None:
    if table is None:
        return None
    from pegboard_guard.journal.guard import Journal

    return read_table(Journal, table, "journal")


@frozen(eq=False)
class GuardSettings:
    """The settings of one registry's guard: what isn't named is off, but for doom loops.

    Attributes:
        doom_loop: From which call on, counted in a row, calls of one tool with the same arguments are stopped: with
            3, two run and the third doesn't. 0 is off.
        doom_loop_action: `"ask"`: a person may let it run; `"deny"`: nobody is asked.
        log_arguments: Whether the arguments are in the log; they may hold secrets.
        limits: A list of tables, each as `Limit`; or `None`.
        order: As `OrderTable`; or `None`.
        journal: As `Journal`; or `None`.
    """

    doom_loop: int = field(default=3, validator=_check_doom_loop)
    doom_loop_action: Action = field(default="ask", validator=one_of(ACTIONS))
    log_arguments: bool = field(default=False, validator=flag)
    limits: CallLimits | None = field(default=None, converter=_limits)
    order: OrderRules | None = field(default=None, converter=_order)
    journal: Journal | None = field(default=None, converter=_journal)

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> GuardSettings:
        """Reads the plugin's table.

        Raises:
            ValueError: An unknown key, or a value that isn't allowed.
            TypeError: A value of another type.
        """
        return read_table(cls, settings, "")
