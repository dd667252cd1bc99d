"""Errors that are sent in place of messages that are too large, so that only the message's task or
request fails.
"""

from __future__ import annotations

from typing import NamedTuple

from phalanx.errors import MessageTooLargeError
from phalanx.objects import failures
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.frames import Unsendable
from phalanx.protocol.messages import Call, Done, Failed, Fetched, Item, Message, Task
from phalanx.protocol.node_messages import LeaseWanted, Refused
from phalanx.protocol.requests.request import NOTHING
from phalanx.protocol.wire_errors import code_of, to_wire


class OversizeError(NamedTuple):
    """A message with an error, which replaces a message that was too large."""

    message: Message
    is_for_sender: bool
    """Whether the sender of the large message gets the error, as if the receiver had answered with
    it. If not, the receiver gets it.
    """


def stand_in(unsendable: Unsendable) -> OversizeError | None:
    """Return a message to send in place of `unsendable`: it carries an error to the process that
    waits for the message, or for the answer to it. Returns None if there is no such message. The
    connection must then end.
    """
    match unsendable.message:
        case Task(number=number, name=name):
            error = MessageTooLargeError(
                f"Task {name or number} cannot be sent to its worker: {unsendable.reason}. Its "
                "arguments that are references to small values travel in that message: put them "
                "into one object."
            )
            return OversizeError(_failed(number, error), True)
        case Call(number=number, method=method):
            error = MessageTooLargeError(
                f"The call of {method} cannot be sent to its actor: {unsendable.reason}. Its "
                "arguments that are references to small values travel in that message: put them "
                "into one object."
            )
            return OversizeError(_failed(number, error), True)
        case Done(number=number) | Item(number=number) | Failed(number=number):
            error = MessageTooLargeError(
                f"The result of a task cannot be sent to its owner: {unsendable.reason}."
            )
            return OversizeError(_failed(number, error), False)
        case Fetched(number=number):
            error = MessageTooLargeError(f"An object cannot be sent: {unsendable.reason}.")
            return OversizeError(Fetched(number, failures.failed(error)), False)
        case Ask(token=token):
            error = MessageTooLargeError(f"A request cannot be sent: {unsendable.reason}.")
            return OversizeError(Reply(token, NOTHING, to_wire(error)), True)
        case Reply(token=token):
            error = MessageTooLargeError(f"An answer cannot be sent: {unsendable.reason}.")
            return OversizeError(Reply(token, NOTHING, to_wire(error)), False)
        case LeaseWanted(scheduling_class=wanted):
            text = f"its demand cannot be sent to the node: {unsendable.reason}"
            refusal = Refused(wanted, text, fatal=True, code=code_of(MessageTooLargeError))
            return OversizeError(refusal, True)
    return None


def _failed(number: int, error: MessageTooLargeError) -> Failed:
    return Failed(number, failures.pack(error), 0.0, 0.0, retriable=False)
