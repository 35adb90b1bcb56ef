"""Set c: failures of memory and of hardware that are more than an exception."""

from composer import peers
from composer.found import found
from composer.job import Truth
from composer.kernel_log import kern
from composer.kinds import all_out, nodes, several, torch
from composer.raise_it import raise_it

BACKEND = "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:318, {}"
TIMED_OUT = "RuntimeError: CUDA error: the launch timed out and was terminated"


def with_kernel(job):
    return job.has_kernel and torch(job)


def nccl_warns(job, at, rank, place, warning, result, also=False):
    """A warning of NCCL and the exception in which torch repeats it."""
    start = peers.nccl(job, rank)
    job.error(
        at,
        rank,
        f"\n{start} {place} NCCL WARN {warning}\n{start} NCCL INFO transport/p2p.cc:240 -> 1\n{start} NCCL INFO"
        f" init.cc:1501 -> 1\n{start} NCCL INFO group.cc:64 -> 1 [Async thread]",
        mark=1,
        also=also,
    )
    raise_it(job, at + 0.2, rank, "forward", BACKEND.format(f"{result}\nLast error:\n{warning}"), True)


# Memory


@found("out_of_memory", lambda job: job.launched != "vllm")
def bad_alloc(job, at):
    rank = job.rng.randrange(job.size)
    job.error(
        at, rank, "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", mark=0
    )
    return Truth("out_of_memory", f"an allocation of rank {rank} failed in C++", [rank], ["python"]), {
        rank: (at + 0.2, -6)
    }


@found("out_of_memory", lambda job: torch(job) and several(job), early=True)
def no_memory_for_nccl(job, at):
    rank = job.rng.randrange(job.size)
    result = (
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclUnhandledCudaError: Call"
        " to CUDA function failed."
    )
    nccl_warns(job, at, rank, "include/alloc.h:228", "Cuda failure 2 'out of memory'", result)
    return Truth("out_of_memory", f"NCCL found no memory on the GPU of rank {rank}", [rank], ["cuda", "nccl"]), {
        rank: (at + 1.5, 1)
    }


@found("out_of_memory", torch)
def quantized_optimizer(job, at):
    """A library that writes one line and leaves."""
    rank = job.rng.randrange(job.size)
    job.rank(at, rank, "Error out of memory at line 396 in file /src/csrc/pythonInterface.cpp", mark=0)
    return Truth("out_of_memory", f"an optimizer of 8 bits found no memory on rank {rank}", [rank], ["cuda"]), {
        rank: (at + 0.3, 1)
    }


@found("out_of_memory", lambda job: job.launched == "vllm", 3, early=True)
def no_room_to_serve(job, at):
    text = (
        job.rng.choice(
            (
                (
                    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV"
                    " cache is needed, which is larger than the available KV cache memory (9.27 GiB). Based on the"
                    " available memory, the estimated maximum model length is 75936. Try increasing"
                    " `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
                ),
                (
                    "ValueError: Free memory on device (6.18/79.11 GiB) on startup is less than desired GPU memory"
                    " utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other"
                    " processes."
                ),
            )
        )
        if job.program.name == "vllm"
        else "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    )
    for rank in range(job.size):
        raise_it(job, at + rank * 0.02, rank, "load", text, rank > 0)
    return Truth("out_of_memory", "no GPU memory is left to serve", (), ["python", "environment"]), all_out(
        job, at + 1, 1
    )


# CUDA


@found("cuda", lambda job: job.program.uses_torch)
def indices_on_the_gpu(job, at):
    rank, block = job.rng.randrange(job.size), job.rng.randrange(900)
    text = "../aten/src/ATen/native/cuda/{}: block: [{},0,0], thread: [{},0,0] Assertion `{}` failed."
    place, check = job.rng.choice(
        (
            ("IndexKernel.cu:93: operator()", '-sizes[i] <= index && index < sizes[i] && "index out of bounds"'),
            ("Indexing.cu:1292: indexSelectLargeIndex", "srcIndex < srcSelectDimSize"),
            ("Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d", "t >= 0 && t < n_classes"),
        )
    )
    rows = [text.format(place, block, thread, check) for thread in range(64, 64 + job.rng.randrange(4, 24))]
    job.error(at, rank, rows, mark=0, more=range(1, len(rows)))
    raise_it(job, at + 0.3, rank, "forward", "RuntimeError: CUDA error: device-side assert triggered", True)
    return Truth("cuda", f"an index of rank {rank} is out of bounds on the GPU", [rank], ["data", "python"]), {
        rank: (at + 1, 1)
    }


@found("cuda", lambda job: job.program.name == "vllm" and several(job), 4)
def own_all_reduce(job, at):
    for rank in range(job.size):
        job.rank(
            at + rank * 0.01,
            rank,
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'",
            "err",
            mark=0,
            also=rank > 0,
        )
    return Truth("cuda", "vLLM's own all-reduce failed", (), ["nccl"]), all_out(job, at + 0.5, -6)


@found("cuda", with_kernel, 2)
def illegal_instruction(job, at):
    rank = job.rng.randrange(job.size)
    start = f"NVRM: Xid (PCI:0000:{job.bus(rank)}:00): 13, pid={job.pids[rank]}, name=python3, Graphics"
    kern(
        job,
        at - 0.2,
        job.node_of(rank),
        f"{start} SM Warp Exception on (GPC 3, TPC 2, SM 1): Illegal Instruction Encoding\n{start} Exception:"
        " ESR 0x51df30=0xc040009 0x51df34=0x0 0x51df28=0xf81eb60 0x51df2c=0x1174",
        mark=0,
        more=(1,),
    )
    raise_it(job, at, rank, "backward", "RuntimeError: CUDA error: an illegal instruction was encountered", True)
    return Truth("cuda", f"a kernel of rank {rank} ran into an illegal instruction", [rank], ["hardware", "python"]), {
        rank: (at + 1, 1)
    }


# Hardware


@found("hardware", with_kernel, 2)
def halted_gpu(job, at):
    rank = job.rng.randrange(job.size)
    start = f"NVRM: Xid (PCI:0000:{job.bus(rank)}:00):"
    fault = job.rng.choice(
        (
            "62, pid='<unknown>', name=<unknown>, 2027(272c) 00000000 00000000",
            "120, pid='<unknown>', name=<unknown>, GSP task exception: task 4, cause: 0x5",
        )
    )
    kern(
        job,
        at - 0.5,
        job.node_of(rank),
        f"{start} {fault}\n{start} 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        mark=0,
        more=(1,),
    )
    raise_it(job, at, rank, "backward", TIMED_OUT, True)
    return Truth("hardware", f"the GPU of rank {rank} on {job.host(rank)} halted", [rank], ["cuda"]), {
        rank: (at + 1, 1)
    }


@found("hardware", lambda job: with_kernel(job) and several(job), 2)
def broken_switch(job, at):
    node = job.rng.randrange(job.nodes)
    kern(
        job,
        at - 0.4,
        node,
        "nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\nnvidia-nvswitch3: SXid"
        " (PCI:0000:c4:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00",
        mark=0,
        more=(1,),
    )
    for rank in job.ranks_of(node):
        raise_it(job, at + rank * 0.001, rank, "backward", "RuntimeError: NCCL Error 1: unhandled cuda error", True)
    return Truth("hardware", f"an NVSwitch of {job.place.hosts[node]} failed", job.ranks_of(node), ["nccl", "cuda"]), {
        rank: (at + 1, 1) for rank in job.ranks_of(node)
    }


@found("hardware", lambda job: job.has_kernel and job.launched != "vllm", 2)
def bad_dimm(job, at):
    rank = job.rng.randrange(job.size)
    kern(
        job,
        at - 0.1,
        job.node_of(rank),
        "EDAC skx MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x8b2f1c"
        " offset:0x0 grain:32 - err_code:0x0000:0x009f)\nMemory failure: 0x8b2f1c: Sending SIGBUS to"
        f" python3:{job.pids[rank]} due to hardware memory corruption\nMemory failure: 0x8b2f1c: recovery action for"
        " dirty LRU page: Recovered",
        mark=1,
        more=(0,),
    )
    return Truth("hardware", f"memory of {job.host(rank)} is bad and killed rank {rank}", [rank]), {
        rank: (at + 0.2, -7)
    }


@found("hardware", with_kernel, 2)
def fatal_pcie(job, at):
    rank = job.rng.randrange(job.size)
    kern(
        job,
        at - 0.6,
        job.node_of(rank),
        "pcieport 0000:48:01.0: DPC: containment event, status:0x1f01 source:0x0000\npcieport 0000:48:01.0: DPC:"
        " unmasked uncorrectable error detected\npcieport 0000:48:01.0: PCIe Bus Error: severity=Uncorrected (Fatal),"
        f" type=Transaction Layer, (Receiver ID)\nnvidia 0000:{job.bus(rank)}:00.0: AER: can't recover (no"
        " error_detected callback)",
        mark=0,
        more=(1, 2, 3),
    )
    raise_it(job, at, rank, "forward", TIMED_OUT, True)
    return Truth("hardware", f"PCIe lost the GPU of rank {rank} on {job.host(rank)}", [rank], ["cuda"]), {
        rank: (at + 1, 1)
    }


@found("hardware", with_kernel, 2)
def dead_nvme(job, at):
    rank = job.rng.randrange(job.size)
    kern(
        job,
        at - 1.2,
        job.node_of(rank),
        "nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff\nnvme nvme1: Removing after"
        " probe failure status: -19\nBuffer I/O error on dev nvme1n1, logical block 0, lost async page write\nEXT4-fs"
        " (nvme1n1): shut down requested (2)",
        mark=0,
        more=(1, 2, 3),
    )
    raise_it(job, at, rank, "data", f"OSError: [Errno 19] No such device: '{job.place.data}/cache/part_0'", True)
    return Truth("hardware", f"an NVMe drive of {job.host(rank)} is gone", [rank], ["filesystem"]), {rank: (at + 1, 1)}


@found("hardware", lambda job: with_kernel(job) and nodes(job), 2)
def dead_adapter(job, at):
    rank = job.rng.randrange(job.size)
    start = f"mlx5_core 0000:{job.bus(rank)}:00.0:"
    kern(
        job,
        at - 3,
        job.node_of(rank),
        f"{start} poll_health:825:(pid 0): device's health compromised - reached miss count\n{start}"
        f" print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:\n{start}"
        f" print_health_info:435:(pid 0): assert_var[0] 0x0521945b\n{start} mlx5_error_sw_reset:240:(pid 0): start",
        mark=0,
        more=(1,),
    )
    far = job.rng.choice([r for r in range(job.size) if job.node_of(r) != job.node_of(rank)])
    peers.remote(job, at, rank, far)
    return Truth("hardware", f"a network adapter of {job.host(rank)} failed", [rank], ["network"]), {rank: (at + 2, -6)}
