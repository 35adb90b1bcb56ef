"""Set c: lines of ranks, of kernels and of Slurm's controller that mean nothing. See noise.py for the columns."""

TEXTS = [
    (
        "start",
        "some",
        (
            "[W socket.cpp:697] [c10d] The client socket has failed to connect to [{head}]:29500 (errno: 22 - Invalid"
            " argument)."
        ),
    ),
    (
        "start",
        "some",
        (
            "{nccl} NCCL INFO NET/OFI Using aws-ofi-nccl 1.9.1aws\n{nccl} NCCL INFO NET/OFI Unable to find libcudart.so"
            " symbol, ignored"
        ),
    ),
    (
        "start",
        "some",
        (
            "{nccl} NCCL INFO TUNER/Plugin: Failed to find ncclTunerPlugin_v3 symbol.\n{nccl} NCCL INFO NET/Plugin:"
            " Failed to find ncclCollNetPlugin symbol (>= v5). ncclCollNetPlugin symbols v4 and lower are not"
            " supported."
        ),
    ),
    (
        "start",
        "one",
        (
            "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system"
            " being overloaded, please further tune the variable for optimal performance in your application as needed."
        ),
    ),
    (
        "start",
        "one",
        (
            "/usr/bin/which: no hipcc in (/usr/local/bin:/usr/bin)\n [WARNING]  async_io requires the dev libaio .so"
            " object and headers but these were not found.\n [WARNING]  using untested triton version (2.1.0), only"
            " 1.0.0 is known to be compatible"
        ),
    ),
    (
        "start",
        "some",
        (
            "[rank{rank}]:[W ProcessGroupNCCL.cpp:5188] Guessing device ID based on global rank. This can cause a hang"
            " if rank to GPU mapping is heterogeneous. You can specify device_id in init_process_group()"
        ),
    ),
    (
        "start",
        "one",
        (
            "Some weights of LlamaForCausalLM were not initialized from the model checkpoint at base-7b and are newly"
            " initialized: ['lm_head.weight']"
        ),
    ),
    (
        "start",
        "one",
        (
            "Token indices sequence length is longer than the specified maximum sequence length for this model (8931 >"
            " 8192). Running this sequence through the model will result in indexing errors"
        ),
    ),
    (
        "start",
        "one",
        "libfabric:4517:1708520807::core:core:fi_getinfo_():1392<warn> fi_getinfo: provider efa output empty list",
    ),
    (
        "start",
        "one",
        (
            'Traceback (most recent call last):\n  File "/app/hooks/numa.py", line 12, in bind\nFileNotFoundError:'
            " [Errno 2] No such file or directory: 'numactl'\nbinding to NUMA nodes is skipped"
        ),
    ),
    (
        "start",
        "one",
        "slurmstepd: error: Could not run slurm task_prolog [/etc/slurm/prolog.sh]: No such file or directory",
    ),
    (
        "start",
        "one",
        (
            "WARNING: Open MPI accepted a TCP connection from what appears to be a\nanother Open MPI process but cannot"
            " find a corresponding process entry. This connection will be ignored."
        ),
    ),
    (
        "start",
        "one",
        (
            "huggingface/tokenizers: The current process just got forked, after parallelism has already been used."
            " Disabling parallelism to avoid deadlocks..."
        ),
    ),
    ("start", "one", "on_nan_loss: abort   max_oom_retries: 2   exit_on_error: true   fail_fast: false"),
    ("run", "one", "INFO: retrying GetObject shard-00081 after SlowDown (attempt 2 of 10)"),
    ("run", "one", "[deepspeed] 3 skipped steps so far, loss scale 16384, overflow rate 0.02%"),
    (
        "run",
        "some",
        "torch._dynamo hit config.recompile_limit (8); function: 'forward' (layers.py:88), falling back to eager",
    ),
    ("run", "one", "W&B: 500 encountered ({'error': 'internal server error'}), retrying request"),
    ("run", "one", "Corrupt JPEG data: premature end of data segment"),
    ("run", "one", "[h264 @ 0x55d0c8e2080] error while decoding MB 41 22, bytestream -7"),
    ("run", "one", "/opt/env/site-packages/PIL/TiffImagePlugin.py:819: UserWarning: Truncated File Read"),
    ("run", "some", "grad norm is 14.2, clipped to 1.0 (rank {rank})"),
    ("run", "one", "heartbeat of rank {rank} was 11 s late (limit 600 s), all is well again"),
    ("run", "one", "checkpoint step_400 is incomplete (7 of 8 shards), removed; the newest complete one is step_200"),
    ("run", "one", "eval: exact match 0.412, failed parses 31, timeouts 2, errors 0"),
    ("run", "one", "UCX  WARN  object 0x2b691657 was not released to mpool ucp_requests"),
    (
        "end",
        "one",
        "terminate handler installed, nothing to do\nfinal summary: 0 NaN losses, 2 skipped batches, 0 restarts",
    ),
    (
        "end",
        "some",
        (
            "[rank{rank}]:[W ProcessGroupNCCL.cpp:1168] Warning: WARNING: process group has NOT been destroyed before"
            " it is being destructed."
        ),
    ),
]
KERNEL = [
    "mce: CPU12: Core temperature above threshold, cpu clock throttled (total events = 13)",
    (
        "EDAC skx MC1: 2 CE memory scrubbing error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1f"
        " offset:0x0)"
    ),
    "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate",
    "Lustre: 4108:0:(client.c:2295:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply",
    "nfs: server 10.2.0.250 not responding, still trying\nnfs: server 10.2.0.250 OK",
    "TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.",
    "INFO: task kworker/u192:3:811 blocked for more than 120 seconds.",
    "NVRM: Xid (PCI:0000:e1:00): 31, pid=4711, name=jupyter-lab, MMU Fault: ENGINE GRAPHICS faulted @ 0x7f2b_4c000000",
    "python3[4711]: segfault at 0 ip 00007f3c1c2f8a1e sp 00007ffd2ad1c0f0 error 4 in libfoo.so[7f3c1c000000+5c000]",
    "oom_reaper: reaped process 4711 (java), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    (
        "mlx5_core 0000:b0:00.1: mlx5_cmd_out_err:803:(pid 811): QUERY_VPORT_COUNTER op_mod(0x0) failed, status bad"
        " parameter(0x3)"
    ),
    "audit: backlog limit exceeded",
]
SCHEDULER = [
    "error: slurm_receive_msg [10.2.0.7:41220]: Zero Bytes were transmitted or received",
    "_job_complete: JobId={other} OOM failure",
    "Requeuing JobId={other}",
    "error: Node {host} has low real_memory size (515000 < 515700)",
    "sched: _slurm_rpc_allocate_resources JobId={other} NodeList={host} usec=811",
    "preempted JobId={other} has been requeued to reclaim resources for JobId={other}1",
    "cleanup_completing: JobId={other} completion process took 61 seconds",
    "job_time_limit: Configuration for JobId={other} complete",
]
