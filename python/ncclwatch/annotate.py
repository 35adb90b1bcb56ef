"""What a program tells the preloaded library, by the functions that ncclwatch/annotate.h names."""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any, Callable, Dict, Optional

_MPI4PY = "mpi4py.MPI"


def _function(name: str, *arguments: type) -> Optional[Callable[..., None]]:
    """The library's function, or None where it is not preloaded."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except AttributeError:
        return None
    function.argtypes, function.restype = arguments, None
    return function


_set_label = _function("ncclwatch_set_label", ctypes.c_void_p, ctypes.c_char_p)
_set_payload = _function("ncclwatch_set_payload", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p,
                         ctypes.c_int)
_set_step = _function("ncclwatch_set_step", ctypes.c_int64, ctypes.c_int)
_add_event = _function("ncclwatch_add_event", ctypes.c_char_p, ctypes.c_char_p)
_set_metric = _function("ncclwatch_set_metric", ctypes.c_char_p, ctypes.c_double)


def watched() -> bool:
    """Whether the library is preloaded."""
    return _set_payload is not None


def set_payload(communicator: int, op: str, count: int, name: str, begins: bool) -> None:
    if _set_payload:
        _set_payload(communicator, op.encode(), count, name.encode(errors="replace"), int(begins))


def set_step(number: int, begins: bool) -> None:
    if _set_step:
        _set_step(number, int(begins))


class Step:
    """`with step(n):` around one step of the training loop."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> Step:
        set_step(self.number, True)
        return self

    def __exit__(self, *error: object) -> None:
        set_step(self.number, False)


def set_metric(name: str, value: float) -> None:
    if _set_metric:
        _set_metric(name.encode(), float(value))


def set_gpu_memory() -> None:
    """What torch's allocator has of this process's GPU; nothing without one."""
    torch = sys.modules.get("torch")
    if not _set_metric or torch is None or not torch.cuda.is_initialized():
        return
    set_metric("memory_allocated", torch.cuda.memory_allocated())
    set_metric("memory_reserved", torch.cuda.memory_reserved())
    set_metric("memory_total", torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)


def _json(details: Dict[str, Any]) -> str:
    try:
        text = json.dumps(details, default=str, skipkeys=True)
        # NaN and Infinity are no JSON: as strings.
        return json.dumps(json.loads(text, parse_constant=str)) if "NaN" in text or "Infinity" in text else text
    except (ValueError, TypeError, RecursionError):  # it contains itself: no reason to end a training
        return repr(details)


def add_event(kind: str, details: Dict[str, Any]) -> None:
    if _add_event:
        _add_event(kind.encode(errors="replace"), _json(details).encode(errors="replace"))


def _mpi_handle(communicator: object) -> int:
    from mpi4py import MPI

    size = MPI._sizeof(type(communicator))
    return int.from_bytes(ctypes.string_at(MPI._addressof(communicator), size), "little")


def _torch_handle(group: object) -> int:
    for device in group._device_types:
        backend = group._get_backend(device)
        if hasattr(backend, "_comm_ptr"):
            return backend._comm_ptr()  # 0 before the first collective
    return 0


def handle(communicator: object) -> int:
    """The value of its ncclComm_t or MPI_Comm, 0 if it has none (yet). TypeError: it is no communicator."""
    if isinstance(communicator, int):
        return communicator
    if type(communicator).__module__ == _MPI4PY:
        return _mpi_handle(communicator)
    if hasattr(communicator, "_get_backend"):
        return _torch_handle(communicator)
    raise TypeError(f"a process group of torch, a communicator of mpi4py or an int, not {type(communicator).__name__}")


def set_label(communicator: object, name: str) -> None:
    value = handle(communicator)
    if _set_label:
        _set_label(value, name.encode())
