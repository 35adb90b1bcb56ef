"""The dynamic loader's own lock, held by one thread while another calls NCCL for the first time."""

from common import both, program
from harness import case


@case
def first_call_beside_a_constructor(sandbox):
    library = sandbox.build.program("hosts", "libconstructor.so")
    sandbox.build.need(library)
    both(sandbox, [program(sandbox, "opening"), library], 0, boxes=0)
