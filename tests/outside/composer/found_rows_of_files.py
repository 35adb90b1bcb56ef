"""Set c: exceptions of data, of file systems and of checkpoints. See raised.py for what a row means."""

from composer.found import MEANWHILE, chained
from composer.raised import Raised, in_worker

TAR = "{data}/train-{n:06d}.tar"
ROWS = [
    Raised(
        "data",
        "a shard that rank {rank} read is damaged",
        "data",
        [
            in_worker("ReadError", f"tarfile.ReadError: ('invalid header @ <_io.BufferedReader name={TAR}>', '{TAR}')"),
            in_worker(
                "ValueError",
                "ValueError: ('000123.jpg: duplicate file name in tar file jpg dict_keys([__key__, __url__, jpg])',"
                f" '{TAR}')",
            ),
            "OSError: Corrupt snappy compressed data.",
            "pyarrow.lib.ArrowInvalid: Tried reading schema message, was null or length 0",
            "zstandard.ZstdError: decompression error: did not decompress full frame",
            "gzip.BadGzipFile: CRC check failed 0x6b1d2f90 != 0x41a7c003",
            "ValueError: Checksum failure: {data}/train/shard.{n:05d}.mds",
            "AssertionError: bad header, cannot read: {data}/corpus_text_document.idx",
            "ValueError: mmap length is greater than file size",
            chained(
                "pyarrow.lib.ArrowInvalid: JSON parse error: Missing a closing quotation mark in string. in row {n}",
                "datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset",
                '  File "{site}/datasets/builder.py", line 2013, in _prepare_split_single',
            ),
        ],
        ["python", "filesystem"],
        weight=3,
    ),
    Raised(
        "data",
        "a sample that rank {rank} read cannot be decoded",
        "data",
        [
            in_worker(
                "InvalidDataError",
                "av.error.InvalidDataError: [Errno 1094995529] Invalid data found when processing input:"
                " '{data}/clips/{hex}.mp4'",
            ),
            in_worker(
                "DECORDError",
                "decord._ffi.base.DECORDError: [12:31:07] /github/workspace/src/video/video_reader.cc:151: Check"
                " failed: st_nb >= 0 (-1381258232 vs. 0) ERROR cannot find video stream with wanted index: -1",
            ),
            in_worker(
                "LibsndfileError",
                "soundfile.LibsndfileError: Error opening '{data}/speech/{hex}.flac': File contains data in an"
                " unimplemented format.",
            ),
            in_worker(
                "error",
                "cv2.error: OpenCV(4.9.0) /io/opencv/modules/imgproc/src/color.cpp:196: error: (-215:Assertion failed)"
                " !_src.empty() in function 'cvtColor'",
            ),
            in_worker(
                "TypeError",
                "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found"
                " <class 'NoneType'>",
            ),
            "pyo3_runtime.PanicException: byte index 512 is not a char boundary; it is inside 'é' (bytes 511..513)",
        ],
        ["python"],
        weight=2,
    ),
    Raised(
        "data",
        "a batch of rank {rank} has indices beyond the table",
        "step",
        [
            "IndexError: index out of range in self",
            "IndexError: Target 32011 is out of bounds.",
            "IndexError: index {n}0021 is out of bounds for axis 0 with size {n}",
        ],
        ["python"],
    ),
    Raised(
        "data",
        "the data set is empty",
        "setup",
        [
            "ValueError: num_samples should be a positive integer value, but got num_samples=0",
            'ValueError: Instruction "train" corresponds to no data!',
        ],
        ["python", "filesystem"],
        True,
    ),
    Raised(
        "data",
        "the program that feeds rank {rank} failed",
        "data",
        [
            (
                "OSError: ((('pipe:aws s3 cp s3://corpus/train-{n:06d}.tar -',), {'shell': True, 'bufsize': 8192}):"
                " exit 1 (read) {}, <webdataset.gopen.Pipe object at 0x7f2b4c0>)"
            ),
            (
                "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor"
                " was unexpectedly terminated. This could be caused by a segmentation fault while calling the function"
                " or by an excessive memory usage causing the Operating System to kill the worker."
            ),
            (
                "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly"
                " while the future was running or pending."
            ),
        ],
        ["network", "python", "out_of_memory"],
    ),
    # File systems
    Raised(
        "filesystem",
        "a remote file system failed under rank {rank}",
        "data",
        [
            "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '{data}/tokens_{n}.bin'",
            "OSError: [Errno 121] Remote I/O error: '{data}/tokens_{n}.bin'",
            "OSError: [Errno 112] Host is down: '{data}'",
            "OSError: [Errno 37] No locks available: '{data}/.lock'",
            "TimeoutError: [Errno 110] Connection timed out: '{data}/index.json'",
            "OSError: [Errno 103] Software caused connection abort: '{data}'",
        ],
        ["network", "timeout", "data"],
        weight=2,
    ),
    Raised(
        "filesystem",
        "a local file system of {host} is damaged",
        "save",
        [
            "OSError: [Errno 117] Structure needs cleaning: '{saves}/step_{step}'",
            "OSError: [Errno 74] Bad message: '{saves}/step_{step}/rank{rank}.pt'",
            "OSError: [Errno 61] No data available",
        ],
        ["hardware", "checkpoint"],
    ),
    Raised(
        "filesystem",
        "rank {rank} and another process work in the same folder",
        "save",
        [
            "OSError: [Errno 39] Directory not empty: '{saves}/checkpoint-{step}'",
            "FileExistsError: [Errno 17] File exists: '{saves}/step_{step}/tmp'",
            "OSError: [Errno 26] Text file busy: '{saves}/latest'",
        ],
        ["checkpoint", "python"],
    ),
    # Checkpoints
    Raised(
        "checkpoint",
        "the checkpoint was made for another model or another number of ranks",
        "resume",
        [
            "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
            (
                "deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint being loaded used a DP world size of"
                " 16 but the current world size is {size}. Automatic adjustment of ZeRO's optimizer state partitioning"
                " with a new world size is not currently supported."
            ),
            "AssertionError: num_layers value from checkpoint (32) is not equal to the input argument value (40).",
            (
                "ValueError: User-provided restore item and on-disk value metadata tree structures do not match:"
                " Diff(lhs={'step': 0}, rhs=None)"
            ),
            (
                "RuntimeError: Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 4."
                " Please use torch.load with map_location to map your storages to an existing device."
            ),
        ],
        ["python", "cuda"],
        True,
        weight=2,
    ),
    Raised(
        "checkpoint",
        "the planner of the distributed checkpoint refuses what it finds",
        "resume",
        [
            chained(
                "ValueError: Size mismatch between saved torch.Size([32000, 4096]) and current: torch.Size([32064,"
                " 4096]) for model.embed_tokens.weight",
                "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([{rank}])",
                '  File "{site}/torch/distributed/checkpoint/utils.py", line 231, in all_reduce',
                MEANWHILE,
            ),
        ],
        ["python"],
        True,
    ),
    Raised(
        "checkpoint",
        "a file of the checkpoint is torn or missing",
        "resume",
        [
            "RuntimeError: unexpected EOF, expected 3145728 more bytes. The file might be corrupted.",
            "_pickle.UnpicklingError: pickle data was truncated",
            (
                "OSError: Error no file named pytorch_model.bin, model.safetensors, tf_model.h5 or flax_model.msgpack"
                " found in directory {saves}/checkpoint-{step}."
            ),
            (
                "OSError: You seem to have cloned a repository without having git-lfs installed. Please install git-lfs"
                " and run `git lfs install` followed by `git lfs pull` in the folder you cloned."
            ),
            "ValueError: Error opening zarr array: {saves}/{step}/params.w/.zarray is empty",
        ],
        ["filesystem", "python", "data"],
        True,
        weight=2,
    ),
    Raised(
        "checkpoint",
        "rank {rank} could not write its part of the checkpoint",
        "save",
        [
            "RuntimeError: [enforce fail at inline_container.cc:424] . unexpected pos {mib}8 vs {mib}2",
            "RuntimeError: basic_ios::clear: iostream error",
            "RuntimeError: Parent directory {saves}/step_{step} does not exist.",
            (
                "_pickle.PicklingError: Can't pickle <function build.<locals>.collate at 0x7f10>: it's not found as"
                " data.collate"
            ),
        ],
        ["filesystem", "python"],
    ),
]
