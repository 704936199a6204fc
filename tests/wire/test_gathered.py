from __future__ import annotations

from hypothesis import given, strategies as st

from pegboard.wire.streams import Gathered, Room


@given(st.lists(st.text(max_size=5)), st.integers(0, 20), st.integers(0, 20))
def test_gathered_text_is_as_much_as_there_is_room_for(pieces, room, most):
    gathered = Gathered(Room(room), most)
    taken = [gathered.add(piece) for piece in pieces]

    assert gathered.text == "".join(taken) == "".join(pieces)[: min(room, most)]
    assert (gathered.text, len(gathered)) == (gathered.text, len(gathered.text))
    assert gathered.room.spent == (len("".join(pieces)[:most]) > room)
    assert gathered.over == (gathered.text != "".join(pieces))


def test_what_is_no_text_is_no_piece():
    gathered = Gathered(Room())

    assert [gathered.add(piece) for piece in (None, 3, {}, b"x")] == [""] * 4
    assert not gathered.over
