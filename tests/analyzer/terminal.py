"""A program on a terminal of its own, as under a shell with job control, and what stands on its screen.

The terminal is a VT52: all that its programs may write are letters, a few cursor movements and two ways to clear, so a
screen is a few lines of code.
"""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from harness import Failed

KEYS = {"up": "\x1bA", "down": "\x1bB", "escape": "\x1b", "enter": "\r", "ctrl-c": "\x03", "ctrl-z": "\x1a"}


class Screen:
    def __init__(self, columns, rows):
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows, self.x, self.y = columns, rows, 0, 0
        self.cells = [[" "] * columns for _ in range(rows)]
        self.rest = ""

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def clear(self, whole):
        self.cells[self.y][self.x:] = [" "] * (self.columns - self.x)
        for row in range(self.y + 1, self.rows if whole else 0):
            self.cells[row] = [" "] * self.columns

    def put(self, letter):
        if letter == "\r":
            self.x = 0
        elif letter == "\b":
            self.x = max(0, self.x - 1)
        elif letter == "\t":
            self.x = min(self.columns - 1, self.x // 8 * 8 + 8)
        elif letter == "\n":
            self.down()
        elif letter >= " ":
            if self.x == self.columns:
                self.x = 0
                self.down()
            self.cells[self.y][self.x] = letter
            self.x += 1

    def down(self):
        if self.y + 1 < self.rows:
            self.y += 1
        else:
            self.cells = self.cells[1:] + [[" "] * self.columns]

    def take(self, text):
        text, self.rest = self.rest + text, ""
        i = 0
        while i < len(text):
            if text[i] != "\x1b":
                self.put(text[i])
                i += 1
                continue
            length = 4 if text[i + 1:i + 2] == "Y" else 2
            if len(text) < i + length:
                self.rest = text[i:]
                return
            self.escape(text[i + 1:i + length])
            i += length

    def escape(self, what):
        self.x = min(self.x, self.columns - 1)
        if what[0] == "Y":
            self.y, self.x = min(ord(what[1]) - 32, self.rows - 1), min(ord(what[2]) - 32, self.columns - 1)
        elif what == "H":
            self.x = self.y = 0
        elif what == "A":
            self.y = max(0, self.y - 1)
        elif what == "B":
            self.y = min(self.rows - 1, self.y + 1)
        elif what == "C":
            self.x = min(self.columns - 1, self.x + 1)
        elif what == "D":
            self.x = max(0, self.x - 1)
        elif what == "I":
            if self.y == 0:
                self.cells = [[" "] * self.columns] + self.cells[:-1]
            self.y = max(0, self.y - 1)
        elif what in ("J", "K"):
            self.clear(what == "J")


class Terminal:
    """`with Terminal(argv, env) as terminal:`; the program is ended with it."""

    def __init__(self, argv, env, columns=100, rows=24, term="vt52"):
        self.screen = Screen(columns, rows)
        self.written = b""
        self.status = None
        self.master, slave = pty.openpty()
        self.slave = slave
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(slave)
        told, tell = os.pipe()
        wait_go, self.go = os.pipe()
        self.keeper = os.fork()
        if self.keeper == 0:
            try:
                keep(argv, {**env, "TERM": term}, slave, tell, wait_go)
            finally:
                os._exit(1)
        os.close(tell)
        os.close(wait_go)
        self.told = os.fdopen(told, "r")
        self.program = int(self.told.readline().split()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in (self.program, self.keeper):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.waitpid(self.keeper, 0)
        self.told.close()
        for descriptor in (self.master, self.slave, self.go):
            os.close(descriptor)

    def set_size(self, columns, rows):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        self.screen.resize(columns, rows)
        self.set_size(columns, rows)

    def press(self, *keys):
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())

    def read(self, seconds=0.02):
        while select.select([self.master], [], [], seconds)[0]:
            data = os.read(self.master, 65536)
            self.written += data
            self.screen.take(data.decode("utf-8", "replace"))
            seconds = 0

    def wait(self, condition, what, seconds=20):
        """Until the condition holds of the text of the screen."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read()
            if condition(self.screen.text()):
                return self.screen.text()
            if self.ended(0):
                self.read()  # what it wrote last
                if condition(self.screen.text()):
                    return self.screen.text()
                raise Failed(f"{what}: it has ended ({self.status}):\n{self.screen.text()}")
        raise Failed(f"in {seconds} s: {what}\n{self.screen.text()}")

    def wait_for(self, pattern, seconds=20):
        return self.wait(lambda text: re.search(pattern, text), f"{pattern!r} on the screen", seconds)

    def news(self, seconds=20):
        """The next thing that the shell learns of it: "stopped", or "exit N" or "signal N"."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read()
            if select.select([self.told], [], [], 0)[0]:
                line = self.told.readline().strip()
                if line.startswith(("exit", "signal")):
                    self.status = line
                return line
        raise Failed(f"in {seconds} s it neither stops nor ends\n{self.screen.text()}")

    def ended(self, seconds):
        if self.status is None and select.select([self.told], [], [], seconds)[0]:
            self.news()
        return self.status is not None

    def foreground(self):
        os.write(self.go, b"g")

    def as_it_was(self):
        return termios.tcgetattr(self.slave) == self.before


def keep(argv, env, slave, tell, wait_go):
    """What a shell does: the program is a job in the foreground of the terminal, and may be stopped."""
    kept = (slave, tell, wait_go)
    for descriptor in range(3, max(kept) + 100):  # whoever waits for their ends waits for the caller alone
        if descriptor not in kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(slave, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        for descriptor in (0, 1, 2):
            os.dup2(slave, descriptor)
        os.execve(argv[0], argv, env)
    os.write(tell, f"pid {pid}\n".encode())
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.tcsetpgrp(slave, os.getpgrp())
            os.write(tell, b"stopped\n")
            os.read(wait_go, 1)
            os.tcsetpgrp(slave, pid)
            os.kill(pid, signal.SIGCONT)
            continue
        signaled = os.WIFSIGNALED(status)
        word = f"signal {os.WTERMSIG(status)}" if signaled else f"exit {os.WEXITSTATUS(status)}"
        os.write(tell, f"{word}\n".encode())
        signal.pause()
