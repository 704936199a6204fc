from __future__ import annotations

from pegboard import Message, ToolCall, ToolResult
from pegboard.messages import CallPart, ResultPart
from pegboard_clients.conversation import OrderedConversation

ONE, TWO = ToolCall("f", {}, "1", provider_metadata={"plum": {"original_id": ""}}), ToolCall("f", {}, "2")


class Plums(OrderedConversation):
    family = "plum"

    def speak(self, message):
        self.written.append([self.wire_id(call) for call in message.calls] or message.text)

    def hear(self, role, parts):
        self.answer_calls()
        self.written.append(f"{role}: {''.join(part.text for part in parts)}")

    def answer(self, results):
        self.written.append([(part.call_id, wire_id) for part, wire_id in results])


def result(call_id):
    return ResultPart(call_id, "f", ToolResult("x"))


def test_results_of_a_turn_come_together_in_the_order_of_its_calls():
    messages = [
        Message("tool", (result("0"),)),
        Message.user("Hi"),
        Message("assistant", (CallPart(ONE), CallPart(TWO))),
        Message("tool", (result("2"),)),
        Message("tool", (result("7"), result("1"))),
        Message.user("Well?"),
    ]
    ordered = [("1", ""), ("2", "2"), ("7", "7")]
    assert Plums(written=["begun"]).write(messages) == [
        "begun",
        [("0", "0")],
        "user: Hi",
        ["", "2"],
        ordered,
        "user: Well?",
    ]
