"""A package between the program and the library."""

import sys
import threading
import time


def all_reduce(call, count):
    call(count)


def with_hook(hook):
    hook()


def call_while_main_joins(call, count):
    def joins():
        frame = sys._current_frames()[threading.main_thread().ident]
        while frame and frame.f_code.co_name != "join":
            frame = frame.f_back
        return frame

    while not joins():
        time.sleep(0.001)
    call(count)


def below(frames, function, *arguments):
    return below(frames - 1, function, *arguments) if frames > 1 else function(*arguments)
