"""Failure types and the texts that real software writes about them. Each names where its texts come from.

rank: lines of the rank that fails. others: what the other ranks write because of it. launcher, kernel: what these write.
"who" says whom the label names: "rank" the failing rank, "all" every rank, None no rank. In the texts {r} is the rank, {n} the number of ranks,
{o} the rank of the line's own log, {pid} the failing process, {host} its node, {t} and {iso} times, {g} glog's."""

PEER = [
    "{host}:4801:4999 [{l}] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer {host}<41234>",
    "[rank{o}]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, remote process exited or there was a network error, NCCL version 2.28.9",
]
WATCHDOG = [
    "[rank{o}]:[E{g} ProcessGroupNCCL.cpp:683] [Rank {o}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4121, OpType=ALLREDUCE, NumelIn=25559081, NumelOut=25559081, Timeout(ms)=600000) ran for 600042 milliseconds before timing out.",
    "[rank{o}]:[E{g} ProcessGroupNCCL.cpp:744] [Rank {o}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
]
TORCHRUN = [
    "W{g} 4700 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4709 closing signal SIGTERM",
    "E{g} 4700 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: {l} (pid: {pid}) of binary: /usr/bin/python3",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "============================================================",
    "train.py FAILED",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : {iso}",
    "  host      : {host}",
    "  rank      : {r} (local_rank: {l})",
    "  exitcode  : 1 (pid: {pid})",
    "  error_file: <N/A>",
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
]


def killed(number, name):
    lines = [line.replace("exitcode: 1)", f"exitcode: -{number})").replace(": 1 (pid", f": -{number} (pid") for line in TORCHRUN[:-1]]
    return lines + [f"  traceback : Signal {number} ({name}) received by PID {{pid}}"]


def raised(*last, frames=('  File "/app/train.py", line 212, in <module>', "    main()", '  File "/app/train.py", line 167, in main', "    loss = step(batch)")):
    lines = ["Traceback (most recent call last):", *frames, *last]
    return ["[rank{r}]: " + line for line in lines]


def failure(category, source, rank=(), others=(), launcher=(), kernel=(), who="rank"):
    return {"category": category, "source": source, "rank": list(rank), "others": list(others), "launcher": list(launcher),
            "kernel": list(kernel), "who": who}


FAILURES = {
    # out of memory
    "cuda_out_of_memory": failure("out_of_memory", "torch, c10/cuda/CUDACachingAllocator.cpp", raised(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU {l} has a total capacity of 79.11 GiB of which 1.90 GiB is free. Including non-PyTorch memory, this process has 77.19 GiB memory in use."),
        WATCHDOG, TORCHRUN),
    "cuda_out_of_memory_old": failure("out_of_memory", "torch 1.13, CUDACachingAllocator.cpp", raised(
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU {l}; 39.59 GiB total capacity; 37.87 GiB already allocated; 10.19 MiB free; 38.02 GiB reserved in total by PyTorch)"),
        PEER, TORCHRUN),
    "nccl_out_of_memory": failure("out_of_memory", "NCCL, src/include/checks.h and alloc.h", [
        "{host}:{pid}:5011 [{l}] include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'",
        "{host}:{pid}:5011 [{l}] NCCL INFO include/alloc.h:245 -> 1"], WATCHDOG, TORCHRUN),
    "host_out_of_memory": failure("out_of_memory", "Linux, mm/oom_kill.c; torchrun", (), PEER, killed(9, "SIGKILL"), [
        "[Thu Nov 26 {clock} 2026] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "[Thu Nov 26 {clock} 2026] Out of memory: Killed process {pid} (python3) total-vm:412345678kB, anon-rss:251234567kB, file-rss:0kB, shmem-rss:8123kB, UID:1000 pgtables:612345kB oom_score_adj:0"]),
    "cgroup_out_of_memory": failure("out_of_memory", "Linux, mm/memcontrol.c", (), PEER, killed(9, "SIGKILL"), [
        "Nov 26 {clock} {host} kernel: Memory cgroup out of memory: Killed process {pid} (python3) total-vm:98123456kB, anon-rss:64123456kB, file-rss:1234kB, shmem-rss:0kB, UID:0 pgtables:151234kB oom_score_adj:0"]),
    "slurm_out_of_memory": failure("out_of_memory", "Slurm, slurmstepd and srun", (), PEER, [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=440575.0. Some of the step tasks have been OOM Killed.",
        "srun: error: {host}: task {r}: Out Of Memory",
        "srun: Terminating StepId=440575.0",
        "slurmstepd: error: *** STEP 440575.0 ON {host} CANCELLED AT {isot} ***"]),
    "kubernetes_out_of_memory": failure("out_of_memory", "kubectl describe pod", (), PEER, [
        "    Last State:     Terminated", "      Reason:       OOMKilled", "      Exit Code:    137"], who=None),
    "shm_too_small": failure("out_of_memory", "torch/utils/data/_utils/signal_handling.py", raised(
        "RuntimeError: DataLoader worker (pid 5123) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit."),
        WATCHDOG, TORCHRUN),
    "nccl_shm_full": failure("out_of_memory", "NCCL, src/os/linux.cc", [
        "{host}:{pid}:5011 [{l}] misc/shmutils.cc:72 NCCL WARN Call to posix_fallocate failed : No space left on device",
        "{host}:{pid}:5011 [{l}] misc/shmutils.cc:113 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-8mZkQc (size 9637888)"],
        PEER, TORCHRUN),
    "bad_alloc": failure("out_of_memory", "libstdc++; torch, c10/core/impl/alloc_cpu.cpp", raised(
        "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)"),
        PEER, TORCHRUN),
    # hardware
    "fallen_off_the_bus": failure("hardware", "NVIDIA driver, Xid 79", raised(
        "RuntimeError: CUDA error: unknown error"), WATCHDOG, TORCHRUN, [
        "[Thu Nov 26 {clock} 2026] NVRM: GPU at PCI:0000:db:00: GPU-4f3c",
        "[Thu Nov 26 {clock} 2026] NVRM: Xid (PCI:0000:db:00): 79, pid={pid}, name=python3, GPU has fallen off the bus."]),
    "ecc": failure("hardware", "CUDA, cudaErrorECCUncorrectable; Xid 48", raised(
        "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered", "CUDA kernel errors might be asynchronously reported at some other API call"), WATCHDOG, TORCHRUN, [
        "Nov 26 {clock} {host} kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid={pid}, name=python3, DBE (double bit error) in memory",
        "Nov 26 {clock} {host} kernel: NVRM: Xid (PCI:0000:3b:00): 94, pid={pid}, name=python3, Contained: SM (0x1). RST: No, D-RST: No"]),
    "nvlink": failure("hardware", "NVIDIA driver, Xid 74", (), WATCHDOG, TORCHRUN, [
        "[Thu Nov 26 {clock} 2026] NVRM: Xid (PCI:0000:9b:00): 74, pid={pid}, name=python3, NVLink: fatal error detected on link 3(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"]),
    "gsp_timeout": failure("hardware", "NVIDIA driver, Xid 119", (), WATCHDOG, TORCHRUN, [
        "[Thu Nov 26 {clock} 2026] NVRM: Xid (PCI:0000:18:00): 119, pid={pid}, name=python3, Timeout after 6s of waiting for RPC response from GPU3 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20803032 0x5bc)."]),
    "machine_check": failure("hardware", "Linux, mce", (), PEER, ["srun: error: Node failure on {host}"], [
        "Nov 26 {clock} {host} kernel: mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: bb80000000200e0f"], who=None),
    "node_lost": failure("hardware", "Slurm, srun", (), PEER, [
        "srun: error: Node failure on {host}", "slurmstepd: error: *** JOB 440575 ON {host} CANCELLED AT {isot} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"], who=None),
    # CUDA
    "device_side_assert": failure("cuda", "torch, aten/src/ATen/native/cuda/Indexing.cu", [
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1365: indexSelectLargeIndex: block: [171,0,0], thread: [32,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        *raised("RuntimeError: CUDA error: device-side assert triggered", "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.")], WATCHDOG, TORCHRUN),
    "illegal_access": failure("cuda", "CUDA, cudaErrorIllegalAddress", raised(
        "RuntimeError: CUDA error: an illegal memory access was encountered"), PEER, TORCHRUN),
    "cublas": failure("cuda", "torch, CUDABlas.cpp", raised(
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb, m, n, k)`"), PEER, TORCHRUN),
    "invalid_device": failure("environment", "CUDA, cudaErrorInvalidDevice", raised(
        "RuntimeError: CUDA error: invalid device ordinal"), (), TORCHRUN),
    "no_gpu": failure("environment", "torch, torch/cuda/__init__.py", raised(
        "RuntimeError: No CUDA GPUs are available", frames=('  File "/usr/lib/python3/dist-packages/torch/cuda/__init__.py", line 372, in _lazy_init', "    torch._C._cuda_init()")), (), TORCHRUN),
    "driver_too_old": failure("environment", "CUDA, cudaErrorInsufficientDriver", raised(
        "RuntimeError: CUDA driver version is insufficient for CUDA runtime version"), (), TORCHRUN, who="all"),
    "no_kernel_image": failure("environment", "CUDA, cudaErrorNoKernelImageForDevice", raised(
        "RuntimeError: CUDA error: no kernel image is available for execution on the device"), (), TORCHRUN, who="all"),
    # NCCL, network
    "ib_retry": failure("network", "NCCL, src/transport/net_ib.cc", [
        "{host}:{pid}:5122 [{l}] transport/net_ib.cc:1698 NCCL WARN NET/IB : Got completion from peer 172.36.143.59<44206> with status=12 opcode=1 len=0 vendor err 129 (Send) localGid ::ffff:29.87.4.221 remoteGids::ffff:29.87.88.182 hca mlx5_4",
        "{host}:{pid}:5122 [{l}] NCCL INFO transport/net.cc:1298 -> 6"], WATCHDOG, TORCHRUN),
    "ib_port_down": failure("network", "NCCL, net_ib.cc; Linux mlx5_core", [
        "{host}:{pid}:5122 [{l}] transport/net_ib.cc:123 NCCL WARN NET/IB : mlx5_4:1 async fatal event: port error"], WATCHDOG, TORCHRUN, [
        "Nov 26 {clock} {host} kernel: mlx5_core 0000:9a:00.0 ens3f0np0: Link down"]),
    "no_interface": failure("network", "NCCL, src/bootstrap.cc", [
        "{host}:{pid}:5122 [{l}] bootstrap.cc:126 NCCL WARN Bootstrap : no socket interface found",
        *raised("torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, internal error - please report this issue to the NCCL developers, NCCL version 2.27.5", "ncclInternalError: Internal check failed.")], (), TORCHRUN),
    "duplicate_gpu": failure("nccl", "NCCL, src/init.cc", [
        "{host}:{pid}:5122 [{l}] init.cc:943 NCCL WARN Duplicate GPU detected : rank {r} and rank 0 both on CUDA device 3b000"], (), TORCHRUN),
    "nccl_connect": failure("network", "NCCL, src/misc/socket.cc", [
        "{host}:{pid}:5122 [{l}] misc/socket.cc:540 NCCL WARN socketStartConnect: Connect to 10.0.0.7<39951> failed : No route to host"], WATCHDOG, TORCHRUN),
    "truncated": failure("nccl", "NCCL, src/bootstrap.cc", [
        "{host}:{pid}:5122 [{l}] bootstrap.cc:224 NCCL WARN Message truncated : received 1024 bytes instead of 256"], PEER, TORCHRUN),
    # timeouts
    "hang": failure("timeout", "torch, ProcessGroupNCCL.cpp; one rank only falls silent", (), WATCHDOG, TORCHRUN[:1]),
    "monitored_barrier": failure("timeout", "torch, ProcessGroupGloo.cpp", (), [
        "[rank{o}]: RuntimeError: Rank {r} failed to pass monitoredBarrier in 300000 ms"], TORCHRUN[:1]),
    # rendezvous
    "port_in_use": failure("rendezvous", "torch, TCPStore.cpp", raised(
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: true, code: -98, name: EADDRINUSE, message: address already in use"), (), TORCHRUN, who=None),
    "clients_missing": failure("rendezvous", "torch, TCPStore.cpp", raised(
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 15/16 clients joined."), (), TORCHRUN, who=None),
    "unreachable": failure("rendezvous", "torch, socket.cpp", [
        "[W{g} socket.cpp:752] [c10d] The client socket cannot be initialized to connect to [node000]:29500 (errno: 97 - Address family not supported by protocol).",
        *raised("torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.1, 29500).")], (), TORCHRUN),
    "name_resolution": failure("rendezvous", "glibc, getaddrinfo", raised(
        "socket.gaierror: [Errno -3] Temporary failure in name resolution"), (), TORCHRUN),
    "variables": failure("rendezvous", "torch, rendezvous.py", raised(
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but not set"), (), TORCHRUN, who="all"),
    # numerics
    "nan": failure("numerics", "a training loop's own log", [
        "{t} - INFO - step 412 loss=nan grad_norm=nan lr=3.0e-4"], [], []),
    "anomaly": failure("numerics", "torch, torch/csrc/autograd/engine.cpp", raised(
        "RuntimeError: Function 'LogBackward0' returned nan values in its 0th output."), PEER, TORCHRUN),
    "loss_scale": failure("numerics", "DeepSpeed, runtime/fp16/loss_scaler.py", raised(
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."), PEER, TORCHRUN),
    # data
    "worker_exception": failure("data", "torch, torch/_utils.py", raised(
        "PIL.UnidentifiedImageError: Caught UnidentifiedImageError in DataLoader worker process 3."), WATCHDOG, TORCHRUN),
    "shapes": failure("data", "torch, collate.py", raised(
        "RuntimeError: stack expects each tensor to be equal size, but got [3, 224, 224] at entry 0 and [1, 224, 224] at entry 5"), WATCHDOG, TORCHRUN),
    "json": failure("data", "Python, json/decoder.py", raised(
        "json.decoder.JSONDecodeError: Unterminated string starting at: line 1 column 88 (char 87)"), WATCHDOG, TORCHRUN),
    # files
    "disk_full": failure("filesystem", "Linux, errno 28", raised(
        "OSError: [Errno 28] No space left on device: '/ckpt/step_4000/rank{r}.pt'"), WATCHDOG, TORCHRUN),
    "quota": failure("filesystem", "Linux, errno 122", raised("OSError: [Errno 122] Disk quota exceeded"), WATCHDOG, TORCHRUN),
    "permission": failure("filesystem", "Linux, errno 13", raised(
        "PermissionError: [Errno 13] Permission denied: '/data/shard_0007.tar'"), WATCHDOG, TORCHRUN),
    "stale_handle": failure("filesystem", "Linux, errno 116", raised(
        "OSError: [Errno 116] Stale file handle: '/nfs/data/train.bin'"), WATCHDOG, TORCHRUN),
    "open_files": failure("filesystem", "Linux, errno 24", raised(
        "OSError: [Errno 24] Too many open files: '/data/index.json'"), WATCHDOG, TORCHRUN),
    # environment
    "module": failure("environment", "Python, import", raised("ModuleNotFoundError: No module named 'flash_attn'"), (), TORCHRUN),
    "symbol": failure("environment", "glibc, dl-lookup.c", raised(
        "ImportError: /usr/lib/python3/dist-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"), (), TORCHRUN, who="all"),
    "glibc": failure("environment", "glibc, dl-version.c", [
        "/usr/bin/python3: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /opt/libfoo.so)"], (), ["srun: error: {host}: task {r}: Exited with exit code 1"]),
    # checkpoints
    "checkpoint_cut": failure("checkpoint", "torch, caffe2/serialize/inline_container.cc", raised(
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"), WATCHDOG, TORCHRUN),
    "state_dict": failure("checkpoint", "torch, nn/modules/module.py", raised(
        "RuntimeError: Error(s) in loading state_dict for GPT:", "\tsize mismatch for embed.weight: copying a param with shape torch.Size([50257, 768]) from checkpoint, the shape in current model is torch.Size([50304, 768])."), (), TORCHRUN, who="all"),
    # ended
    "time_limit": failure("terminated", "Slurm, slurmstepd", (), (), [
        "slurmstepd: error: *** JOB 440575 ON {host} CANCELLED AT {isot} DUE TO TIME LIMIT ***", "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."], who=None),
    "preempted": failure("terminated", "Slurm, slurmstepd", (), (), [
        "slurmstepd: error: *** JOB 440575 ON {host} CANCELLED AT {isot} DUE TO PREEMPTION ***"], who=None),
    "crash": failure("terminated", "glibc and torchrun", ["Fatal Python error: Segmentation fault"], PEER, killed(11, "SIGSEGV")),
    "killed": failure(None, "torchrun; nothing says by whom", (), PEER, killed(9, "SIGKILL")),
    "signal": failure("terminated", "torchrun, elastic/agent/server/api.py", (), (), [
        "W{g} 4700 torch/distributed/elastic/agent/server/api.py:723] Received 15 death signal, shutting down workers",
        "W{g} 4700 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4709 closing signal SIGTERM",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4700 got signal: 15"], who=None),
    # Python
    "exception": failure("python", "Python", raised("KeyError: 'attention_mask'"), WATCHDOG, TORCHRUN),
    "value_error": failure("python", "Python", raised("ValueError: too many values to unpack (expected 2)"), PEER, TORCHRUN),
    # MPI
    "mpi_abort": failure("mpi", "Open MPI, orte", [
        "--------------------------------------------------------------------------",
        "MPI_ABORT was invoked on rank {r} in communicator MPI_COMM_WORLD",
        "with errorcode 77."], (), ["mpirun detected that one or more processes exited with non-zero status, thus causing the job to be terminated."]),
    "mpi_truncate": failure("mpi", "Open MPI, ompi/errhandler", [
        "[{host}:{pid}] *** An error occurred in MPI_Recv", "[{host}:{pid}] *** reported by process [1234567,{r}]",
        "[{host}:{pid}] *** MPI_ERR_TRUNCATE: message truncated"], (), ()),
    "mpi_signal": failure("terminated", "Open MPI, orte/tools/orterun", (), (), [
        "mpirun noticed that process rank {r} with PID {pid} on node {host} exited on signal 11 (Segmentation fault)."]),
    "mpi_slots": failure("mpi", "Open MPI, orte", (), (), [
        "There are not enough slots available in the system to satisfy the 64", "slots that were requested by the application:"], who=None),
}
