"""A job under watch, live or ended, as the command sees it."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from typing import Any, Dict, Iterable, List, Optional, Union

from . import columns, command

_UNREADABLE = 3  # the command's status if any file could not be read


class NcclwatchError(RuntimeError):
    """The command could not read its input; the text is the command's own."""


class NcclwatchWarning(UserWarning):
    """The command could not read a part of its input; the text is the command's own. The rest is there."""


class Job:
    """What `ncclwatch diagnose` and `ncclwatch trace` say of one job. Each is asked once, when it is first wanted."""

    def __init__(self, paths: Iterable[Union[str, os.PathLike[str]]], attempt: Optional[int] = None) -> None:
        chosen = [] if attempt is None else [f"--attempt={attempt}"]
        self._words = [*chosen, "--", *(os.fspath(path) for path in paths)]
        self._diagnosis: Optional[Dict[str, Any]] = None
        self._calls: Optional[columns.Calls] = None

    @property
    def diagnosis(self) -> Dict[str, Any]:
        """The whole diagnosis, a dict (schema ncclwatch.diagnosis/1)."""
        if self._diagnosis is None:
            self._diagnosis = json.loads(_ask("diagnose", "--json", *self._words))
        return self._diagnosis

    @property
    def findings(self) -> List[Dict[str, Any]]:
        """The findings, dicts, the root cause first; none if the job is healthy."""
        findings: List[Dict[str, Any]] = self.diagnosis["findings"]
        return findings

    @property
    def calls(self) -> columns.Calls:
        """The recorded calls, a columns.Calls: pyarrow.table(job.calls), polars.DataFrame(job.calls)."""
        if self._calls is None:
            self._calls = columns.Calls(_ask("trace", "--arrow", *self._words))
        return self._calls

    @property
    def healthy(self) -> bool:
        """No finding; of what could be read."""
        return bool(self.diagnosis["healthy"])


def _ask(what: str, *words: str) -> bytes:
    done = subprocess.run([command(), what, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = done.stderr.decode(errors="replace").strip()
    some = done.returncode == _UNREADABLE and done.stdout
    if done.returncode not in (0, 1) and not some:  # 1: a problem was found
        raise NcclwatchError(said or f"ncclwatch {what}: status {done.returncode}")
    if some:
        warnings.warn(said, NcclwatchWarning, stacklevel=4)
    return done.stdout
