"""Set c: failures from public reports, in neither half of the catalogue. Here is where its files register them."""

from composer.kinds import endings, registers

KINDS, UNKNOWN, HEALTHY = [], [], []
found = registers(KINDS)
found_unknown = endings(UNKNOWN)
found_healthy = endings(HEALTHY)

CAUSED = "The above exception was the direct cause of the following exception:"
MEANWHILE = "During handling of the above exception, another exception occurred:"


def chained(inner, outer, frame, joint=CAUSED):
    """A wording of two tracebacks: the first explains, and the end of the second as well."""
    return f"{inner}\n\n{joint}\n\nTraceback (most recent call last):\n{frame}\n&{outer}"


def never_started(job):
    """No rank and no agent of the job has come to write anything."""
    job.lines = [line for line in job.lines if line.source[0] not in ("rank", "agent", "launcher")]
    job.hush(0.0)


def rule(text, line="-" * 74):
    """A message of Open MPI between two rules."""
    return f"{line}\n{text}\n{line}"
