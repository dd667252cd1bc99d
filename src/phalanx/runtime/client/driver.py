"""The program that runs on the cluster as the driver of a client: it owns the client's work.

The program is the command of a job of the client's user. It joins the node on which it runs, as
every driver does. In the mode *system*, where nodes belong to another account, it joins a node that
it starts with the job's CPUs and devices. It serves one client. If the connection is lost, it waits
a limited time for the client. It ends the client's work when the client leaves or does not come
back.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from phalanx.errors import ProtocolError
from phalanx.model.ids import OWN_CLUSTER_DOOR, client_socket_of
from phalanx.objects.streams import Stream
from phalanx.protocol import client_messages as m
from phalanx.protocol.asking import Reply
from phalanx.protocol.node_messages import LogLine
from phalanx.protocol.requests.actors import KILLED, KillActor
from phalanx.protocol.requests.request import NOTHING, encode_request
from phalanx.protocol.wire_errors import to_wire
from phalanx.runtime.client.channel import KEPT_BYTES, Channel
from phalanx.runtime.client.door import Door
from phalanx.runtime.client.held import HeldReferences
from phalanx.runtime.client.own_node import node_of_this_job
from phalanx.runtime.client.settings import VARIABLE, DriverSettings
from phalanx.runtime.client.submitting import Submitting, raw
from phalanx.runtime.daemons.job_cluster import JobCluster, read_member
from phalanx.runtime.driver.engine import RuntimeEngine
from phalanx.runtime.driver.introduction import JobOptions
from phalanx.runtime.engine.interface import set_current
from phalanx.runtime.os.connection import connect
from phalanx.runtime.os.session import Session

DUE_BYTES = 64 << 20
"""The number of bytes of unhandled messages above which nothing more is read."""
FIRST_S = 60.0
"""Seconds for which a driver waits for the first connection of its client."""
_LAST_ANSWER_S = 5.0


class ClientDriver:
    """Carries out the messages of one client, in their order."""

    def __init__(self, settings: DriverSettings, session: Session, door: str = "") -> None:
        """`session`: the session of the driver's node. `door`: the path of the socket for the
        client; "" for a path in `session`.
        """
        self._settings = settings
        self._due: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._due_bytes = 0
        self._due_lock = threading.Lock()
        self.channel = Channel(self._came, lambda: self._due_bytes > DUE_BYTES)
        job = JobOptions(
            namespace=settings.namespace,
            log_to_driver=settings.log_to_driver,
            hook=settings.hook,
            queue=settings.queue,
            priority=settings.priority,
        )
        node = connect(session.socket_of(b"node"))
        self.engine = engine = RuntimeEngine.join(session, node, None, job, self)
        set_current(engine)
        self._runtime = runtime = engine.runtime
        self._held = HeldReferences(runtime.owner.references, runtime.lock)
        self._submitting = Submitting(runtime, self._held)
        self._has_left = threading.Event()
        path = door or session.socket_of(client_socket_of(runtime.process_id))
        self._door = Door(path, settings.secret_hash, self.channel, self._facts())
        self._handlers: dict[type, Callable[[Any], None]] = {
            m.DefineFunction: self._submitting.define_function,
            m.DefineTemplate: self._submitting.define_template,
            m.SubmitTask: lambda one: self._follow(one.number, self._submitting.task(one)),
            m.SubmitGang: self._submitting.gang,
            m.SubmitCall: lambda one: self._follow(one.number, self._submitting.call(one)),
            m.CreateActor: self._create,
            m.PutObject: self._submitting.put,
            m.Drop: self._drop,
            m.Pin: self._pin,
            m.GetObjects: lambda one: self._apart(one.token, partial(self._get, one)),
            m.WaitObjects: lambda one: self._apart(one.token, partial(self._wait, one)),
            m.WatchObject: self._watch,
            m.AskNode: self._ask_node,
            m.CancelWork: lambda one: self._answer(one.token, partial(self._cancel, one)),
            m.Withdraw: lambda one: self._answer(
                one.token, lambda: raw(self.engine.withdraw(self._held.of(one.ref)))
            ),
            m.TakeItems: self._take_items,
            m.LeaveStream: self._leave_stream,
            m.KillNow: lambda one: self._apart(one.token, partial(self._kill, one)),
            m.Inquire: lambda one: self._apart(one.token, partial(self._inquire, one)),
            m.Leave: self._leave,
        }

    def run(self) -> None:
        """Serve the client until it leaves or is gone."""
        threading.Thread(target=self._handle_all, name="client messages", daemon=True).start()
        served = threading.Thread(target=self._serve, name="client connection", daemon=True)
        served.start()
        self._has_left.wait()
        self.channel.close()
        self._door.close()
        self.engine.stop()

    def _serve(self) -> None:
        try:
            self._door.serve(FIRST_S, self._settings.reconnect_s)
        finally:
            if not self._has_left.is_set():
                print("phalanx: the client is gone; its work ends", file=sys.stderr)
            self._has_left.set()

    def _facts(self) -> m.Welcome:
        session = self._runtime.session
        return m.Welcome(
            process=self._runtime.process_id,
            node_id=self.engine.node_id(),
            session_name=session.name,
            session_directory=session.directory,
            namespace=self._settings.namespace,
        )

    # ---- output ------------------------------------------------------------------------------

    def log(self, message: LogLine) -> None:
        """Send the client a line of a worker's output, if the client keeps up."""
        self._tell(m.Printed(message))

    def warn(self, text: str) -> None:
        """Send the client a warning."""
        self._tell(m.Warned(text))

    def _tell(self, message: Any) -> None:
        if self.channel.kept_bytes < KEPT_BYTES:
            self._send(message)

    def _send(self, message: Any) -> None:
        try:
            self.channel.send(message)
        except ConnectionError:
            return  # the client has left
        except ProtocolError as error:
            if isinstance(message, m.Answer):
                self.channel.send(m.Answer(message.token, NOTHING, to_wire(error)))

    # ---- messages ----------------------------------------------------------------------------

    def _came(self, body: bytes) -> None:
        with self._due_lock:
            self._due_bytes += len(body)
        self._due.put(body)

    def _handle_all(self) -> None:
        try:
            while True:
                body = self._due.get()
                message = m.decode_for_driver(body)
                self._handlers[type(message)](message)
                with self._due_lock:
                    self._due_bytes -= len(body)
                if self._due.empty():  # no thread of this process waits for what was submitted
                    self._runtime.flush()
        finally:
            self._has_left.set()

    def _answer(self, token: int, work: Callable[[], msgspec.Raw]) -> None:
        """Do some work, and send the client its result or its error. `token`: the token of the
        client's question; 0 if it expects no answer.
        """
        try:
            result, error = work(), None
        except Exception as raised:
            result, error = NOTHING, to_wire(raised)
        if token:
            self._send(m.Answer(token, result, error))

    def _apart(self, token: int, work: Callable[[], msgspec.Raw]) -> None:
        """Do, in a thread of its own, work that may wait. Send the client the result."""
        threading.Thread(target=self._answer, args=(token, work), daemon=True).start()

    def _create(self, message: m.CreateActor) -> None:
        work = lambda: raw(self._submitting.create(message))  # noqa: E731
        if message.token:  # it waits for its arguments and for the head
            self._apart(message.token, work)
        else:
            self._answer(0, work)

    def _drop(self, message: m.Drop) -> None:
        for owner, number, count in message.refs:
            self._held.drop(owner, number, count)
        self._runtime.flush()

    def _pin(self, message: m.Pin) -> None:
        self._runtime.hooks.pin_forever(self._held.of(message.ref))

    def _get(self, message: m.GetObjects) -> msgspec.Raw:
        refs = [self._held.of(name) for name in message.refs]
        values = self._runtime.waiting.get_raw(refs, message.timeout_s)
        if len(values) == len(refs):
            for ref, value in zip(refs, values, strict=True):
                self._held.going(ref, value)
        return raw(values)

    def _wait(self, message: m.WaitObjects) -> msgspec.Raw:
        refs = [self._held.of(name) for name in message.refs]
        ready, _ = self._runtime.waiting.wait_some(
            refs, message.count, message.timeout_s, message.fetch
        )
        places = {ref: at for at, ref in enumerate(refs)}
        return raw([places[ref] for ref in ready])

    def _watch(self, message: m.WatchObject) -> None:
        ref = self._held.of(message.ref)
        arrived = partial(self._apart, 0, partial(self._arrived, message.ref, ref))
        self._runtime.hooks.on_ready(ref, arrived)

    def _arrived(self, name: m.Name, ref: Any) -> msgspec.Raw:
        (value,) = self._runtime.waiting.get_raw([ref], None)
        self._send(m.Arrived(name, self._held.going(ref, value)))
        return NOTHING

    def _ask_node(self, message: m.AskNode) -> None:
        runtime = self._runtime
        with runtime.lock:
            runtime.owner.actors.say_released()
            if message.token:
                replied = partial(self._replied, message.token)
                runtime.owner.requests.pass_on(message.kind, message.body, replied)
            else:
                runtime.owner.requests.pass_on_only(message.kind, message.body)
        runtime.flush()

    def _replied(self, token: int, reply: Reply) -> None:
        self._send(m.Answer(token, reply.result, reply.error))

    def _cancel(self, message: m.CancelWork) -> msgspec.Raw:
        self.engine.cancel(self._held.of(message.ref), message.force, message.recursive)
        return NOTHING

    def _kill(self, message: m.KillNow) -> msgspec.Raw:
        if message.no_restart:
            with self._runtime.hooks.lock_without_callbacks():
                client = self._runtime.owner.calls.client(message.actor)
                client.reason = KILLED
                client.dead()
        self.engine.ask(KillActor(message.actor, message.no_restart))
        return NOTHING

    def _inquire(self, message: m.Inquire) -> msgspec.Raw:
        if message.what == "timeline":
            return raw(self.engine.timeline())
        if message.what == "events":
            return raw(self.engine.cluster_events())
        if message.ref is None:
            raise ValueError(f"there is no inquiry {message.what!r}")
        request = self.engine.why_pending(self._held.of(message.ref))
        return raw(None if request is None else (request.kind, encode_request(request)))

    def _leave(self, message: m.Leave) -> None:
        self._send(m.Answer(message.token, NOTHING))
        self.channel.wait_over(_LAST_ANSWER_S)
        self._has_left.set()

    # ---- streams -----------------------------------------------------------------------------

    def _follow(self, number: int, stream: Stream | None) -> None:
        """Tell the client about the items of a stream."""
        if stream is None:
            return
        with self._runtime.lock:
            self._held.streams[number] = stream
        self._grew(number, stream, 0)

    def _grew(self, number: int, stream: Stream, told: int) -> None:
        with self._runtime.lock:
            if number not in self._held.streams:
                return
            arrived, is_ended = stream.arrived_to, stream.is_ended
            for index in range(told + 1, arrived + 1):
                self._held.hold(stream.slot(index))
            if not is_ended:
                stream.waiters.append(partial(self._grew, number, stream, arrived))
        if arrived > told or is_ended:
            self._send(m.StreamGrew(number, arrived, is_ended))

    def _take_items(self, message: m.TakeItems) -> None:
        with self._runtime.lock:
            stream = self._held.streams.get(message.number)
            if stream is not None:
                for index in range(stream.taken_to + 1, message.index + 1):
                    stream.take(index)
        self._runtime.flush()

    def _leave_stream(self, message: m.LeaveStream) -> None:
        with self._runtime.lock:
            stream = self._held.streams.pop(message.number, None)
        if stream is not None:
            self._runtime.owner.abandoned.append(stream)
            self._runtime.flush()


def main() -> None:
    """Read the settings from the environment, join, and serve the client."""
    text = os.environ.pop(VARIABLE, "")
    if not text:
        sys.exit(f"phalanx: this program is started by phalanx.init('phalanx://…'): no {VARIABLE}")
    settings = msgspec.json.decode(text, type=DriverSettings)
    if not settings.has_own_cluster:
        ClientDriver(settings, node_of_this_job()).run()
        return
    cluster = JobCluster(read_member(os.environ))
    with cluster.running():
        door = cluster.head_session().socket_of(OWN_CLUSTER_DOOR)
        ClientDriver(settings, cluster.node_session(), door).run()


if __name__ == "__main__":
    main()
