"""Wildcard receives that another message could have met, and what follows is not the same then.

In the run at hand the other message may have come first: then the fault is told by what it has led to.
"""

import phases
from cases import culprits
from faults import LIKELY, fault, mark, truth, within


def drawn(p):
    """A receiver and two senders, a tag for all messages."""
    comm = p.random.choice(p.common(3))
    sink, first, second = p.random.sample(range(comm.size), 3)
    return comm, sink, first, second, p.tag()


def send(p, comm, source, sink, tag, **content):
    p.call(comm.members[source], p.random.choice(("send", "send", "ssend")), p.copy(), c=comm.slot, to=sink, tag=tag,
           **content)


def receive(p, comm, source, sink, tag, verb="recv_unseen", **content):
    p.call(comm.members[sink], verb, p.copy(), **{"c": comm.slot, "from": source, "tag": tag, **content})


def race(p, comm, sink, senders, most=None):
    rank, ends = comm.members[sink], {comm.members[i] for i in (sink, *senders)}
    more = {"most": most} if most else {}
    return truth(message_race=culprits([rank], range(p.ranks)), point_to_point_mismatch=culprits(may=ends),
                 deadlock=within(p, rank), missing_participant=culprits([rank]), **more)


@fault("named_after_wildcard", ranks=3)
def named_after_wildcard(p):
    comm, sink, first, second, tag = drawn(p)
    mark(p, comm.members[sink])
    for source in (first, second):
        send(p, comm, source, sink, tag, n=3)
    receive(p, comm, -1, sink, tag, n=3)
    receive(p, comm, second, sink, tag, n=3, verb=p.random.choice(("recv", "recv_unseen")))
    return race(p, comm, sink, (first, second))


@fault("named_called_before", ranks=3)
def named_called_before(p):
    """Both receives are called before either is over."""
    comm, sink, first, second, tag = drawn(p)
    rank = comm.members[sink]
    mark(p, rank)
    slot = p.slot(rank, 2)
    for i, source in enumerate((-1, second)):
        receive(p, comm, source, sink, tag, "irecv", n=3, **{"as": slot + i})
    for source in (first, second):
        send(p, comm, source, sink, tag, n=3)
    phases.wait(p, rank, slot, 2)
    return race(p, comm, sink, (first, second))


@fault("other_size_by_wildcard", ranks=3)
def other_size_by_wildcard(p):
    comm, sink, first, second, tag = drawn(p)
    mark(p, comm.members[sink])
    for source, many in ((first, 3), (second, 6)):
        send(p, comm, source, sink, tag, n=many)
    for many in (3, 6):
        receive(p, comm, -1, sink, tag, n=many)
    return race(p, comm, sink, (first, second))


@fault("other_type_by_wildcard", ranks=3)
def other_type_by_wildcard(p):
    comm, sink, first, second, tag = drawn(p)
    mark(p, comm.members[sink])
    kinds = p.random.sample(phases.SUMMED, 2)
    for source, kind in zip((first, second), kinds):
        send(p, comm, source, sink, tag, n=2, t=kind)
    for kind in kinds:
        receive(p, comm, -1, sink, tag, n=2, t=kind)
    return race(p, comm, sink, (first, second))


@fault("any_tag_by_wildcard", ranks=3)
def any_tag_by_wildcard(p):
    comm, sink, first, second, tag = drawn(p)
    other = p.tag()
    mark(p, comm.members[sink])
    send(p, comm, first, sink, tag, n=3)
    send(p, comm, second, sink, other, n=3)
    receive(p, comm, -1, sink, -1, n=3)
    receive(p, comm, -1, sink, other, n=3)
    return race(p, comm, sink, (first, second))


@fault("one_of_two_received", ranks=3)
def one_of_two_received(p):
    comm, sink, first, second, tag = drawn(p)
    mark(p, comm.members[sink])
    for source in (first, second):
        p.call(comm.members[source], "send", p.copy(), c=comm.slot, to=sink, tag=tag, n=1)
    receive(p, comm, -1, sink, tag, n=1)
    return race(p, comm, sink, (first, second), LIKELY)


@fault("second_turn_by_name", ranks=3)
def second_turn_by_name(p):
    """Everybody twice: the first time in any order, the second time by name."""
    comm, sink, _, _, tag = drawn(p)
    others = [i for i in range(comm.size) if i != sink]
    mark(p, comm.members[sink])
    for source in others:
        for _ in range(2):
            p.call(comm.members[source], "send", p.copy(), c=comm.slot, to=sink, tag=tag, n=1)
    for _ in others:
        receive(p, comm, -1, sink, tag, n=1)
    for source in others:
        receive(p, comm, source, sink, tag, n=1)
    return race(p, comm, sink, others)
