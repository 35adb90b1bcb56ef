"""A job before it becomes text: where it ran, on what, and every line that its parts wrote, on one clock."""

import collections
import datetime

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
EPOCH = datetime.datetime(1970, 1, 1)
# One line of output. `source` is (kind, number): rank, agent (of a node), kernel (of a node), launcher, scheduler.
# `mark`: 2 for the line that explains the failure, 1 for a line that explains it as well.
Line = collections.namedtuple("Line", "at order source stream text mark")


class Place:
    """Hosts, addresses and paths of a cluster that does not exist."""

    def __init__(self, rng, nodes):
        stem, digits = rng.choice(
            (
                ("gpu-", 3),
                ("node", 2),
                ("nid", 6),
                ("dgx-a", 2),
                ("h100-st-p5-", 1),
                ("worker-", 1),
                ("ip-10-3-", 0),
                ("r12n", 2),
                ("lrdn", 4),
                ("holygpu8a", 5),
            )
        )
        first = rng.randrange(1, 60)
        self.net = f"10.{rng.randrange(0, 99)}.{rng.randrange(1, 200)}"
        numbers = sorted(rng.sample(range(first, first + 3 * nodes + 4), nodes))
        self.hosts = [f"{stem}{n // 250}-{n % 250}" if not digits else f"{stem}{n:0{digits}d}" for n in numbers]
        self.ips = [f"{self.net}.{n % 250 + 2}" for n in numbers]
        self.python = rng.choice(
            (
                "/opt/conda/lib/python3.10/site-packages",
                "/usr/local/lib/python3.10/dist-packages",
                "/usr/local/lib/python3.12/dist-packages",
                "/home/ml/venv/lib/python3.11/site-packages",
                "/root/miniconda3/envs/llm/lib/python3.9/site-packages",
            )
        )
        self.work = rng.choice(("/workspace", "/home/ml/train", "/mnt/code/pretrain", "/app", "/fsx/users/kim/lm"))
        self.data = rng.choice(("/data", "/mnt/lustre/datasets", "/fsx/data", "/scratch/corpora", "/mnt/nfs/tokens"))
        self.saves = rng.choice(
            ("/checkpoints/run7", "/fsx/ckpt/7b", "/scratch/outputs", "/mnt/nfs/exp/ckpt", "output")
        )


class Job:
    """What happened in one job. Times are seconds after its start."""

    def __init__(self, rng, size, layout):
        self.rng, self.size, self.layout = rng, size, layout
        self.per_node = size if size <= 2 else rng.choice([n for n in (8, 8, 8, 4, 2) if n <= size])
        self.nodes = -(-size // self.per_node)
        self.place = Place(rng, self.nodes)
        self.start = datetime.datetime(
            rng.choice((2023, 2024, 2024, 2025, 2025, 2026)),
            rng.randrange(1, 13),
            rng.randrange(1, 28),
            rng.randrange(0, 24),
            rng.randrange(0, 60),
            rng.randrange(0, 60),
            rng.randrange(0, 10**6),
        )
        self.torch = (2, rng.choice((4, 5, 6, 7)))
        self.pids = {}
        for node in range(self.nodes):
            base = rng.randrange(900, 3_900_000)
            for local, rank in enumerate(self.ranks_of(node)):
                self.pids[rank] = base + local + rng.randrange(0, 2) * local
        self.lines, self.order = [], 0
        self.number = rng.randrange(10_000, 9_999_999)
        self.buses = rng.sample(("07", "0f", "1b", "29", "43", "52", "87", "9b", "ba", "c3", "dc", "e1"), 8)
        self.ended_at = {}
        self.tear = False
        self.stamp_style = None
        self.timeout_s = rng.choice((600, 600, 1800))
        self.seq = rng.randrange(40, 90_000)
        self.joined, self.absent = True, 1  # whether the process group exists, and how many ranks never came to it

    def ranks_of(self, node):
        return range(node * self.per_node, min(self.size, (node + 1) * self.per_node))

    def node_of(self, rank):
        return rank // self.per_node

    def local(self, rank):
        return rank % self.per_node

    def host(self, rank):
        return self.place.hosts[self.node_of(rank)]

    def address(self, rank):
        return self.place.ips[self.node_of(rank)]

    def bus(self, rank):
        return self.buses[self.local(rank) % 8]

    # Writing

    def write(self, at, source, text, stream="out", mark=None, also=False, more=()):
        """Text of one or more lines. `mark` is the number of the line that explains the failure (-1: the last), and
        `more` are the numbers of lines that explain it as well."""
        rows = text.split("\n") if isinstance(text, str) else list(text)
        chosen = None if mark is None else mark % len(rows)
        for number, row in enumerate(rows):
            if self.tear and len(rows) > 2:
                at += self.rng.random() * 0.004
            explains = (1 if also else 2) if number == chosen else int(number in more)
            self.lines.append(Line(at, self.order, source, stream, row, explains))
            self.order += 1

    def rank(self, at, rank, text, stream="out", **marks):
        if at < self.ended_at.get(rank, float("inf")):
            self.write(at, ("rank", rank), text, stream, **marks)

    def error(self, at, rank, text, **marks):
        self.rank(at, rank, text, "err", **marks)

    def agent(self, at, node, text, **marks):
        self.write(at, ("agent", node), text, "err", **marks)

    def kernel(self, at, node, text, **marks):
        self.write(at, ("kernel", node), text, **marks)

    def launcher(self, at, text, **marks):
        self.write(at, ("launcher", 0), text, "err", **marks)

    def scheduler(self, at, text, **marks):
        self.write(at, ("scheduler", 0), text, **marks)

    def end(self, rank, at):
        """Nothing that a rank writes after this moment is kept."""
        self.ended_at[rank] = min(at, self.ended_at.get(rank, at))
        self.lines = [line for line in self.lines if line.source != ("rank", rank) or line.at <= self.ended_at[rank]]

    def hush(self, at):
        """Nothing of any rank after this moment."""
        for rank in range(self.size):
            self.end(rank, at)

    # Time in many costumes

    def when(self, at):
        return self.start + datetime.timedelta(seconds=at)

    def glog(self, at, level):
        """E1206 18:44:16.994932383, as libtorch and XLA write it."""
        t = self.when(at)
        return f"{level}{t.month}{t:%d %H:%M:%S.%f}{self.rng.randrange(1000):03d}"

    def elastic(self, at, level):
        t = self.when(at)
        return f"{level}{t:%m%d %H:%M:%S}.{t.microsecond // 1000:03d}000"

    def stamp(self, at, style=None):
        t, style = self.when(at), style or self.stamp_style
        milli = f"{t.microsecond // 1000:03d}"
        return {
            None: "",
            "none": "",
            "comma": f"{t:%Y-%m-%d %H:%M:%S},{milli} ",
            "iso": f"{t:%Y-%m-%dT%H:%M:%S}.{milli}Z ",
            "brackets": f"[{t:%Y-%m-%d %H:%M:%S}] ",
            "american": f"{t:%m/%d/%Y %H:%M:%S} - ",
            "syslog": f"{MONTHS[t.month - 1]} {t.day:2d} {t:%H:%M:%S} ",
            "glog": f"I{t:%m%d %H:%M:%S.%f} {self.pids[0]} ",
            "epoch": f"{int((t - EPOCH).total_seconds())}.{milli} ",
            "clock": f"{t:%H:%M:%S} ",
            "vllm": f"{t:%m-%d %H:%M:%S} ",
        }[style]


class Truth:
    """What a job's logs should be understood as."""

    def __init__(self, category, what, ranks=(), also_ok=()):
        self.category, self.what, self.ranks, self.also_ok = category, what, sorted(ranks), list(also_ok)
