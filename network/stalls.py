"""`note_stall`: what a request was, and whose, that kept the event loop when it began (security.md 6.2)."""

from typing import TYPE_CHECKING

from eosin.protocol.types import DecodeError
from eosin.protocol.wire.codec import decode_request_header
from eosin.runtime.clock import NS_PER_MS
from eosin.runtime.loop_watch import STALL_MS, Step

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.host import ConnectionHost


def note_stall(host: "ConnectionHost", connection: "ServerConnection", frame: memoryview, took_ns: int) -> None:
    """Tell the watch if a turn of a connection took very long. That was `frame`, its last request, since a turn begins
    none after its time."""
    watch = host.loop_watch
    if took_ns <= STALL_MS * NS_PER_MS or not watch.is_looking:
        return
    try:
        header = decode_request_header(frame)
        api, client_id = host.apis[header.api_key].key.name, header.client_id
    except (DecodeError, KeyError):
        api, client_id = "no request", None
    principal = connection.session.principal
    size, peer = len(frame), connection.peer
    ms = took_ns // NS_PER_MS
    watch.record(Step(ms, api=api, principal=principal, client_id=client_id, peer=peer, size_bytes=size))
