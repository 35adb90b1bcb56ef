"""The parts that correct programs are made of. Each leaves behind nothing but what stands in `program.pending`, so that
any of them may follow any other; no result depends on who is faster.
"""

import windows

LARGE = 20000  # elements: beyond what any MPI takes into a buffer

# The same sequence of basic types, told in several ways: (datatype, elements of it for each element of the first).
SAME = (
    (("int", 2), ("int2", 1), ("strided", 1), ("wide", 2)),
    (("double", 2), ("double2", 1)),
    (("pair", 1), ("other", 1)),
    (("char", 1),), (("long", 1),), (("float", 1),), (("byte", 1),), (("short", 1),),
)
SUMMED = ("int", "double", "long", "float", "short")
ROOTED = ("bcast", "reduce", "gather", "gatherv", "scatter", "scatterv")
REDUCING = ("reduce", "allreduce", "scan", "exscan", "reduce_scatter", "reduce_scatter_block")
# Nobody comes back before all have come, whatever the implementation.
SYNCHRONIZING = ("barrier", "allreduce", "allgather", "alltoall", "allgatherv", "alltoallv", "alltoallw")
PAIRED = ("gather", "allgather", "scatter", "alltoall")  # both sides may have a type of their own
UNEVEN = ("gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw")
IN_PLACE = ("reduce", "allreduce", "scan", "allgather")
COLLECTIVES = ("barrier", "bcast", "reduce", "allreduce", "scan", "exscan", "reduce_scatter", "reduce_scatter_block",
               "gather", "gatherv", "allgather", "allgatherv", "scatter", "scatterv", "alltoall", "alltoallv",
               "alltoallw")


def idle(p, share=0.3):
    """Some ranks are late."""
    for rank in range(p.ranks):
        if p.random.random() < share:
            p.call(rank, p.random.choice(("compute", "rest")), us=p.random.randrange(3000))


# ---- collectives

def drawn_collective(p, comm, verbs=COLLECTIVES):
    """What everybody says of it: verb, fields."""
    verb = p.random.choice(verbs)
    if verb == "barrier":
        return verb, {}
    fields = {"v": p.value(), "n": p.random.choice((1, 2, 3, 5, 8, 16, 100))}
    if verb in ROOTED:
        fields["root"] = p.random.randrange(comm.size)
    if verb in REDUCING:
        fields["t"] = p.random.choice(SUMMED)
        operators = ["sum", "max", "min", "user"] + (["bor"] if fields["t"] in ("int", "long", "short") else [])
        fields["op"] = p.random.choice(operators)
    else:
        fields["t"] = p.random.choice(p.random.choice(SAME))[0]
    if verb in IN_PLACE and p.random.random() < 0.3:
        fields["place"] = 1
    return verb, fields


def as_one_sees_it(p, verb, fields):
    """One rank's own types for the same values."""
    if verb not in PAIRED + ("bcast",) or "place" in fields:
        return fields
    ways = next((ways for ways in SAME if fields["t"] in [name for name, _ in ways]), None)
    each = dict(ways)
    basics = fields["n"] * max(each.values()) // each[fields["t"]]
    basics -= basics % max(each.values())
    if basics == 0 or len(ways) == 1 or fields["n"] * max(each.values()) % each[fields["t"]]:
        return fields
    seen = dict(fields)
    whole = basics // max(each.values())  # in elements of the largest
    if verb == "bcast":
        seen["t"] = p.random.choice(list(each))
        seen["n"] = whole * each[seen["t"]]
    else:
        seen["rt"] = p.random.choice(list(each))
        seen["rn"] = whole * each[seen["rt"]]
    return seen


def fitting(verb, fields):
    """A number of elements that every way of SAME can express."""
    each = next((dict(ways) for ways in SAME if fields.get("t") in dict(ways)), None)
    if verb in PAIRED + ("bcast",) and each and len(each) > 1:
        fields = fields | {"n": fields["n"] * each[fields["t"]]}
    return fields


def collective(p, comm=None, drawn=None, copy=None):
    """One collective of all members; the calls, by rank."""
    comm = comm or p.random.choice(p.comms)
    verb, fields = drawn or drawn_collective(p, comm)
    fields = fitting(verb, fields)
    copy = p.copy() if copy is None else copy
    other_types = p.random.random() < 0.3
    return {rank: p.call(rank, verb, copy, c=comm.slot,
                         **(as_one_sees_it(p, verb, fields) if other_types else fields)) for rank in comm.members}


def nonblocking_collectives(p, comms=None, many=None):
    """Some begin, on one or more communicators; each rank waits for them in its own way, now or later."""
    started = {}
    for _ in range(many or p.random.randint(1, 3)):
        comm = p.random.choice(comms or p.comms)
        calls = collective(p, comm)
        for rank, call in calls.items():
            slot = p.slot(rank)
            call.fields["as"] = slot
            started.setdefault(rank, []).append(slot)
    idle(p)
    finish_or_leave(p, started)


# ---- completion

def wait(p, rank, first, many):
    way = p.random.choice(("waitall", "waitany", "waitsome", "testall", "testany", "testsome", "one by one"))
    if way != "one by one":
        p.call(rank, way, p.copy(), q=first, k=many)
        return
    for slot in p.random.sample(range(first, first + many), many):
        p.call(rank, p.random.choice(("wait", "wait", "test")), p.copy(), q=slot, k=1)


def finish_or_leave(p, started):
    """started: slots by rank, one after the other. The same later for everybody, or nobody."""
    later = p.random.random() < 0.3
    for rank, slots in sorted(started.items()):
        if later:
            p.pending.append((rank, slots[0], len(slots)))
        else:
            wait(p, rank, slots[0], len(slots))


def finish_pending(p):
    for rank, first, many in p.pending:
        wait(p, rank, first, many)
    p.pending.clear()


# ---- messages

def drawn_content(p, large=0.1):
    """What is sent and how it is received: two sets of fields."""
    ways = p.random.choice(SAME)
    if p.random.random() < large:
        ways, many = SAME[0], LARGE
    else:
        many = p.random.choice((0, 1, 1, 2, 3, 4, 10, 50))
    (sent, each), (received, each_received) = p.random.choice(ways), p.random.choice(ways)
    value = p.value()
    out = {"t": sent, "n": many * each, "v": value}
    into = {"t": received, "n": many * each_received, "v": value}
    if p.random.random() < 0.2:
        into |= {"g": into["n"], "n": into["n"] + p.random.randint(1, 9)}  # more room than comes
    return out, into


def two_of(p, comm):
    return p.random.sample(range(comm.size), 2)


def bytes_of(fields):
    return 16 * fields["n"] + 1024


def send(p, comm, source, target, tag, out, modes=("send", "send", "ssend", "bsend")):
    mode = p.random.choice(modes)
    if "bsend" in mode:
        if out["n"] > 1000:
            mode = "send" if mode == "bsend" else "isend"
        else:
            p.buffered += bytes_of(out)
    return p.call(comm.members[source], mode, p.copy(), c=comm.slot, to=target, tag=tag, **out)


def receive(p, comm, source, target, tag, into):
    """Blocking, one way or another."""
    verb = p.random.choice(("recv", "recv", "recv", "probe", "iprobe", "mprobe", "improbe"))
    fields = {"c": comm.slot, "from": source, "tag": tag, **into}
    if "mprobe" in verb and p.random.random() < 0.5:
        fields["i"] = 1
    if "g" in fields and verb in ("probe", "iprobe"):
        fields["n"] = fields["g"]
    if verb in ("recv", "probe") and p.random.random() < 0.15:
        fields["tag"] = -1  # messages of one sender come in order
    return p.call(comm.members[target], verb, p.copy(), **fields)


def messages_in_order(p):
    """Blocking calls along one order of all messages: none waits for a later one."""
    comm = p.random.choice(p.common(2))
    for _ in range(p.random.randint(1, 4)):
        source, target = two_of(p, comm)
        out, into = drawn_content(p)
        tag = p.tag()
        send(p, comm, source, target, tag, out)
        receive(p, comm, source, target, tag, into)


def messages_at_once(p):
    """Receives first, then sends, then what ends them."""
    comm = p.random.choice(p.common(2))
    plan = []
    for _ in range(p.random.randint(1, 2 * comm.size)):
        source, target = two_of(p, comm)
        plan.append((source, target, p.tag(), *drawn_content(p)))
    started = {}
    for source, target, tag, _, into in plan:
        rank = comm.members[target]
        slot = p.slot(rank)
        p.call(rank, "irecv", p.copy(), **{"c": comm.slot, "from": source, "tag": tag, **into, "as": slot})
        started.setdefault(rank, []).append(slot)
    idle(p, 0.1)
    for source, target, tag, out, _ in plan:
        rank = comm.members[source]
        call = send(p, comm, source, target, tag, out, ("send", "isend", "isend", "issend", "ibsend"))
        if call.verb != "send":
            call.fields["as"] = p.slot(rank)
            started.setdefault(rank, []).append(call.fields["as"])
    finish_or_leave(p, started)


def ready_message(p):
    """The receiver says that its receive stands."""
    comm = p.random.choice(p.common(2))
    source, target = two_of(p, comm)
    out, into = drawn_content(p)
    tag, token = p.tag(), p.tag()
    receiver, sender = comm.members[target], comm.members[source]
    slot = p.slot(receiver)
    p.call(receiver, "irecv", p.copy(), **{"c": comm.slot, "from": source, "tag": tag, **into, "as": slot})
    p.call(receiver, "send", p.copy(), c=comm.slot, to=source, tag=token, n=0)
    p.call(sender, "recv", p.copy(), **{"c": comm.slot, "from": target, "tag": token, "n": 0})
    p.call(sender, "rsend", p.copy(), c=comm.slot, to=target, tag=tag, **out)
    wait(p, receiver, slot, 1)


def ring(p):
    """Everybody to the next: by MPI_Sendrecv, or with receives first."""
    comm = p.random.choice(p.comms)
    size, tag = comm.size, p.tag()
    kind, many, value = p.random.choice(("int", "double", "pair")), p.random.choice((1, 4, 30)), p.value()
    closed, verb = p.random.random() < 0.6, p.random.choice(("sendrecv", "sendrecv", "sendrecv_replace"))
    copy = p.copy()
    for i, rank in enumerate(comm.members):
        fields = {"c": comm.slot, "tag": tag, "t": kind, "n": many, "v": value + 1000 * i}
        if closed or i + 1 < size:
            fields["to"] = (i + 1) % size
        if closed or i > 0:
            fields |= {"from": (i + size - 1) % size, "rv": value + 1000 * ((i + size - 1) % size)}
        p.call(rank, verb, copy, **fields)


def halo(p):
    """Both neighbours, nobody beyond the ends of an open line."""
    comm = p.random.choice(p.comms)
    size, closed, large = comm.size, p.random.random() < 0.5, p.random.random() < 0.15
    many, value, tags, copy = LARGE if large else p.random.choice((1, 6, 40)), p.value(), (p.tag(), p.tag()), p.copy()
    way = p.random.choice(("waitall", "waitall", "waitsome", "testall", "waitany"))
    for i, rank in enumerate(comm.members):
        first = p.slot(rank, 4)
        for side, step in enumerate((-1, 1)):
            there = closed or 0 <= i + step < size
            peer = (i + step) % size
            common = {"c": comm.slot, "t": "double", "n": many}
            p.call(rank, "irecv", copy, **common, **({"from": peer} if there else {}), tag=tags[1 - side],
                   v=value + 1000 * peer, **{"as": first + side})
        for side, step in enumerate((-1, 1)):
            there = closed or 0 <= i + step < size
            common = {"c": comm.slot, "t": "double", "n": many}
            p.call(rank, "isend", copy, **common, **({"to": (i + step) % size} if there else {}), tag=tags[side],
                   v=value + 1000 * i, **{"as": first + 2 + side})
        p.call(rank, way, copy, q=first, k=4)


def funnel(p):
    """One receives from whoever comes; what it makes of them does not depend on their order."""
    comm = p.random.choice(p.common(2))
    sink, tag, value, many = p.random.randrange(comm.size), p.tag(), p.value(), p.random.choice((1, 2, 20))
    senders = p.random.sample([i for i in range(comm.size) if i != sink], p.random.randint(1, comm.size - 1))
    rank, copy = comm.members[sink], p.copy()
    begun = p.random.random() < 0.4
    verb = p.random.choice(("recv", "probe", "mprobe", "improbe"))
    wanted = {"c": comm.slot, "from": -1, "tag": tag, "n": many, "v": value, "any": 1}
    first = p.slot(rank, len(senders)) if begun else None
    for i in range(len(senders)):
        if begun:
            p.call(rank, "irecv", copy, **wanted, **{"as": first + i})
    for sender in senders:
        p.call(comm.members[sender], p.random.choice(("send", "ssend")), p.copy(), c=comm.slot, to=sink, tag=tag, n=many,
               v=value + 1000 * sender)
    if begun:
        wait(p, rank, first, len(senders))
    else:
        for _ in senders:
            p.call(rank, verb, copy, **wanted)


def first_comer(p):
    """Whoever comes first by wildcard, all others by name."""
    comm = p.random.choice(p.common(3) or p.common(2))
    sink, tag, value, many = p.random.randrange(comm.size), p.tag(), p.value(), p.random.choice((1, 2, 20))
    others = [i for i in range(comm.size) if i != sink]
    senders = sorted(p.random.sample(others, p.random.choice((min(2, len(others)), len(others)))))
    for sender in senders:
        p.call(comm.members[sender], p.random.choice(("send", "ssend")), p.copy(), c=comm.slot, to=sink, tag=tag, n=many,
               v=value + 1000 * sender)
    p.call(comm.members[sink], "first_comer", p.copy(), c=comm.slot, tag=tag, n=many, v=value,
           senders="".join(map(str, senders)), any=1, **{"from": -1})


def only_candidate(p):
    """Any source, any tag, and one message that it can be."""
    comm = p.random.choice(p.common(2))
    source, target = two_of(p, comm)
    out, into = drawn_content(p)
    p.everybody(comm, "barrier", p.copy())
    send(p, comm, source, target, p.tag(), out)
    p.call(comm.members[target], p.random.choice(("recv", "probe", "mprobe")), p.copy(),
           **{"c": comm.slot, "from": -1, "tag": -1, **into, "n": into["n"] if "g" not in into else into["g"]})
    p.everybody(comm, "barrier", p.copy())


def persistent(p):
    comm = p.random.choice(p.common(2))
    source, target = two_of(p, comm)
    sender, receiver, rounds = comm.members[source], comm.members[target], p.random.randint(1, 4)
    many, tags, value = p.random.randint(1, 3), [], p.value()
    first_out, first_in = p.slot(sender, many), p.slot(receiver, many)
    mode, copy = p.random.choice(("send_init", "ssend_init", "bsend_init")), p.copy()
    for i in range(many):
        tags.append(p.tag())
        content = {"t": "int", "n": 5 + i, "v": value}
        p.call(sender, mode, copy, c=comm.slot, to=target, tag=tags[i], **content, **{"as": first_out + i})
        p.call(receiver, "recv_init", copy, **{"c": comm.slot, "from": source, "tag": tags[i], **content,
                                               "as": first_in + i})
        p.buffered += rounds * 2048
    for _ in range(rounds):
        for rank, first in ((sender, first_out), (receiver, first_in)):
            if p.random.random() < 0.5:
                p.call(rank, "startall", copy, q=first, k=many)
            else:
                for i in range(many):
                    p.call(rank, "start", copy, q=first + i)
            p.call(rank, p.random.choice(("waitall", "testall", "waitsome")), copy, q=first, k=many)
    for rank, first in ((sender, first_out), (receiver, first_in)):
        p.call(rank, "request_free", copy, q=first, k=many)


def with_oneself(p):
    comm = p.random.choice(p.comms)
    rank, tag = p.random.choice(comm.members), p.tag()
    me = comm.rank_of(rank)
    out, into = drawn_content(p, 0)
    slot = p.slot(rank)
    p.call(rank, "irecv", p.copy(), **{"c": comm.slot, "from": me, "tag": tag, **into, "as": slot})
    send(p, comm, me, me, tag, out, ("send", "ssend", "bsend"))
    wait(p, rank, slot, 1)


def given_up(p):
    """A receive that is cancelled, a send whose request is given back before it is done."""
    comm = p.random.choice(p.common(2))
    source, target = two_of(p, comm)
    rank, sender, tag = comm.members[target], comm.members[source], p.tag()
    slot = p.slot(rank)
    p.call(rank, "irecv", p.copy(), **{"c": comm.slot, "from": source, "tag": p.tag(), "n": 4, "as": slot})
    p.call(rank, "cancel", p.copy(), q=slot)
    p.call(rank, "wait_cancelled", p.copy(), q=slot)
    value, slot = p.value(), p.slot(sender)
    p.call(sender, "isend", p.copy(), c=comm.slot, to=target, tag=tag, n=3, v=value, **{"as": slot})
    p.call(sender, "request_free", p.copy(), q=slot)
    p.call(rank, "recv", p.copy(), **{"c": comm.slot, "from": source, "tag": tag, "n": 3, "v": value})


def neighbours(p):
    grids = [comm for comm in p.comms if comm.grid]
    if not grids:
        return
    comm = p.random.choice(grids)
    verb, fields = p.random.choice(("neighbour_allgather", "neighbour_alltoall")), {"n": p.random.randint(1, 9)}
    if p.random.random() < 0.4:
        started = {rank: [p.slot(rank)] for rank in comm.members}
        value = p.value()
        for rank in comm.members:
            p.call(rank, verb, 0, c=comm.slot, v=value, **fields, **{"as": started[rank][0]})
        finish_or_leave(p, started)
    else:
        p.everybody(comm, verb, p.copy(), v=p.value(), **fields)


# ---- communicators

MOST_COMMS = 6


def new_comm(p, members, grid=()):
    from program import Comm
    comm = Comm(p.next_comm, tuple(members), grid)
    p.next_comm += 1
    return comm


def grid_of(p, size):
    if p.random.random() < 0.5:
        return (size,)
    first = p.random.choice([i for i in range(1, size + 1) if size % i == 0])
    return (first, size // first)


def split(p, parent):
    colors = {rank: p.random.choice((-1, 0, 1, 1, 2)) for rank in parent.members}
    keys = {rank: p.random.randrange(4) for rank in parent.members}
    made, copy = {}, p.copy()
    for color in sorted(set(colors.values())):
        members = sorted((rank for rank in parent.members if colors[rank] == color),
                         key=lambda rank: (keys[rank], parent.rank_of(rank)))
        made[color] = new_comm(p, members)
    for rank in parent.members:
        p.call(rank, "split", copy, c=parent.slot, color=colors[rank], key=keys[rank], to=made[colors[rank]].slot)
    return [comm for color, comm in made.items() if color >= 0]


def some_members(p, parent):
    return p.random.sample(range(parent.size), p.random.randint(1, parent.size))


def create(p, parent, verb):
    chosen = some_members(p, parent)
    comm = new_comm(p, [parent.members[i] for i in chosen])
    fields = {"c": parent.slot, "to": comm.slot, "members": "".join(map(str, chosen))}
    copy, tag = p.copy(), p.tag()
    for rank in comm.members if verb == "create_group" else parent.members:
        p.call(rank, verb, copy, **fields, **({"tag": tag} if verb == "create_group" else {}))
    return [comm]


def new_communicator(p):
    if len(p.comms) >= MOST_COMMS:
        return
    parent = p.random.choice(p.comms)
    verb = p.random.choice(("dup", "dup", "idup", "split", "split", "split_type", "cart", "create", "create_group"))
    if verb == "split":
        p.comms += split(p, parent)
        return
    if verb in ("create", "create_group"):
        p.comms += create(p, parent, verb)
        return
    grid = grid_of(p, parent.size) if verb == "cart" else ()
    comm = new_comm(p, parent.members, grid or (parent.grid if verb in ("dup", "idup") else ()))
    fields = {"to": comm.slot}
    if verb == "cart":
        fields |= {"dims": "".join(map(str, grid)), "periods": "".join(p.random.choice("01") for _ in grid)}
    calls = p.everybody(parent, verb, p.copy(), **fields)
    if verb == "idup":
        for rank, call in zip(parent.members, calls):
            call.fields["as"] = p.slot(rank)
            p.call(rank, "wait", p.copy(), q=call.fields["as"])
    p.comms.append(comm)


def communicator_gone(p):
    kept = [comm for comm in p.comms if comm.slot]
    if kept:
        finish_pending(p)
        comm = p.random.choice(kept)
        p.everybody(comm, "free", p.copy())
        p.comms.remove(comm)


# ---- whole programs

REPEATABLE = ((collective, 6), (nonblocking_collectives, 2), (messages_in_order, 3), (messages_at_once, 3), (ring, 2),
              (halo, 3), (funnel, 1), (first_comer, 1), (only_candidate, 1), (persistent, 1), (ready_message, 1), (with_oneself, 1),
              (neighbours, 2), (idle, 1)) + windows.PHASES
ALL = REPEATABLE + ((new_communicator, 4), (communicator_gone, 1), (given_up, 1), (finish_pending, 1))


def drawn(p, table):
    phases, weights = zip(*table)
    return p.random.choices(phases, weights)[0]


def loop(p):
    """The same again and again, from the same places."""
    body = [(drawn(p, REPEATABLE), p.random.randrange(1 << 30)) for _ in range(p.random.randint(1, 3))]
    kept = p.random
    for _ in range(kept.randint(2, 4)):
        for phase, seed in body:
            p.random = type(kept)(seed)
            phase(p)
    p.random = kept


def some(p, many):
    for _ in range(many):
        if p.random.random() < 0.2:
            loop(p)
        else:
            drawn(p, ALL)(p)


def close(p):
    """Every communicator is used once more, most of them, and freed."""
    finish_pending(p)
    for comm in p.random.sample(p.comms, len(p.comms)):
        if comm.slot:
            if p.random.random() < 0.6:
                collective(p, comm)
            p.everybody(comm, "free", p.copy())
    p.everybody(p.world, "barrier", p.copy())
    p.comms = [p.world]


def attach(p):
    """The buffer of MPI_Bsend, first and last of all."""
    if p.buffered:
        from program import Call
        for calls in p.calls:
            calls.insert(0, Call("attach", 0, {"n": p.buffered}))
            calls.append(Call("detach", 0, {}))
