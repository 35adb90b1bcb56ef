"""Set c: exceptions of devices, links, libraries and programs. See raised.py for what a row means."""

from composer.found import MEANWHILE, chained
from composer.raised import ASYNC, Raised

HUB = (
    "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached"
    " files.\nCheck your internet connection or see how to run the library in offline mode at"
    " 'https://huggingface.co/docs/transformers/installation#offline-mode'."
)
POOL = (
    "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max"
    " retries exceeded with url: /base-7b/resolve/main/config.json (Caused by NewConnectionError('"
    "<urllib3.connection.HTTPSConnection object at 0x7f80afce3400>: Failed to establish a new connection: [Errno 101]"
    " Network is unreachable'))\"), '(Request ID: 33cda6e5-6601-4ed8)')"
)
ROWS = [
    # Memory
    Raised(
        "out_of_memory",
        "rank {rank} ran out of memory of its device, as JAX says it",
        "step",
        [
            (
                "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for {small}.50GiB"
                " (26843545600B) on device ordinal {local}: while running replica 0 and partition 0 of a replicated"
                " computation (other replicas may have failed as well)."
            ),
            (
                "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Attempting to reserve {less}.02G at the"
                " bottom of memory. That was not possible. There are {small}.5G free, 0B reserved, and 9.21G"
                " reservable."
            ),
        ],
        weight=3,
    ),
    Raised(
        "out_of_memory",
        "rank {rank} could not create a segment of shared memory for want of memory",
        "data",
        [
            (
                "RuntimeError: unable to mmap {mib}00000 bytes from file </torch_{other_pid}_7>: Cannot allocate memory"
                " (12)"
            ),
        ],
        ["environment", "python", "data"],
    ),
    # CUDA
    Raised(
        "cuda",
        "a kernel of rank {rank} ran too long or did what the GPU cannot do",
        "backward",
        [
            "RuntimeError: CUDA error: the launch timed out and was terminated\n" + ASYNC,
            "torch.AcceleratorError: CUDA error: an illegal instruction was encountered\nSearch for"
            " `cudaErrorIllegalInstruction' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
            " for more information.\n"
            + ASYNC,
            "RuntimeError: CUDA driver error: invalid argument",
            (
                "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA error: : CUDA_ERROR_LAUNCH_FAILED: unspecified"
                " launch failure"
            ),
        ],
        weight=2,
    ),
    Raised(
        "cuda",
        "a library of CUDA failed on rank {rank}",
        "forward",
        [
            (
                "RuntimeError: cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`."
                " This error may appear if the input matrix contains NaN."
            ),
            "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR",
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
            (
                "RuntimeError: /tmp/pip-req-build-w3k/transformer_engine/common/gemm/cublaslt_gemm.cu:426 in function"
                " cublas_gemm: Assertion failed: status != CUBLAS_STATUS_NOT_SUPPORTED. Unable to find suitable cuBLAS"
                " GEMM algorithm"
            ),
            "RuntimeError: GET was unable to find an engine to execute this computation",
        ],
        ["out_of_memory", "environment"],
        weight=2,
    ),
    Raised(
        "cuda",
        "a Triton kernel needs more of a multiprocessor than this GPU has",
        "forward",
        [
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 163840, Hardware limit:"
            " 101376. Reducing block sizes or `num_stages` may help."
        ],
        ["out_of_memory", "python", "environment"],
        True,
    ),
    # Links and meeting
    Raised(
        "network",
        "the hub of the models cannot be reached",
        "load",
        [
            chained(POOL, HUB, '  File "{site}/transformers/utils/hub.py", line 446, in cached_file', MEANWHILE),
            (
                "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on"
                " the Hub and we cannot find the requested files in the local cache. Please check your connection and"
                " try again or make sure your Internet connection is on."
            ),
        ],
        ["environment", "filesystem", "data", "python", "checkpoint"],
        True,
    ),
    Raised(
        "network",
        "the object storage cannot be reached by rank {rank}, or it rejects its requests",
        "data",
        [
            (
                "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL:"
                ' "https://s3.eu-north-1.amazonaws.com/corpus/shard.{n:05d}.mds"'
            ),
            (
                "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the GetObject operation"
                " (reached max retries: 4): Please reduce your request rate."
            ),
            (
                "urllib3.exceptions.ProtocolError: ('Connection broken: IncompleteRead(8192 bytes read, 57344 more"
                " expected)', IncompleteRead(8192 bytes read, 57344 more expected))"
            ),
            (
                "google.api_core.exceptions.ServiceUnavailable: 503 GET"
                " https://storage.googleapis.com/storage/v1/b/corpus/o/shard-{n:05d}?projection=noAcl: Timeout of"
                " 120.0s exceeded"
            ),
        ],
        ["data", "filesystem", "timeout", "python"],
        weight=2,
    ),
    Raised(
        "network",
        "Gloo on {host} connects to the wrong address of a peer",
        "init",
        [
            (
                "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:2{n2:04d}:"
                " Connection refused"
            ),
            (
                "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr."
                " Unable to find address for: bond0"
            ),
        ],
        ["rendezvous", "environment"],
        "host",
        weight=2,
    ),
    Raised(
        "network",
        "rank {rank} could not reach the service that records experiments",
        "setup",
        [
            (
                "wandb.errors.errors.CommError: Run initialization has timed out after 90.0 sec. Please try increasing"
                " the timeout with the `init_timeout` setting: `wandb.init(settings=wandb.Settings(init_timeout=120))`."
            ),
        ],
        ["timeout", "python", "environment"],
    ),
    Raised(
        "rendezvous",
        "the program was started without the variables by which processes find each other",
        "init",
        [
            (
                "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable"
                " MASTER_ADDR expected, but not set"
            ),
            (
                "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK"
                " expected, but not set"
            ),
        ],
        ["environment", "python"],
        True,
    ),
    Raised(
        "rendezvous",
        "keys of the store never appeared, so processes are missing",
        "init",
        [
            "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cpu//0/{few}",
            "RuntimeError: Socket Timeout",
        ],
        ["timeout", "network"],
        "came",
    ),
    Raised(
        "rendezvous",
        "tasks did not register with JAX's coordinator",
        "init",
        [
            (
                "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id:"
                " PjRT_Client_Connect. Timed out task names:\n/job:jax_worker/replica:0/task:{few}\n\nAdditional GRPC"
                " error information from remote target unknown_target_for_coordination_leader while calling"
                " /tensorflow.CoordinationService/Barrier:"
            ),
            (
                "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id:"
                " [Init]Wait_for_all_tasks_to_register::0. This usually happens because a task triggered the barrier"
                " too early or too slowly. # of tasks that reached the barrier: {few}/{size}."
            ),
        ],
        ["timeout", "network"],
        "came",
    ),
    # Numerics
    Raised(
        "numerics",
        "a value of rank {rank} is not a number, and a guard says so",
        "step",
        [
            "ValueError: The loss returned in `training_step` is nan.",
            "RuntimeError: Train loss contains a NaN.",
            (
                "FloatingPointError: invalid value (nan) encountered in jit(train_step). Because"
                " jax_config.debug_nans.value and/or config.jax_debug_infs is set, the de-optimized function was"
                " executed."
            ),
            "FloatingPointError: gradients are Nan/Inf",
            (
                "torch._C._LinAlgError: linalg.cholesky: The factorization could not be completed because the input is"
                " not positive-definite (the leading minor of order 12 is not positive-definite)."
            ),
        ],
        ["python"],
        weight=2,
    ),
    # The program
    Raised(
        "python",
        "the program of rank {rank} uses its framework wrongly",
        "step",
        [
            "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
            "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16",
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4096x1024 and 4096x4096)",
            "AssertionError: No inf checks were recorded for this optimizer.",
            "RecursionError: maximum recursion depth exceeded while calling a Python object",
            (
                "torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode: Could not guard on data-dependent"
                " expression Eq(u0, 1) (unhinted: Eq(u0, 1)).  (Size-like symbols: none)"
            ),
            "NotImplementedError: Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty()",
            "TypeError: Object of type Tensor is not JSON serializable",
            "StopIteration",
            "jax.errors.UnexpectedTracerError: Encountered an unexpected tracer.",
        ],
        weight=3,
    ),
    Raised(
        "python",
        "a configuration is not what the program expects",
        "import",
        [
            (
                "omegaconf.errors.ConfigAttributeError: Key 'optim' is not in struct\n    full_key: model.optim\n   "
                " object_type=dict"
            ),
            (
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for TrainingConfig\nbatch_size\n "
                " Input should be a valid integer, unable to parse string as an integer [type=int_parsing,"
                " input_value='auto']"
            ),
            "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line {n2} column 3",
            "RuntimeError: trying to initialize the default process group twice!",
        ],
        ["environment", "data"],
        True,
        weight=2,
    ),
    # Environment
    Raised(
        "environment",
        "rank {rank} reached a limit on the number of processes",
        "data",
        ["RuntimeError: can't start new thread"],
        ["out_of_memory", "python"],
    ),
    Raised(
        "environment",
        "an extension cannot be compiled on the hosts",
        "setup",
        [
            (
                "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA"
                " version 12.4 does not match the version torch was compiled with 11.8, unable to compile cuda/cpp"
                " extensions without a matching cuda version."
            ),
            "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
            "RuntimeError: Ninja is required to load C++ extensions",
            chained(
                "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
                "RuntimeError: Error building extension 'fused_adam': [1/2] /usr/local/cuda/bin/nvcc -gencode=arch="
                "compute_90a,code=sm_90a -c multi_tensor_adam.cu\n&nvcc fatal   : Unsupported gpu architecture"
                " 'compute_90a'",
                '  File "{site}/torch/utils/cpp_extension.py", line 2116, in _run_ninja_build',
            ),
            chained(
                "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpj_1f/main.c', '-O3', '-shared',"
                " '-lcuda']' returned non-zero exit status 1.",
                "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
                '  File "{site}/torch/_dynamo/output_graph.py", line 1446, in _call_user_compiler',
            ),
        ],
        ["python", "cuda"],
        True,
        weight=2,
    ),
    Raised(
        "environment",
        "packages were built for other versions than those that are installed",
        "import",
        [
            (
                "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header,"
                " got 88 from PyObject"
            ),
            "RuntimeError: operator torchvision::nms does not exist",
            "AssertionError: Torch not compiled with CUDA enabled",
            "Exception: data did not match any variant of untagged enum ModelWrapper at line 1251019 column 3",
            (
                "TypeError: Descriptors cannot be created directly.\nIf this call came from a _pb2.py file, your"
                " generated code is out of date and must be regenerated with protoc >= 3.19.0."
            ),
        ],
        ["python", "cuda", "data"],
        True,
        weight=2,
    ),
    Raised(
        "environment",
        "the user may not load the model",
        "load",
        [
            (
                "OSError: You are trying to access a gated repo.\nMake sure to have access to it at"
                " https://huggingface.co/base-7b.\n401 Client Error. (Request ID: Root=1-66a9)"
            ),
        ],
        ["network", "python", "filesystem", "data", "checkpoint"],
        True,
    ),
    Raised(
        "environment",
        "shared memory of an earlier job is in the way on {host}",
        "data",
        [
            "FileExistsError: [Errno 17] File exists: '/000006_locals'",
            (
                "ValueError: Reused local directory: ['{data}/train'] vs ['{data}/train']. Provide a different one. If"
                " using a unique local directory, try deleting the local directory and call"
                " `streaming.base.util.clean_stale_shared_memory()` only once in your script"
            ),
        ],
        ["filesystem", "data", "python"],
        "host",
    ),
]
