"""Traces as torch's profiler leaves them, one file for each rank, in the shapes of its versions.

A small model of a job makes the times: a kernel begins when its stream has come there; that of a collective ends on all
ranks once the last one has begun and its data are through. Instants are whole nanoseconds since START.
"""

import gzip
import json
import os

START = 1_780_000_000_000_000_000
BASE = 1_779_999_000_000_000_000  # baseTimeNanoseconds of newer versions
COMPUTE, COPY, COMMUNICATION = "kernel", "gpu_memcpy", "nccl"
NAMES = {"AllReduce": ("allreduce", "nccl:all_reduce"), "AllGather": ("_allgather_base", "nccl:_all_gather_base"),
         "AlltoAll": ("all_to_allv", "nccl:all_to_all"), "Send": ("send", "nccl:send"), "Recv": ("recv", "nccl:recv")}
DTYPES = {"float32": ("Float", "float"), "bfloat16": ("BFloat16", "c10::BFloat16")}


class Rank:
    def __init__(self, number):
        self.number, self.host, self.stream, self.side = number, 0, 0, 0  # instants: of the host and of two streams
        self.work, self.calls, self.steps = [], [], []
        self.numbers = {}


class Model:
    def __init__(self, ranks, groups=None):
        self.ranks = [Rank(number) for number in range(ranks)]
        self.groups = {"0": list(range(ranks)), **(groups or {})}

    def begin_step(self, number):
        for rank in self.ranks:
            rank.host = max(rank.host, rank.stream - 20_000) + 2_000
            rank.steps.append([number, rank.host, None])

    def end_step(self):
        for rank in self.ranks:
            rank.host += 1_000
            rank.steps[-1][2] = rank.host

    def compute(self, number, ns, kind=COMPUTE):
        rank = self.ranks[number]
        rank.host += 1_000
        begin = max(rank.host + 500, rank.stream)
        rank.stream = begin + ns
        rank.work.append({"kind": kind, "begin": begin, "end": rank.stream, "launch": rank.host, "step": rank.steps and rank.steps[-1][0]})

    def collective(self, group, operation, count, ns, dtype="float32", waits=True):
        """`waits`: the compute stream goes on only when it is over."""
        members, begins = [self.ranks[number] for number in self.groups[group]], []
        for rank in members:
            rank.host += 3_000
            begins.append(max(rank.host + 500, rank.stream, rank.side))
        end = max(begins) + ns
        for rank, begin in zip(members, begins):
            self.call(rank, group, operation, count, dtype, begin, end)
            rank.side = end
            if waits:
                rank.stream = end

    def message(self, group, sender, receiver, count, ns, dtype="float32"):
        pair = [self.ranks[sender], self.ranks[receiver]]
        for rank in pair:
            rank.host += 3_000
        begins = [max(rank.host + 500, rank.stream) for rank in pair]
        end = max(begins) + ns
        for rank, begin, operation, peer in zip(pair, begins, ("Send", "Recv"), (receiver, sender)):
            self.call(rank, group, operation, count, dtype, begin, end, peer)
            rank.stream = end

    def call(self, rank, group, operation, count, dtype, begin, end, peer=None):
        number = rank.numbers[group] = rank.numbers.get(group, 0) + (peer is None)
        rank.calls.append({"group": group, "op": operation, "count": count, "dtype": dtype, "seq": number, "peer": peer,
                           "at": rank.host - 2_000, "end": rank.host, "launch": rank.host - 500, "kernel": len(rank.work)})
        rank.work.append({"kind": COMMUNICATION, "begin": begin, "end": end, "launch": rank.host - 500, "step": rank.steps and rank.steps[-1][0],
                          "call": len(rank.calls) - 1})

    def write(self, folder, style="new", name="rank{rank}.json", compress=False, only=None):
        os.makedirs(folder, exist_ok=True)
        for rank in self.ranks:
            if only is not None and rank.number not in only:
                continue
            text = json.dumps(self.trace(rank, style), indent=1)
            path = os.path.join(folder, name.format(rank=rank.number) + (".gz" if compress else ""))
            with (gzip.open(path, "wt") if compress else open(path, "w")) as file:
                file.write(text)
        return folder

    # ---- one file ----

    def trace(self, rank, style):
        """new: parameters and numbers of calls; 2024: without numbers; old: annotations only, whole microseconds."""
        events = []
        for number, begin, end in rank.steps:
            events.append(event("user_annotation", f"ProfilerStep#{number}", 1000 + rank.number, 1, begin, end, style, {}))
        for place, call in enumerate(rank.calls):
            events += self.of_call(rank, place, call, style)
        for place, work in enumerate(rank.work):
            events += self.of_work(rank, place, work, style)
        head = {"schemaVersion": 1, "traceEvents": events}
        if style != "bare":
            head["distributedInfo"] = {"backend": "nccl", "rank": rank.number, "world_size": len(self.ranks)}
        if style in ("new", "2024"):
            head["baseTimeNanoseconds"] = BASE  # behind the events, as torch writes it
        return head

    def of_call(self, rank, place, call, style):
        recorded, annotated = NAMES[call["op"]]
        external = 500 + 2 * place
        pid, at, end = 1000 + rank.number, call["at"], call["end"]
        parameters = {"External id": external}
        if style in ("new", "2024"):
            parameters |= self.parameters(call, style)
        else:
            parameters |= {"Input Dims": [[], []], "Input type": ["TensorList", "Scalar"]}
        if call["peer"] is not None:
            annotated += f" {rank.number}->{call['peer']}" if call["op"] == "Send" else f" {rank.number}<-{call['peer']}"
        amount = call["count"] * (len(self.groups[call["group"]]) if call["op"] == "AlltoAll" else 1)
        inner = {"External id": external + 1, "Input Dims": [[amount]], "Input type": [DTYPES[call["dtype"]][1]]}
        return [event("cpu_op", "record_param_comms", pid, 1, at, end, style, parameters),
                event("user_annotation", annotated, pid, 1, at + 100, end - 100, style, inner)]

    def parameters(self, call, style):
        ranks = self.groups[call["group"]]
        size = len(ranks)
        amount = call["count"] * (size if call["op"] == "AlltoAll" else 1)
        out = amount * (size if call["op"] == "AllGather" else 1)
        told = {"Collective name": NAMES[call["op"]][0], "dtype": DTYPES[call["dtype"]][0], "In msg nelems": amount,
                "Out msg nelems": out, "Group size": size, "Process Group Name": call["group"],
                "Process Group Description": "default_pg" if call["group"] == "0" else "undefined"}
        stride = ranks[1] - ranks[0]
        if ranks == list(range(ranks[0], ranks[0] + stride * size, stride)) and call["group"] != "0":
            told |= {"Global rank start": ranks[0], "Global rank stride": stride, "Process Group Ranks": f"[{ranks[0]}, ..., {ranks[-1]}]"}
        else:
            told |= {"Process Group Ranks": str(ranks)}
        if style == "new":
            told["Seq"] = call["seq"]
        if call["peer"] is not None:
            told["Dst Rank" if call["op"] == "Send" else "Src Rank"] = call["peer"]
        return told

    def of_work(self, rank, place, work, style):
        correlation = 9000 + place
        stream = 20 if work["kind"] == COMMUNICATION else 7
        args = {"device": rank.number, "stream": stream, "correlation": correlation}
        name, category = "void gemm<float>(float*, int)", "kernel"
        if work["kind"] == COPY:
            name, category = "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"
            args["bytes"] = 4096
        elif work["kind"] == COMMUNICATION:
            call = rank.calls[work["call"]]
            operation = "SendRecv" if call["op"] in ("Send", "Recv", "AlltoAll") else call["op"]
            name = f"ncclDevKernel_{operation}_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            args |= {"grid": [8, 1, 1], "External id": 500 + 2 * work["call"]}
            if style in ("new", "2024"):
                args |= {key: value for key, value in self.parameters(call, style).items() if key != "Seq"}
        launch = event("cuda_runtime", "cudaLaunchKernel", 1000 + rank.number, 1, work["launch"], work["launch"] + 400, style,
                       {"correlation": correlation})
        return [event(category, name, rank.number, stream, work["begin"], work["end"], style, args), launch]


def event(category, name, pid, tid, begin, end, style, args):
    if style in ("new", "2024"):
        ts, dur = (START - BASE + begin) / 1e3, (end - begin) / 1e3
    else:
        ts, dur = (START + begin) // 1000, (end - begin) // 1000
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


# ---- plain arithmetic on the same times ----


def parts(work, begin, end):
    """Seconds of a stretch in which each kind of work ran, found between one edge and the next."""
    edges = sorted({begin, end, *(at for one in work for at in (one["begin"], one["end"]) if begin < at < end)})
    sums = dict.fromkeys(("compute_s", "exposed_s", "copy_s", "idle_s", "communication_s", "covered"), 0)
    for left, right in zip(edges, edges[1:]):
        running = {one["kind"] for one in work if one["begin"] <= left and one["end"] >= right}
        kind = ("compute_s" if COMPUTE in running else "exposed_s" if COMMUNICATION in running else
                "copy_s" if COPY in running else "idle_s")
        sums[kind] += right - left
        if COMMUNICATION in running:
            sums["communication_s"] += right - left
            sums["covered"] += (right - left) * (COMPUTE in running)
    covered = sums.pop("covered")
    told = {key: value / 1e9 for key, value in sums.items()}
    told["overlap"] = covered / sums["communication_s"] if sums["communication_s"] else None
    return told | {"duration_s": (end - begin) / 1e9}


def whole(rank):
    return parts(rank.work, min(one["begin"] for one in rank.work), max(one["end"] for one in rank.work))
