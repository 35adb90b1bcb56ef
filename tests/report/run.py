#!/usr/bin/env python3
"""The page of `ncclwatch report` in headless Chromium, as a person uses it, against what the other commands say.

    run.py --build build/release [NAME...]     the tests
    run.py --build build/release --large       1,024 ranks with 2,048 calls: sizes and times, printed
"""

import json
import os
import pickle
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from browser import Browser  # noqa: E402
from harness import Build, Sandbox, case, check, check_equal, clean_environment, run_main  # noqa: E402

LAUNCH = os.path.join(HERE, "..", "..", "examples", "launch.py")
HOSTILE = "</script><script>window.hit=1</script>\x1b[31m<img src=x onerror=window.hit=1>"
# Of each process, every call as the page would tell it, in one line: their order is the page's own.
CALLS = """JSON.stringify(ncclwatch.processes.flatMap((process) => Array.from({length: process.calls}, (_, i) => process.row(i))),
           (key, value) => typeof value === "bigint" ? String(value) : value)"""


class Reports:
    """A browser, and reports of jobs to open in it."""

    def __init__(self, sandbox):
        self.sandbox, self.command = sandbox, sandbox.build.command
        sandbox.build.need(self.command)
        self.browser = Browser(sandbox.fresh("profile"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.__exit__()

    def ask(self, *words, statuses=(0,)):
        done = self.sandbox.run([self.command, *words], clean_environment(), timeout=60)
        check(done.status in statuses, f"ncclwatch {' '.join(words)}: {done}")
        return done.out

    def open(self, directory, **options):
        page = os.path.join(self.sandbox.fresh("report"), "report.html")
        self.ask("report", directory, "-o", page)
        return self.browser.open(page, **options)

    def check_same(self, page, directory):
        """The page tells what `trace` and `diagnose` do."""
        traced = [json.loads(line) for line in self.ask("trace", "--json", directory).splitlines()]
        for call in traced:
            call["time_ns"] = str(call["time_ns"])
        shown = json.loads(page.value(CALLS))
        order = lambda call: (call["rank"], call["pid"], call["seq"])  # noqa: E731
        traced.sort(key=order)
        shown.sort(key=order)
        check_equal(len(shown), len(traced), "calls")
        for ours, theirs in zip(shown, traced):
            check_equal(round(ours.pop("duration_s"), 8), round(theirs.pop("duration_s"), 8), f"how long {theirs} took")
            check_equal(ours, theirs, "a call")
        diagnosed = json.loads(self.ask("diagnose", "--json", directory, statuses=(0, 1)))
        check_equal(page.value("ncclwatch.job.diagnosis"), diagnosed, "the diagnosis")
        return diagnosed


def simulated(sandbox, *words):
    directory = sandbox.fresh("job")
    subprocess.run([os.path.join(sandbox.build.root, "bin", "generate_job"), "--out", directory, *words], check=True)
    return directory


def example(sandbox, name, *words, command=("run", "--timeout", "3", "--on-fault", "abort", "--keep", "--")):
    """Its run directory."""
    scratch = sandbox.fresh("job")
    env = sandbox.environment(preload=False, run_directory=os.path.join(scratch, "run"), extra={"TMPDIR": scratch})
    program = os.path.join(sandbox.build.root, "examples", name)
    sandbox.build.need(program)
    subprocess.run([sandbox.build.command, *command, sys.executable, LAUNCH, "-n", "4", "--", program, *words], env=env,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60, check=False)
    return os.path.join(scratch, "run")


def dump_entry(number, completed=False, frame="train", file="/job/train.py", group="default_pg"):
    return {"record_id": number, "pg_id": 0, "process_group": ("0", group), "collective_seq_id": number + 1, "p2p_seq_id": 0,
            "op_id": number + 1, "profiling_name": "nccl:all_reduce", "time_created_ns": 10 ** 18 + number * 10 ** 7, "input_sizes": [[4096]],
            "output_sizes": [[4096]], "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "completed" if completed else "scheduled",
            "time_discovered_started_ns": 1 if completed else None, "time_discovered_completed_ns": 2 if completed else None,
            "retired": completed, "timeout_ms": 600000, "is_p2p": False, "frames": [{"name": frame, "filename": file, "line": 12}]}


def write_dump(path, entries, group="default_pg", ranks="[0, 1, 2, 3]"):
    """As of 70 s after its entries."""
    with open(path, "wb") as file:
        pickle.dump({"version": "2.10", "pg_config": {"0": {"name": "0", "desc": group, "ranks": ranks}}, "pg_status": {}, "entries": entries}, file, 2)
    os.utime(path, ns=(10 ** 18 + 70 * 10 ** 9,) * 2)


@case
def hang(sandbox):
    """A real one, used by mouse, keyboard and search, in both themes."""
    directory = example(sandbox, "stuck_data_loader", "--step", "20")
    with Reports(sandbox) as reports:
        page = reports.open(directory)
        finding = reports.check_same(page, directory)["findings"][0]
        check_equal((finding["kind"], finding["culprits"]), ("missing_participant", [2]), "the verdict")
        check_equal(page.text("h1"), "Rank 2", "the heading")
        check("AllReduce" in page.text("#verdict .summary"), "the summary")
        check("Ranks 0-1,3 wait for rank 2." in page.text("#waits"), "who waits for whom")
        check("has not called AllReduce #" in page.text("#timeline .lead"), "the missing call")
        check("rank 2" in page.text("#stacks"), "its stack")
        page.value("document.querySelector('#timeline > details').open = true")
        first, second = page.text("#timeline > details tbody").splitlines()
        check("rank 2" in first and "#19" in first and "ranks 0-1,3" in second and "has not ended" in second, f"where they are: {first} {second}")
        check_equal(page.text("#progress td.culprit"), "\u25b6 rank 2", "who is behind")
        mouse_and_keys(page)
        searches(page)
        themes(page)
        page.pdf(os.path.join(sandbox.path, "page.pdf"))
        with open(os.path.join(sandbox.path, "page.pdf"), "rb") as file:
            check_equal(file.read().count(b"/Type /Page\n"), 1, "pages of a print")
        check_equal(page.troubles(), [], "errors and requests")


def mouse_and_keys(page):
    shown = "(({from, to}) => [from, to])(ncclwatch.timeline.view)"
    x, y, width, height = page.box("#timeline canvas")
    before = page.value(shown)
    page.wheel(x + width / 2, y + height / 2, -240)
    zoomed = page.value(shown)
    check(zoomed[1] - zoomed[0] < before[1] - before[0], f"the wheel zooms in: {before} {zoomed}")
    page.drag(x + width / 2, y + height / 2, x + width / 2 + 80, y + height / 2)
    check(page.value(shown)[0] < zoomed[0], "dragging to the right shows what was earlier")
    page.value("document.querySelector('#timeline canvas').focus()")
    page.key("f")
    check_equal(page.value(shown), before, "the key F goes back to the fault")
    call = page.value("(({process, i}) => [process.rank, i])(ncclwatch.timeline.nearest(0, ncclwatch.timeline.focus.fault, 1e9))")
    at = page.value("(({view, painter, focus}) => painter.gutter + (focus.fault - view.from) / (view.to - view.from) * painter.width)"
                    "(ncclwatch.timeline)")
    page.click(x + at + 40, y + 26 + 10)  # in the row of rank 0
    check_equal(page.value("(({process, i}) => [process.rank, i])(ncclwatch.timeline.chosen)"), call, "the call under the mouse")
    members = page.text("#timeline .details")
    check("\u25b6 2" in members and "no recorded call" in members, f"the rank without the call is told of: {members}")
    page.value("document.querySelector('#timeline canvas').focus()")
    page.key("j")
    check_equal(page.value("ncclwatch.timeline.chosen.process.rank"), 1, "the key J goes to the next rank")
    page.key("p")
    check_equal(page.value("ncclwatch.timeline.chosen.i"), call[1] - 1, "the key P goes to the call before")
    check("rank 1" in page.text("#announce"), "what is chosen is announced")
    page.key("Escape")
    check_equal(page.value("ncclwatch.timeline.chosen"), None, "Escape lets go")


def searches(page):
    for words, op in (("rank 3", None), ("#7", "AllReduce"), ("allred", "AllReduce")):
        page.value("document.querySelector('#search-text').value = ''; document.querySelector('#search-text').focus()")
        page.type(words)
        page.key("Enter")
        chosen = page.value("(({process, i}) => [process.rank, process.of(i).op, process.position[i]])(ncclwatch.timeline.chosen)")
        check(op is None or chosen[1] == op, f"{words}: {chosen}")
        check(words != "rank 3" or chosen[0] == 3, f"{words}: {chosen}")
        check(words != "#7" or chosen[2] == 7, f"{words}: {chosen}")


def themes(page):
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.value(paper)
    page.scheme("dark")
    page.settle()
    dark = page.value(paper)
    check(light != dark, "the system's choice changes the colours")
    page.value("document.querySelector('#theme').click(), document.querySelector('#theme').click()")
    check_equal(page.value(paper), light, "the switch goes before the system")
    unnamed = page.value("[...document.querySelectorAll('svg[role=img], canvas, button, input')].filter((e) => "
                         "!e.getAttribute('aria-label') && !e.textContent.trim() && !document.querySelector(`label[for='${e.id}']`)).length")
    check_equal(unnamed, 0, "pictures and controls without a text")


@case
def messages_between_ranks(sandbox):
    """A made-up halo exchange: a field for each two ranks that exchange messages."""
    sys.path.insert(0, os.path.join(HERE, "..", "recording"))
    from made_mpi import halo
    with Reports(sandbox) as reports:
        lines = halo(sandbox, (3, 3), ring=True).write()
        page = reports.open(lines)
        pairs = json.loads(reports.ask("stats", "--by", "peer", "--json", lines))["peers"]
        check_equal(page.value("document.querySelectorAll('#peers .volume').length"), len(pairs), "fields")
        check_equal(page.value("d3.sum(ncclwatch.job.peers.fields, (one) => one[3])"), sum(one["bytes"] for one in pairs), "bytes")
        check(f"{sum(one['messages'] for one in pairs):,} messages" in page.text("#peers .lead"), page.text("#peers .lead"))
        check_equal(page.troubles(), [], "errors and requests")


@case
def slow_and_healthy(sandbox):
    """A straggler with its onset, a recording, and a job with nothing to tell."""
    record = ("run", "--record", os.path.join(sandbox.path, "rec"), "--")
    example(sandbox, "straggler", "--steps", "300", "--step", "100", "--step-ms", "2", command=record)
    with Reports(sandbox) as reports:
        directory = os.path.join(sandbox.path, "rec")
        page = reports.open(directory)
        findings = reports.check_same(page, directory)["findings"]
        check_equal([(one["kind"], one["culprits"]) for one in findings], [("straggler", [2])], "the verdict")
        check("straggler since step" in page.value("document.querySelector('#steps .onset').textContent"), "the onset is drawn")
        steps = json.loads(reports.ask("stats", "--steps", "--json", directory))["steps"]
        check_equal(page.value("ncclwatch.job.steps.steps.map((one) => [one.step, one.duration_s])"),
                    [[one["step"], one["duration_s"]] for one in steps], "the steps")
        check_equal(page.troubles(), [], "errors and requests")
        for words, heading in ((("--ranks", "16"), "Healthy"), (("--topology", "pipeline", "--fault", "dead_rank", "--ranks", "8"), "Rank")):
            directory = simulated(sandbox, *words)
            page = reports.open(directory, scheme="dark")
            reports.check_same(page, directory)
            check(page.text("h1").startswith(heading), f"{words}: {page.text('h1')}")
            check_equal(page.troubles(), [], "errors and requests")


@case
def dumps(sandbox):
    """Those of torch's flight recorder: the same page."""
    with Reports(sandbox) as reports:
        directory = sandbox.fresh("dumps")
        for rank in range(4):
            write_dump(os.path.join(directory, f"nccl_trace_rank_{rank}"), [dump_entry(number, number < 19) for number in range(19 if rank == 2 else 20)])
        page = reports.open(directory)
        finding = reports.check_same(page, directory)["findings"][0]
        check_equal((finding["kind"], finding["culprits"]), ("missing_participant", [2]), "the verdict")
        states = page.value("[...new Set(ncclwatch.processes.flatMap((one) => [...one.shape].map((_, i) => one.row(i).state)))]")
        check_equal(sorted(states), ["finished", "returned"], "states of calls")
        check_equal(page.value("ncclwatch.processes[0].shapes.length"), 2, "calls that differ in numbers alone are one shape")
        check_equal(page.troubles(), [], "errors and requests")


@case
def hostile_texts(sandbox):
    """Names that are markup, steer terminals or are 10 MB long: all of it is text."""
    with Reports(sandbox) as reports:
        dumps, long = sandbox.fresh("dumps"), "A" * 10_000_000
        for rank in (0, 1):
            write_dump(os.path.join(dumps, f"nccl_trace_rank_{rank}"), [dump_entry(0, False, HOSTILE + long, long, HOSTILE)], HOSTILE + long, "[0, 1]")
        boxes = simulated(sandbox, "--ranks", "8", "--fault", "dead_rank")
        for name in os.listdir(boxes):
            with open(os.path.join(boxes, name), "rb") as file:
                data = file.read()
            with open(os.path.join(boxes, name), "wb") as file:  # names of hosts, as long as before
                file.write(data.replace(b"node-0", b"<b>\x1b[m"[:6]))
        for directory in (dumps, boxes):
            page = reports.open(directory)
            check_equal(page.value("window.hit"), None, "a script of the job's ran")
            check_equal(page.value("document.querySelectorAll('main img, main b').length"), 0, "markup of the job's")
            check_equal(page.value("document.body.innerText.includes(String.fromCharCode(27))"), False, "an escape sequence")
            check(page.value("document.documentElement.outerHTML.length") < 3_000_000, "a long text is cut")
            check_equal(page.troubles(), [], "errors and requests")


GESTURES = """(async () => {
  const timeline = ncclwatch.timeline, frames = [];
  let last = performance.now(), on = true;
  const frame = (now) => { frames.push(now - last); last = now; if (on) requestAnimationFrame(frame); };
  timeline.showAll(); timeline.changed();
  await new Promise((done) => setTimeout(done, 300));
  last = performance.now();
  requestAnimationFrame(frame);
  for (let i = 0; i < 120; ++i) {
    if (i < 40) timeline.view.zoom(0.85, 0.7); else if (i < 80) timeline.view.pan(0.05); else timeline.view.zoom(1.2);
    if (i % 10 === 0) timeline.view.zoomRows(i < 60 ? 0.8 : 1.3);
    timeline.changed();
    await new Promise((done) => requestAnimationFrame(done));
  }
  on = false;
  return frames;
})()"""


def large(build):
    with Sandbox(build) as sandbox:
        directory = simulated(sandbox, "--ranks", "1024", "--fault", "missing_participant", "--steps", "2600", "--ring", "2048", "--late")
        page = os.path.join(sandbox.path, "report.html")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        started, before = time.monotonic(), used.ru_utime + used.ru_stime
        subprocess.run([build.command, "report", directory, "-o", page], check=False)
        written, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = used.ru_utime + used.ru_stime - before
        with Browser(sandbox.fresh("profile")) as browser:
            opened = browser.open(page)
            frames = sorted(opened.value(GESTURES))
            calls = opened.value("ncclwatch.processes.reduce((sum, one) => sum + one.calls, 0)")
            print(f"{calls} calls: written in {written:.1f} s with {processor:.1f} s of the processors, {os.path.getsize(page) / 1e6:.1f} MB, opened in {opened.opened_s:.1f} s, "
                  f"{len(frames)} frames while panning and zooming: median {frames[len(frames) // 2]:.0f} ms, longest {frames[-1]:.0f} ms; "
                  f"troubles: {opened.troubles()}")


if __name__ == "__main__":
    if "--large" in sys.argv:
        large(Build(sys.argv[sys.argv.index("--build") + 1]))
    else:
        run_main("report")
