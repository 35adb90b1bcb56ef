"""One fault in one rank, and the truth about it, from the MPI standard and the contract of ncclwatch alone.

A fault may have several true names: a call left out shows as another call in its place, or as others that wait for ever,
whichever comes first. Each name stands with who it is then.
"""

import dataclasses
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import phases  # noqa: E402
from cases import culprits  # noqa: E402

CERTAIN, LIKELY = "certain", "likely"


@dataclasses.dataclass
class Truth:
    sort: str
    kinds: dict           # kind: Culprits
    most: str = CERTAIN   # above it nobody can be sure
    checks: str = ""      # NCCLWATCH_MPI_CHECKS, without which it cannot be seen
    last: tuple = ()      # (rank, verb, fields): after everything else, in place of MPI_Finalize

    def __str__(self):
        return f"{self.sort}: " + "; ".join(f"{kind} of {who}" for kind, who in self.kinds.items())


@dataclasses.dataclass
class Fault:
    plant: object
    ranks: int = 2
    share: int = 1


FAULTS = {}


def fault(name, **more):
    def add(function):
        FAULTS[name] = Fault(function, **more)
        return function
    return add


def names():
    return [name for name, one in FAULTS.items() for _ in range(one.share)]


def plant(p, sort):
    truth = FAULTS[sort].plant(p)
    return dataclasses.replace(truth, sort=sort)


def truth(most=CERTAIN, last=(), checks="", **kinds):
    return Truth("", kinds, most, checks, last)


# ---- who it is

def minority(comm, rank):
    """Of two that differ either may be wrong."""
    return culprits([rank]) if comm.size > 2 else culprits(may=comm.members)


def within(p, *ranks):
    """A cycle through these, and any of those that wait for them."""
    return culprits(ranks, range(p.ranks))


def elsewhere(p, comm, rank):
    """This rank is at another place of its collectives than the others."""
    alone = culprits([rank])
    return {"order_mismatch": minority(comm, rank), "argument_mismatch": minority(comm, rank),
            "deadlock": within(p, rank), "missing_participant": alone, "initialization_hang": alone, "early_exit": alone}


def unpaired(p, ends, waiting):
    """A message without its other half; which of the ends is wrong nobody can tell."""
    return {"point_to_point_mismatch": culprits(may=ends), "deadlock": within(p, waiting)}


# ---- where

def somewhere(p, least=2):
    comm = p.random.choice(p.common(least))
    return comm, p.random.choice(comm.members)


def mark(p, rank):
    p.call(rank, "planted")


def drop(p, rank, call):
    p.calls[rank].remove(call)


def maybe_one_more(p, comm):
    if p.random.random() < 0.7:
        phases.collective(p, comm)


# ---- collectives: too few, too many, in another order

@fault("skipped", share=2)
def skipped(p):
    comm, rank = somewhere(p)
    mark(p, rank)
    drop(p, rank, phases.collective(p, comm)[rank])
    maybe_one_more(p, comm)
    return truth(**elsewhere(p, comm, rank))


@fault("skipped_start")
def skipped_start(p):
    comm, rank = somewhere(p)
    mark(p, rank)
    calls = phases.collective(p, comm)
    drop(p, rank, calls[rank])
    for other, call in calls.items():
        if other != rank:
            call.fields["as"] = p.slot(other)
            phases.wait(p, other, call.fields["as"], 1)
    maybe_one_more(p, comm)
    return truth(**elsewhere(p, comm, rank))


@fault("extra", share=2)
def extra(p):
    comm, rank = somewhere(p)
    verb, fields = phases.drawn_collective(p, comm)
    mark(p, rank)
    p.call(rank, verb, p.copy(), c=comm.slot, **fields)
    maybe_one_more(p, comm)
    return truth(**elsewhere(p, comm, rank))


def two_verbs(p, comm, verbs=phases.COLLECTIVES):
    first, second = p.random.sample(verbs, 2)
    return phases.drawn_collective(p, comm, (first,)), phases.drawn_collective(p, comm, (second,))


@fault("swapped", share=2)
def swapped(p):
    comm, rank = somewhere(p)
    first, second = two_verbs(p, comm)
    mark(p, rank)
    for other in comm.members:
        for verb, fields in (second, first) if other == rank else (first, second):
            p.call(other, verb, p.copy(), c=comm.slot, **fields)
    return truth(order_mismatch=minority(comm, rank))


@fault("swapped_starts")
def swapped_starts(p):
    comm, rank = somewhere(p)
    first, second = two_verbs(p, comm)
    mark(p, rank)
    for other in comm.members:
        slot = p.slot(other, 2)
        for i, (verb, fields) in enumerate((second, first) if other == rank else (first, second)):
            p.call(other, verb, p.copy(), c=comm.slot, **fields, **{"as": slot + i})
        phases.wait(p, other, slot, 2)
    return truth(order_mismatch=minority(comm, rank))


@fault("other_operation")
def other_operation(p):
    comm, rank = somewhere(p)
    usual, other_verb = two_verbs(p, comm)
    mark(p, rank)
    for other in comm.members:
        verb, fields = other_verb if other == rank else usual
        p.call(other, verb, p.copy(), c=comm.slot, **fields)
    return truth(order_mismatch=minority(comm, rank))


@fault("blocking_with_nonblocking")
def blocking_with_nonblocking(p):
    """They never match, whatever they do (MPI-3.1, 5.12)."""
    comm, rank = somewhere(p)
    begin_one = p.random.random() < 0.5
    mark(p, rank)
    for other, call in phases.collective(p, comm).items():
        if (other == rank) == begin_one:
            call.fields["as"] = p.slot(other)
            p.call(other, "wait", p.copy(), q=call.fields["as"])
    return truth(order_mismatch=minority(comm, rank))


@fault("swapped_communicators")
def swapped_communicators(p):
    first = p.random.choice(p.common(2))
    second = p.random.choice([comm for comm in p.comms if len(set(comm.members) & set(first.members)) > 1])
    if first == second:
        second = phases.new_comm(p, first.members)
        p.everybody(first, "dup", p.copy(), to=second.slot)
        p.comms.append(second)
    rank = p.random.choice(sorted(set(first.members) & set(second.members)))
    one, other = ((comm, phases.drawn_collective(p, comm, phases.SYNCHRONIZING)) for comm in (first, second))
    mark(p, rank)
    for member in range(p.ranks):
        for comm, (verb, fields) in (other, one) if member == rank else (one, other):
            if member in comm.members:
                p.call(member, verb, p.copy(), c=comm.slot, **fields)
    return truth(deadlock=within(p, rank))


# ---- collectives: other arguments

def with_other_fields(p, verbs, change, who=None):
    comm = p.random.choice(p.common(2))
    verb, fields = phases.drawn_collective(p, comm, verbs)
    fields.pop("place", None)
    able = [i for i in range(comm.size) if who is None or who(i, fields)]
    rank = comm.members[p.random.choice(able)]
    mark(p, rank)
    for other in comm.members:
        p.call(other, verb, p.copy(), c=comm.slot, **(fields | change(fields, comm) if other == rank else fields))
    return truth(argument_mismatch=minority(comm, rank))


def beside_the_root(i, fields):  # whose amounts are those of one block on both sides
    return fields.get("root") != i


@fault("count", share=2)
def other_count(p):
    def change(fields, _):
        return {"n": p.random.choice([n for n in (0, 1, fields["n"] - 1, fields["n"] + 1, 2 * fields["n"])
                                      if n not in (-1, fields["n"])])}
    return with_other_fields(p, ("bcast", "reduce", "allreduce", "scan", "exscan", "reduce_scatter_block", "allgather",
                                 "alltoall", "gather", "scatter"), change,
                             lambda i, fields: beside_the_root(i, fields) or "op" in fields)


@fault("type", share=2)
def other_type(p):
    def change(fields, _):
        able = ("int", "long", "short") if fields.get("op") == "bor" else phases.SUMMED
        return {"t": p.random.choice([name for name in able if name != fields["t"]])}

    verbs = ("bcast", "reduce", "allreduce", "scan", "exscan", "allgather", "gather")
    while True:  # derived types have the basic ones of others
        kept = p.random.getstate()
        comm = p.random.choice(p.common(2))
        if phases.drawn_collective(p, comm, verbs)[1]["t"] in phases.SUMMED:
            p.random.setstate(kept)
            return with_other_fields(p, verbs, change, beside_the_root)


@fault("root", share=2)
def other_root(p):
    def change(fields, comm):
        return {"root": p.random.choice([i for i in range(comm.size) if i != fields["root"]])}
    return with_other_fields(p, phases.ROOTED, change)


@fault("operator")
def other_operator(p):
    def change(fields, _):
        return {"op": p.random.choice([op for op in ("sum", "max", "min") if op != fields["op"]])}
    return with_other_fields(p, phases.REDUCING, change)


@fault("uneven_counts")
def uneven_counts(p):
    """The amount between one pair of ranks, both ways."""
    comm = p.random.choice(p.common(2))
    verb, fields = phases.drawn_collective(p, comm, phases.UNEVEN)
    rank = comm.members[fields["root"]] if "root" in fields else p.random.choice(comm.members)
    peer = p.random.choice([i for i in range(comm.size) if comm.members[i] != rank])
    mark(p, rank)
    for other in comm.members:
        p.call(other, verb, p.copy(), c=comm.slot, **(fields | {"bad": peer} if other == rank else fields))
    return truth(argument_mismatch=culprits(may={rank, comm.members[peer]}))


# ---- messages

def blocking_or_not(p, rank, verb, **fields):
    if p.random.random() < 0.5 or verb in ("probe", "mprobe"):
        p.call(rank, verb, p.copy(), **fields)
        return
    slot = p.slot(rank)
    p.call(rank, "i" + verb, p.copy(), **fields, **{"as": slot})
    phases.wait(p, rank, slot, 1)


def drawn_ends(p, least=2):
    comm = p.random.choice(p.common(least))
    source, target = phases.two_of(p, comm)
    return comm, source, target


def some_content(p):
    out, into = phases.drawn_content(p, 0.1)
    into.pop("g", None)
    return {"t": out["t"], "n": max(1, out["n"]), "v": out["v"]}


def message_with(p, change, extra_ends=lambda comm, changed: ()):
    """change(comm, fields of one end): what is wrong with them, at one end."""
    comm, source, target = drawn_ends(p, 3 if change is another_peer else 2)
    sender, receiver = comm.members[source], comm.members[target]
    tag, content = p.tag(), some_content(p)
    out = {"c": comm.slot, "to": target, "tag": tag, **content}
    into = {"c": comm.slot, "from": source, "tag": tag, **content}
    sender_wrong = p.random.random() < 0.5
    changed = change(p, comm, out if sender_wrong else into, source, target)
    mark(p, sender if sender_wrong else receiver)
    blocking_or_not(p, sender, p.random.choice(("send", "send", "ssend")), **(out | changed if sender_wrong else out))
    blocking_or_not(p, receiver, p.random.choice(("recv", "recv", "probe", "mprobe")),
                    **(into if sender_wrong else into | changed))
    third = [comm.members[changed[key]] for key in ("to", "from") if key in changed]
    return truth(**unpaired(p, {sender, receiver, *third}, receiver))


def another_tag(p, comm, fields, source, target):
    return {"tag": fields["tag"] + p.random.choice((1000, 2000))}


def another_peer(p, comm, fields, source, target):
    return {"to" if "to" in fields else "from": p.random.choice([i for i in range(comm.size)
                                                                 if i not in (source, target)])}


def another_communicator(p, comm, fields, source, target):
    ends = {comm.members[source], comm.members[target]}
    others = [other for other in p.comms if other != comm and ends <= set(other.members)]
    if others:
        other = p.random.choice(others)
    else:
        other = phases.new_comm(p, comm.members)
        p.everybody(comm, "dup", p.copy(), to=other.slot)
        p.comms.append(other)
    key, peer = ("to", target) if "to" in fields else ("from", source)
    return {"c": other.slot, key: other.rank_of(comm.members[peer])}


@fault("tag", share=2)
def other_tag(p):
    return message_with(p, another_tag)


@fault("peer", ranks=3)
def other_peer(p):
    return message_with(p, another_peer)


@fault("communicator")
def other_communicator(p):
    return message_with(p, another_communicator)


def meeting(p, out, into):
    """A message that is received, by fields that differ."""
    comm, source, target = drawn_ends(p)
    sender, receiver, tag = comm.members[source], comm.members[target], p.tag()
    mark(p, sender)
    blocking_or_not(p, sender, p.random.choice(("send", "ssend")), c=comm.slot, to=target, tag=tag, **out)
    blocking_or_not(p, receiver, "recv", **{"c": comm.slot, "from": source, "tag": tag, **into})
    return truth(point_to_point_mismatch=culprits(may={sender, receiver}))


@fault("truncated", share=2)
def truncated(p):
    content = some_content(p)
    return meeting(p, content | {"n": content["n"] + p.random.randint(1, 20)}, content)


@fault("message_type")
def other_message_type(p):
    first, second = p.random.sample(phases.SUMMED, 2)
    content = some_content(p)
    return meeting(p, content | {"t": first}, content | {"t": second, "n": 8 * content["n"]})


@fault("unsent", share=2)
def unsent(p):
    comm, source, target = drawn_ends(p)
    sender, receiver = comm.members[source], comm.members[target]
    mark(p, sender)
    blocking_or_not(p, receiver, p.random.choice(("recv", "probe", "mprobe")),
                    **{"c": comm.slot, "from": source, "tag": p.tag(), **some_content(p)})
    return truth(**unpaired(p, {sender, receiver}, receiver), missing_participant=culprits([sender]))


@fault("unreceived")
def unreceived(p):
    comm, source, target = drawn_ends(p)
    sender, receiver = comm.members[source], comm.members[target]
    mark(p, receiver)
    blocking_or_not(p, sender, "ssend", c=comm.slot, to=target, tag=p.tag(), **some_content(p))
    return truth(**unpaired(p, {sender, receiver}, sender), missing_participant=culprits([receiver]))


@fault("unreceived_in_a_buffer")
def unreceived_in_a_buffer(p):
    comm, source, target = drawn_ends(p)
    sender, receiver = comm.members[source], comm.members[target]
    mark(p, receiver)
    p.call(sender, "send", p.copy(), c=comm.slot, to=target, tag=p.tag(), n=1)
    return truth(point_to_point_mismatch=culprits(may={sender, receiver}))


@fault("one_start_less")
def one_start_less(p):
    comm, source, target = drawn_ends(p)
    sender, receiver, rounds = comm.members[source], comm.members[target], p.random.randint(1, 4)
    common = {"c": comm.slot, "tag": p.tag(), "n": 4}
    out, into, copy = p.slot(sender), p.slot(receiver), p.copy()
    p.call(sender, p.random.choice(("send_init", "ssend_init")), copy, **common, to=target, **{"as": out})
    p.call(receiver, "recv_init", copy, **common, **{"from": source, "as": into})
    for i in range(rounds):
        for rank, slot in ((sender, out), (receiver, into)):
            if rank == sender and i == rounds - 1:
                mark(p, rank)
                continue
            p.call(rank, "start", copy, q=slot)
            p.call(rank, "wait", copy, q=slot)
    for rank, slot in ((sender, out), (receiver, into)):
        p.call(rank, "request_free", copy, q=slot)
    return truth(**unpaired(p, {sender, receiver}, receiver), missing_participant=culprits([sender]))


@fault("eaten", ranks=3)
def eaten(p):
    """A wildcard receive takes what a later one needs: most likely, since the first sender's message is there."""
    comm = p.random.choice(p.common(3))
    sink, first, second = p.random.sample(range(comm.size), 3)
    rank, tag, content = comm.members[sink], p.tag(), {"n": 3}
    p.call(comm.members[first], "send", p.copy(), c=comm.slot, to=sink, tag=tag, **content)
    p.call(rank, "peek", **{"c": comm.slot, "from": first, "tag": tag})
    p.everybody(comm, "barrier", p.copy())
    p.call(comm.members[second], "send", p.copy(), c=comm.slot, to=sink, tag=tag, **content)
    mark(p, rank)
    p.call(rank, "recv_unseen", p.copy(), **{"c": comm.slot, "from": -1, "tag": tag, **content})
    p.call(rank, "recv_unseen", p.copy(), **{"c": comm.slot, "from": first, "tag": tag, **content})
    ends = {rank, comm.members[first], comm.members[second]}
    return truth(**unpaired(p, ends, rank), message_race=culprits(may=ends))


# ---- cycles

def cycle(p):
    comm = p.random.choice(p.common(2))
    return comm, p.random.sample(range(comm.size), p.random.randint(2, comm.size))


@fault("receive_cycle", share=2)
def receive_cycle(p):
    comm, around = cycle(p)
    tag, content = p.tag(), some_content(p)
    for i, one in enumerate(around):
        rank = comm.members[one]
        mark(p, rank)
        blocking_or_not(p, rank, p.random.choice(("recv", "recv", "probe")),
                        **{"c": comm.slot, "from": around[i - 1], "tag": tag, **content})
        p.call(rank, "send", p.copy(), c=comm.slot, to=around[(i + 1) % len(around)], tag=tag, **content)
    return truth(deadlock=culprits([comm.members[i] for i in around]))


@fault("send_cycle", share=2)
def send_cycle(p):
    comm, around = cycle(p)
    tag, large = p.tag(), p.random.random() < 0.4
    content = {"t": "double", "n": 60000} if large else some_content(p)
    verb = "send" if large else "ssend"
    for i, one in enumerate(around):
        rank = comm.members[one]
        mark(p, rank)
        blocking_or_not(p, rank, verb, c=comm.slot, to=around[(i + 1) % len(around)], tag=tag, **content)
        p.call(rank, "recv", p.copy(), **{"c": comm.slot, "from": around[i - 1], "tag": tag, **content})
    return truth(deadlock=culprits([comm.members[i] for i in around]))


@fault("wildcard_cycle")
def wildcard_cycle(p):
    """All of them wait for any of them."""
    comm = p.random.choice(p.common(2))
    tag, content = p.tag(), some_content(p)
    for rank in comm.members:
        mark(p, rank)
        blocking_or_not(p, rank, p.random.choice(("recv", "recv", "probe")),
                        **{"c": comm.slot, "from": -1, "tag": tag, **content})
        p.call(rank, "send", p.copy(), c=comm.slot, to=(comm.rank_of(rank) + 1) % comm.size, tag=tag, **content)
    return truth(deadlock=culprits(comm.members))


@fault("eager_cycle")
def eager_cycle(p):
    """Small messages, that a buffer saves."""
    comm, around = cycle(p)
    tag, content = p.tag(), some_content(p)
    content["n"] = min(content["n"], 10)
    for i, one in enumerate(around):
        rank = comm.members[one]
        mark(p, rank)
        p.call(rank, "send", p.copy(), c=comm.slot, to=around[(i + 1) % len(around)], tag=tag, **content)
        p.call(rank, "recv", p.copy(), **{"c": comm.slot, "from": around[i - 1], "tag": tag, **content})
    return truth(LIKELY, checks="sync", deadlock=culprits([comm.members[i] for i in around]))


@fault("message_after_collective")
def message_after_collective(p):
    """One receives before a collective what another sends after it."""
    comm, source, target = drawn_ends(p)
    sender, receiver, tag, content = comm.members[source], comm.members[target], p.tag(), some_content(p)
    mark(p, receiver)
    blocking_or_not(p, receiver, "recv", **{"c": comm.slot, "from": source, "tag": tag, **content})
    phases.collective(p, comm, phases.drawn_collective(p, comm, phases.SYNCHRONIZING))
    blocking_or_not(p, sender, "send", c=comm.slot, to=target, tag=tag, **content)
    return truth(deadlock=within(p, sender, receiver))


@fault("neighbour_count")
def other_neighbour_count(p):
    """On a ring, one sends its neighbours another amount, and expects as much of them."""
    comm, rank = somewhere(p)
    line = phases.new_comm(p, comm.members, (comm.size,))
    p.everybody(comm, "cart", p.copy(), to=line.slot, dims=str(comm.size), periods="1")
    count = p.random.randint(1, 8)
    verb = p.random.choice(("neighbour_allgather", "neighbour_alltoall"))
    mark(p, rank)
    for one in comm.members:
        p.call(one, verb, p.copy(), c=line.slot, n=count + 1 if one == rank else count, v=p.value())
    return truth(argument_mismatch=minority(comm, rank))


# ---- communicators

@fault("not_made", share=2)
def not_made(p):
    comm, rank = somewhere(p)
    verb = p.random.choice(("dup", "split", "split_type", "cart"))
    fields = {"to": phases.new_comm(p, ()).slot}
    if verb == "cart":
        fields |= {"dims": str(comm.size), "periods": "1"}
    if verb == "split":
        fields |= {"color": 0}
    mark(p, rank)
    for other in comm.members:
        if other != rank:
            p.call(other, verb, p.copy(), c=comm.slot, **fields)
    maybe_one_more(p, comm)
    return truth(**elsewhere(p, comm, rank))


@fault("grid")
def other_grid(p):
    """One makes a grid of another shape, or one that wraps around elsewhere."""
    comm, rank = somewhere(p)
    fields = {"to": phases.new_comm(p, ()).slot, "dims": f"{comm.size}1", "periods": "10"}
    other = p.random.choice(({"dims": f"1{comm.size}"}, {"dims": str(comm.size), "periods": "1"},
                             {"periods": p.random.choice(("00", "11"))}))
    mark(p, rank)
    for one in comm.members:
        p.call(one, "cart", p.copy(), c=comm.slot, **(fields | other if one == rank else fields))
    return truth(argument_mismatch=minority(comm, rank))


@fault("group_tag")
def other_group_tag(p):
    comm, rank = somewhere(p)
    fields = {"c": comm.slot, "to": phases.new_comm(p, ()).slot, "members": "".join(map(str, range(comm.size)))}
    tag, other = p.tag(), p.tag()
    mark(p, rank)
    for one in comm.members:
        p.call(one, "create_group", p.copy(), **fields, tag=other if one == rank else tag)
    return truth(argument_mismatch=minority(comm, rank), deadlock=within(p, rank))


@fault("group_not_made")
def group_not_made(p):
    """By the members alone: one of them does not come."""
    comm, rank = somewhere(p)
    others = [comm.rank_of(one) for one in comm.members if one != rank]
    members = p.random.sample(others, p.random.randint(1, len(others))) + [comm.rank_of(rank)]
    p.random.shuffle(members)
    fields = {"c": comm.slot, "to": phases.new_comm(p, ()).slot, "tag": p.tag(), "members": "".join(map(str, members))}
    mark(p, rank)
    for one in members:
        if comm.members[one] != rank:
            p.call(comm.members[one], "create_group", p.copy(), **fields)
    # Ranks that wait there are missed elsewhere.
    return truth(initialization_hang=culprits([rank]), deadlock=within(p, rank), missing_participant=culprits([rank]),
                 early_exit=culprits([rank]))


@fault("not_freed")
def not_freed(p):
    comm, rank = somewhere(p)
    made = phases.new_comm(p, comm.members)
    p.everybody(comm, "dup", p.copy(), to=made.slot)
    mark(p, rank)
    for other in comm.members:
        if other != rank:
            p.call(other, "free", p.copy(), c=made.slot)
    return truth(order_mismatch=minority(comm, rank), resource_leak=culprits([rank]),
                 missing_participant=culprits([rank]), deadlock=within(p, rank))


# ---- endings

def ending(p, verb, kinds, most=CERTAIN, **fields):
    rank = p.random.randrange(p.ranks)
    mark(p, rank)
    p.call(rank, verb, p.copy(), **fields)
    return truth(most, **{kind: culprits([rank]) for kind in kinds})


@fault("exit_0")
def exit_0(p):
    return ending(p, "exit", ("early_exit", "missing_finalize"), **({"handlers": 1} if p.random.random() < 0.5 else {}))


@fault("exit_with_status")
def exit_with_status(p):
    fields = {"handlers": 1} if p.random.random() < 0.5 else {}
    return ending(p, "exit", ("dead_rank",), status=p.random.choice((1, 3, 77)), **fields)


@fault("mpi_abort")
def mpi_abort(p):
    return ending(p, "mpi_abort", ("dead_rank", "early_exit", "library_error"), status=p.random.choice((1, 5)))


@fault("crash", share=2)
def crash(p):
    if p.random.random() < 0.5:
        return ending(p, "null_pointer", ("dead_rank",))
    return ending(p, "raise", ("dead_rank",), number=p.random.choice((4, 6, 8, 11)))


@fault("killed", share=2)
def killed(p):
    return ending(p, "raise", ("dead_rank",), number=9)


@fault("stopped")
def stopped(p):
    return ending(p, "raise", ("frozen_process",), LIKELY, number=19)


@fault("endless", share=2)
def endless(p):
    rank = p.random.randrange(p.ranks)
    mark(p, rank)
    p.call(rank, p.random.choice(("spin", "sleep")))
    return truth(LIKELY, missing_participant=culprits([rank]), point_to_point_mismatch=within(p, rank),
                 initialization_hang=culprits([rank]))


@fault("finalized_early")
def finalized_early(p):
    rank = p.random.randrange(p.ranks)
    mark(p, rank)
    p.call(rank, "finalize")
    return truth(missing_participant=culprits([rank]), early_exit=culprits([rank]), order_mismatch=culprits([rank]),
                 deadlock=within(p, rank), point_to_point_mismatch=within(p, rank), initialization_hang=culprits([rank]))


@fault("one_without_finalize")
def one_without_finalize(p):
    rank = p.random.randrange(p.ranks)
    return truth(last=((rank, "planted", {}), (rank, "exit", {"status": 0, "handlers": 1})),
                 missing_finalize=culprits([rank]), early_exit=culprits([rank]))


@fault("nobody_finalizes")
def nobody_finalizes(p):
    last = [(rank, verb, fields) for rank in range(p.ranks)
            for verb, fields in (("planted", {}), ("exit", {"status": 0, "handlers": 1}))]
    # The launcher may end the rest before they have done it.
    return truth(last=tuple(last), missing_finalize=culprits(may=range(p.ranks)))
