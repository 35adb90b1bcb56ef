"""torch's analyzer on several folders: frtrace.py FOLDER... prints [[exit status, output], ...].

It is `torchfrtrace`, imported once and forked, because to import torch takes seconds.
"""

import json
import os
import sys
import tempfile

from torch.distributed.flight_recorder.fr_trace import main


def analyzed(folder):
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            sys.exit(main([folder, "--prefix", "nccl_trace_rank_"]))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return status, output.read().decode()


if __name__ == "__main__":
    print(json.dumps([analyzed(folder) for folder in sys.argv[1:]]))
