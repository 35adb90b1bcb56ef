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


def get(port, path="/metrics"):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
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


@case
def rude_clients(sandbox):
    """Who says nothing, or no HTTP, keeps nobody else waiting for long."""
    port = free_port()
    with healthy(sandbox, f":{port}") as job:
        until(lambda: get(port)[0] == 200, f"it listens: {job.output()}", 60)
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for line in (b"\r\n\r\n", b"BREW /metrics HTTP/1.1\r\n\r\n", b"x" * 20000, b"GET"):
            with socket.create_connection(("127.0.0.1", port)) as client, contextlib.suppress(OSError):
                client.sendall(line)
        until(lambda: get(port)[0] == 200, "it answers others", 20)
        for one in silent:
            one.close()


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
