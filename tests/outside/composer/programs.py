"""What programs print while nothing is wrong: start, progress, end. One class for each habit of printing."""


class Program:
    """Prints progress on `writers(job)`; most frameworks let one rank print."""

    # Frames of a traceback, if the program is not a training script.
    frames, uses_torch, saves = None, True, True
    name, stamps, level = (
        "plain",
        ("comma", "iso", "brackets", "american", "syslog", "epoch", "clock", "none", "none"),
        "",
    )

    def __init__(self, job):
        self.job, self.rng = job, job.rng
        job.stamp_style = self.rng.choice(self.stamps)
        self.loss = self.rng.uniform(2.0, 11.0)
        self.total = self.rng.choice((1000, 5000, 20_000, 143_000))
        self.first = self.rng.randrange(0, self.total // 2)
        self.every = self.rng.choice((1, 5, 10, 10, 50))
        self.step_s = self.rng.uniform(0.4, 14.0)

    def wrap(self, at, rank, rows, mark):
        """A traceback as the program's own logging shows it."""
        return rows, mark

    def writers(self):
        return range(self.job.size) if self.job.size <= 64 else range(0, self.job.size, self.job.per_node)

    def start(self, ready):
        job, rng = self.job, self.rng
        for rank in range(job.size):
            at = ready * rng.uniform(0.05, 0.3)
            self.say(
                at,
                rank,
                rng.choice(
                    (
                        f"rank {rank} of {job.size} on {job.host(rank)}, device cuda:{job.local(rank)}",
                        f"Initialized process group: rank={rank} world_size={job.size}",
                        f"| distributed init (rank {rank}): env://",
                    )
                ),
            )
            if rank == 0:
                self.say(at + 1, 0, f"number of parameters: {rng.uniform(0.1, 70):.2f}B")
                self.say(ready * 0.6, 0, f"loaded {rng.randrange(100, 99_999)} samples from {job.place.data}")

    def say(self, at, rank, text):
        self.job.rank(at, rank, f"{self.job.stamp(at)}{self.level}{text}")

    def progress(self, begin, end, to_the_last):
        """Steps until `end`, a few dozen of them whatever the time between."""
        count = max(3, min(60 if self.job.size <= 64 else 12, int((end - begin) / (self.step_s * self.every))))
        self.step_s = (end - begin) / count / self.every
        if to_the_last:
            self.first = self.total - (count - 1) * self.every
        for number in range(count):
            self.loss = max(0.3, self.loss * self.rng.uniform(0.93, 1.03))
            at = begin + (number + self.rng.uniform(0.0, 0.3)) * (end - begin) / count
            self.step(at, self.first + number * self.every)
            if number % 25 == 24 and self.saves:
                self.say(
                    at + 0.2, 0, f"saved checkpoint to {self.job.place.saves}/step_{self.first + number * self.every}"
                )

    def step(self, at, step):
        for rank in self.writers():
            self.say(
                at + self.rng.random() * 0.2,
                rank,
                f"rank {rank} step {step} loss {self.loss:.4f} lr 3.0e-04 {self.step_s * 1000:.0f} ms",
            )

    def finish(self, at):
        for rank in self.writers():
            self.say(at, rank, f"rank {rank} done, destroying process group")


class Megatron(Program):
    name, stamps = "megatron", ("none", "brackets")

    def start(self, ready):
        job = self.job
        for rank in range(job.size):
            job.rank(
                ready * 0.1,
                rank,
                (
                    f"> initialized tensor model parallel with size {min(4, job.size)}"
                    if rank == 0
                    else f"[after megatron is initialized] rank {rank}"
                ),
            )
        for key in (
            "adam_beta1 ...................................... 0.9",
            "exit_on_missing_checkpoint ...................... True",
            "check_for_nan_in_loss_and_grad .................. True",
            "distributed_timeout_minutes ..................... 10",
            "error_injection_rate ............................ 0",
            "rerun_mode ...................................... disabled",
        ):
            job.rank(ready * 0.2, 0, f"  {key}")
        job.rank(ready * 0.5, 0, "> building train, validation, and test datasets ...")
        job.rank(ready * 0.8, 0, "time to initialize megatron (seconds): %.3f" % (ready * 0.4))

    def step(self, at, step):
        t = self.job.when(at)
        self.job.rank(
            at,
            self.job.size - 1,
            f" [{t:%Y-%m-%d %H:%M:%S}] iteration {step:8d}/{self.total:8d} | consumed samples: {step * 1024:12d} | "
            f"elapsed time per iteration (ms): {self.step_s * 1000:.1f} | learning rate: 1.500000E-04 | global batch "
            f"size:  1024 | lm loss: {self.loss:.6E} | loss scale: 1.0 | grad norm: {self.rng.uniform(0.1, 2):.3f} | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |",
        )

    def finish(self, at):
        self.job.rank(
            at, 0, f"  successfully saved checkpoint from iteration {self.total:7d} to {self.job.place.saves}"
        )
        self.job.rank(
            at + 2,
            self.job.size - 1,
            f"[exiting program after {self.total} iterations] datetime: {self.job.when(at + 2):%Y-%m-%d %H:%M:%S}",
        )


class DeepSpeed(Program):
    name, stamps = "deepspeed", ("none",)

    def log(self, at, rank, text, level="INFO"):
        self.job.rank(at, rank, f"[{self.job.when(at):%Y-%m-%d %H:%M:%S},{int(at * 1000) % 1000:03d}] [{level}] {text}")

    def start(self, ready):
        for rank in range(self.job.size):
            self.log(ready * 0.1, rank, "[comm.py:637:init_distributed] cdb=None")
        self.log(
            ready * 0.2, 0, "[comm.py:668:init_distributed] Initializing TorchBackend in DeepSpeed with backend nccl"
        )
        self.log(ready * 0.5, 0, "[logging.py:96:log_dist] [Rank 0] DeepSpeed Final Optimizer = FusedAdam")
        self.log(ready * 0.6, 0, "[config.py:1000:print]   dump_state ................... False")
        self.log(ready * 0.6, 0, "[config.py:1000:print]   elasticity_enabled ........... False")

    def step(self, at, step):
        self.log(
            at,
            0,
            f"[logging.py:96:log_dist] [Rank 0] step={step}, skipped={self.first % 4}, lr=[9.6e-06], mom=[(0.9, 0.95)]",
        )
        self.log(
            at + 0.1,
            0,
            f"[timer.py:260:stop] epoch=0/micro_step={step * 8}/global_step={step}, RunningAvgSamplesPerSec="
            f"{self.rng.uniform(5, 90):.4f}, MemAllocated=22.31GB, MaxMemAllocated=61.90GB",
        )
        self.job.rank(
            at + 0.2,
            0,
            f"{{'loss': {self.loss:.4f}, 'grad_norm': {self.rng.uniform(.1, 3):.6f}, 'epoch':"
            f" {step / self.total:.2f}}}",
        )


class Trainer(Program):
    """Transformers' Trainer: dictionaries and a progress bar, without the time of day."""

    name, stamps = "trainer", ("american", "none")

    def step(self, at, step):
        share = step / self.total
        bar = "█" * int(share * 10)
        self.job.error(
            at,
            0,
            f"{int(share * 100):3d}%|{bar:<10}| {step}/{self.total} [{int(at) // 3600}:{int(at) // 60 % 60:02d}:"
            f"{int(at) % 60:02d}<3:41:08, {self.step_s:5.2f}s/it]",
        )
        self.job.rank(
            at + 0.1,
            0,
            f"{{'loss': {self.loss:.4f}, 'grad_norm': {self.rng.uniform(.1, 3):.4f}, 'learning_rate': "
            f"{2e-5 * (1 - share):.3e}, 'epoch': {share * 3:.2f}}}",
        )

    def finish(self, at):
        self.job.rank(
            at,
            0,
            f"{{'train_runtime': {at:.1f}, 'train_samples_per_second': 41.3, 'train_loss': {self.loss:.4f}, 'epoch':"
            " 3.0}",
        )
        self.job.rank(at + 1, 0, "Training completed. Do not forget to share your model on huggingface.co/models =)")


class Lightning(Program):
    name, stamps = "lightning", ("none",)

    def start(self, ready):
        job = self.job
        for rank in range(job.size):
            job.error(
                ready * 0.2, rank, f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{job.size}"
            )
            job.rank(
                ready * 0.5,
                rank,
                f"LOCAL_RANK: {job.local(rank)} - CUDA_VISIBLE_DEVICES: [{','.join(map(str, range(job.per_node)))}]",
            )
        job.rank(
            ready * 0.4,
            0,
            "-" * 100
            + f"\ndistributed_backend=nccl\nAll distributed processes registered. Starting with {job.size} processes\n"
            + "-" * 100,
        )

    def step(self, at, step):
        done = step % 350
        self.job.rank(
            at,
            0,
            f"Epoch {step // 350}: {done * 100 // 350:3d}%|{'█' * (done // 35):<10}| {done}/350 [00:51<01:38,  "
            f"{1 / self.step_s:.2f}it/s, v_num={self.job.number % 40}, train_loss={self.loss:.3f}]",
        )

    def finish(self, at):
        self.job.error(at, 0, f"`Trainer.fit` stopped: `max_epochs={self.total // 350}` reached.")


class NanoGpt(Program):
    name, stamps = "nanogpt", ("none", "none", "clock")

    def writers(self):
        return (0,)

    def step(self, at, step):
        self.say(
            at,
            0,
            f"iter {step}: loss {self.loss:.4f}, time {self.step_s * 1000:.2f}ms, mfu {self.rng.uniform(30, 52):.2f}%",
        )


class Composer(Program):
    name, stamps = "composer", ("none",)

    def step(self, at, step):
        self.job.rank(
            at,
            0,
            f"[batch={step}/{self.total}]:\n\t Train loss/train/total: {self.loss:.4f}\n\t Train time/batch: {step}\n"
            f"\t Train throughput/tokens_per_sec: {self.rng.uniform(1e4, 9e5):.1f}",
        )


class Torchtitan(Program):
    name, stamps, level = "torchtitan", ("comma", "brackets"), "- root - INFO - "

    def step(self, at, step):
        for rank in self.writers():
            self.say(
                at + self.rng.random() * 0.1,
                rank,
                f"step: {step:2d}  loss: {self.loss:7.4f}  memory: 61.2GiB(77.3%)  "
                f"tps: {self.rng.randrange(2000, 9000):,}  mfu: {self.rng.uniform(30, 50):.2f}%",
            )


class Jax(Program):
    name, stamps, uses_torch = "jax", ("none",), False
    frames = (
        '  File "{work}/train.py", line {line2}, in <module>',
        "    app.run(main)",
        '  File "{site}/absl/app.py", line 308, in run',
        "    _run_main(main, args)",
        '  File "{work}/train.py", line {line}, in train_loop',
        "    state, metrics = p_train_step(state, batch)",
    )

    def log(self, at, rank, text, level="I"):
        t = self.job.when(at)
        self.job.error(at, rank, f"{level}{t:%m%d %H:%M:%S.%f} {self.job.pids[rank]} {text}")

    def start(self, ready):
        for rank in range(self.job.size):
            self.log(
                ready * 0.1,
                rank,
                f"distributed.py:106] Connecting to JAX distributed service on {self.job.address(0)}:12355",
            )
            self.log(ready * 0.4, rank, f"train.py:131] JAX process: {rank} / {self.job.size}")

    def step(self, at, step):
        for rank in self.writers():
            self.log(
                at + self.rng.random() * 0.1,
                rank,
                f"logging_writer.py:48] [{step}] loss={self.loss:.5f}, steps_per_second={1 / self.step_s:.3f}",
            )

    def finish(self, at):
        for rank in self.writers():
            self.log(at, rank, "train.py:402] Training finished.")


class Horovod(Program):
    name, stamps = "horovod", ("none",)

    def start(self, ready):
        for rank in range(self.job.size):
            self.job.rank(ready * 0.2, rank, f"Horovod rank {rank}/{self.job.size}, local rank {self.job.local(rank)}")

    def step(self, at, step):
        for rank in self.writers():
            done = step % 900
            self.job.rank(
                at + self.rng.random() * 0.1,
                rank,
                f"Train Epoch: {step // 900} [{done * 64}/57600 ({done / 9:.0f}%)]\tLoss: {self.loss:.6f}",
            )


class Solver(Program):
    """A C++ or Fortran code under MPI."""

    name, stamps, uses_torch = "solver", ("none",), False

    def start(self, ready):
        self.job.rank(0.5, 0, f" Running on {self.job.size} MPI ranks, {self.job.nodes} nodes, CUDA-aware MPI: yes")
        self.job.rank(ready * 0.5, 0, f" grid 2048 x 1024 x 1024, {self.rng.randrange(4, 90)} blocks per rank")

    def step(self, at, step):
        self.job.rank(
            at,
            0,
            f" step {step:8d}  t = {step * 1.25e-4:.6e}  dt = 1.250e-04  residual = {self.loss * 1e-5:.4e}  "
            f"CFL = {self.rng.uniform(.3, .6):.3f}",
        )

    def finish(self, at):
        self.job.rank(at, 0, f" Simulation complete. Wall time: {at:.1f} s")


class Vllm(Program):
    name, stamps, saves = "vllm", ("none",), False
    frames = (
        '  File "{site}/vllm/v1/executor/multiproc_executor.py", line 517, in worker_busy_loop',
        "    output = func(*args, **kwargs)",
        '  File "{site}/vllm/v1/worker/gpu_worker.py", line 293, in execute_model',
        "    output = self.model_runner.execute_model(scheduler_output, intermediate_tensors)",
    )

    def wrap(self, at, rank, rows, mark):
        start = f"ERROR {self.job.when(at):%m-%d %H:%M:%S} [multiproc_executor.py:522] "
        return [start + row for row in ["WorkerProc hit an exception.", *rows]], mark + 1

    def log(self, at, rank, text, level="INFO"):
        self.job.rank(at, rank, f"{level} {self.job.when(at):%m-%d %H:%M:%S} {text}")

    def main(self, at, text, level="INFO"):
        self.job.launcher(at, f"{level} {self.job.when(at):%m-%d %H:%M:%S} {text}")

    def start(self, ready):
        self.main(0.5, "[api_server.py:1896] vLLM API server version 0.9.1")
        for rank in range(self.job.size):
            self.log(
                ready * 0.3,
                rank,
                f"[parallel_state.py:1065] rank {rank} in world size {self.job.size} is assigned as DP rank 0, "
                f"PP rank 0, TP rank {rank}, EP rank {rank}",
            )
            self.log(
                ready * 0.7,
                rank,
                f"[gpu_model_runner.py:1624] Model loading took {self.rng.uniform(10, 60):.4f} GiB and "
                f"{ready / 3:.3f} seconds",
            )
        self.job.launcher(ready, "INFO:     Application startup complete.")

    def step(self, at, step):
        self.main(
            at,
            f"[loggers.py:118] Engine 000: Avg prompt throughput: {self.rng.uniform(100, 900):.1f} tokens/s, Avg"
            f" generation throughput: {self.rng.uniform(500, 3000):.1f} tokens/s, Running: {self.rng.randrange(1, 64)}"
            f" reqs, Waiting: 0 reqs, GPU KV cache usage: {self.rng.uniform(1, 60):.1f}%",
        )
        self.job.launcher(
            at + 1,
            f'INFO:     {self.job.place.net}.3:{self.rng.randrange(30000, 60000)} - "POST /v1/chat/completions'
            ' HTTP/1.1" 200 OK',
        )

    def finish(self, at):
        self.job.launcher(
            at,
            "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     Application shutdown"
            " complete.",
        )


class Sglang(Vllm):
    name = "sglang"
    frames = (
        '  File "{site}/sglang/srt/managers/scheduler.py", line 2269, in run_scheduler_process',
        "    scheduler.event_loop_overlap()",
        '  File "{site}/sglang/srt/managers/tp_worker.py", line 175, in forward_batch_generation',
        "    logits_output = self.model_runner.forward(forward_batch)",
    )

    def wrap(self, at, rank, rows, mark):
        rows[0] = f"[{self.job.when(at):%Y-%m-%d %H:%M:%S} TP{rank}] Scheduler hit an exception: {rows[0]}"
        return rows, mark

    def log(self, at, rank, text, level=""):
        self.job.rank(at, rank, f"[{self.job.when(at):%Y-%m-%d %H:%M:%S} TP{rank}] {level}{text}")

    def start(self, ready):
        self.job.launcher(
            0.5,
            f"[{self.job.when(0.5):%Y-%m-%d %H:%M:%S}] server_args=ServerArgs(tp_size={self.job.size},"
            " watchdog_timeout=300)",
        )
        for rank in range(self.job.size):
            self.log(ready * 0.2, rank, "Init torch distributed begin.")
            self.log(
                ready * 0.8,
                rank,
                "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail"
                f" mem={self.rng.uniform(8, 60):.2f} GB",
            )

    def step(self, at, step):
        self.log(
            at,
            0,
            f"Decode batch. #running-req: {self.rng.randrange(1, 60)}, #token: {step * 17}, token usage: "
            f"{self.rng.uniform(0, .6):.2f}, gen throughput (token/s): {self.rng.uniform(200, 3000):.2f},"
            " #queue-req: 0",
        )


TORCH = (Program, Megatron, Megatron, DeepSpeed, Trainer, Lightning, NanoGpt, Torchtitan)
# Which programs are started in which way.
BY_LAUNCHER = {
    "torchrun": TORCH,
    "srun": TORCH + (Jax,),
    "mpirun": (Horovod, Solver, NanoGpt),
    "none": TORCH + (Composer, Jax),
    "ray": (Program, Trainer, Lightning),
    "vllm": (Vllm, Vllm, Sglang),
}
