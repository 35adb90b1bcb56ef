"""Under `torchrun --max-restarts 1`: one rank throws (or is killed) in the first attempt, the second attempt is healthy."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "torch",
                                "common"))

from training import Training, options

arguments = options()
training = Training(arguments)
for step, batch in enumerate(training.loader):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and training.rank == arguments.rank and step == arguments.step:
        if os.environ.get("SCENARIO_END") == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("only the first time")
    training.step(batch)
training.end_epoch()
training.finish()
