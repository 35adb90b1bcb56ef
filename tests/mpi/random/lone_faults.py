"""What a rank does wrong by itself: arguments, requests, objects that it leaves behind."""

import phases
from cases import culprits
from faults import drawn_ends, fault, mark, some_content, somewhere, truth


# ---- arguments

def other_member(p, comm, rank):
    return p.random.choice([i for i in range(comm.size) if comm.members[i] != rank])


def argument(name):
    """Register a plan (p, comm, rank, peer): what one rank calls; peer is another member's number."""
    def add(plan):
        @fault(name)
        def planted(p):
            comm, rank = somewhere(p)
            mark(p, rank)
            plan(p, comm, rank, other_member(p, comm, rank))
            return truth(invalid_argument=culprits([rank]))
        return planted
    return add


def one_call(name, draw):
    """Register a single call of one rank: draw(p, comm, peer) -> verb, fields."""
    @argument(name)
    def plan(p, comm, rank, peer):
        verb, fields = draw(p, comm, peer)
        if verb in ("send", "recv"):
            verb = p.random.choice((verb, "i" + verb, verb + "_init"))
        if verb.startswith("i") or verb.endswith("_init"):
            fields["as"] = p.slot(rank)
        p.call(rank, verb, p.copy(), **({"c": comm.slot} | fields))


def message_end(p, peer, **wrong):
    return p.random.choice((("send", {"to": peer, "n": 1, "tag": p.tag()} | wrong),
                            ("recv", {"from": peer, "n": 1, "tag": p.tag()} | wrong)))


def rooted(p, comm, root):
    verb, fields = phases.drawn_collective(p, comm, ("bcast", "reduce", "gather", "scatter"))
    fields.pop("place", None)
    return verb, fields | {"root": root}


one_call("peer_out_of_range", lambda p, comm, peer: message_end(
    p, peer, **dict.fromkeys(("to", "from"), comm.size + p.random.randrange(9))))
one_call("tag_out_of_range", lambda p, comm, peer: ("send", {"to": peer, "n": 1, "tag": -p.random.randint(5, 99)}))
one_call("negative_count", lambda p, comm, peer: message_end(p, peer, n=-p.random.randint(1, 5)))
one_call("root_out_of_range", lambda p, comm, peer: rooted(p, comm, comm.size + p.random.randrange(9)))
one_call("null_handle", lambda p, comm, peer: (
    p.random.choice(("null_communicator", "null_type", "null_operator")), {"to": peer}))
one_call("null_buffer", lambda p, comm, peer: ("null_buffer", {"to": peer}))
one_call("free_predefined", lambda p, comm, peer: ("free_predefined", {}))
one_call("freed_twice", lambda p, comm, peer: ("free_twice", {}))
one_call("initialized_twice", lambda p, comm, peer: ("init_again", {}))


@argument("type_not_usable")
def type_not_usable(p, comm, rank, peer):
    tag = p.tag()
    p.call(rank, p.random.choice(("send_uncommitted", "send_freed")), p.copy(), c=comm.slot, to=peer, tag=tag)
    p.call(comm.members[peer], "recv", p.copy(), **{"c": comm.slot, "from": comm.rank_of(rank), "tag": tag, "n": 2})


@argument("freed_communicator")
def freed_communicator(p, comm, rank, peer):
    made = phases.new_comm(p, comm.members)
    p.everybody(comm, "dup", p.copy(), to=made.slot)
    for call, other in zip(p.everybody(made, "barrier_of_freed", p.copy()), comm.members):
        if other == rank:
            call.fields["bad"] = 1


@argument("negative_color")
def negative_color(p, comm, rank, peer):
    made = phases.new_comm(p, ())
    for other in comm.members:
        p.call(other, "split", 0, c=comm.slot, color=0, key=0, to=made.slot,
               **({"bad": p.random.randint(2, 9)} if other == rank else {}))
    for other in comm.members:
        p.call(other, "free", 0, c=made.slot)


@argument("overlapping_buffers")
def overlapping_buffers(p, comm, rank, peer):
    if p.random.random() < 0.5:
        for call, other in zip(p.everybody(comm, "same_buffer", p.copy()), comm.members):
            if other == rank:
                call.fields["bad"] = 1
        return
    tag = p.tag()
    p.call(rank, "overlapping_exchange", p.copy(), c=comm.slot, to=peer, tag=tag, bad=1)
    p.call(comm.members[peer], "overlapping_exchange", p.copy(), c=comm.slot, to=comm.rank_of(rank), tag=tag)


@fault("operator_of_other_types")
def operator_of_other_types(p):
    """By all: the first that comes there ends the others."""
    comm = p.random.choice(p.common(2))
    for rank in comm.members:
        mark(p, rank)
    p.everybody(comm, "bits_of_reals", p.copy())
    return truth(invalid_argument=culprits(may=comm.members))


@fault("after_finalize")
def after_finalize(p):
    rank = p.random.randrange(p.ranks)
    return truth(last=((rank, "after_finalize", {}),), invalid_argument=culprits([rank]))


# ---- requests

def request_error(rank, leaks=False):
    who = culprits([rank])
    return truth(request_error=who, **({"resource_leak": who} if leaks else {}))


def begun(p, comm, source, target, tag, content, mine):
    """A message of which both sides begin, at either end first. mine: whose slot comes first in the answer."""
    ranks = comm.members[source], comm.members[target]
    slots = p.slot(ranks[0]), p.slot(ranks[1])
    p.call(ranks[1], "irecv", p.copy(), **{"c": comm.slot, "from": source, "tag": tag, **content, "as": slots[1]})
    p.call(ranks[0], "isend", p.copy(), c=comm.slot, to=target, tag=tag, **content, **{"as": slots[0]})
    return (ranks, slots) if mine == "sender" else (ranks[::-1], slots[::-1])


@fault("unfinished_request", share=2)
def unfinished_request(p):
    comm, source, target = drawn_ends(p)
    ranks, slots = begun(p, comm, source, target, p.tag(), some_content(p), p.random.choice(("sender", "receiver")))
    mark(p, ranks[0])
    p.call(ranks[1], "wait", p.copy(), q=slots[1])
    return request_error(ranks[0])


@fault("unfinished_collective")
def unfinished_collective(p):
    comm, rank = somewhere(p)
    mark(p, rank)
    for other, call in phases.collective(p, comm).items():
        call.fields["as"] = p.slot(other)
        if other != rank:
            phases.wait(p, other, call.fields["as"], 1)
    return request_error(rank)


@fault("overwritten_request")
def overwritten_request(p):
    """Two in one variable."""
    comm, source, target = drawn_ends(p)
    receiver, content = comm.members[target], some_content(p)
    slot = p.slot(receiver)
    mark(p, receiver)
    for tag in (p.tag(), p.tag()):
        p.call(receiver, "irecv", p.copy(), **{"c": comm.slot, "from": source, "tag": tag, **content, "as": slot})
        p.call(comm.members[source], "send", p.copy(), c=comm.slot, to=target, tag=tag, **content)
    p.call(receiver, "wait", p.copy(), q=slot)
    return request_error(receiver)


@fault("completed_twice")
def completed_twice(p):
    """By a copy of the handle. The message is sent once the receive stands."""
    comm, source, target = drawn_ends(p)
    sender, receiver, tag, word = comm.members[source], comm.members[target], p.tag(), p.tag()
    slot = p.slot(receiver, 2)
    p.call(receiver, "irecv", p.copy(), **{"c": comm.slot, "from": source, "tag": tag, "n": 1, "as": slot})
    p.call(receiver, "copy_request", q=slot, **{"as": slot + 1})
    p.call(receiver, "send", p.copy(), c=comm.slot, to=source, tag=word, n=1)
    p.call(sender, "recv", p.copy(), **{"c": comm.slot, "from": target, "tag": word, "n": 1})
    p.call(sender, "send", p.copy(), c=comm.slot, to=target, tag=tag, n=1)
    p.call(receiver, "wait", p.copy(), q=slot)
    mark(p, receiver)
    p.call(receiver, p.random.choice(("wait", "test")), p.copy(), q=slot + 1)
    return request_error(receiver)


def persistent_end(p, comm, source, target, tag, receiving):
    """A persistent request of one of both: rank, slot, and how the other end is made."""
    rank = comm.members[target if receiving else source]
    slot = p.slot(rank)
    key, peer = ("from", source) if receiving else ("to", target)
    p.call(rank, "recv_init" if receiving else "send_init", p.copy(),
           **{"c": comm.slot, key: peer, "tag": tag, "n": 1, "as": slot})

    def other_end():
        if receiving:
            p.call(comm.members[source], "send", p.copy(), c=comm.slot, to=target, tag=tag, n=1)
        else:
            p.call(comm.members[target], "recv", p.copy(), **{"c": comm.slot, "from": source, "tag": tag, "n": 1})
    return rank, slot, other_end


@fault("started_twice")
def started_twice(p):
    comm, source, target = drawn_ends(p)
    rank, slot, other_end = persistent_end(p, comm, source, target, p.tag(), receiving=True)
    p.call(rank, "start", p.copy(), q=slot)
    mark(p, rank)
    p.call(rank, "start", p.copy(), q=slot)
    other_end()
    p.call(rank, "wait", p.copy(), q=slot)
    p.call(rank, "request_free", p.copy(), q=slot)
    return request_error(rank)


@fault("never_started")
def never_started(p):
    comm, source, target = drawn_ends(p)
    rank, slot, _ = persistent_end(p, comm, source, target, p.tag(), p.random.random() < 0.5)
    mark(p, rank)
    phases.wait(p, rank, slot, 1)
    p.call(rank, "request_free", p.copy(), q=slot)
    return request_error(rank)


@fault("started_never_waited")
def started_never_waited(p):
    comm, source, target = drawn_ends(p)
    rank, slot, other_end = persistent_end(p, comm, source, target, p.tag(), p.random.random() < 0.5)
    mark(p, rank)
    p.call(rank, "start", p.copy(), q=slot)
    other_end()
    return request_error(rank, leaks=True)


@fault("started_what_is_not_persistent")
def started_what_is_not_persistent(p):
    comm, source, target = drawn_ends(p)
    ranks, slots = begun(p, comm, source, target, p.tag(), {"n": 1}, "receiver")
    mark(p, ranks[0])
    p.call(ranks[0], "start", p.copy(), q=slots[0])
    for rank, slot in zip(ranks, slots):
        p.call(rank, "wait", p.copy(), q=slot)
    return request_error(ranks[0])


@fault("freed_collective")
def freed_collective(p):
    """Its request is given back while it is active: only messages may be left so."""
    comm, rank = somewhere(p)
    mark(p, rank)
    for other, call in phases.collective(p, comm, ("barrier", {})).items():
        call.fields["as"] = p.slot(other)
        if other == rank:
            p.call(other, "request_free", p.copy(), q=call.fields["as"])
        else:
            phases.wait(p, other, call.fields["as"], 1)
    return request_error(rank)


# ---- leaks

@fault("leaked_object", share=2)
def leaked_object(p):
    comm, rank = somewhere(p)
    mark(p, rank)
    p.call(rank, p.random.choice(("leak_group", "leak_type", "leak_operator")), p.copy(), c=comm.slot)
    return truth(resource_leak=culprits([rank]))


@fault("leaked_communicator")
def leaked_communicator(p):
    comm = p.random.choice(p.comms)
    for rank in comm.members:
        mark(p, rank)
    p.everybody(comm, "dup", p.copy(), to=phases.new_comm(p, ()).slot)
    return truth(resource_leak=culprits(comm.members))


@fault("leaked_communicator_of_one")
def leaked_communicator_of_one(p):
    """The others are no members."""
    comm, rank = somewhere(p)
    made = phases.new_comm(p, ())
    mark(p, rank)
    for other in comm.members:
        p.call(other, "split", 0, c=comm.slot, color=0 if other == rank else -1, key=0, to=made.slot)
    return truth(resource_leak=culprits([rank]))


@fault("leaked_request")
def leaked_request(p):
    comm, source, target = drawn_ends(p)
    rank, slot, other_end = persistent_end(p, comm, source, target, p.tag(), p.random.random() < 0.5)
    mark(p, rank)
    for _ in range(p.random.randint(1, 3)):
        p.call(rank, "start", p.copy(), q=slot)
        other_end()
        p.call(rank, "wait", p.copy(), q=slot)
    return truth(resource_leak=culprits([rank]))
