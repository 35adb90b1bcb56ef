"""Accesses to windows outside of epochs, epochs out of order, accesses that contradict one another.

A window is made, used rightly a few times, and then one rank does what it must not; two of them where they conflict.
"""

import windows
from cases import culprits
from faults import LIKELY, elsewhere, fault, mark, somewhere, truth


def used_window(p, least=2):
    """Of one communicator; no epoch is open."""
    comm, rank = somewhere(p, least)
    window = windows.new_window(p, comm)
    if p.random.random() < 0.5:
        windows.fence(p, comm, window, first=1)
        windows.round_of_fences(p, comm, window)
        windows.fence(p, comm, window, last=1)
    return comm, rank, window


def another(p, comm, rank):
    return p.random.choice([i for i in range(comm.size) if comm.members[i] != rank])


def access(p, rank, window, target, verb=None, **fields):
    verb = verb or p.random.choice(("put", "get", "accumulate"))
    p.call(rank, verb, p.copy(), w=window, to=target, **(windows.words(p) | fields))


def alone(name):
    """Register a plan (p, comm, rank, window, target) -> None of what one rank does between creation and freeing."""
    def add(plan):
        @fault(name)
        def planted(p):
            comm, rank, window = used_window(p)
            plan(p, comm, rank, window, another(p, comm, rank))
            windows.free_window(p, comm, window)
            return truth(epoch_error=culprits([rank]))
        return planted
    return add


@alone("access_without_epoch")
def access_without_epoch(p, comm, rank, window, target):
    mark(p, rank)
    access(p, rank, window, target)


@alone("access_after_last_fence")
def access_after_last_fence(p, comm, rank, window, target):
    windows.fence(p, comm, window)
    windows.round_of_fences(p, comm, window)
    windows.fence(p, comm, window, last=1)
    mark(p, rank)
    access(p, rank, window, target)


@alone("access_then_free")
def access_then_free(p, comm, rank, window, target):
    windows.fence(p, comm, window)
    access(p, rank, window, target)
    mark(p, rank)


@alone("access_outside_start_group")
def access_outside_start_group(p, comm, rank, window, target):
    me = comm.rank_of(rank)
    p.call(rank, "win_start", 0, c=comm.slot, w=window, members=target)
    mark(p, rank)
    access(p, rank, window, me)
    p.call(rank, "win_complete", 0, w=window)
    p.call(comm.members[target], "win_post", 0, c=comm.slot, w=window, members=me)
    p.call(comm.members[target], "win_wait", 0, w=window)


@alone("access_to_another_lock")
def access_to_another_lock(p, comm, rank, window, target):
    p.call(rank, "lock", 0, w=window, to=target)
    mark(p, rank)
    access(p, rank, window, comm.rank_of(rank))
    p.call(rank, "unlock", 0, w=window, to=target)


@alone("end_without_begin")
def end_without_begin(p, comm, rank, window, target):
    mark(p, rank)
    verb = p.random.choice(("unlock", "unlock_all", "flush", "win_complete", "win_wait"))
    p.call(rank, verb, p.copy(), w=window, to=target)


@alone("locked_twice")
def locked_twice(p, comm, rank, window, target):
    p.call(rank, "lock", 0, w=window, to=target)
    mark(p, rank)
    p.call(rank, "lock", 0, w=window, to=target)
    p.call(rank, "unlock", 0, w=window, to=target)


@alone("lock_in_fence_epoch")
def lock_in_fence_epoch(p, comm, rank, window, target):
    windows.fence(p, comm, window)
    access(p, rank, window, target)
    mark(p, rank)
    p.call(rank, "lock", 0, w=window, to=target)
    p.call(rank, "unlock", 0, w=window, to=target)
    windows.fence(p, comm, window, last=1)


@alone("fence_while_locked")
def fence_while_locked(p, comm, rank, window, target):
    p.call(rank, "lock", 0, w=window, to=target)
    mark(p, rank)
    windows.fence(p, comm, window)
    p.call(rank, "unlock", 0, w=window, to=target)


@alone("freed_while_locked")
def freed_while_locked(p, comm, rank, window, target):
    mark(p, rank)
    p.call(rank, "lock", 0, w=window, to=target)


@alone("request_in_fence_epoch")
def request_in_fence_epoch(p, comm, rank, window, target):
    windows.fence(p, comm, window)
    slot = p.slot(rank)
    mark(p, rank)
    access(p, rank, window, target, "rput", **{"as": slot})
    p.call(rank, "wait", 0, q=slot)
    windows.fence(p, comm, window, last=1)


@fault("never_unlocked")
def never_unlocked(p):
    """Nor is the window freed."""
    comm, rank, window = used_window(p)
    target = another(p, comm, rank)
    mark(p, rank)
    p.call(rank, "lock", 0, w=window, to=target)
    access(p, rank, window, target)
    p.call(rank, "flush", 0, w=window, to=target)
    return truth(epoch_error=culprits([rank]), resource_leak=culprits(comm.members))


@fault("skipped_fence")
def skipped_fence(p):
    comm, rank, window = used_window(p)
    windows.fence(p, comm, window)
    mark(p, rank)
    for other in comm.members:
        if other != rank:
            p.call(other, "fence", 0, w=window)
    windows.free_window(p, comm, window)
    return truth(**elsewhere(p, comm, rank))


# ---- two accesses to the same words

def overlapping(p):
    first = windows.words(p)
    begin = p.random.randint(max(0, first["at"] - 3), first["at"] + first["n"] - 1)
    end = p.random.randint(max(begin, first["at"]) + 1, min(windows.WORDS, begin + 12))
    return first, first | {"at": begin, "n": end - begin}


def conflict(p, verbs, most=None):
    comm, rank, window = used_window(p)
    target, other = p.random.randrange(comm.size), comm.members[another(p, comm, rank)]
    windows.fence(p, comm, window)
    mark(p, rank)
    for who, verb, where in zip((rank, other), verbs, overlapping(p)):
        operator = {"op": verb.split()[1]} if " " in verb else {}
        p.call(who, verb.split()[0], p.copy(), w=window, to=target, **where, **operator)
    windows.fence(p, comm, window, last=1)
    windows.free_window(p, comm, window)
    more = {"most": most} if most else {}
    return truth(epoch_error=culprits([rank, other]), **more)


@fault("conflicting_accesses", share=3)
def conflicting_accesses(p):
    verbs = p.random.choice((("put", "put"), ("put", "get"), ("put", "accumulate sum"), ("get", "accumulate sum")))
    return conflict(p, p.random.sample(verbs, 2))


@fault("conflicting_operators")
def conflicting_operators(p):
    """Where the window does not say that they may be mixed."""
    return conflict(p, p.random.sample(("accumulate sum", "accumulate max", "accumulate min"), 2), LIKELY)


@fault("own_conflict")
def own_conflict(p):
    comm, rank, window = used_window(p)
    target, locked = another(p, comm, rank), p.random.random() < 0.5
    if locked:
        p.call(rank, "lock", 0, w=window, to=target, alone=1)
    else:
        windows.fence(p, comm, window)
    mark(p, rank)
    verbs = p.random.choice((("put", "put"), ("put", "get"), ("get", "put")))
    for verb, where in zip(verbs, overlapping(p)):
        p.call(rank, verb, p.copy(), w=window, to=target, **where)
    if locked:
        p.call(rank, "unlock", 0, w=window, to=target)
    else:
        windows.fence(p, comm, window, last=1)
    windows.free_window(p, comm, window)
    return truth(epoch_error=culprits([rank]))


@fault("conflict_under_shared_locks")
def conflict_under_shared_locks(p):
    """Each in an epoch of its own; they meet in the middle of both."""
    comm, rank, window = used_window(p)
    target, other = p.random.randrange(comm.size), comm.members[another(p, comm, rank)]
    tag = p.tag()
    for who, peer, where in zip((rank, other), (other, rank), overlapping(p)):
        p.call(who, "lock", 0, w=window, to=target)
        mark(p, who)
        p.call(who, "put", 0, w=window, to=target, **where)
        p.call(who, "sendrecv", 0, c=comm.slot, to=comm.rank_of(peer), tag=tag, n=1, **{"from": comm.rank_of(peer)})
        p.call(who, "unlock", 0, w=window, to=target)
    windows.free_window(p, comm, window)
    return truth(LIKELY, epoch_error=culprits([rank, other]))


# ---- the window itself

@fault("wrong_window")
def wrong_window(p):
    comm, rank, window = used_window(p)
    way = p.random.choice(("gone", "null", "target"))
    if way == "target":
        windows.fence(p, comm, window)
        mark(p, rank)
        access(p, rank, window, comm.size + p.random.randrange(5))
        windows.fence(p, comm, window, last=1)
        windows.free_window(p, comm, window)
    else:
        p.everybody(comm, "win_free_copy" if way == "gone" else "win_free", 0, w=window)
        if way == "null":
            p.call(rank, "null_win", 0, w=window)
        mark(p, rank)
        access(p, rank, window, another(p, comm, rank))
    return truth(invalid_argument=culprits([rank]))


@fault("leaked_window")
def leaked_window(p):
    comm, rank, _ = used_window(p)
    mark(p, rank)
    return truth(resource_leak=culprits(comm.members))
