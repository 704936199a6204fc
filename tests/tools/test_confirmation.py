"""What a person answered, and to what."""

from __future__ import annotations

from pegboard.tools.call import MOST_EARLIER, Confirmation


def test_an_answer_counts_for_its_own_question_only():
    answer = Confirmation("Overwrite a?", confirmed=True)
    assert answer.to_question("Overwrite a?") is answer
    assert answer.to_question("Overwrite b?") is None
    assert answer.to_permission("edit", ["a"]) is None


def test_an_answer_to_a_permission_counts_for_what_it_named():
    """All of the patterns, or fewer; never for a question."""
    answer = Confirmation(confirmed=True, permission="edit", patterns=["a", "b"])
    assert answer.to_permission("edit", ["b"]) is answer
    assert answer.to_permission("edit", ["b", "c"]) is None
    assert answer.to_permission("bash", ["b"]) is None
    assert answer.to_question("") is None


def test_earlier_answers_count_too():
    """The latest to the same question first."""
    first, second = Confirmation("1", confirmed=True), Confirmation("2", confirmed=False)
    again = Confirmation("1", confirmed=False).after(second.after([first]).history())
    assert again.to_question("2") == second
    assert again.to_question("1").confirmed is False
    assert [one.hint for one in again.history()] == ["1", "2", "1"]
    assert all(one.earlier == () for one in again.history())


def test_history_is_bounded():
    answer = Confirmation("x").after([Confirmation(str(number)) for number in range(100)])
    assert len(answer.earlier) == MOST_EARLIER
    assert answer.earlier[0].hint == "0"


def test_json_says_what_there_is():
    assert Confirmation("h").to_json() == {"hint": "h", "confirmed": False}
    full = Confirmation("h", confirmed=True, payload={"n": 1}, feedback="do it", permission="edit", patterns=("a",))
    assert full.to_json() == {
        "hint": "h",
        "confirmed": True,
        "payload": {"n": 1},
        "feedback": "do it",
        "permission": "edit",
        "patterns": ["a"],
    }
