"""Calls of NCCL from places of many kinds, each with a count of its own: sites.py LIBNCCL LIBNATIVE. A comment
`here COUNT... [in FUNCTION] [of main]` stands on the line that has to be recorded for the calls of these counts; `of
main`: it is the main thread's line, while a thread without code of the program calls."""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import functools
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "common"))
import link  # noqa: E402
from torch.autograd import graph  # noqa: E402
from torch.distributed import distributed_c10d  # noqa: E402
import reduce  # noqa: E402
import glue  # noqa: E402

native = ctypes.CDLL(sys.argv[2])
call = link.open_job(sys.argv[1])

call(1001)  # here 1001 in <module>
(lambda: call(1002))()  # here 1002


def function():
    call(1003)  # here 1003 in function
    call(1004)  # here 1004


class Trainer:
    call(1005)  # here 1005 in Trainer

    def __init__(self):
        call(1006)  # here 1006 in Trainer.__init__

    def step(self):
        call(1007)  # here 1007 in Trainer.step

    @staticmethod
    def static():
        call(1008)  # here 1008 in Trainer.static

    @classmethod
    def of_class(cls):
        call(1009)  # here 1009 in Trainer.of_class

    @property
    def value(self):
        return call(1010)  # here 1010 in Trainer.value

    def __call__(self):
        call(1011)  # here 1011 in Trainer.__call__

    def __enter__(self):
        call(1012)  # here 1012

    def __exit__(self, *_):
        call(1013)  # here 1013

    def __del__(self):
        call(1014)  # here 1014 in Trainer.__del__


def generator():
    for count in (1015, 1016):
        yield call(count)  # here 1015 1016 in generator


def outer():
    def inner():
        call(1017)  # here 1017 in outer.<locals>.inner
    return inner


async def coroutine():
    await asyncio.sleep(0)
    call(1018)  # here 1018 in coroutine
    async for _ in asynchronous():
        pass


async def asynchronous():
    await asyncio.sleep(0)
    yield call(1019)  # here 1019 in asynchronous


@contextlib.contextmanager
def manager():
    call(1020)  # here 1020
    yield
    call(1021)  # here 1021


def deep(depth):
    if depth > 0:
        return deep(depth - 1)
    return call(1022)  # here 1022 in deep


@dataclasses.dataclass
class Data:
    size: int

    def __post_init__(self):
        call(1023)  # here 1023 in Data.__post_init__


@functools.lru_cache
def cached(count):
    call(count)  # here 1024


def on_signal(*_):
    call(1025)  # here 1025


def in_thread():
    call(1026)  # here 1026 in in_thread


def in_pool():
    call(1027)  # here 1027


def fails():
    try:
        raise ValueError
    except ValueError:
        call(1028)  # here 1028
    finally:
        call(1029)  # here 1029


def from_native(_):
    call(1030)  # here 1030


def wait_for_native_thread():
    native.call_in_thread(call.pointers(1031))  # here 1031 in wait_for_native_thread of main


def traced():
    sys.settrace(lambda *_: None)
    call(1032)  # here 1032
    sys.settrace(None)


def thread_without_own_code(count):
    """A thread that runs the library alone, while the main thread stands here."""
    thread = threading.Thread(target=glue.call_while_main_joins, args=(call, count))
    thread.start()
    thread.join()  # here 1033 in thread_without_own_code of main


def generated():
    """Code objects that die, where the next one has their addresses."""
    for i in range(50):
        source = "\n" * i + f"call({2000 + i})\n"
        exec(compile(source, f"generated_{i}.py", "exec"), {"call": call})


class Backend:
    """A backend of torch.distributed in the program: what calls torch is the call site."""

    def allreduce(self, count):
        self.run(count)

    def run(self, count):
        call(count)


def hook():
    call(1045)  # here 1045 in hook


def main():
    function()
    trainer = Trainer()
    trainer.step()
    trainer.static()
    trainer.of_class()
    trainer.value
    trainer()
    with trainer:
        pass
    del trainer
    list(generator())
    outer()()
    asyncio.run(coroutine())
    with manager():
        pass
    deep(300)
    Data(1)
    cached(1024)
    signal.signal(signal.SIGUSR1, on_signal)
    os.kill(os.getpid(), signal.SIGUSR1)
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        pool.submit(in_pool).result()
    fails()
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(from_native)
    native.call_back(callback)
    wait_for_native_thread()
    traced()
    thread_without_own_code(1033)
    reduce.log_loss(call, 1034)
    glue.all_reduce(call, 1035)  # here 1035 in main
    glue.with_hook(lambda: call(1036))  # here 1036
    native.call_directly(call.pointers(1037))  # here 1037
    [call(count) for count in (1038,)]  # here 1038
    sorted([1, 2], key=lambda n: n == 1 and call(1039) or 0)  # here 1039
    list(map(call, [1040]))  # here 1040
    exec("call(1041)")  # "<string>" line 1
    call(  # here 1042
        1042)
    generated()
    distributed_c10d.all_reduce(Backend(), 1043)  # here 1043
    graph.run_backward(Backend().allreduce, 1044)  # here 1044
    graph.run_backward(hook)
    sys.stdout.write("done\n")
    sys.stdout.flush()
    link.stay()


if __name__ == "__main__":
    main()
