"""A peer of `ncclwatch doctor` in Python: the exchange's session (docs/EXCHANGE.md) and doctor's messages."""

import hashlib
import hmac
import json
import os
import socket
import struct

HELLO, WELCOME, PING, PONG, TRY, ATTEMPTS, END, ECHO, READY = range(1, 10)
HELLO_BYTES, CHALLENGE_BYTES, PROOF_BYTES = 40 + 16, 40 + 32, 32  # with one token
PRIME = 2**255 - 19


def x25519(scalar, point=9):
    scalar = (int.from_bytes(scalar, "little") & ~7 & (2**255 - 1)) | 2**254
    x2, z2, x3, z3, swap = 1, 0, point, 1, 0
    for bit in reversed(range(255)):
        now = scalar >> bit & 1
        if swap ^ now:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = now
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a % PRIME, c * b % PRIME, a * a % PRIME, b * b % PRIME
        x3, z3 = (da + cb) ** 2 % PRIME, point * (da - cb) ** 2 % PRIME
        x2, z2 = aa * bb % PRIME, (aa - bb) * (aa + 121665 * (aa - bb)) % PRIME
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


def chacha_block(key, counter, nonce):
    start = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, *struct.unpack("<8I", key), counter, *struct.unpack("<3I", nonce)]
    state = list(start)

    def mix(a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) & 0xffffffff
            state[z] ^= state[x]
            state[z] = (state[z] << turn | state[z] >> (32 - turn)) & 0xffffffff

    for _ in range(10):
        for quarter in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                        (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            mix(*quarter)
    return struct.pack("<16I", *((a + b) & 0xffffffff for a, b in zip(state, start)))


def chacha(key, nonce, text):
    out = bytearray()
    for at in range(0, len(text), 64):
        out += bytes(a ^ b for a, b in zip(text[at:at + 64], chacha_block(key, 1 + at // 64, nonce)))
    return bytes(out)


def tag(key, nonce, head, sealed):
    one_time = chacha_block(key, 0, nonce)[:32]
    r, s = int.from_bytes(one_time[:16], "little") & 0x0ffffffc0ffffffc0ffffffc0fffffff, int.from_bytes(one_time[16:], "little")
    text = head + bytes(-len(head) % 16) + sealed + bytes(-len(sealed) % 16) + struct.pack("<QQ", len(head), len(sealed))
    sum_ = 0
    for at in range(0, len(text), 16):
        sum_ = (sum_ + int.from_bytes(text[at:at + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((sum_ + s) & (2**128 - 1)).to_bytes(16, "little")


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def for_doctor(token):
    return mac(token, b"ncclwatch doctor")


def token_of_secret(secret):
    return for_doctor(mac(b"ncclwatch token of a secret", secret))


def guessable_token(identity):
    return for_doctor(mac(b"ncclwatch token of a job", identity))


SECRET_HALF = os.urandom(32)  # one for all connections: a test may make many
OPEN_HALF = x25519(SECRET_HALF)


class Refused(Exception):
    pass


class Peer:
    """One connection that has proved its token; Refused where the other side does not believe it."""

    def __init__(self, sock, token, dialer):
        self.sock, self.sent, self.received = sock, 0, 0
        half = OPEN_HALF
        if dialer:
            hello = b"NCWX\2\1\0\0" + half
            hello += mac(token, b"ncclwatch 2 hello", hello)[:16]
            sock.sendall(hello)
            challenge = self.exactly(CHALLENGE_BYTES)
            if challenge[40:] != mac(token, b"ncclwatch 2 listener", hello, challenge[:40]):
                raise Refused("the listener has another token")
            sock.sendall(mac(token, b"ncclwatch 2 dialer", hello, challenge))
            other = challenge[8:40]
        else:
            hello = self.exactly(40)
            hello += self.exactly(16 * hello[5])
            tags = [hello[at:at + 16] for at in range(40, len(hello), 16)]
            own = mac(token, b"ncclwatch 2 hello", hello[:40])[:16]
            if own not in tags:
                raise Refused("the dialer has another token")
            challenge = b"NCWY\2" + bytes([tags.index(own), 0, 0]) + half
            challenge += mac(token, b"ncclwatch 2 listener", hello, challenge)
            sock.sendall(challenge)
            if self.exactly(PROOF_BYTES) != mac(token, b"ncclwatch 2 dialer", hello, challenge):
                raise Refused("the dialer has no proof")
            other = hello[8:40]
        self.token, self.dialer, self.other, self.said = token, dialer, other, hello + challenge
        self.sending = None

    def agree(self):
        """On the keys; takes a few milliseconds."""
        shared = x25519(SECRET_HALF, int.from_bytes(self.other, "little") & (2**255 - 1))
        session = mac(self.token, b"ncclwatch 2 session", shared, self.said)
        ways = [mac(session, b"dialer to listener"), mac(session, b"listener to dialer")]
        self.sending, self.receiving = ways if self.dialer else ways[::-1]

    def exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                part = self.sock.recv(count - len(data))
            except OSError as error:
                raise Refused(str(error)) from None
            if not part:
                raise Refused(f"closed after {len(data)} of {count} bytes")
            data += part
        return data

    def send(self, kind, payload):
        if not isinstance(payload, bytes):
            payload = json.dumps(payload).encode() if payload != "" else b""
        if not self.sending:
            self.agree()
        head = struct.pack("<IHBB", len(payload), kind, 2, 0)
        nonce = struct.pack("<IQ", 0, self.sent)
        self.sent += 1
        sealed = chacha(self.sending, nonce, payload)
        self.sock.sendall(head + sealed + tag(self.sending, nonce, head, sealed))

    def receive(self):
        if not self.sending:
            self.agree()
        head = self.exactly(8)
        size, kind, _, _ = struct.unpack("<IHBB", head)
        nonce = struct.pack("<IQ", 0, self.received)
        self.received += 1
        sealed = self.exactly(size)
        if self.exactly(16) != tag(self.receiving, nonce, head, sealed):
            raise Refused("a damaged frame")
        return kind, chacha(self.receiving, nonce, sealed)


def dial(port, token, host="127.0.0.1"):
    sock = socket.create_connection((host, port), timeout=20)
    return Peer(sock, token, dialer=True)


def report(**more):
    return {"checks": [], "versions": {}, "variables": {}, **more}


def hello(rank, **more):
    return {"rank": rank, "host": "elsewhere", "address": "127.0.0.1", "port": 0, "report": report(), **more}
