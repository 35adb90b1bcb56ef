"""A program of MPI, in the words of the player: for each rank of the world the calls that it makes."""

import dataclasses


@dataclasses.dataclass
class Call:
    verb: str
    copy: int
    fields: dict

    def __str__(self):
        return " ".join([f"{self.verb}@{self.copy}", *(f"{key}={value}" for key, value in self.fields.items())])


@dataclasses.dataclass(frozen=True)
class Comm:
    slot: int
    members: tuple  # ranks of the world, in the communicator's order
    grid: tuple = ()  # extents, of those with a topology

    @property
    def size(self):
        return len(self.members)

    def rank_of(self, world_rank):
        return self.members.index(world_rank)


class Program:
    """Everything that is drawn comes from `random`, so that a seed is a program."""

    def __init__(self, ranks, random):
        self.ranks, self.random = ranks, random
        self.calls = [[] for _ in range(ranks)]
        self.world = Comm(0, tuple(range(ranks)))
        self.comms = [self.world]  # those that are alive
        self.next_comm, self.next_tag, self.next_value, self.next_window = 1, 100, 0, 0
        self.next_slot = [0] * ranks
        self.pending = []  # (rank, first slot, how many): begun in one phase, waited for in a later one
        self.buffered = 0  # bytes that MPI_Bsend needs, at most

    def call(self, rank, verb, copy=0, **fields):
        made = Call(verb, copy, fields)
        self.calls[rank].append(made)
        return made

    def everybody(self, comm, verb, copy=0, **fields):
        return [self.call(rank, verb, copy, c=comm.slot, **fields) for rank in comm.members]

    def tag(self):
        self.next_tag += 1
        return self.next_tag

    def value(self):
        """The first of a sequence: no two messages bring the same."""
        self.next_value = (self.next_value + 13) % 900
        return self.next_value

    def slot(self, rank, many=1):
        first = self.next_slot[rank]
        self.next_slot[rank] += many
        return first

    def copy(self):
        return self.random.randrange(3)

    def common(self, *least):
        """Communicators that have at least so many members, and all of those ranks."""
        size = least[0] if least else 1
        return [comm for comm in self.comms if comm.size >= size]

    def text(self, checks):
        lines = [f"checks {int(checks)}"]
        for rank, calls in enumerate(self.calls):
            lines += [f"rank {rank}", *map(str, calls)]
        return "\n".join(lines) + "\n"
