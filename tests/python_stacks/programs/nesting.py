"""Threads in every kind of Python frame, each asleep; what their stacks are, as Python itself says, goes to a file.

    nesting.py FILE SECONDS [more]

The file is written when all are asleep: {"version", "pid", "threads": {tid: {"name", "frames": [[function, file, line]]}}},
innermost first, function qualified where the version has that. `more` adds, after the file is written, what has no
certain stack: spin (a thread runs Python code), native (a thread runs C code without the lock), fork (a child)."""
import asyncio
import ctypes
import functools
import hashlib
import importlib
import json
import os
import select
import sys
import tempfile
import threading
import time
import warnings

PIPE = os.pipe()
LIBC = ctypes.CDLL(None)
QUALIFIED = sys.version_info >= (3, 11)
NEVER = 10 ** 6


def asleep():
    time.sleep(NEVER)


class Trainer:
    def __init__(self, sleeps):
        if sleeps:
            asleep()

    def step(self, x): return self.forward(x)

    def forward(self, x):
        try:
            with open(os.devnull):
                result = [
                    self.layer(
                        i,
                        x,
                    )
                    for i in range(1)
                ]
        finally:
            x = 0
        return result

    def layer(self, *_):
        asleep()

    @property
    def loss(self):
        return (lambda value: asleep())(1)

    @staticmethod
    def static():
        asleep()

    @classmethod
    def make(cls):
        return cls.static()

    def __getattr__(self, name):
        asleep()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        asleep()

    def __del__(self):
        if getattr(threading.current_thread(), "sleeps_in_del", False):
            asleep()


def specialised():
    """From 3.12 on __init__ runs in a frame of the interpreter's own after a few times."""
    for i in range(300):
        Trainer(i == 299)


def generator(depth):
    if depth == 0:
        asleep()
        yield 1
    yield from generator(depth - 1)


def in_generator():
    return sum(value for value in generator(5))


async def coroutine(depth):
    if depth == 0:
        await asyncio.sleep(0)
        asleep()
    async for _ in items():
        await coroutine(depth - 1)


async def items():
    yield 1


def in_asyncio():
    asyncio.run(coroutine(4))


def waits_in_asyncio():
    async def forever():
        await asyncio.sleep(NEVER)
    asyncio.run(forever())


def recursion(depth):
    if depth == 0:
        asleep()
    return 1 + recursion(depth - 1)


def deep():
    recursion(500)


def sorted_key():
    sorted([3, 1, 2], key=lambda item: asleep() if item == 2 else item)


def ctypes_callback():
    compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))

    def compare(a, b):
        asleep()
        return 0
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    LIBC.qsort(numbers, 3, ctypes.sizeof(ctypes.c_int), compare_type(compare))


def partial_and_map():
    list(map(functools.partial(lambda a, b: asleep(), 1), [1]))


def cached():
    functools.lru_cache(maxsize=None)(asleep)()


def executed():
    exec(compile("\n" * 70000 + "def made():\n  nap()\nmade()\n", "<made up>", "exec"), {"nap": asleep})


def größe_函数_𐍈():
    exec(compile("def f():\n\n nap()\nf()", "/tmp/größe_函数_𐍈.py", "exec"), {"nap": asleep})


def in_class_body():
    class Body:
        values = [0, asleep()]


def far_apart():
    """Bytes and lines between instructions that need more than one byte of a table."""
    lines = ["def long(nap):"]
    lines += ["    x = (1, " + ", ".join(f"nap.a{i}" for i in range(300)) + ") if nap is None else 0"]
    lines += [""] * 400
    lines += ["    if x:", "        y = [" + "\n" * 200 + "  1]", "    for i in range(2):"]
    lines += ["        x = (x,"] + [""] * 300 + ["          i,"] + [""] * 300 + ["          nap() if i else 0)"]
    space = {}
    exec(compile("\n".join(lines), "far_apart.py", "exec"), space)
    space["long"](asleep)


def loop_back():
    for i in range(3):
        if (i ==
                2):
            while True:
                asleep()


def imported():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "sleeping_module.py"), "w") as file:
            file.write("import time\n\nclass A:\n    def f(self):\n        time.sleep(10 ** 6)\n\n\nA().f()\n")
        sys.path.insert(0, folder)
        importlib.import_module("sleeping_module")


def handler():
    try:
        raise ValueError
    except ValueError as error:
        try:
            raise KeyError from error
        except KeyError:
            asleep()


def context_exit():
    with Trainer(False):
        pass


def deleted():
    threading.current_thread().sleeps_in_del = True
    trainer = Trainer(False)
    del trainer


def in_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def in_condition():
    condition = threading.Condition()
    with condition:
        condition.wait()


def in_event_timeout():
    threading.Event().wait(NEVER)


def in_read():
    os.read(PIPE[0], 1)


def in_select():
    select.select([PIPE[0]], [], [])


def in_native():
    LIBC.usleep.argtypes = [ctypes.c_uint]
    LIBC.sleep(NEVER)


def traced():
    sys.settrace(lambda *_: None)
    asleep()


def profiled():
    sys.setprofile(lambda *_: None)
    asleep()


def decorated():
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)
        return wrapper

    @decorator
    def inner(*_, **__):
        asleep()
    inner(1, a=2)


def with_star_args():
    (lambda *a, **k: asleep(*a[1:], **k))(1)


def finally_after_return():
    try:
        return 1
    finally:
        asleep()


def comprehension():
    return {key: [asleep() for _ in range(1)] for key in "a"}


THREADS = [
    asleep, lambda: Trainer(False).step(1), lambda: Trainer(False).loss, Trainer.make,
    lambda: Trainer(False).missing, specialised, in_generator, in_asyncio, waits_in_asyncio, deep, sorted_key,
    ctypes_callback, partial_and_map, cached, executed, größe_函数_𐍈, in_class_body, far_apart, loop_back, imported,
    handler, context_exit, deleted, in_lock, in_condition, in_event_timeout, in_read, in_select, in_native, traced,
    profiled, decorated, with_star_args, finally_after_return, comprehension]


def frames_of(frame):
    frames = []
    while frame is not None:
        code = frame.f_code
        frames.append([code.co_qualname if QUALIFIED else code.co_name, code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return frames


def state_of(tid):
    with open(f"/proc/self/task/{tid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def settled(threads):
    """All sleep, at the same places as a while ago."""
    before = None
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.2)
        now = sys._current_frames()
        stacks = {thread.native_id: frames_of(now[thread.ident]) for thread in threads if thread.ident in now}
        asleep_now = len(stacks) == len(threads) and all(state_of(tid) == "S" for tid in stacks)
        if asleep_now and stacks == before:
            return stacks
        before = stacks if asleep_now else None
    raise SystemExit("the threads do not settle")


def spin(running):
    turning = [True]
    running.set()
    while turning[0]: turning[0] = len(str(turning)) > 0


def native_without_lock(running):
    data = bytearray(1 << 20)
    running.set()
    while True:
        hashlib.sha256(data).digest()


def wait_for_parent(seconds):
    time.sleep(seconds)  # the line that the child is asleep in


def line_of(comment):
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if line.endswith(comment + "\n"))


def main():
    path, seconds, more = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    threads = [threading.Thread(target=target, daemon=True) for target in THREADS]
    for thread in threads:
        thread.start()
    stacks = settled(threads)
    names = {thread.native_id: thread.name for thread in threads}
    expected = {str(tid): {"name": names[tid], "frames": frames} for tid, frames in stacks.items()}
    extra = {}
    if "fork" in more:
        warnings.simplefilter("ignore")  # of a fork beside threads
        extra["child"] = os.fork()
        if extra["child"] == 0:
            wait_for_parent(seconds)
            os._exit(0)
    for name, function in (("spin", spin), ("native", native_without_lock)):
        if name in more:
            running = threading.Event()
            thread = threading.Thread(target=function, args=(running,), daemon=True)
            thread.start()
            running.wait()
            extra[name] = thread.native_id
    own = frames_of(sys._getframe())
    own[0][2] = line_of("# main holds the lock here" if "hold" in more else "# main sleeps here")
    expected[str(threading.get_native_id())] = {"name": "MainThread", "frames": own}
    with open(path + ".new", "w") as file:
        json.dump({"version": sys.version.split()[0], "pid": os.getpid(), "threads": expected, **extra}, file)
    os.rename(path + ".new", path)
    if "hold" in more:  # the lock, for good: no other thread runs Python code from here on
        ctypes.PyDLL(None).sleep(int(seconds))  # main holds the lock here
    time.sleep(seconds)  # main sleeps here


if __name__ == "__main__":
    main()
