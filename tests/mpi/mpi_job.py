"""One MPI job under watch, or bare: started by its own mpirun, and every process of it ended."""

import os
import re
import shutil
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("scenarios", "support")]

import sanitizer  # noqa: E402
from job import Build, Failure, Job, processes_marked  # noqa: E402

TIMEOUT_S = 5        # NCCLWATCH_TIMEOUT
VERDICT_S = 40       # from the fault to diagnosis.json, at the most: the time-out, and a busy machine
STARTED_S = 90       # until the fault is planted
ENDED_S = 60         # a job that ends by itself does so within it
STANDSTILL_S = 4     # bare: so long after the fault a job that goes on takes a hundred times over

__all__ = ["Build", "Failure", "MpiJob", "installed", "library", "program", "written_by_ranks"]


def installed(mpi):
    return shutil.which(f"mpirun.{mpi}") is not None


def library(build, mpi):
    return os.path.join(build.folder, "lib", f"libncclwatch-{mpi}.so")


def program(build, mpi, name):
    return os.path.join(build.folder, "mpi", f"mpi_{name}.{mpi}")


def preloaded(build, mpi, case, watched):
    """What the ranks load first, in order."""
    tool = os.path.join(build.folder, "mpi", f"libpmpi_tool.{mpi}.so")
    paths = [tool] if case.tool else []
    if watched:
        paths.insert(0 if case.tool == "after" else len(paths), library(build, mpi))
        paths.insert(0, sanitizer.RUNTIME)
    return ":".join(filter(None, paths))


def launcher(mpi, ranks, preload):
    """mpirun with the library for the ranks alone: the launcher and its daemons have nothing to do with it."""
    if mpi == "openmpi":
        # A killed job leaves its shared memory behind: in the job's own folder it is removed with it.
        words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "btl_vader_backing_directory",
                 "{root}", "--mca", "orte_tmpdir_base", "{root}", "-n", str(ranks)]
        return words + (["-x", f"LD_PRELOAD={preload}"] if preload else [])
    return ["mpirun.mpich", "-n", str(ranks)] + (["-genv", "LD_PRELOAD", preload] if preload else [])


def written_by_ranks(output):
    """Their lines, whoever was first, without ncclwatch's own.

    Open MPI's mpirun may put one rank's line end behind the next one's line.
    """
    lines = "\n".join(line for line in output.splitlines() if not line.startswith("[ncclwatch"))
    return sorted(filter(None, re.sub(r"(?=rank \d+ of )", "\n", lines).splitlines()))


class MpiJob(Job):
    """watched: with the library of that MPI in the ranks."""

    def __init__(self, build, mpi, case, ranks, watched=True, environment=None):
        self.mpi, self.case, self.size = mpi, case, ranks
        preload = preloaded(build, mpi, case, watched)
        command = launcher(mpi, ranks, preload) + [program(build, mpi, case.program), case.argument]
        wanted = {"LD_LIBRARY_PATH": ""}  # no softgpu: nothing here asks for a GPU
        if watched:
            wanted |= {"NCCLWATCH_TIMEOUT": str(TIMEOUT_S)} | dict(case.environment) | (environment or {})
        # {root} is known to the environment alone: the shell puts it into the command.
        shell = ["sh", "-c", 'root=$TEST_SCENARIO; for word do shift; case $word in "{root}") word=$root;; esac; '
                             'set -- "$@" "$word"; done; exec "$@"', "sh"]
        mode = "run" if watched and mpi in case.outlived else "bare"
        super().__init__(build, command, mode=mode, environment=wanted, directory=watched, wrapper=shell)

    def ended(self):
        return self.process.poll() is not None

    def status(self):
        code = self.process.returncode
        return 128 - code if code is not None and code < 0 else code

    def printed_by_program(self):
        return written_by_ranks(self.output())

    def until_fault(self):
        self.wait_until(lambda: self.fault_ns() or self.ended(), STARTED_S, "the fault was to be planted")

    def how_it_ends_alone(self):
        """Of a bare job: hangs, ends or fails."""
        if not self.case.clean:
            self.until_fault()
            seconds = STANDSTILL_S if self.case.may_hang(self.mpi) else ENDED_S
        else:
            seconds = STARTED_S
        deadline = time.monotonic() + seconds
        while not self.ended() and time.monotonic() < deadline:
            time.sleep(0.01)
        return "hangs" if not self.ended() else "fails" if self.status() else "ends"

    def until_verdict_or_end(self, right):
        """A first verdict may be less than the last: what hangs has until the deadline to be judged rightly."""
        def settled():
            return self.ended() or self.look() and right([document for _, document in self.seen])

        self.until_fault()
        if not self.case.may_hang_watched(self.mpi):
            self.wait(ENDED_S)
            return
        deadline = time.monotonic() + VERDICT_S
        while not settled() and time.monotonic() < deadline:
            time.sleep(0.01)
        if not self.ended() and not self.seen:
            raise Failure(f"no verdict within {VERDICT_S} s")

    def leftovers(self):
        return processes_marked(self.root)
