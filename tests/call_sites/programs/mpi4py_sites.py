"""Calls of MPI through mpi4py, each with a count of its own, and one that is wrong. Comments as in sites.py."""
import threading
from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD


def buffer(count):
    return [array("i", [0] * count), MPI.INT]


def reduce(count):
    world.Allreduce(buffer(count), buffer(count))  # here 501 506 in reduce


class Ring:
    def turn(self):
        request = world.Isend(buffer(502), dest=0)  # here 502 in Ring.turn
        world.Recv(buffer(503), source=0)  # here 503 in Ring.turn
        request.Wait()


def persistent():
    request = world.Send_init(buffer(504), dest=0)
    for _ in range(2):
        request.Start()
        world.Recv(buffer(505), source=0)  # here 505 in persistent
        request.Wait()
    request.Free()


def wrong():
    world.Set_errhandler(MPI.ERRORS_RETURN)
    try:
        world.Send(buffer(507), dest=99)  # here 507 in wrong
    except MPI.Exception:
        pass


reduce(501)
Ring().turn()
persistent()
thread = threading.Thread(target=reduce, args=(506,))
thread.start()
thread.join()
wrong()
leaked = world.Dup()  # here 508
print("done", flush=True)
