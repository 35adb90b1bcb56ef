"""A job under watch, live or ended, as the command sees it."""

import json
import subprocess

from . import columns, command


class NcclwatchError(RuntimeError):
    """The command could not read its input; the text is the command's own."""


class Job:
    """What `ncclwatch diagnose` and `ncclwatch trace` say of one job. Each is asked once, when it is first wanted."""

    def __init__(self, paths):
        self._paths = [str(path) for path in paths]
        self._diagnosis = None
        self._calls = None

    @property
    def diagnosis(self):
        """The whole diagnosis, a dict (schema ncclwatch.diagnosis/1)."""
        if self._diagnosis is None:
            self._diagnosis = json.loads(_ask("diagnose", "--json", *self._paths))
        return self._diagnosis

    @property
    def findings(self):
        """The findings, dicts, the root cause first; none if the job is healthy."""
        return self.diagnosis["findings"]

    @property
    def calls(self):
        """The recorded calls, a columns.Calls: pyarrow.table(job.calls), polars.DataFrame(job.calls)."""
        if self._calls is None:
            self._calls = columns.Calls(_ask("trace", "--arrow", *self._paths))
        return self._calls

    @property
    def healthy(self):
        return self.diagnosis["healthy"]


def _ask(*arguments):
    done = subprocess.run([command(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in (0, 1):  # 1: a problem was found
        raise NcclwatchError(done.stderr.decode(errors="replace").strip())
    return done.stdout
