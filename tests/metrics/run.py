#!/usr/bin/env python3
"""A job's numbers for Prometheus: over HTTP, in a file, and through the real server with the rules and the dashboard
of docs/deploy/prometheus."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Skipped, case, check, check_equal, run_main, until  # noqa: E402

ROOT = os.path.join(HERE, "..", "..")
PROMETHEUS = os.path.join(ROOT, "docs", "deploy", "prometheus")
SEARCHED = os.path.join(ROOT, "build", "prometheus-root", "usr", "bin") + os.pathsep + os.environ.get("PATH", "")
PROGRAMS = {name: shutil.which(name, path=SEARCHED) for name in ("prometheus", "promtool")}
LINE = re.compile(r'^(ncclwatch_[a-z_]+)\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)+)\} (\S+)$')


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """A watched softgpu job that runs until the end of the `with`."""

    def __init__(self, sandbox, example, words, metrics, extra=None):
        program = os.path.join(sandbox.build.root, "examples", example)
        sandbox.build.need(program, sandbox.build.command)
        self.sandbox, self.scratch = sandbox, sandbox.fresh("job")
        self.directory = os.path.join(self.scratch, "run")
        env = sandbox.environment(extra={"TMPDIR": self.scratch, "NCCLWATCH_DIR": self.directory, **(extra or {}),
                                         **({"NCCLWATCH_METRICS": metrics} if metrics else {})})
        self.log = open(os.path.join(self.scratch, "log"), "w+")
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "4", "--", program, *words], env=env,
            stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def ask(self):
        done = self.sandbox.run([self.sandbox.build.command, "metrics", self.directory],
                                self.sandbox.environment(preload=False), timeout=30)
        return done.out if done.status == 0 else ""


def healthy(sandbox, metrics, **more):
    return Job(sandbox, "straggler", ["--steps", "100000", "--step", "1000000"], metrics, **more)


def get(port, path="/metrics", authorization=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": authorization} if authorization else {})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()
    except OSError:
        return None, None, ""


def samples(text):
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = LINE.match(line)
        check(match, f"no sample: {line!r}")
        labels = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', match[2]))
        labels.pop("run")
        found[(match[1], tuple(sorted(labels.items())))] = float(match[3])
    return found


def has_steps(text):
    return "ncclwatch_step_seconds" in text and text


@case
def served(sandbox):
    port = free_port()
    with healthy(sandbox, f":{port}") as job:
        text = until(lambda: has_steps(get(port)[2]), f"steps are told: {job.output()}", 60)
        status, kind, _ = get(port)
        check_equal((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"), "the answer")
        check_equal([get(port, path)[0] for path in ("/", "/secrets", "/metrics?x=1")], [200, 404, 200], "other paths")
        said = samples(text)
        check_equal([said[("ncclwatch_rank_alive", (("rank", str(rank)),))] for rank in range(4)], [1] * 4, "ranks alive")
        check_equal((said[("ncclwatch_ranks_alive", ())], said[("ncclwatch_ranks_expected", ())]), (4, 4), "ranks")
        parts = sum(said[("ncclwatch_step_part_seconds", (("part", part),))] for part in ("compute", "exposed", "wait", "idle"))
        step = said[("ncclwatch_step_seconds", ())]
        check(0.5 * step < parts < 1.5 * step, f"medians of the parts are about the step: {parts}, {step}")
        check(not any(name == "ncclwatch_finding" for name, _ in said), f"nothing is wrong: {text}")
        check(len(said) <= 300, f"{len(said)} series")
        # It is no rank's process that listens, and it listens to this machine alone.
        listener = subprocess.run(["ss", "-Hltnp", f"sport = :{port}"], capture_output=True, text=True).stdout
        check("127.0.0.1" in listener and '"ncclwatch"' in listener, listener)
        calls = said[("ncclwatch_calls_total", (("rank", "0"),))]
        until(lambda: samples(get(port)[2])[("ncclwatch_calls_total", (("rank", "0"),))] > calls, "calls are counted on")
    until(lambda: get(port)[0] is None, "it ends with the job")


def ends(client):
    """The server has closed the connection, after what it had to say."""
    client.settimeout(30)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while more := client.recv(4096):
            answer += more
    return answer


@case
def slow_clients(sandbox):
    """30 clients that send a request byte by byte, and twice as many as may connect, delay nobody else."""
    port = free_port()
    with healthy(sandbox, f":{port}") as job:
        until(lambda: get(port)[0] == 200, f"it listens: {job.output()}", 60)
        with contextlib.ExitStack() as stack:
            def connect():
                return stack.enter_context(socket.create_connection(("127.0.0.1", port)))

            slow = [connect() for _ in range(30)]
            for byte in b"GET /metr":
                for client in slow:
                    with contextlib.suppress(ConnectionError):  # closed in the meantime, where the machine is slow
                        client.sendall(bytes([byte]))
                check_equal(get(port)[0], 200, "the scraper gets its answer")
            for client in slow:
                check_equal(ends(client), b"", "a request has a time limit")
            silent = [connect() for _ in range(128)]
            check_equal(get(port)[0], 200, "the scraper gets its answer")
            check_equal(ends(silent[0]), b"", "the oldest connection made room")


@case
def wrong_requests(sandbox):
    port = free_port()
    with healthy(sandbox, f":{port}") as job:
        until(lambda: get(port)[0] == 200, f"it listens: {job.output()}", 60)
        for request, status in ((b"\r\n\r\n", b"400"), (b"BREW /metrics HTTP/1.1\r\n\r\n", b"405"), (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000, b"431"),
                                (b"GET /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"400"), (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200")):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(request)
                answer = ends(client)
                check_equal(answer[:13], b"HTTP/1.1 " + status + b" ", f"{request[:40]}: {answer}")
        check(answer.endswith(b"\r\n\r\n") and b"Content-Length: 0" not in answer, f"HEAD has the header of GET: {answer}")


@case
def token(sandbox):
    """Requests need the token of a file that only its owner may read."""
    port, folder = free_port(), sandbox.fresh("token")
    path = os.path.join(folder, "token")
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write("open sesame\n")
    with healthy(sandbox, f":{port}", extra={"NCCLWATCH_METRICS_TOKEN_FILE": path}) as job:
        until(lambda: get(port)[0] is not None, f"it listens: {job.output()}", 60)
        given = {None: 401, "Bearer open sesame": 200, "Bearer open sesam": 401, "Bearer ": 401, "open sesame": 401}
        check_equal({one: get(port, authorization=one)[0] for one in given}, given, "status by Authorization")
        check_equal(get(port, "/secrets")[0], 401, "nor does anybody learn which paths there are")

        def refused(*words):
            done = sandbox.run([sandbox.build.command, "metrics", *words, job.directory], sandbox.environment(preload=False), timeout=30)
            return done.status, done.err
        check_equal(refused("--token-file", path)[0], 2, "only with --listen")
        os.chmod(path, 0o640)
        status, text = refused("--listen", f":{free_port()}", "--token-file", path)
        check(status == 3 and "chmod 600" in text, f"a file that others may read: {status} {text}")


@case
def planted_links(sandbox):
    """Nothing is written through a link that somebody else laid in a folder like /tmp."""
    folder, victim = sandbox.fresh("shared"), os.path.join(sandbox.fresh("victim"), "victim")
    os.chmod(folder, 0o1777)
    with open(victim, "w") as file:
        file.write("precious")
    path = os.path.join(folder, "ncclwatch.prom")
    with healthy(sandbox, None) as job:
        until(job.ask, f"there are black boxes: {job.output()}", 60)
        words = [sandbox.build.command, "metrics", "--interval", "0.1", "--textfile", path, job.directory]
        process = subprocess.Popen(["/bin/sh", "-c", f'ln -s "{victim}" "{path}.$$" && exec "$@"', "sh", *words],
                                   env=sandbox.environment(preload=False))
        try:
            until(lambda: os.path.exists(path) or process.poll() is not None, "the file is written", 30)
            check_equal((process.poll(), os.path.islink(path), os.stat(path).st_mode & 0o777), (None, False, 0o644), "the file")
        finally:
            process.terminate()
            process.wait()
        check_equal(open(victim).read(), "precious", "a link with the number of the process")
        if os.geteuid() == 0:
            os.symlink(victim, path)
            os.chown(path, 65534, 65534, follow_symlinks=False)
            done = sandbox.run(words, sandbox.environment(preload=False), timeout=30)
            check_equal((done.status, open(victim).read()), (3, "precious"), f"a link of another user: {done.err}")


@case
def taken_port(sandbox):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with healthy(sandbox, f":{port}") as job:
            until(lambda: "in use" in job.output(), f"it says so: {job.output()}", 30)
            taken.close()
            until(lambda: get(port)[0] == 200, "it takes the port once that is free", 30)


@case
def written_to_a_file(sandbox):
    path = os.path.join(sandbox.fresh("textfile"), "ncclwatch.prom")
    with healthy(sandbox, path) as job:
        text = until(lambda: os.path.exists(path) and open(path).read(), f"the file: {job.output()}", 30)
        check(("ncclwatch_ranks_alive", ()) in samples(text), text)
        check_equal(os.listdir(os.path.dirname(path)), ["ncclwatch.prom"], "nothing is beside it")
    until(lambda: not os.path.exists(path), "it goes with the job: old numbers would be taken for new ones")


@case
def what_is_wrong(sandbox):
    """`ncclwatch metrics` prints the same once, without the variable."""
    with Job(sandbox, "straggler", ["--steps", "100000", "--step", "0"], None) as job:
        until(lambda: 'kind="straggler"' in job.ask(), "the straggler is told", 90)
        said = samples(job.ask())
        check_equal([dict(labels)["rank"] for (name, labels) in said if name == "ncclwatch_finding"], ["2"], "culprit")
        check(0.1 < said[("ncclwatch_share_lost", (("kind", "straggler"),))] < 0.4, f"{said}")


class Server:
    """The real Prometheus, which scrapes the job each second and evaluates the rules of the repository."""

    def __init__(self, sandbox, port):
        if not PROGRAMS["prometheus"] or not PROGRAMS["promtool"]:
            raise Skipped("no Prometheus here; ./dev test fetches one")
        self.scratch, self.port = sandbox.fresh("prometheus"), free_port()
        rules = open(os.path.join(PROMETHEUS, "alerts.yml")).read()
        with open(os.path.join(self.scratch, "alerts.yml"), "w") as file:
            file.write(re.sub(r"for: \w+", "for: 1s", rules))
        config = os.path.join(self.scratch, "prometheus.yml")
        with open(config, "w") as file:
            file.write("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yml]\n"
                       f"scrape_configs: [{{job_name: ncclwatch, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n")
        checked = subprocess.run([PROGRAMS["promtool"], "check", "config", config], capture_output=True, text=True)
        check_equal(checked.returncode, 0, checked.stdout + checked.stderr)
        self.log = open(os.path.join(self.scratch, "log"), "w+")
        self.process = subprocess.Popen(
            [PROGRAMS["prometheus"], f"--config.file={config}", f"--storage.tsdb.path={self.scratch}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, what):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{what}", timeout=5) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(self, expression):
        answer = self.ask("query?" + urllib.parse.urlencode({"query": expression}))
        return answer["result"] if answer else []

    def firing(self):
        return {alert["labels"]["alertname"] for alert in (self.ask("alerts") or {"alerts": []})["alerts"]
                if alert["state"] == "firing"}


@case
def real_server(sandbox):
    """All of the dashboard's queries have data, and the rule of slow jobs fires."""
    port = free_port()
    timed = {"NCCL_PROFILER_PLUGIN": "STATIC_PLUGIN", "NCCLWATCH_PROFILER": "1/1"}
    with Server(sandbox, port) as server:
        with Job(sandbox, "straggler", ["--steps", "100000", "--step", "0"], f":{port}", extra=timed) as job:
            until(lambda: server.query("ncclwatch_ranks_alive == 4"), f"it is scraped: {job.output()}", 60)
            plain = subprocess.run([PROGRAMS["promtool"], "check", "metrics"], input=get(port)[2], capture_output=True, text=True)
            check_equal(plain.returncode, 0, plain.stdout + plain.stderr)
            with open(os.path.join(PROMETHEUS, "dashboard.json")) as file:
                panels = json.load(file)["panels"]
            for panel in panels:
                for target in panel["targets"]:
                    expression = target["expr"].replace("$run", ".*")
                    if "program_metric" in expression:
                        continue  # this program tells none
                    until(lambda e=expression: server.query(e), f"{panel['title']}: {expression}", 60)
            until(lambda: "NcclwatchJobSlow" in server.firing(), "the rule fires", 60)
            check_equal(server.firing(), {"NcclwatchJobSlow"}, "no other does")


if __name__ == "__main__":
    run_main("metrics")
