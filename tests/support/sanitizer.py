"""How programs are run when library and softgpu are built with a sanitizer: its runtime in front of all else, its hands
off what the tests are about."""

import os

RUNTIME = os.environ.get("NCCLWATCH_TEST_SANITIZER", "")  # what to preload of libasan.so or libtsan.so, set by ctest

# Hosts crash on purpose and look at their signal handlers and stacks.
_HANDS_OFF = "use_sigaltstack=0:" + ":".join(f"handle_{name}=0" for name in ("segv", "abort", "sigbus", "sigfpe", "sigill"))

# Hosts leak on purpose, `ncclwatch run` puts the library in front of what its user preloads, and a verdict about an
# exit has a second: TSan waits for one by itself at every exit, to see the races there.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:" + _HANDS_OFF,
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "report_signal_unsafe=0:die_after_fork=0:atexit_sleep_ms=100:" + _HANDS_OFF,
} if RUNTIME else {}
