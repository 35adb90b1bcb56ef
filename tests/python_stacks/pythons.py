"""The interpreters that tests run: the system's python3, any python3.N on PATH and those of NCCLWATCH_TEST_PYTHONS
(paths, separated by colons)."""
import os
import shutil
import subprocess

from harness import Failed, check, clean_environment

OLDEST, NEWEST = 9, 15


def version_of(python):
    done = subprocess.run([*python, "-c", "import sys; print(sys.version.split()[0], sys.version_info[1])"],
                          capture_output=True, text=True, env=clean_environment(), stdin=subprocess.DEVNULL)
    words = done.stdout.split()
    return (words[0], int(words[1])) if done.returncode == 0 and len(words) == 2 else (None, 0)


def pythons():
    """One command for each version that there is."""
    only = os.environ.get("NCCLWATCH_TEST_ONLY_PYTHON")  # versions.py
    if only:
        return {version_of([only])[0]: [only]}
    paths = [path for path in os.environ.get("NCCLWATCH_TEST_PYTHONS", "").split(":") if path]
    paths += [shutil.which("python3"), "/usr/bin/python3"]
    paths += [shutil.which(f"python3.{minor}") for minor in range(OLDEST, NEWEST + 1)]
    found = {}
    for path in paths:
        if path and os.path.exists(path):
            version, minor = version_of([path])
            if version and OLDEST <= minor <= NEWEST:
                found.setdefault(version, [path])
    check(found, "no Python that is read")
    return found


def each_python(test):
    for version, python in pythons().items():
        try:
            test(python)
        except Exception as error:
            raise Failed(f"Python {version} ({python[0]}): {error}") from error
