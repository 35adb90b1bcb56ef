"""Turns a row of raised.py into tracebacks of ranks of a job."""

import random
import re

from composer.job import Truth

MAIN = ('  File "{work}/{main}.py", line {line}, in <module>', "    main()")
LOOP = (
    '  File "{work}/{main}.py", line {line2}, in main',
    "    train(model, optimizer, loader)",
    '  File "{work}/training/loop.py", line {line}, in train',
)
CALL = (
    '  File "{site}/torch/nn/modules/module.py", line 1518, in _wrapped_call_impl',
    "    return self._call_impl(*args, **kwargs)",
    '  File "{site}/torch/nn/modules/module.py", line 1527, in _call_impl',
    "    return forward_call(*args, **kwargs)",
)
# The frames of a traceback by the moment of the failure, outermost first.
FRAMES = {
    "import": (
        '  File "{work}/{main}.py", line {n2}, in <module>',
        "    from training import build_model",
        '  File "{work}/training/__init__.py", line 7, in <module>',
        "    from .layers import *",
    ),
    "init": (
        MAIN
        + (
            '  File "{work}/{main}.py", line {line2}, in main',
            "    dist.init_process_group(backend='nccl')",
            '  File "{site}/torch/distributed/c10d_logger.py", line 83, in wrapper',
            "    return func(*args, **kwargs)",
            '  File "{site}/torch/distributed/rendezvous.py", line 258, in _env_rendezvous_handler',
            "    store = _create_c10d_store(master_addr, master_port, rank, world_size, timeout, use_libuv)",
        )
    ),
    "load": MAIN + ('  File "{work}/{main}.py", line {line2}, in main', "    model = build_model(args).to(device)"),
    "resume": (
        MAIN
        + (
            '  File "{work}/{main}.py", line {line2}, in main',
            "    iteration = load_checkpoint(model, optimizer, args.load)",
            '  File "{work}/training/checkpointing.py", line {line}, in load_checkpoint',
            "    state = load(path)",
        )
    ),
    "forward": (
        MAIN
        + LOOP
        + ("    loss = model(batch)",)
        + CALL
        + ('  File "{work}/training/layers.py", line {line2}, in forward', "    h = self.mlp(self.norm(h))")
    ),
    "backward": (
        MAIN
        + LOOP
        + (
            "    loss.backward()",
            '  File "{site}/torch/_tensor.py", line 492, in backward',
            "    torch.autograd.backward(",
            '  File "{site}/torch/autograd/__init__.py", line 251, in backward',
            "    Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass",
        )
    ),
    "step": (
        MAIN
        + LOOP
        + (
            "    loss, grad_norm = train_step(batch)",
            '  File "{work}/training/loop.py", line {line2}, in train_step',
            "    check(loss)",
        )
    ),
    "data": (
        MAIN
        + LOOP
        + (
            "    batch = next(loader)",
            '  File "{site}/torch/utils/data/dataloader.py", line 630, in __next__',
            "    data = self._next_data()",
        )
    ),
    "save": (
        MAIN
        + LOOP
        + (
            "    save_checkpoint(step, model, optimizer)",
            '  File "{work}/training/checkpointing.py", line {line}, in save_checkpoint',
            "    torch.save(state, path)",
        )
    ),
    "eval": (
        MAIN
        + LOOP
        + (
            "    evaluate(model, step)",
            '  File "{work}/training/evaluate.py", line {line}, in evaluate',
            "    scores.append(metric(out))",
        )
    ),
}
FRAMES["init0"] = FRAMES["init"]
FRAMES["setup"] = MAIN + (
    '  File "{work}/{main}.py", line {line2}, in main',
    "    model, optimizer, loader, scheduler = prepare(args, model)",
    '  File "{work}/training/setup.py", line {line}, in prepare',
    "    return backend.initialize(model=model, config=config)",
)
EARLY = ("import", "init", "init0", "load", "resume", "setup")
# Before the process group exists no exception hook adds the rank.
UNRANKED = ("import", "init", "init0")


def values(job, rank, step):
    """Names in wordings. What does not depend on the rank is equal on all ranks of a job."""
    rng, place = random.Random(job.number + step), job.place
    peer = rng.randrange(job.nodes)
    return {
        "rank": rank,
        "local": job.local(rank),
        "size": job.size,
        "pid": job.pids[rank],
        "host": job.host(rank),
        "step": step,
        "few": max(1, job.size - rng.choice((1, job.per_node, 2))) if job.size > 2 else 1,
        "head": rng.choice((place.hosts[0], place.ips[0])),
        "head_name": place.hosts[0],
        "peer_ip": place.ips[peer],
        "port": rng.choice((29500, 29400, 6000, 12355)),
        "mib": rng.randrange(64, 4096),
        "gib": rng.choice((39, 79, 139)),
        "less": rng.randrange(20, 39),
        "small": rng.randrange(10, 99),
        "n": rng.randrange(2, 900),
        "n2": rng.randrange(3, 30),
        "line": rng.randrange(60, 400),
        "line2": rng.randrange(100, 900),
        "site": place.python,
        "work": place.work,
        "data": place.data,
        "saves": place.saves,
        "hex": f"n{rng.randrange(16**8):08x}",
        "other_pid": rng.randrange(4_000, 60_000),
        "main": "train",
    }


def fill(text, names):
    return re.sub(r"\{(\w+)(?::([^}]*))?\}", lambda m: format(names[m[1]], m[2] or "") if m[1] in names else m[0], text)


def hook(job, rank, where):
    """torch 2.4 and later put the rank before each line of an exception that ends the process."""
    hooked = job.torch >= (2, 4) and job.launched in ("torchrun", "srun", "none") and job.program.uses_torch
    return f"[rank{rank}]: " if hooked and where not in UNRANKED else ""


def traceback(job, at, rank, where, text, names):
    """The lines, which of them explains, and which explain as well."""
    final = fill(text, names).rstrip("\n").split("\n")
    marked = next((n for n, row in enumerate(final) if row.startswith("@")), 0)
    frames = [fill(row, names) for row in job.program.frames or FRAMES[where]]
    rows = ["Traceback (most recent call last):", *frames, *(row.lstrip("@&") for row in final)]
    above = 1 + len(frames)
    rows, mark = job.program.wrap(at, rank, rows, above + marked)
    more = [n + mark - marked for n, row in enumerate(final) if row.startswith("&")]
    return [hook(job, rank, where) + row for row in rows], mark, more


def raise_it(job, at, rank, where, text, also=False, step=0):
    rows, mark, more = traceback(job, at, rank, where, text, values(job, rank, step))
    job.rank(at, rank, rows, "err", mark=mark, also=also, more=more)


# Wordings that only a program on torch can have, and moments that a program without a training loop does not know.
OF_TORCH = re.compile(
    "torch|Torch|DataLoader|RuntimeError: CUDA|cuDNN|Gloo|NCCL|Triton|DALI|state_dict|backward|store based|dist|your"
    " module|cuda:|mat1|grad_fn|ZeRO|DeepSpeed|CUDA_HOME|optimizer's group|inductor|[Nn]inja|inf checks|HIP|Native API"
    "|DeepEP|miopen|PT_BRIDGE|oneCCL|npu|lightning|EI00|B[Ff]loat16|[Ff][Pp]16|bitsandbytes|FlashAttention|SBATCH|8-bit"
    "|NVLink error"
)
OF_JAX = re.compile("jax|on-disk value|zarray|pjit|dot_general|target dict|incomplete checkpoint")
OF_VLLM = re.compile("cache blocks")
SERVED = ("forward", "import", "load")


def texts_for(job, row):
    """The wordings of `row` that this job could have."""
    name = job.program.name
    if name == "solver" or (job.launched == "vllm" and row.where not in SERVED):
        return []
    if name == "horovod" and row.where in ("init", "init0"):
        return []
    if not job.program.uses_torch:
        return [
            text for text in row.texts if OF_JAX.search(text) or not (OF_TORCH.search(text) or OF_VLLM.search(text))
        ]
    if job.nodes == 1 and (row.category == "network" or row.everyone == "host"):
        return []
    if row.everyone == "came" and job.size < 3 or row.where == "resume" and "{rank}" in row.texts[0] and job.size == 1:
        return []
    if name == "vllm" and OF_VLLM.search(row.texts[0]):
        return row.texts
    return [
        text
        for text in row.texts
        if not OF_JAX.search(text)
        and not OF_VLLM.search(text)
        and (job.torch >= (2, 5) or "AcceleratorError" not in text)
    ]


def who_raises(job, row, step):
    rank = 0 if row.where == "init0" else job.rng.randrange(job.size)
    if row.everyone is True:
        return list(range(job.size))
    if row.everyone == "came":  # the last ranks never came, and nothing tells why
        few = values(job, rank, step)["few"]
        for missing in range(few, job.size):
            job.end(missing, 0.0)
        return list(range(few))
    return list(job.ranks_of(job.node_of(rank))) if row.everyone == "host" else [rank]


def perform(job, row, at, step):
    """Lets ranks raise `row` at `at`. Returns the truth about it, and when and how these ranks ended."""
    text = job.rng.choice(texts_for(job, row))
    ranks = who_raises(job, row, step)
    job.joined, job.absent = row.where not in UNRANKED, len(ranks)
    first = job.rng.choice(ranks)
    for rank in ranks:
        raise_it(
            job, at if rank == first else at + job.rng.uniform(0.001, 2.0), rank, row.where, text, rank != first, step
        )
    truth = Truth(
        row.category,
        fill(row.what, values(job, first, step)),
        ranks if len(ranks) < job.size and row.everyone != "came" else (),
        row.also_ok,
    )
    if job.size == 1 and row.everyone is False:
        truth.ranks = [0]
    return truth, {rank: (at + 2.5, row.exit) for rank in ranks}
