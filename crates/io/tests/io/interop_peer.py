"""A QUIC peer that shares no code with taut: aioquic, driven by hand on a UDP socket.

    interop_peer.py client HOST:PORT OUR_SECRET THEIR_CERTIFICATE ROUNDS
    interop_peer.py server OUR_SECRET THEIR_CERTIFICATE

Secrets are Ed25519 seeds, certificates DER, both in hex. The client sends samples in datagrams and messages in streams
and expects every one of them back; then it moves to another port and goes on; with ROUNDS 2 it connects a second time
with what it remembers, and sends in its first flight. The server prints its port, then echoes until the peer leaves.
What happened is printed as JSON, one object a line.
"""

import datetime
import json
import select
import socket
import ssl
import sys
import tempfile
import time

from aioquic import tls
from aioquic.buffer import Buffer, encode_uint_var
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic import events
from aioquic.quic.packet import pull_quic_header
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

SAMPLES, MESSAGES, LONG = 100, 20, 20_000
DEADLINE = time.time() + 30


def tell(**what):
    print(json.dumps(what), flush=True)


def certificate(key):
    """Self-signed, as any tool would make it: nothing in it but the key is agreed upon."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a peer")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now)
    return builder.not_valid_after(now + datetime.timedelta(days=7)).sign(key, None)


def configuration(is_client, secret, theirs):
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
    config = QuicConfiguration(is_client=is_client, alpn_protocols=["taut/1"], max_datagram_frame_size=65_536)
    config.certificate, config.private_key = certificate(key), key
    der = bytes.fromhex(theirs)
    if is_client:
        # The peer's own certificate is the root of trust: aioquic checks signature, time and name.
        config.server_name, config.verify_mode = "taut", ssl.CERT_REQUIRED
        config.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(der).encode())
    return config, x509.load_der_x509_certificate(der)


def reliable(stream, data):
    return encode_uint_var(stream) + encode_uint_var(len(data)) + data


def unreliable(stream, data):
    return encode_uint_var(stream) + data


class Peer:
    def __init__(self, connection, sock, address):
        self.connection, self.socket, self.address = connection, sock, address
        self.streams, self.datagrams, self.messages = {}, [], []
        self.connected, self.early, self.closed = False, False, None

    def flush(self):
        for data, address in self.connection.datagrams_to_send(time.time()):
            self.socket.sendto(data, address)

    def turn(self):
        self.flush()
        timer = self.connection.get_timer()
        wait = min(0.05, max(0.0, timer - time.time())) if timer else 0.05
        if select.select([self.socket], [], [], wait)[0]:
            data, address = self.socket.recvfrom(65_536)
            self.connection.receive_datagram(data, address, time.time())
        if timer and time.time() >= timer:
            self.connection.handle_timer(time.time())
        while (event := self.connection.next_event()) is not None:
            self.take(event)
        self.flush()

    def take(self, event):
        if isinstance(event, events.HandshakeCompleted):
            self.connected, self.early = True, event.early_data_accepted
        elif isinstance(event, events.DatagramFrameReceived):
            buffer = Buffer(data=event.data)
            stream = buffer.pull_uint_var()
            self.datagrams.append((stream, event.data[buffer.tell():]))
        elif isinstance(event, events.StreamDataReceived):
            self.streams[event.stream_id] = self.streams.get(event.stream_id, b"") + event.data
            self.parse(event.stream_id)
        elif isinstance(event, events.ConnectionTerminated):
            self.closed = f"{event.error_code:#x} {event.reason_phrase}"

    def parse(self, stream_id):
        while self.streams[stream_id]:
            buffer = Buffer(data=self.streams[stream_id])
            try:
                stream, length = buffer.pull_uint_var(), buffer.pull_uint_var()
                data = buffer.pull_bytes(length)
            except Exception:
                return
            self.messages.append((stream, data))
            self.streams[stream_id] = self.streams[stream_id][buffer.tell():]

    def until(self, what, done):
        while not done():
            if self.closed is not None or time.time() > DEADLINE:
                tell(failed=what, closed=self.closed, datagrams=len(self.datagrams), messages=len(self.messages))
                sys.exit(1)
            self.turn()

    def same_key(self, theirs):
        shown = self.connection.tls._peer_certificate
        raw = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return shown.public_key().public_bytes(*raw) == theirs.public_key().public_bytes(*raw)


def bound():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    return sock


def exchange(peer, begin):
    """Samples and messages out, and every one of them back."""
    lane = peer.connection.get_next_available_stream_id(is_unidirectional=True)
    sent = [f"message {number} ".encode() * (LONG // 12 if number == 7 else 1) for number in range(MESSAGES)]
    datagrams, messages = len(peer.datagrams), len(peer.messages)
    for number in range(SAMPLES):
        peer.connection.send_datagram_frame(unreliable(2, b"sample %d" % (begin + number)))
        if number % (SAMPLES // MESSAGES) == 0:
            peer.connection.send_stream_data(lane, reliable(1, sent[number * MESSAGES // SAMPLES]))
        until = len(peer.datagrams) + 1
        peer.until("a sample", lambda: len(peer.datagrams) >= until)
    peer.until("messages", lambda: len(peer.messages) == messages + MESSAGES)
    assert peer.messages[messages:] == [(1, data) for data in sent], "messages came back otherwise"
    expected = [(2, b"sample %d" % (begin + number)) for number in range(SAMPLES)]
    assert peer.datagrams[datagrams:] == expected, "samples came back otherwise"


def client(address, secret, theirs, rounds):
    host, port = address.rsplit(":", 1)
    address, ticket = (host, int(port)), None
    for attempt in range(int(rounds)):
        if attempt > 0:
            # Its server serves one session at a time and says when it has seen the end of the last.
            sys.stdin.readline()
        config, certificate = configuration(True, secret, theirs)
        config.session_ticket, tickets = ticket, []
        connection = QuicConnection(configuration=config, session_ticket_handler=tickets.append)
        peer = Peer(connection, bound(), address)
        connection.connect(address, now=time.time())
        if ticket is not None:
            connection.send_datagram_frame(unreliable(3, b"early"))
        peer.until("the handshake", lambda: peer.connected)
        if ticket is not None:
            peer.until("the early sample", lambda: (3, b"early") in peer.datagrams)
            tell(resumed=connection.tls.session_resumed, early_accepted=peer.early)
        else:
            tell(connected=True, key=peer.same_key(certificate))
        exchange(peer, 0)
        # Another port, another connection ID: RFC 9000 section 9.5.
        peer.socket = bound()
        connection.change_connection_id()
        exchange(peer, SAMPLES)
        tell(moved=True)
        peer.until("a ticket", lambda: int(rounds) == 1 or tickets)
        ticket = tickets[0] if tickets else None
        connection.close()
        peer.flush()
    tell(done=True)


def server(secret, theirs):
    ours = tls.Context.__init__

    def asking(self, *arguments, **named):
        ours(self, *arguments, **named)
        self._request_client_certificate = True

    tls.Context.__init__ = asking
    config, certificate = configuration(False, secret, theirs)
    sock = bound()
    tell(port=sock.getsockname()[1])
    data, address = sock.recvfrom(65_536)
    header = pull_quic_header(Buffer(data=data), host_cid_length=8)
    connection = QuicConnection(
        configuration=config, original_destination_connection_id=header.destination_cid
    )
    connection.receive_datagram(data, address, time.time())
    peer = Peer(connection, sock, address)
    peer.until("the handshake", lambda: peer.connected)
    tell(connected=True, key=peer.same_key(certificate))
    lane = connection.get_next_available_stream_id(is_unidirectional=True)
    seen = [0, 0]
    while peer.closed is None and time.time() < DEADLINE:
        peer.turn()
        for stream, data in peer.datagrams[seen[0]:]:
            connection.send_datagram_frame(unreliable(stream, data))
        for stream, data in peer.messages[seen[1]:]:
            connection.send_stream_data(lane, reliable(stream, data))
        seen = [len(peer.datagrams), len(peer.messages)]
    tell(done=True, datagrams=seen[0], messages=seen[1], closed=peer.closed)


if __name__ == "__main__":
    {"client": client, "server": server}[sys.argv[1]](*sys.argv[2:])
