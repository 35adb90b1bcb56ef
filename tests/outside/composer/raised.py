"""Failures that one rank, or each, raises as an exception. A row a kind, several wordings a row.

A wording may have several lines; a line that begins with `@` explains the failure, else the first does, and one that
begins with `&` explains as well. Names in braces are filled in by `values` of raise_it.py. `where` chooses the frames
of the traceback and the moment: see FRAMES there.
"""

import collections

Raised = collections.namedtuple(
    "Raised", "category what where texts also_ok everyone exit weight", defaults=((), False, 1, 1)
)

ASYNC = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be"
    " incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable"
    " device-side assertions.\n"
)
WORKER = (
    "RuntimeError: Caught {short} in DataLoader worker process {n}.\nOriginal Traceback (most recent call last):\n"
    '  File "{site}/torch/utils/data/_utils/worker.py", line 308, in _worker_loop\n    data = fetcher.fetch(index)\n'
    '  File "{site}/torch/utils/data/_utils/fetch.py", line 51, in fetch\n'
    "    data = [self.dataset[idx] for idx in possibly_batched_index]\n"
    '  File "{work}/data/dataset.py", line {line}, in __getitem__\n    sample = self._read(idx)\n@{long}\n'
)


def in_worker(short, long):
    return WORKER.replace("{short}", short).replace("{long}", long)


ROWS = [
    # Memory
    Raised(
        "out_of_memory",
        "rank {rank} ran out of GPU memory",
        "forward",
        [
            (
                "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {mib}.00 MiB. GPU {local} has a"
                " total capacty of {gib}.15 GiB of which {small}.12 MiB is free. Process {pid} has {gib}.02 GiB memory"
                " in use. Of the allocated memory {less}.13 GiB is allocated by PyTorch, and 1.69 GiB is reserved by"
                " PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to"
                " avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
            ),
            (
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {mib}.00 MiB. GPU {local} has a total"
                " capacity of {gib}.10 GiB of which {small}.44 MiB is free. Including non-PyTorch memory, this process"
                " has {gib}.05 GiB memory in use. Of the allocated memory {less}.90 GiB is allocated by PyTorch, and"
                " 2.11 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try"
                " setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
            ),
            (
                "RuntimeError: CUDA out of memory. Tried to allocate 2.{small} GiB (GPU {local}; {gib}.59 GiB total"
                " capacity; {less}.11 GiB already allocated; {small}.50 MiB free; {less}.98 GiB reserved in total by"
                " PyTorch)"
            ),
            (
                "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate"
                " {mib}359738 bytes."
            ),
        ],
        weight=3,
    ),
    Raised(
        "out_of_memory",
        "no GPU memory was left for the cache of keys and values",
        "load",
        [
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when"
            " initializing the engine."
        ],
        ["python"],
        True,
    ),
    Raised(
        "out_of_memory",
        "rank {rank} could not get workspace for cuBLAS or cuDNN: GPU memory was full",
        "backward",
        [
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        ],
        ["cuda"],
    ),
    Raised(
        "out_of_memory",
        "rank {rank} could not allocate host memory",
        "data",
        [
            "MemoryError",
            (
                "numpy.core._exceptions._ArrayMemoryError: Unable to allocate {less}.9 GiB for an array with shape"
                " ({n}00000, 2048) and data type float32"
            ),
            (
                "RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory:"
                " you tried to allocate {mib}000000 bytes. Error code 12 (Cannot allocate memory)"
            ),
            "OSError: [Errno 12] Cannot allocate memory",
        ],
    ),
    Raised(
        "out_of_memory",
        "pinned host memory ran out on rank {rank}",
        "load",
        [
            "RuntimeError: CUDA error: out of memory\n" + ASYNC,
            "RuntimeError: CUDA out of memory: cudaHostAlloc of {mib}0000 bytes failed",
        ],
        ["cuda"],
    ),
    # CUDA
    Raised(
        "cuda",
        "a kernel of rank {rank} accessed memory that is not its own",
        "backward",
        [
            "RuntimeError: CUDA error: an illegal memory access was encountered\n" + ASYNC,
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\nSearch for"
            " `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for"
            " more information.\n"
            + ASYNC,
            "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered",
            (
                "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to synchronize GPU for autotuning:"
                " CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
            ),
        ],
        weight=2,
    ),
    Raised(
        "cuda",
        "an index out of range tripped an assertion in a kernel of rank {rank}",
        "forward",
        ["RuntimeError: CUDA error: device-side assert triggered\n" + ASYNC],
    ),
    Raised(
        "cuda",
        "a kernel of rank {rank} failed to launch",
        "forward",
        [
            "RuntimeError: CUDA error: unspecified launch failure\n" + ASYNC,
            "RuntimeError: CUDA error: too many resources requested for launch\n" + ASYNC,
            "RuntimeError: CUDA error: misaligned address\n" + ASYNC,
        ],
    ),
    Raised(
        "cuda",
        "a matrix product of rank {rank} failed in cuBLAS",
        "forward",
        [
            (
                "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, opa, opb,"
                " m, n, k, &falpha, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb, &fbeta, c, CUDA_R_16BF, ldc,"
                " compute_type, CUBLAS_GEMM_DEFAULT_TENSOR_OP)`"
            ),
            "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        ],
    ),
    Raised(
        "environment",
        "the image has no code for this GPU",
        "forward",
        ["RuntimeError: CUDA error: no kernel image is available for execution on the device\n" + ASYNC],
        ["cuda"],
        True,
    ),
    Raised(
        "environment",
        "the driver is older than the CUDA of the image",
        "import",
        [
            (
                "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your"
                " GPU driver by downloading and installing a new version from the URL:"
                " http://www.nvidia.com/Download/index.aspx"
            ),
            "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
            (
                "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before"
                " calling NumCudaDevices() that might have already set an error? Error 803: system has unsupported"
                " display driver / cuda driver combination"
            ),
        ],
        ["cuda"],
        True,
    ),
    Raised(
        "cuda",
        "the fabric manager of {host} was not running",
        "import",
        [
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling"
            " NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"
        ],
        ["environment", "hardware"],
        "host",
    ),
    Raised(
        "cuda",
        "rank {rank} found no GPU, or one that another process holds",
        "init",
        [
            "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\n" + ASYNC,
            "RuntimeError: No CUDA GPUs are available",
            "RuntimeError: CUDA error: invalid device ordinal\n" + ASYNC,
        ],
        ["environment"],
    ),
    # Network and meeting
    Raised(
        "network",
        "the name of the first node does not resolve on {host}",
        "init",
        [
            (
                "torch.distributed.DistNetworkError: The IPv6 network addresses of ({head_name}, {port}) cannot be"
                " retrieved (gai error: -2 - Name or service not known)."
            ),
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
            (
                "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/device.cc:76]"
                " Couldn't resolve address of {head_name}: Name or service not known"
            ),
        ],
        ["rendezvous", "environment"],
        "host",
    ),
    Raised(
        "network",
        "rank {rank} cannot reach another host",
        "init",
        [
            (
                "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no"
                " route to host: [{peer_ip}]:{port}"
            ),
            "OSError: [Errno 113] No route to host",
            (
                "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the"
                " remote server shutdown or crash? (No route to host)"
            ),
        ],
        ["rendezvous"],
    ),
    Raised(
        "rendezvous",
        "the processes did not find the store within the limit",
        "init",
        [
            (
                "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to"
                " connect to ({head}, {port})."
            ),
            "TimeoutError: The client socket has timed out after 900s while trying to connect to ({head}, {port}).",
            (
                "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. {few}/{size}"
                " clients joined."
            ),
        ],
        ["network", "timeout"],
        "came",
    ),
    Raised(
        "rendezvous",
        "the port of the store was in use",
        "init0",
        [
            (
                "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network"
                " address. The server socket has failed to bind to [::]:{port} (errno: 98 - Address already in use)."
                " The server socket has failed to bind to 0.0.0.0:{port} (errno: 98 - Address already in use)."
            ),
            (
                "RuntimeError: The server socket has failed to listen on any local network address. useIpv6: 0, code:"
                " -98, name: EADDRINUSE, message: address already in use"
            ),
        ],
        ["network"],
    ),
    Raised(
        "rendezvous",
        "fewer processes than the world size came",
        "init",
        [
            (
                "RuntimeError: Timed out initializing process group in store based barrier on rank: {rank}, for key:"
                " store_based_barrier_key:1 (world_size={size}, worker_count={few}, timeout=0:30:00)"
            ),
            (
                "torch.distributed.DistBackendError: [{rank}] is setting up NCCL communicator and retrieving"
                " ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Timeout"
                " waiting for key: default_pg/0//cuda//0 after 600000 ms"
            ),
        ],
        ["timeout", "nccl"],
        "came",
    ),
    # Numerics
    Raised(
        "numerics",
        "the loss of rank {rank} became NaN and the program gave up",
        "step",
        [
            "RuntimeError: Loss is nan, stopping training",
            "ValueError: loss is NaN at step {step}, aborting",
            "AssertionError: Rank {rank}: found NaN in local forward loss calculation. Device: {local}, node: {host}",
            (
                "RuntimeError: Rank {rank}, node {host}, device {local}, iteration {step}: Unexpected result nan"
                " (message='found NaN in local grad norm for bucket #0 in backward pass before data-parallel"
                " communication collective')"
            ),
            "RuntimeError: NaN detected in the loss of rank {rank} after backward of micro-batch 3",
        ],
        weight=3,
    ),
    Raised(
        "numerics",
        "the loss scale reached its minimum on all ranks",
        "step",
        [
            "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
            (
                "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering"
                " the learning rate, using gradient clipping or increasing the batch size."
            ),
        ],
        (),
        True,
    ),
    Raised(
        "numerics",
        "a gradient of rank {rank} was not finite",
        "step",
        [
            "RuntimeError: Function 'LogSoftmaxBackward0' returned nan values in its 0th output.",
            (
                "RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot"
                " be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set"
                " `error_if_nonfinite=False`"
            ),
            "AssertionError: gradient norm is inf at step {step}",
        ],
    ),
    Raised(
        "numerics",
        "probabilities of rank {rank} contain NaN",
        "step",
        [
            "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
            (
                "ValueError: Expected parameter logits of distribution Categorical to satisfy the constraint"
                " IndependentConstraint(Real(), 1), but found invalid values: tensor([[nan, nan, nan]],"
                " device='cuda:{local}')"
            ),
        ],
        ["python"],
    ),
    # Data
    Raised(
        "data",
        "a sample that rank {rank} read is corrupt",
        "data",
        [
            in_worker(
                "UnidentifiedImageError",
                "PIL.UnidentifiedImageError: cannot identify image file '{data}/train/{hex}.jpg'",
            ),
            in_worker("OSError", "OSError: image file is truncated ({n} bytes not processed)"),
            in_worker(
                "UnicodeDecodeError",
                "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x9c in position {n}: invalid start byte",
            ),
            in_worker(
                "JSONDecodeError", "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column {n} (char {n})"
            ),
            (
                "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer. Either the file is corrupted or"
                " this is not a parquet file."
            ),
            "tarfile.ReadError: unexpected end of data: {data}/shard-{n:05d}.tar",
            "zlib.error: Error -3 while decompressing data: incorrect data check",
            "ValueError: Invalid sample at index {n}: token id 152331 is out of range for vocab size 152064",
            (
                "nvidia.dali.DALIError: Critical error in pipeline: Error when executing CPU operator decoders__Image:"
                " Could not decode image: {data}/train/{hex}.JPEG"
            ),
        ],
        ["python"],
        weight=3,
    ),
    Raised(
        "data",
        "a DataLoader worker of rank {rank} was killed",
        "data",
        [
            "RuntimeError: DataLoader worker (pid {other_pid}) is killed by signal: Killed. ",
            "RuntimeError: DataLoader worker (pid(s) {other_pid}) exited unexpectedly",
            "RuntimeError: DataLoader worker (pid {other_pid}) is killed by signal: Segmentation fault. ",
        ],
        ["out_of_memory"],
    ),
    Raised(
        "data",
        "a DataLoader worker of rank {rank} found /dev/shm full",
        "data",
        [
            (
                "RuntimeError: DataLoader worker (pid {other_pid}) is killed by signal: Bus error. It is possible that"
                " dataloader's workers are out of shared memory. Please try to raise your shared memory limit."
            ),
            "RuntimeError: unable to write to file </torch_{other_pid}_{n}_0>: No space left on device (28)",
        ],
        ["out_of_memory", "filesystem", "environment"],
    ),
    Raised(
        "data",
        "the DataLoader of rank {rank} waited longer than its limit",
        "data",
        ["RuntimeError: DataLoader timed out after 120 seconds"],
        ["timeout"],
    ),
    Raised(
        "data",
        "a shard of the data set is missing",
        "data",
        [
            "FileNotFoundError: [Errno 2] No such file or directory: '{data}/shard-{n:05d}.tar'",
            "AssertionError: Dataset path {data}/c4_text_document.bin does not exist",
        ],
        ["filesystem", "python"],
    ),
    # File systems
    Raised(
        "filesystem",
        "the file system was full when rank {rank} wrote",
        "save",
        [
            "OSError: [Errno 28] No space left on device: '{saves}/step_{step}/rank{rank}.pt'",
            (
                "RuntimeError: [enforce fail at inline_container.cc:595] . PytorchStreamWriter failed writing file"
                " data/{n}: file write failed (No space left on device)"
            ),
            "OSError: [Errno 28] No space left on device",
        ],
        ["checkpoint"],
        weight=2,
    ),
    Raised(
        "filesystem",
        "an NFS handle of rank {rank} went stale",
        "data",
        ["OSError: [Errno 116] Stale file handle: '{data}/index.idx'", "OSError: [Errno 116] Stale file handle"],
    ),
    Raised(
        "filesystem",
        "the quota of the user was used up",
        "save",
        ["OSError: [Errno 122] Disk quota exceeded: '{saves}/step_{step}'", "OSError: [Errno 122] Disk quota exceeded"],
        ["checkpoint"],
    ),
    Raised(
        "filesystem",
        "the file system became read-only on {host}",
        "save",
        ["OSError: [Errno 30] Read-only file system: '{saves}/step_{step}/opt.pt'"],
        ["checkpoint"],
    ),
    Raised(
        "filesystem",
        "reading failed with an I/O error on {host}",
        "data",
        [
            "OSError: [Errno 5] Input/output error: '{data}/tokens_{n}.bin'",
            "OSError: [Errno 5] Input/output error",
            "OSError: [Errno 107] Transport endpoint is not connected: '{data}'",
            "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        ],
    ),
    Raised(
        "filesystem",
        "rank {rank} may not write there",
        "save",
        ["PermissionError: [Errno 13] Permission denied: '{saves}/step_{step}'"],
        ["python", "environment", "checkpoint"],
    ),
    Raised(
        "filesystem",
        "rank {rank} has too many open files",
        "data",
        [
            "OSError: [Errno 24] Too many open files: '{data}/shard-{n:05d}.tar'",
            "RuntimeError: received 0 items of ancdata",
        ],
        ["environment", "data"],
    ),
    # Environment
    Raised(
        "environment",
        "a Python module is not installed",
        "import",
        [
            "ModuleNotFoundError: No module named 'flash_attn'",
            "ModuleNotFoundError: No module named 'apex'",
            "ModuleNotFoundError: No module named 'transformer_engine'",
            "ModuleNotFoundError: No module named 'pyarrow'",
        ],
        ["python"],
        True,
        weight=2,
    ),
    Raised(
        "environment",
        "the Python module is missing only on {host}",
        "import",
        ["ModuleNotFoundError: No module named 'deepspeed'", "ModuleNotFoundError: No module named 'wandb'"],
        ["python"],
        "host",
    ),
    Raised(
        "environment",
        "two libraries do not fit each other",
        "import",
        [
            (
                "ImportError: {site}/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol:"
                " _ZN3c104cuda9SetDeviceEi"
            ),
            "ImportError: {site}/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
            "ImportError: {site}/transformer_engine_torch.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs",
        ],
        ["python", "nccl"],
        True,
    ),
    Raised(
        "environment",
        "a library is missing or too old on the hosts",
        "import",
        [
            (
                "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by"
                " {site}/torch/lib/libtorch_cpu.so)"
            ),
            (
                "ImportError: /usr/lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by"
                " {site}/fused_ops.so)"
            ),
            "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
            "OSError: libcublas.so.12: cannot open shared object file: No such file or directory",
        ],
        ["python", "cuda"],
        True,
    ),
    Raised(
        "environment",
        "a package has another version than the program wants",
        "import",
        [
            (
                "ImportError: cannot import name 'is_torch_fx_available' from 'transformers.utils'"
                " ({site}/transformers/utils/__init__.py)"
            ),
            (
                "ImportError: tokenizers>=0.21,<0.22 is required for a normal functioning of this module, but found"
                " tokenizers==0.19.1."
            ),
            "AttributeError: module 'numpy' has no attribute 'bool'",
        ],
        ["python"],
        True,
    ),
    # The program
    Raised(
        "python",
        "the program of rank {rank} raised an exception of its own",
        "step",
        [
            "KeyError: 'attention_mask'",
            "IndexError: list index out of range",
            "TypeError: forward() got an unexpected keyword argument 'labels'",
            "ZeroDivisionError: float division by zero",
            "AttributeError: 'NoneType' object has no attribute 'shape'",
            "ValueError: too many values to unpack (expected 2)",
            "AssertionError: sequence length 8193 exceeds maximum 8192",
            (
                "RuntimeError: Expected all tensors to be on the same device, but found at least two devices,"
                " cuda:{local} and cpu!"
            ),
            "RuntimeError: shape '[8, 2048, 32, 128]' is invalid for input of size 67108992",
            (
                "RuntimeError: The size of tensor a (4096) must match the size of tensor b (4095) at non-singleton"
                " dimension 1"
            ),
            (
                "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors"
                " after they have already been freed)."
            ),
            "UnboundLocalError: cannot access local variable 'grad_norm' where it is not associated with a value",
        ],
        weight=5,
    ),
    Raised(
        "python",
        "the program rejects its own configuration",
        "import",
        [
            "ValueError: micro_batch_size 3 does not divide global batch size 1024",
            "KeyError: 'train_iters'",
            (
                "AssertionError: world size ({size}) is not divisible by tensor parallel size (3) times pipeline"
                " parallel size (5)"
            ),
            "TypeError: __init__() missing 1 required positional argument: 'tokenizer'",
            "yaml.scanner.ScannerError: mapping values are not allowed here",
        ],
        ["environment"],
        True,
    ),
    Raised(
        "python",
        "an evaluation of rank {rank} failed",
        "eval",
        [
            "ValueError: Found array with 0 sample(s) (shape=(0, 5)) while a minimum of 1 is required.",
            "RuntimeError: stack expects each tensor to be equal size, but got [512] at entry 0 and [511] at entry 3",
        ],
        ["data"],
    ),
    Raised(
        "python",
        "some parameters took no part in the loss",
        "step",
        [
            "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This"
            " error indicates that your module has parameters that were not used in producing loss."
        ],
        ["nccl"],
        True,
    ),
    # Checkpoints
    Raised(
        "checkpoint",
        "the checkpoint is corrupt",
        "resume",
        [
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            "RuntimeError: PytorchStreamReader failed reading file data/{n}: file read failed",
            "_pickle.UnpicklingError: invalid load key, '\\x00'.",
            "EOFError: Ran out of input",
            "safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization",
            "zipfile.BadZipFile: File is not a zip file",
        ],
        ["filesystem", "python", "data"],
        weight=2,
    ),
    Raised(
        "checkpoint",
        "a shard of the checkpoint is missing",
        "resume",
        [
            (
                "FileNotFoundError: [Errno 2] No such file or directory:"
                " '{saves}/global_step{step}/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt'"
            ),
            (
                "megatron.core.dist_checkpointing.core.CheckpointingException: Object shard"
                " {saves}/iter_{step:07d}/optimizer/shard_{rank}_{size}.pt not found"
            ),
            "FileNotFoundError: [Errno 2] No such file or directory: '{saves}/step_{step}/__{rank}_0.distcp'",
            "AssertionError: Unable to find checkpoint shard {rank} of {size} in {saves}/step_{step}",
        ],
        ["filesystem", "python"],
        weight=2,
    ),
    Raised(
        "checkpoint",
        "the checkpoint does not fit the model",
        "resume",
        [
            (
                "RuntimeError: Error(s) in loading state_dict for GPTModel:\n\tsize mismatch for"
                " embedding.word_embeddings.weight: copying a param with shape torch.Size([50304, 4096]) from"
                " checkpoint, the shape in current model is torch.Size([50432, 4096])."
            ),
            (
                "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:\n\tMissing key(s) in state_dict:"
                ' "model.layers.31.mlp.up_proj.weight". '
            ),
            "KeyError: 'optimizer_states'",
            "RuntimeError: Missing key in checkpoint state_dict: rerun_state_machine_state/shard_{rank}_{size}.",
        ],
        ["python"],
        True,
    ),
    Raised(
        "checkpoint",
        "saving failed on rank {rank} because another process had moved the folder",
        "save",
        [
            "FileNotFoundError: [Errno 2] No such file or directory: '{saves}/tmp-checkpoint-{step}' ->"
            " '{saves}/checkpoint-{step}'"
        ],
        ["filesystem", "python"],
    ),
]
