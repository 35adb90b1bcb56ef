#!/usr/bin/env python3
"""`ncclwatch doctor` between ranks, and peers that are no ranks of the job, or ranks that send nonsense."""

import json
import os
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, HERE)

import peer  # noqa: E402
from doctor_job import GUESS, SECRET, Job, listening, result  # noqa: E402
from harness import case, check, check_equal, run_main  # noqa: E402


def check_came(checks, status, words=""):
    one = checks["ranks-came"]
    check(one["status"] == status and words in one["seen"] + one["reason"], f"{status} with '{words}' expected: {one}")


def serve(one):
    """As a rank does it, until the report is made."""
    while True:
        kind, _ = one.receive()
        if kind == peer.PING:
            one.send(peer.PONG, {"now_s": time.time()})
        elif kind == peer.TRY:
            one.send(peer.ATTEMPTS, {"attempts": []})
        elif kind == peer.END:
            return


@case
def rank_with_the_secret_is_believed(sandbox):
    """The peer of these tests speaks the language: what is refused below is refused for what it does wrong."""
    with Job(sandbox, 2) as job:
        rank0 = job.start_rank0()
        one = job.join(1)
        check_equal(one.receive()[0], peer.WELCOME, "welcome")
        serve(one)
        _, checks, report = result(rank0)
        check_came(checks, "PASS", "2 of 2 ranks")
        check_equal((report["ranks"], checks["ranks-proven"]["status"]), (2, "PASS"), "proven")


@case
def fake_rank_with_a_guessable_token_is_refused(sandbox):
    # A secret that the user gives, and one that the ranks of a host share: in the home, or without one.
    for secret, env in ((SECRET, {}), (None, {}), (None, {"HOME": "/nowhere"})):
        with Job(sandbox, 2, secret, local=2) as job:
            rank0 = job.start_rank0(**env)
            tokens = [peer.guessable_token(text) for text in (GUESS, f"meet/127.0.0.1:{job.port}".encode())]
            tokens.append(f"ncclwatch-doctor 127.0.0.1:{job.port}".encode())
            for token in tokens:
                try:
                    job.join(1, token=token)
                except peer.Refused as why:
                    check("after 0 of" in str(why) or "reset" in str(why), f"not a byte is said to a stranger: {why}")
                else:
                    check(False, "a stranger is taken for a rank")
            old = socket.create_connection(("127.0.0.1", job.port), timeout=20)  # as before there were tokens
            old.sendall(json.dumps({"job": f"ncclwatch-doctor 127.0.0.1:{job.port}", **peer.hello(1)}).encode() + b"\n")
            try:
                check_equal(old.recv(100), b"", "refused")
            except ConnectionResetError:
                pass
            rank1 = job.start(1, **env)
            _, checks, report = result(rank0)
            check_came(checks, "PASS", "2 of 2 ranks")
            check_equal((rank1.wait(20), report["hosts"]), (0, 1), "the rank itself has come")
            check_equal(checks["ranks-proven"]["status"], "PASS", "by a secret")


@case
def without_a_secret_it_says_that_ranks_are_not_authenticated(sandbox):
    """A home that the ranks do not share: whoever guesses the token is believed, and the report says so."""
    with Job(sandbox, 3, secret=None) as job:
        rank0 = job.start_rank0(HOME="/nowhere")
        stranger = job.join(2, token=peer.guessable_token(GUESS))
        check_equal(stranger.receive()[0], peer.WELCOME, "welcome")
        job.start(1, HOME="/nowhere")
        serve(stranger)
        _, checks, _ = result(rank0)
        check_came(checks, "PASS", "3 of 3 ranks")
        one = checks["ranks-proven"]
        check(one["status"] == "WARN" and "not authenticated" in one["reason"] and "NCCLWATCH_TOKEN_FILE" in one["advice"], f"{one}")
        check_equal(one["ranks"], [1, 2], "whose reports these are")


@case
def refused_secret_is_not_replaced_by_a_weaker_one(sandbox):
    with Job(sandbox, 2, wait="3s") as job:
        os.chmod(job.env["NCCLWATCH_TOKEN_FILE"], 0o644)
        rank0 = job.start(0)
        status, checks, _ = result(rank0)
        check_came(checks, "FAIL", "chmod 600")
        check_equal(status, 1, "status")
        rank1 = job.start(1)
        _, err = rank1.communicate(timeout=20)
        check(rank1.returncode == 1 and "chmod 600" in err, err)


def deep(depth):
    return b"[" * depth


# What a peer that has the secret may send first; none of it is a report.
BAD_HELLOS = {
    "no JSON": b"\x00\xff{", "empty": b"", "a list": b"[]", "no keys": b"{}", "too deep": b'{"rank":' + deep(200000),
    "rank 0 itself": json.dumps(peer.hello(0)).encode(), "a rank too high": json.dumps(peer.hello(2)).encode(),
    "a negative rank": json.dumps(peer.hello(-1)).encode(), "a rank that is text": json.dumps(peer.hello("1")).encode(),
    "a huge port": json.dumps(peer.hello(1, port=2**40)).encode(), "a name for an address": json.dumps(peer.hello(1, address="evil.invalid")).encode(),
    "a check that is no check": json.dumps(peer.hello(1, report=peer.report(checks=[7]))).encode(),
    "a check of numbers": json.dumps(peer.hello(1, report=peer.report(checks=[{"id": 1, "status": 2, "seen": 3}]))).encode(),
    "variables in a list": json.dumps(peer.hello(1, report=peer.report(variables=["a"]))).encode(),
    "too many checks": json.dumps(peer.hello(1, report=peer.report(checks=[{}] * 5000))).encode(),
}


@case
def malformed_first_messages(sandbox):
    with Job(sandbox, 2, wait="60s") as job:
        rank0 = job.start_rank0()
        for name, payload in BAD_HELLOS.items():
            one = job.join(1, payload)
            try:
                kind, _ = one.receive()
                check(False, f"{name}: answered with {kind}")
            except peer.Refused:
                pass
            check(rank0.poll() is None, f"{name}: rank 0 goes on")
        one = peer.dial(job.port, peer.token_of_secret(SECRET))  # larger than a frame may be
        one.sock.sendall(struct.pack("<IHBB", 1 << 31, peer.HELLO, 2, 0))
        try:
            one.receive()
            check(False, "a frame of 2 GiB is waited for")
        except peer.Refused:
            pass
        job.start(1)
        _, checks, _ = result(rank0)
        check_came(checks, "PASS", "2 of 2 ranks")


ANSWERS = [(peer.PONG, b"nonsense"), (peer.PONG, {"now_s": "late"}), (peer.PONG, {"now_s": 1e999}), (peer.ATTEMPTS, {"attempts": []}),
           (77, b"\xff" * 100)]


@case
def malformed_answers(sandbox):
    """A rank that answers nonsense is lost, and all others are reported."""
    for kind, payload in ANSWERS:
        with Job(sandbox, 3) as job:
            rank0 = job.start_rank0()
            one = job.join(1, host="a")
            check_equal(one.receive()[0], peer.WELCOME, "welcome")
            job.start(2)
            check_equal(one.receive()[0], peer.PING, "asked for its clock")
            one.send(kind, payload)
            status, checks, report = result(rank0)
            check_came(checks, "FAIL", "rank 1 came and then stopped answering")
            check_equal((status, report["ranks"]), (1, 3), "the others are reported")


@case
def malformed_attempts(sandbox):
    bad = [{"attempts": 3}, {"attempts": [{"to": 0}]}, {"attempts": [{"to": 0, "error": "", "round_trip_s": "1", "bytes_per_s": 0, "ladder": []}]},
           {"attempts": [{"to": 0, "error": "", "round_trip_s": 1, "bytes_per_s": 0, "ladder": [["a", "b"]]}]}, {"attempts": [{}] * 1000}, b"{"]
    for answer in bad:
        with Job(sandbox, 2) as job:
            rank0 = job.start_rank0()
            one = job.join(1, port=9)
            while True:
                kind, payload = one.receive()
                if kind == peer.PING:
                    one.send(peer.PONG, {"now_s": time.time()})
                elif kind == peer.TRY:
                    check_equal([to["rank"] for to in json.loads(payload)["peers"]], [0], "whom to try")
                    one.send(peer.ATTEMPTS, answer)
                    break
            _, checks, _ = result(rank0)
            check_came(checks, "FAIL", "rank 1 came and then stopped answering")


@case
def rank_that_dies_in_the_meeting(sandbox):
    with Job(sandbox, 2) as job:
        rank0 = job.start_rank0()
        one = job.join(1)
        check_equal(one.receive()[0], peer.WELCOME, "welcome")
        one.sock.close()
        status, checks, _ = result(rank0)
        check_came(checks, "FAIL", "rank 1 came and then stopped answering")
        check_equal(status, 1, "status")


@case
def silent_connections_keep_no_rank_out(sandbox):
    for count in (30, 300):
        with Job(sandbox, 2) as job:
            rank0 = job.start_rank0()
            silent = [socket.create_connection(("127.0.0.1", job.port)) for _ in range(count)]
            job.start(1)
            _, checks, _ = result(rank0)
            check_came(checks, "PASS", "2 of 2 ranks")
            for one in silent:
                one.close()


@case
def silent_connections_that_guessed_the_token_keep_no_rank_out(sandbox):
    with Job(sandbox, 2, secret=None, wait="4s") as job:
        rank0 = job.start_rank0(HOME="/nowhere")
        silent = [peer.dial(job.port, peer.guessable_token(GUESS)) for _ in range(64)]
        job.start(1, HOME="/nowhere")
        check_came(result(rank0)[1], "PASS", "2 of 2 ranks")
        check_equal(len(silent), 64, "all had their proof")


@case
def silent_connections_are_dropped(sandbox):
    with Job(sandbox, 2) as job:
        rank0 = job.start_rank0()
        silent = [socket.create_connection(("127.0.0.1", job.port), timeout=8) for _ in range(3)]
        for one in silent:
            check_equal(one.recv(1), b"", "closed, though rank 0 still waits for ranks")
        check(rank0.poll() is None, "rank 0 still waits")
        job.start(1)
        check_came(result(rank0)[1], "PASS", "2 of 2 ranks")


@case
def nothing_is_sent_before_proof(sandbox):
    """A stranger listens where rank 0 should."""
    with Job(sandbox, 2, wait="2s") as job:
        with socket.create_server(("127.0.0.1", job.port)) as listener:
            rank1 = job.start(1, NCCL_ALGO="very-private-value")
            first, _ = listener.accept()
            first.settimeout(20)
            first.sendall(b"NCWY\2\0\0\0" + bytes(32 + 32))  # a challenge without a proof
            seen = b""
            try:
                while part := first.recv(65536):
                    seen += part
            except ConnectionResetError:
                pass
            check(seen.startswith(b"NCWX") and len(seen) == peer.HELLO_BYTES, f"{len(seen)} bytes: {seen}")
            listener.settimeout(0.2)
            seen = b""
            deadline = time.monotonic() + 20
            while rank1.poll() is None and time.monotonic() < deadline:
                try:
                    one, _ = listener.accept()
                except TimeoutError:
                    continue
                one.settimeout(5)
                one.sendall(b'{"welcome": true}\n')  # as before there were tokens
                try:
                    while part := one.recv(65536):
                        seen += part
                except OSError:
                    pass
            check(b"very-private" not in seen and len(seen) % peer.HELLO_BYTES == 0, f"{seen}")
        _, err = rank1.communicate(timeout=20)
        check(rank1.returncode == 1 and "did not reach rank 0" in err, err)


def echo_port_of(job, rank0_port):
    """Where rank 0 answers those that try it: the other port at which it listens."""
    ports = [port for _, port in listening(job.running[0].pid) if port != rank0_port]
    check_equal(len(ports), 1, f"one more port: {ports}")
    return ports[0]


@case
def echo_is_bounded_and_for_ranks_only(sandbox):
    with Job(sandbox, 2) as job:
        rank0 = job.start_rank0()
        deadline = time.monotonic() + 20
        while len(listening(rank0.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        port = echo_port_of(job, job.port)
        old = socket.create_connection(("127.0.0.1", port), timeout=20)  # as before there were tokens: 2^32 - 1 rounds
        old.sendall(struct.pack("=IIQ", 2**32 - 1, 0, 0))
        try:
            check_equal(old.recv(1), b"", "refused")
        except ConnectionResetError:
            pass
        token = peer.token_of_secret(SECRET)
        for request in ({"rounds": 2**32 - 1, "size": 0, "bytes": 0}, {"rounds": 1, "size": 2**31, "bytes": 0}, {"rounds": 1, "size": 8, "bytes": 2**60},
                        {"rounds": -1, "size": 8, "bytes": 0}, {"rounds": 1}, []):
            one = peer.dial(port, token)
            one.send(peer.ECHO, request)
            try:
                one.receive()
                check(False, f"{request} is served")
            except peer.Refused:
                pass
        one = peer.dial(port, token)
        one.send(peer.ECHO, {"rounds": 2, "size": 8, "bytes": 100})
        check_equal(one.receive()[0], peer.READY, "a request that makes sense is served")
        one.sock.sendall(b"12345678")
        check_equal(one.exactly(8), b"12345678", "comes back")
        held = peer.dial(port, token)  # and goes silent
        held.send(peer.ECHO, {"rounds": 16, "size": 8, "bytes": 0})
        check_equal(held.receive()[0], peer.READY, "served")
        start = time.monotonic()
        job.start(1)
        check_came(result(rank0)[1], "PASS", "2 of 2 ranks")
        check(time.monotonic() - start < 8, "the report does not wait for those that try")


@case
def listens_where_it_is_told(sandbox):
    loopback = "0100007F"
    for local, env in ((1, {}), (2, {"NCCLWATCH_BIND": ""})):  # by NCCLWATCH_BIND; and because all ranks are on one host
        with Job(sandbox, 2, local=local, meet=False) as job:
            rank0 = job.start_rank0(**env)
            rank1 = job.start(1, **env)
            seen = set()
            while rank0.poll() is None:
                for pid in (rank0.pid, rank1.pid):
                    seen.update(address for address, _ in listening(pid))
            check_equal(seen, {loopback}, "addresses at which ranks listened")
            check_came(result(rank0)[1], "PASS", "2 of 2 ranks")


@case
def late_rank_and_late_rank0(sandbox):
    with Job(sandbox, 3) as job:
        rank1 = job.start(1)
        rank0 = job.start_rank0()
        time.sleep(0.5)
        job.start(2)
        _, checks, _ = result(rank0)
        check_came(checks, "PASS", "3 of 3 ranks")
        check_equal(rank1.wait(20), 0, "a rank waits for rank 0")
    with Job(sandbox, 2, wait="1s") as job:
        start = time.monotonic()
        rank1 = job.start(1)
        _, err = rank1.communicate(timeout=30)
        check(rank1.returncode == 1 and "did not reach rank 0" in err and "Connection refused" in err, err)
        check(time.monotonic() - start < 20, "in bounded time")


if __name__ == "__main__":
    run_main("doctor_attacks")
