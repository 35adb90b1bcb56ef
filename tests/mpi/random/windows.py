"""Parts of correct programs that use windows. None waits for a lock that another rank may hold for itself alone, in which
MPICH 4.0.2 hangs by itself.
"""

WORDS = 64  # of each rank's memory


def new_window(p, comm):
    p.next_window += 1
    window = p.next_window
    p.everybody(comm, "win_create", p.copy(), w=window)
    return window


def free_window(p, comm, window):
    p.everybody(comm, "win_free", p.copy(), w=window)


def words(p, many=8):
    """A place and a length."""
    length = p.random.randint(1, many)
    return {"at": p.random.randrange(WORDS - length), "n": length, "t": "long"}


def fence(p, comm, window, **fields):
    p.everybody(comm, "fence", p.copy(), w=window, **fields)


def round_of_fences(p, comm, window):
    """Everybody puts to the next, or adds to one; or gets what was put."""
    size, value, where, step = comm.size, p.value(), words(p), p.random.randrange(1, comm.size)
    way = p.random.choice(("put", "get", "add"))
    sink = p.random.randrange(size)
    for i, rank in enumerate(comm.members):
        if way == "add":
            p.call(rank, "accumulate", 0, w=window, to=sink, v=value + 1000 * i, op="sum", **where)
        else:
            p.call(rank, "put", 0, w=window, to=(i + step) % size, v=value + 1000 * i, **where)
    fence(p, comm, window)
    for i, rank in enumerate(comm.members):
        if way == "put":
            p.call(rank, "expect_own", 0, w=window, v=value + 1000 * ((i - step) % size), **where)
        if way == "get":
            p.call(rank, "get", 0, w=window, to=(i + 1) % size, **where)
    fence(p, comm, window)
    if way == "get":
        for i, rank in enumerate(comm.members):
            p.call(rank, "expect_got", 0, w=window, v=value + 1000 * ((i + 1 - step) % size), **where)


def fences(p, comm=None):
    comm = comm or p.random.choice(p.common(2))
    window = new_window(p, comm)
    fence(p, comm, window, **p.random.choice(({}, {"first": 1})))
    for _ in range(p.random.randint(1, 3)):
        round_of_fences(p, comm, window)
    if p.random.random() < 0.5:
        fence(p, comm, window, last=1)
    free_window(p, comm, window)


def sums(p):
    """Into fresh memory, under locks that all share."""
    comm = p.random.choice(p.common(2))
    window, value, where = new_window(p, comm), p.value(), words(p)
    sink = p.random.randrange(comm.size)
    p.everybody(comm, "lock_all", 0, w=window)
    for i, rank in enumerate(comm.members):
        p.call(rank, "accumulate", 0, w=window, to=sink, v=value + 1000 * i, op="sum", **where)
        if p.random.random() < 0.5:
            p.call(rank, "flush", 0, w=window, to=sink)
    p.everybody(comm, "unlock_all", 0, w=window)
    p.everybody(comm, "barrier", p.copy())
    p.everybody(comm, "lock_all", 0, w=window)
    p.everybody(comm, "get", 0, w=window, to=sink, **where)
    p.everybody(comm, "unlock_all", 0, w=window)
    p.everybody(comm, "expect_got_sum", 0, w=window, v=value, op="sum", ranks=comm.size, **where)
    free_window(p, comm, window)


def posted(p):
    """Everybody to the next, by post, start, complete and wait."""
    comm = p.random.choice(p.common(2))
    window, size = new_window(p, comm), comm.size
    for _ in range(p.random.randint(1, 3)):
        value, where = p.value(), words(p)
        for i, rank in enumerate(comm.members):
            before, after = (i - 1) % size, (i + 1) % size
            p.call(rank, "win_post", 0, c=comm.slot, w=window, members=before)
            p.call(rank, "win_start", 0, c=comm.slot, w=window, members=after)
            p.call(rank, "put", 0, w=window, to=after, v=value + 1000 * i, **where)
            p.call(rank, "win_complete", 0, w=window)
            p.call(rank, "win_wait", 0, w=window, **p.random.choice(({}, {"test": 1})))
            p.call(rank, "expect_own", 0, w=window, v=value + 1000 * before, **where)
    free_window(p, comm, window)


PHASES = ((fences, 1), (sums, 0.5), (posted, 0.5))
