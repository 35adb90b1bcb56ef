"""Logs of a whole job from a failure type: a healthy beginning with harmless words, the failure, and what follows."""

import gzip
import os
import random
import time

from failures import FAILURES

HARMLESS = [
    "INFO - step {s} loss={loss:.4f} grad_norm=1.{s:03d} skipped iterations: 0 | number of nan iterations: 0",
    "INFO - timeout=600 retries=3 error_rate=0.0{s}",
    "INFO - evaluation error 0.12{s}, no errors, nan_to_num applied to 0 values",
    "WARNING - Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 65536.0",
    "INFO - saved checkpoint step_{s} (killed no workers, 0 failed)",
    "INFO - NCCL_TIMEOUT is unset, TORCH_NCCL_BLOCKING_WAIT=0; abort handlers installed",
]
LAYOUTS = ("torchrun", "slurm", "named", "mixed", "srun", "gzip")
BEGAN = 1795694400  # 2026-11-26 12:00:00 UTC


class Job:
    """type: of FAILURES, or None for a healthy one."""

    def __init__(self, kind, ranks, seed):
        self.random = random.Random(f"{kind}/{ranks}/{seed}")
        self.kind, self.ranks = kind, ranks
        self.culprit = self.random.randrange(1 if ranks > 1 else 0, ranks)
        self.per_node = min(8, ranks)
        self.layout = self.random.choice(LAYOUTS)
        self.pid = 4711 + self.random.randrange(1000) * 8

    def node(self, rank):
        return f"node{rank // self.per_node:03d}"

    def fill(self, text, rank, at):
        clock = time.gmtime(at)
        return text.format(r=self.culprit, o=rank, n=self.ranks, l=rank % self.per_node if "{o}" in text else self.culprit % self.per_node,
                           pid=self.pid, host=self.node(self.culprit), clock=time.strftime("%H:%M:%S", clock),
                           t=time.strftime("%Y-%m-%d %H:%M:%S,123", clock), iso=time.strftime("%Y-%m-%d_%H:%M:%S", clock),
                           isot=time.strftime("%Y-%m-%dT%H:%M:%S", clock), g=time.strftime("%m%d %H:%M:%S.123456789", clock))

    def healthy(self, rank, steps):
        for step in range(steps):
            at = BEGAN + 3 * step
            text = self.random.choice(HARMLESS).format(s=step, loss=2.5 - step * 0.001)
            yield at, f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(at))},{rank % 1000:03d} - {text}"

    def lines(self, rank):
        """Of one rank: (time, line)."""
        steps = 12 if self.ranks > 64 else 60
        lines = list(self.healthy(rank, steps))
        if self.kind is None:
            return lines
        failure, fails = FAILURES[self.kind], BEGAN + 3 * steps
        if rank == self.culprit or failure["who"] == "all":
            own = [line.replace("{r}", "{o}") for line in failure["rank"]] if failure["who"] == "all" else failure["rank"]
            lines += [(fails, self.fill(line, rank, fails)) for line in own]
        else:
            waits = 600 if any("Watchdog" in line or "Barrier" in line for line in failure["others"]) else 2
            lines += [(fails + waits, self.fill(line, rank, fails + waits)) for line in failure["others"]]
            # They go on for a while, so that a rank that stops is seen.
            if waits > 2:
                lines[-len(failure["others"]):-len(failure["others"])] = [
                    (fails + 30 * i, f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(fails + 30 * i))},001 - INFO - waiting") for i in range(8)]
        return lines

    def write(self, folder):
        every = {rank: self.lines(rank) for rank in range(self.ranks)}
        for rank, lines in every.items():
            if self.layout in ("mixed", "srun"):
                continue
            path = os.path.join(folder, self.path_of(rank))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with (gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w")) as file:
                file.writelines(line + "\n" for _, line in lines)
        if self.layout in ("mixed", "srun"):
            merged = sorted(((at, rank, i, line) for rank, lines in every.items() for i, (at, line) in enumerate(lines)))
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "all.log"), "w") as file:
                for _, rank, _, line in merged:
                    tagged = line.startswith(f"[rank{rank}]:")
                    file.write((f"{rank}: " if self.layout == "srun" else "" if tagged else f"[rank{rank}]: ") + line + "\n")
        if self.kind is None:
            return
        ends = max(at for lines in every.values() for at, _ in lines) + 1
        for name, at in (("launcher", ends), ("kernel", BEGAN + 3 * (12 if self.ranks > 64 else 60) - 1)):
            lines = FAILURES[self.kind][name]
            if lines:
                with open(os.path.join(folder, {"launcher": "launcher.err", "kernel": "dmesg.txt"}[name]), "w") as file:
                    file.writelines(self.fill(line, self.culprit, at) + "\n" for line in lines)

    def path_of(self, rank):
        node = f"{self.node(rank)}/" if self.ranks > self.per_node else ""
        return {"torchrun": f"{node}run_x1/attempt_0/{rank % self.per_node}/stderr.log", "slurm": f"slurm-440575_{rank}.out",
                "named": f"logs/rank_{rank}.log", "gzip": f"{self.node(rank)}/rank{rank}.log.gz"}[self.layout]
