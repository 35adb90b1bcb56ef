"""A process group over libnccl by ctypes, for CPU tensors: backend "ctypes_nccl" of torch.distributed.

It is what runs real torchrun and DistributedDataParallel where there is no GPU: a libnccl whose device memory is the
host's is named by $NCCL_SO_PATH, or found on $LD_LIBRARY_PATH, and its libcuda lies beside it. torch's own copy of
libnccl, which every CUDA build of torch brings along, is a second one in the process and is left alone.
"""

import atexit
import contextlib
import ctypes
import os
import queue
import threading

import torch
import torch.distributed as dist

NCCL_TYPES = {torch.int8: 0, torch.uint8: 1, torch.bool: 1, torch.int32: 2, torch.int64: 4, torch.float16: 6,
              torch.float32: 7, torch.float64: 8, torch.bfloat16: 9}
NCCL_REDUCTIONS = {dist.ReduceOp.SUM: 0, dist.ReduceOp.PRODUCT: 1, dist.ReduceOp.MAX: 2, dist.ReduceOp.MIN: 3,
                   dist.ReduceOp.AVG: 4}


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def nccl_path():
    named = os.environ.get("NCCL_SO_PATH")
    if named:
        return named
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        candidate = os.path.join(folder, "libnccl.so.2")
        if folder and os.path.exists(candidate):
            return os.path.abspath(candidate)
    raise RuntimeError("no libnccl for CPU tensors: set NCCL_SO_PATH, or LD_LIBRARY_PATH to its folder")


class Library:
    """One shared library; calls release the GIL and raise where the result is not 0, with NCCL's words as torch quotes them."""

    def __init__(self, path):
        self._handle = ctypes.CDLL(path)

    def _words(self, name, result):
        if not name.startswith("nccl"):
            return ""
        words = []
        for ask, argument in ((self._handle.ncclGetErrorString, ctypes.c_int(result)),
                              (self._handle.ncclGetLastError, ctypes.c_void_p())):
            ask.restype = ctypes.c_char_p
            words.append((ask(argument) or b"").decode(errors="replace"))
        return f": {words[0]}. Last error: {words[1]}"

    def __getattr__(self, name):
        function = getattr(self._handle, name)

        def call(*arguments):
            result = function(*arguments)
            if result != 0:
                raise RuntimeError(f"{name} returned {result}{self._words(name, result)}")

        setattr(self, name, call)
        return call


class Work(dist._Work):
    """Done when the stream has reached the event recorded behind the call."""

    def __init__(self, cuda, stream, result, keep):
        super().__init__()
        self._cuda, self._result = cuda, result
        self._keep = keep  # tensors that the library still reads or writes
        self._future = torch.futures.Future()
        self._event = ctypes.c_void_p()
        cuda.cuEventCreate(ctypes.byref(self._event), 0)
        cuda.cuEventRecord(self._event, stream)

    def finish(self):
        """Called by the group's waiting thread, in the order of the stream."""
        self._cuda.cuEventSynchronize(self._event)
        self._cuda.cuEventDestroy_v2(self._event)
        self._keep = None
        self._future.set_result(self._result)

    def wait(self, timeout=None):
        self._future.wait()
        return True

    def is_completed(self):
        return self._future.done()

    def get_future(self):
        return self._future


class NcclCalls:
    """The calls of a group on a communicator of its own; one of torch's classes is the other base."""

    def __init__(self, store, rank, size):
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        path = nccl_path()
        torch.cuda.is_available()  # torch asks for a driver once and for all, before the one beside libnccl is loaded
        self._cuda = Library(os.path.join(os.path.dirname(path), "libcuda.so.1"))
        self._nccl = Library(path)
        self._open_device()
        self._connect(store)
        self._coalesced = None  # what the calls of an open group read and write
        self._started = queue.SimpleQueue()
        self._finisher = threading.Thread(target=self._finish_in_order, daemon=True, name="nccl-completion")
        self._finisher.start()
        atexit.register(self._stop_finisher)

    def _connect(self, store):
        unique_id = UniqueId()
        # torchrun's store outlives an attempt: what the last one left there must not be taken for this one's.
        key = "ctypes_nccl/" + os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        if self._rank == 0:
            self._nccl.ncclGetUniqueId(ctypes.byref(unique_id))
            store.set(key, bytes(unique_id))
        else:
            ctypes.memmove(ctypes.byref(unique_id), store.get(key), ctypes.sizeof(unique_id))
        self._communicator = ctypes.c_void_p()
        self._nccl.ncclCommInitRank(ctypes.byref(self._communicator), self._size, unique_id, self._rank)

    def _open_device(self):
        self._cuda.cuInit(0)
        count, device = ctypes.c_int(), ctypes.c_int()
        self._cuda.cuDeviceGetCount(ctypes.byref(count))
        self._cuda.cuDeviceGet(ctypes.byref(device), int(os.environ.get("LOCAL_RANK", "0")) % count.value)
        self._context, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device)
        self._cuda.cuCtxSetCurrent(self._context)
        self._cuda.cuStreamCreate(ctypes.byref(self._stream), 1)  # does not wait for the default stream

    def _finish_in_order(self):
        self._cuda.cuCtxSetCurrent(self._context)
        while (work := self._started.get()) is not None:
            work.finish()

    def _stop_finisher(self):
        # A thread that the ending interpreter finds inside torch's C++ would take the process down (std::terminate).
        # One that waits for a call that never ends is outside: it may stay.
        self._started.put(None)
        self._finisher.join(timeout=0.5)

    def _begin(self):
        self._cuda.cuCtxSetCurrent(self._context)  # autograd calls from threads of its own

    @contextlib.contextmanager
    def _group(self):
        self._nccl.ncclGroupStart()
        yield
        self._nccl.ncclGroupEnd()

    def _end(self, result, *keep):
        if self._coalesced is not None:  # the calls are on the stream when the group has ended
            self._coalesced.append(keep)
            return None
        work = Work(self._cuda, self._stream, result, keep)
        self._started.put(work)
        return work

    @staticmethod
    def _memory(tensor):
        if tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise ValueError("ctypes_nccl takes contiguous CPU tensors")
        return ctypes.c_void_p(tensor.data_ptr())

    def _all_reduce(self, tensor, reduction):
        memory = self._memory(tensor)
        self._nccl.ncclAllReduce(memory, memory, ctypes.c_size_t(tensor.numel()), NCCL_TYPES[tensor.dtype],
                                 NCCL_REDUCTIONS[reduction], self._communicator, self._stream)

    def allreduce(self, tensors, opts=None):
        self._begin()
        for tensor in tensors:
            self._all_reduce(tensor, opts.reduceOp.op if opts else dist.ReduceOp.SUM)
        return self._end(tensors, tensors)

    def allreduce_coalesced(self, tensors, opts=None):
        self._begin()
        with self._group():
            for tensor in tensors:
                self._all_reduce(tensor, opts.reduceOp.op if opts else dist.ReduceOp.SUM)
        return self._end(tensors, tensors)

    def broadcast(self, tensors, opts):
        self._begin()
        for tensor in tensors:
            memory = self._memory(tensor)
            self._nccl.ncclBroadcast(memory, memory, ctypes.c_size_t(tensor.numel()), NCCL_TYPES[tensor.dtype],
                                     opts.rootRank, self._communicator, self._stream)
        return self._end(tensors, tensors)

    def reduce(self, tensors, opts):
        self._begin()
        for tensor in tensors:
            memory = self._memory(tensor)
            self._nccl.ncclReduce(memory, memory, ctypes.c_size_t(tensor.numel()), NCCL_TYPES[tensor.dtype],
                                  NCCL_REDUCTIONS[opts.reduceOp.op], opts.rootRank, self._communicator, self._stream)
        return self._end(tensors, tensors)

    def _all_gather(self, output, tensor):
        self._nccl.ncclAllGather(self._memory(tensor), self._memory(output), ctypes.c_size_t(tensor.numel()),
                                 NCCL_TYPES[tensor.dtype], self._communicator, self._stream)

    def all_gather_single(self, output, tensor, opts=None):
        self._begin()
        self._all_gather(output, tensor)
        return self._end([output], output, tensor)

    _allgather_base = all_gather_single  # its name until torch 2.14

    def all_gather_single_coalesced(self, outputs, tensors, opts=None):
        self._begin()
        with self._group():
            for output, tensor in zip(outputs, tensors):
                self._all_gather(output, tensor)
        return self._end(outputs, outputs, tensors)

    def allgather(self, outputs, tensors, opts=None):
        (pieces,), (tensor,) = outputs, tensors
        whole = torch.empty((self._size,) + tuple(tensor.shape), dtype=tensor.dtype)
        self.all_gather_single(whole, tensor.contiguous()).wait()
        for piece, source in zip(pieces, whole):
            piece.copy_(source)
        return self._end(outputs)

    def _reduce_scatter(self, output, tensor, reduction):
        self._nccl.ncclReduceScatter(self._memory(tensor), self._memory(output), ctypes.c_size_t(output.numel()),
                                     NCCL_TYPES[tensor.dtype], NCCL_REDUCTIONS[reduction], self._communicator, self._stream)

    def reduce_scatter_single(self, output, tensor, opts):
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(self, outputs, tensors, opts):
        self._begin()
        with self._group():
            for output, tensor in zip(outputs, tensors):
                self._reduce_scatter(output, tensor, opts.reduceOp.op)
        return self._end(outputs, outputs, tensors)

    def reduce_scatter(self, outputs, tensors, opts):
        return self.reduce_scatter_single(outputs[0], torch.cat([piece.flatten() for piece in tensors[0]]), opts)

    def _send(self, tensor, peer):
        self._nccl.ncclSend(self._memory(tensor), ctypes.c_size_t(tensor.numel()), NCCL_TYPES[tensor.dtype], peer,
                            self._communicator, self._stream)

    def _recv(self, tensor, peer):
        self._nccl.ncclRecv(self._memory(tensor), ctypes.c_size_t(tensor.numel()), NCCL_TYPES[tensor.dtype], peer,
                            self._communicator, self._stream)

    def _exchange(self, sends, receives, result):
        """Sends and receives, each (tensor, peer), in one group; as torch's NCCL group does, none that are empty."""
        self._begin()
        with self._group():
            for call, pairs in ((self._send, sends), (self._recv, receives)):
                for tensor, peer in pairs:
                    if tensor.numel():
                        call(tensor, peer)
        return self._end(result, sends, receives)

    def all_to_all_single(self, output, tensor, output_sizes, input_sizes, opts=None):
        def pieces(whole, sizes):
            parts = whole.split(sizes) if sizes else whole.chunk(self._size)
            return [(part, peer) for peer, part in enumerate(parts)]
        return self._exchange(pieces(tensor, input_sizes), pieces(output, output_sizes), [output])

    def alltoall(self, outputs, tensors, opts=None):
        return self._exchange(*([(part, peer) for peer, part in enumerate(parts)] for parts in (tensors, outputs)), outputs)

    def gather(self, outputs, tensors, opts):
        receives = [(part, peer) for peer, part in enumerate(outputs[0])] if outputs else []
        return self._exchange([(tensors[0], opts.rootRank)], receives, outputs)

    def scatter(self, outputs, tensors, opts):
        sends = [(part, peer) for peer, part in enumerate(tensors[0])] if tensors else []
        return self._exchange(sends, [(outputs[0], opts.rootRank)], outputs)

    def send(self, tensors, peer, tag=0):
        self._begin()
        self._send(tensors[0], peer)
        return self._end(tensors, tensors)

    def recv(self, tensors, peer, tag=0):
        self._begin()
        self._recv(tensors[0], peer)
        return self._end(tensors, tensors)

    supports_coalescing = True  # batch_isend_irecv: one group of NCCL

    def start_coalescing(self):
        self._nccl.ncclGroupStart()
        self._coalesced = []

    def end_coalescing(self):
        self._nccl.ncclGroupEnd()
        kept, self._coalesced = self._coalesced, None
        return self._end([], kept)

    def barrier(self, opts=None):
        return self.allreduce([torch.zeros(1)])

    def getBackendName(self):
        return "ctypes_nccl"

    def size(self):
        return self._size

    def _comm_ptr(self):  # as of torch's own NCCL group
        return self._communicator.value or 0

    def shutdown(self):
        self._stop_finisher()
        self._nccl.ncclCommDestroy(self._communicator)


class CtypesNccl(NcclCalls, torch._C._distributed_c10d.Backend):
    pass


dist.Backend.register_backend(
    "ctypes_nccl", lambda store, rank, size, timeout: CtypesNccl(store, rank, size), devices=["cpu"])
