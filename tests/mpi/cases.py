"""The truth about every MPI program here: what is wrong, who it is, how sure a verdict must be, how it ends by itself.

Written from the MPI standard and the contract alone. Kinds: the first is the best word, the others are as true.
"""

import dataclasses

ORDER = ("suspected", "likely", "certain")
HANGS, ENDS, FAILS = "hangs", "ends", "fails"  # alone: for ever; with status 0; with another status


@dataclasses.dataclass(frozen=True)
class Culprits:
    """All of `must`, and beyond them only ranks of `may`; never nobody."""
    must: frozenset
    may: frozenset

    def hold(self, named):
        named = set(named)
        return bool(named) and self.must <= named <= self.must | self.may

    def __str__(self):
        words = [f"all of {sorted(self.must)}"] if self.must else []
        return " and ".join(words + ([f"some of {sorted(self.may)}"] if self.may else []))


def culprits(must=(), may=()):
    return Culprits(frozenset(must), frozenset(may))


# Who it is, by the number of ranks. odd: the rank that the programs give the fault, partner: the one before it.

def odd(n):
    return n // 2


def partner(n):
    return odd(n) - 1


def partner_alone(n):
    return culprits([partner(n)])


def odd_alone(n):
    return culprits([odd(n)])


def minority(n):
    """The odd one out; of two that differ either may be, or both."""
    return culprits([odd(n)]) if n > 2 else culprits(may=[0, 1])


def root_alone(n):
    return culprits([0]) if n > 2 else culprits(may=[0, 1])


def either(n):
    """The two ends of a message: which of them is wrong no one can tell."""
    return culprits(may=[odd(n), partner(n)])


def with_the_next(n):
    return culprits(may=[odd(n), (odd(n) + 1) % n])


def either_with_root(n):
    return culprits(may=[0, odd(n)])


def pair(n):
    return culprits([odd(n), partner(n)])


def partner_at_least(n):
    return culprits([partner(n)], [odd(n)])


def everybody(n):
    return culprits(range(n))


def any_of_all(n):
    """The first that comes there may end the others."""
    return culprits(may=range(n))


def around_odd(n):
    """A cycle through the odd one and any of those that wait for it; of two either may be named."""
    return culprits([odd(n)] if n > 2 else (), range(n))


def odd_and_others(n):
    return culprits([odd(n)], range(n))


def odd_and_beside(n):
    """One of its neighbours may be named with it, where MPI ends the job before the other one has come."""
    return culprits([odd(n)], [odd(n) - 1, odd(n) + 1]) if n > 2 else culprits(may=[0, 1])


def three(n):
    return culprits(may=[odd(n), partner(n), (odd(n) + 1) % n])


@dataclasses.dataclass(frozen=True)
class Case:
    name: str             # FAMILY.CASE
    kinds: tuple = ()     # none: a clean program
    who: object = None
    least: object = "certain"  # a word, or such by MPI
    most: str = "certain"  # below it where waiting might yet help, as far as anybody outside can know
    alone: object = HANGS  # a word, several of them, or such by MPI
    ranks: tuple = (2, 4, 7)
    mpis: tuple = ("openmpi", "mpich")
    environment: tuple = ()
    of: str = ""          # whose case it is, where not FAMILY's
    tool: str = ""        # a tool of PMPI's is loaded "before" or "after" the library
    spawns: bool = False  # another job, whose run directory is the newer one
    outlived: tuple = ()  # on these MPIs under `ncclwatch run`: nobody of the job itself lives to tell

    def on(self, mpi):
        return dataclasses.replace(self, least=self.least[mpi]) if isinstance(self.least, dict) else self

    @property
    def clean(self):
        return not self.kinds

    @property
    def program(self):
        return self.of or self.name.split(".")[0]

    @property
    def argument(self):
        return self.name.split(".")[1]

    def endings(self, mpi):
        words = self.alone[mpi] if isinstance(self.alone, dict) else self.alone
        return (words,) if isinstance(words, str) else tuple(words)

    def may_hang(self, mpi):
        return HANGS in self.endings(mpi)

    def may_hang_watched(self, mpi):
        return self.may_hang(mpi) or ("NCCLWATCH_MPI_CHECKS", "sync") in self.environment


ANY = (HANGS, ENDS, FAILS)  # undefined: what comes of it is chance, or another thing with each number of ranks


def order(name, who=minority, kinds=("order_mismatch",), alone=ANY, **more):
    return Case(f"collectives.{name}", kinds, who, alone=alone, **more)


def argument(name, who=minority, alone=ANY, **more):
    return Case(f"collectives.{name}", ("argument_mismatch",), who, alone=alone, **more)


# A message that never comes is a cycle too where its sender waits in turn.
WAITS = ("point_to_point_mismatch", "deadlock")
NOT_JOINED = ("initialization_hang", "missing_participant")


def message(name, who=either, kinds=WAITS, family="messages", **more):
    return Case(f"{family}.{name}", kinds, who, **more)


def request(name, who=either, kinds=WAITS, **more):
    return message(name, who, kinds, "requests", **more)


def bad_argument(name, who=odd_alone, **more):
    return Case(f"arguments.{name}", ("invalid_argument",), who, alone=ANY, **more)


def life(name, kinds, who=odd_alone, alone=ANY, **more):
    return Case(f"lives.{name}", kinds, who, alone=alone, **more)


def epoch(name, who=odd_alone, kinds=("epoch_error",), alone=ANY, **more):
    return Case(f"rma.{name}", kinds, who, alone=alone, **more)


def file(name, who, kinds, alone=ANY, **more):
    return Case(f"files.{name}", kinds, who, alone=alone, **more)


def leak(name, who=odd_alone):
    return life(f"left_{name}", ("resource_leak",), who)


# In the run that went wrong it may be told by what it has led to.
def race(name, alone=ANY, **more):
    return Case(f"races.{name}", ("message_race", *WAITS), odd_and_others, alone=alone, ranks=(3, 4, 7), **more)


def ending(name, kinds=("dead_rank",), who=odd_alone, alone=FAILS, **more):
    return Case(f"endings.{name}", kinds, who, alone=alone, outlived=("mpich",), **more)


# Of several kills within a millisecond the first is known; whether one came of the other is not always.
KILLED = {"openmpi": "certain", "mpich": "likely"}


def communicator(name, kinds, who=odd_alone, **more):
    return Case(f"communicators.{name}", kinds, who, **more)


def clean(program, *names, ranks=(2, 4, 7)):
    return [Case(f"clean_{program}.{name}", alone=ENDS, ranks=ranks) for name in names]


# MPICH ends the job over two ranks' amounts before the others have said theirs.
HURRIED = {"openmpi": "certain", "mpich": "likely"}

COLLECTIVES = [
    order("missing", odd_alone, ("missing_participant",), HANGS, least="likely", most="likely"),
    order("skipped"),
    order("one_round_less"),
    order("last_skipped", odd_alone, ("missing_participant",), ENDS, ranks=(2, 7)),  # of MPICH others wait with 4
    order("left_for_finalize", odd_alone, ("missing_participant", "early_exit"), least="likely"),
    order("order_swap"),
    order("allreduce_reduce"),
    order("barrier_bcast"),
    order("scan_exscan"),
    order("ireduce_reduce"),
    order("nonblocking_order"),
    order("two_communicators", around_odd, ("deadlock",), HANGS),
    order("duplicate", around_odd, ("deadlock", "missing_participant"), HANGS),
    argument("bcast_root"),
    argument("reduce_root"),
    argument("reduction"),
    argument("allreduce_count"),
    # MPICH ends the job over it when the root and the odd one alone may have come.
    argument("bcast_count", lambda n: odd_and_others(n) if n > 2 else minority(n), least=HURRIED),
    argument("zero_count"),
    argument("datatype"),
    argument("bcast_signature"),
    argument("gather_send_count"),
    argument("gather_receive_count", root_alone),
    argument("gatherv_pair", either_with_root),
    argument("scatterv_pair", either_with_root),
    argument("allgatherv_pair"),
    argument("alltoallv_pair", either, least=HURRIED),
    argument("gatherv_signature", either_with_root, ENDS),
    argument("igatherv_pair", either),
    argument("scatterv_root", root_alone),
    argument("alltoallv_rank"),
    argument("alltoallw_pair", either, least=HURRIED),
    argument("ialltoallv_pair", either, least=HURRIED),
    argument("gatherv_init_pair", either_with_root, mpis=("mpich",)),
    argument("neighbour_count", odd_and_beside, least=HURRIED),
    argument("neighbour_pair", with_the_next, least=HURRIED),
    argument("neighbour_edge", either),
    argument("ineighbour_signature", alone=ENDS),
    argument("neighbour_init_pair", with_the_next, mpis=("mpich",), least=HURRIED),
    argument("allreduce_init_count", mpis=("mpich",)),
    order("missing_between", odd_alone, ("missing_participant",), HANGS, least="likely", most="likely"),
    order("order_between"),
    order("one_more_at_the_end", odd_alone, alone=ENDS, ranks=(4, 7), mpis=("openmpi",)),
    order("missing_at_the_end", odd_alone, ("missing_participant",), HANGS, least="likely", most="likely"),
]

MESSAGES = [
    message("receive_without_send", least="likely"),
    message("sender_asleep", partner_at_least, ("point_to_point_mismatch", "missing_participant"), least="suspected",
            most="likely"),
    message("tag"),
    message("communicator"),
    message("source", three, ranks=(3, 4, 7)),
    message("target", three, ranks=(3, 4, 7)),
    message("probe"),
    message("sendrecv_alone", least="likely"),
    message("send_left_out", partner_alone, ("point_to_point_mismatch",), least="likely", most="likely"),
    message("receive_too_often", odd_alone, ("point_to_point_mismatch",), least="likely", most="likely"),
    message("truncation", kinds=("point_to_point_mismatch",), alone=FAILS),
    message("signature", kinds=("point_to_point_mismatch",), alone=ENDS),
    message("signature_of_pairs", kinds=("point_to_point_mismatch",), alone=ENDS),
    message("signature_order", kinds=("point_to_point_mismatch",), alone=ENDS),
    message("send_send", pair, ("deadlock",)),
    message("send_send_eager", pair, ("deadlock",), least="likely", most="likely", alone=ENDS,
            environment=(("NCCLWATCH_MPI_CHECKS", "sync"),)),
    message("receive_receive", pair, ("deadlock",)),
    message("receive_ring", everybody, ("deadlock",)),
    message("ssend_ring", everybody, ("deadlock",)),
    message("wildcard_cycle", around_odd, ("deadlock",)),
    message("barrier_receive", pair, ("deadlock",)),
    message("collectives_and_message", pair, ("deadlock",)),
    message("sends_to_itself", odd_alone, ("deadlock",)),
    message("receives_from_itself", odd_alone, ("deadlock",)),
    message("receive_receive_between", pair, ("deadlock",)),
    message("truncation_between", kinds=("point_to_point_mismatch",), alone=FAILS),
    message("crossed_tags", pair, ("deadlock",)),
]

REQUESTS = [
    request("waitall", least="likely"),
    request("waitany", least="likely"),
    request("waitsome", least="likely"),
    request("wait_tag"),
    request("test_loop", kinds=(*WAITS, "missing_participant"), least="suspected", most="likely"),
    request("issend_wait", least="likely"),
    request("persistent", least="likely"),
    request("persistent_cycle", pair, ("deadlock",)),
    request("nonblocking_missing", around_odd, ("deadlock", "missing_participant"), least="likely"),
]

# Where it was gone before the others came to wait for it, it is that it left MPI open.
EARLY = ("early_exit", "missing_finalize")

ENDINGS = [
    ending("exit_0", EARLY, alone=(ENDS, FAILS)),
    ending("exit_3"),
    ending("exit_handlers"),
    ending("leaves_main", EARLY, alone=(ENDS, FAILS)),
    ending("abort"),
    ending("kill_9", least=KILLED),
    ending("null_pointer"),
    ending("errors_are_fatal", ("dead_rank", "library_error"), least="likely"),
    ending("mpi_abort", ("dead_rank", "early_exit", "library_error")),
    ending("stopped", ("frozen_process",), alone=HANGS, least="suspected", most="likely"),
    ending("endless_loop", ("missing_participant",), alone=HANGS, least="likely", most="likely"),
    ending("killed_in_a_message", least=KILLED),
    ending("one_without_finalize", ("missing_finalize", "early_exit"), alone=ANY),
    ending("all_without_finalize", ("missing_finalize",), any_of_all, alone=(ENDS, FAILS)),
]

RACES = [
    race("named_after_wildcard", least="likely"),  # the message may say whose it is
    race("status_asked", least="likely"),
    race("both_called_before"),
    race("other_size"),
    race("other_type"),
    race("any_tag", least="likely"),
    race("probed_wildcard", least="likely"),
    race("never_received", least="likely", alone=ENDS),
    race("broadcast_between", least="likely"),
    race("phases", least="likely"),
    race("takes_the_wrong_one", alone=HANGS),
    race("takes_the_wrong_one_at_the_end", least="likely", alone=HANGS),
    race("takes_the_wrong_one_of_all", alone=HANGS),
    *(race(name, alone=HANGS, least="likely", most="likely")
      for name in ("takes_both_together", "takes_both_in_a_ring")),
]

COMMUNICATORS = [
    communicator("split_missing", NOT_JOINED, least="likely", most="likely"),
    communicator("split_into_none_missing", NOT_JOINED, least="likely", most="likely"),
    communicator("split_into_none_cycle", ("deadlock",), around_odd, least="likely"),
    communicator("dup_missing", NOT_JOINED, least="likely", most="likely"),
    communicator("idup_missing", NOT_JOINED, least="likely", most="likely"),
    communicator("create_group_missing", NOT_JOINED, least="likely", most="likely"),
    communicator("merge_missing", NOT_JOINED, least="likely", most="likely"),
    communicator("split_barrier", ("order_mismatch",), minority, alone=ANY),
    communicator("dup_other_parent", ("deadlock", *NOT_JOINED), around_odd, alone=ANY),
    communicator("other_order", ("order_mismatch",), minority, alone=ANY),
    communicator("group_order", ("argument_mismatch", "deadlock", *NOT_JOINED), around_odd),
    communicator("dup_before_barrier", ("order_mismatch",), minority, alone=ANY),
    communicator("window_before_dup", ("order_mismatch",), odd_alone, alone=ANY, ranks=(4, 7)),
    communicator("dup_cart", ("order_mismatch",), minority, alone=ANY),
    communicator("sub_communicator", ("missing_participant",), least="likely", most="likely", ranks=(4, 7)),
    communicator("free_missing", ("order_mismatch", "resource_leak", "missing_participant"), minority,
                 least="likely", alone=ANY),  # MPI_Finalize may call what frees it
    *(communicator(name, ("argument_mismatch",), minority, alone=ANY) for name in (
        "cart_dims", "cart_periods", "cart_ndims", "cart_reorder", "graph_edges", "split_type", "create_other",
        "create_group_tag")),
    *(communicator(name, ("argument_mismatch",), minority, alone=ANY, least="likely", most="likely")
      for name in ("cart_sub", "dist_graph_reorder")),
    communicator("create_group_other", ("argument_mismatch",), minority, alone=ANY, ranks=(4, 7)),
    communicator("intercomm_leader", ("argument_mismatch",), minority, alone=ANY, ranks=(4, 7)),
    communicator("intercomm_tag", ("argument_mismatch",), lambda n: culprits(may=[0, odd(n)]), alone=ANY),
]

ARGUMENTS = [
    *(bad_argument(name) for name in (
        "peer_out_of_range", "negative_tag", "negative_count", "root_out_of_range", "null_communicator",
        "null_type", "uncommitted_type", "null_buffer", "null_sent", "same_buffer",
        "overlapping_exchange", "null_operator", "free_predefined", "free_twice", "negative_color",
        "negative_window",
        "gathered_from_where_it_goes", "negative_block", "negative_part", "null_group",
        "in_place_of_a_broadcast", "group_rank", "group_rank_twice", "group_range", "grid_too_large", "grid_negative",
        "graph_node", "distributed_node", "null_message", "cancel_null", "no_room_attached", "negative_blocks")),
    bad_argument("attached_twice", mpis=("mpich",)),  # Open MPI returns an error, whatever its handler, and goes on
    *(Case(f"arguments.{name}", ("library_error",), odd_alone, alone=ANY) for name in ("no_communicator", "null_flag")),
    bad_argument("unlike_own_part", everybody, least="likely", most="likely"),
    Case("arguments.started_null", ("request_error",), odd_alone, alone=ANY),
    # Where MPI takes it, the handle may be another object's by now.
    bad_argument("freed_communicator", least="likely"),
    bad_argument("freed_type", least="likely"),
    bad_argument("bits_of_reals", any_of_all),
    bad_argument("sum_of_made_type", any_of_all),
    bad_argument("and_of_reals", any_of_all),
    bad_argument("free_type_twice", least="likely"),
    bad_argument("free_group_twice", least="likely"),
]

LIVES = [
    *(life(name, ("request_error",)) for name in (
        "never_waited", "overwritten", "collective_never_waited", "started_twice")),
    life("never_started", ("request_error",), least="likely", most="likely"),
    life("touched", ("request_error",), environment=(("NCCLWATCH_MPI_CHECKS", "buffers"),)),
    life("completed_twice", ("request_error",), least="likely"),
    life("listed_twice", ("request_error",)),
    life("awaited_after_free", ("request_error",), least="likely"),
    *(leak(name) for name in ("request", "communicator", "type", "operator", "group")),
    leak("window", everybody),
    life("before_init", ("invalid_argument",), any_of_all),
    life("size_before_init", ("invalid_argument",), any_of_all),
    life("after_finalize", ("invalid_argument",)),
    life("rank_after_finalize", ("invalid_argument",)),
    life("initialized_twice", ("invalid_argument",)),
]

WITH_BUFFERS = (("NCCLWATCH_MPI_CHECKS", "buffers"),)
BUFFERS = [
    *(Case(f"buffers.{name}", ("request_error",), odd_alone, alone=ANY) for name in (
        "two_receives", "same_column", "send_of_receive", "receive_into_send", "two_starts", "broadcast_into_send",
        "sum_of_receive", "two_collectives", "received_among_gathered", "got_into_receive",
        "got_twice", "sent_while_got")),
    *(Case(f"buffers.{name}", ("request_error",), odd_alone, alone=ANY, environment=WITH_BUFFERS) for name in (
        "touched_receive", "touched_where_nothing_came", "touched_before_test", "touched_persistent",
        "touched_persistent_send", "touched_sum", "touched_part_of_sum", "touched_in_place", "touched_put",
        "touched_accumulate", "touched_before_flush", "touched_before_flush_of_it", "touched_rput", "touched_added")),
    Case("buffers.touched_compared", ("request_error",), odd_alone, alone=ANY, environment=WITH_BUFFERS,
         mpis=("mpich",)),  # crashes in Open MPI 4.1.4 by itself
]

RMA = [
    *(epoch(name) for name in (
        "put_without_epoch", "put_after_last_fence", "put_then_free", "get_outside_start_group", "put_to_another_lock",
        "unlock_without_lock", "unlock_all_without_lock", "lock_twice", "flush_without_lock", "never_unlocked",
        "complete_without_start", "wait_without_post", "fence_while_locked", "lock_in_fence_epoch", "free_in_epoch",
        "request_in_fence_epoch", "flush_of_another", "locked_against_its_info", "preceded", "own_two_puts", "own_put_and_get")),
    *(epoch(name, pair) for name in ("put_put_conflict", "put_get_conflict", "accumulate_put_conflict")),
    # Whether anything orders them but luck nobody outside can know; operators may be mixed where the window says so.
    *(epoch(name, pair, least="likely", most="likely") for name in ("shared_locks", "accumulate_operators")),
    *(epoch(name, pair, least="likely", most="likely", environment=WITH_BUFFERS) for name in (
        "stored_and_got", "stored_beside_a_put")),
    epoch("missing_fence", minority, ("order_mismatch",)),
    epoch("asleep_before_fence", kinds=("missing_participant",), alone=HANGS, least="likely", most="likely"),
    epoch("missing_window", kinds=NOT_JOINED, alone=HANGS, least="likely", most="likely"),
    # Where MPI takes it, the handle may be another window's by now.
    epoch("freed_window", kinds=("invalid_argument",), least="likely"),
    epoch("null_window", kinds=("invalid_argument",)),
    epoch("target_out_of_range", kinds=("invalid_argument",)),
    epoch("unlike_target", kinds=("invalid_argument",)),
    epoch("past_the_end", kinds=("invalid_argument",)),
]

# An epoch that its partner does not open or close: a cycle, where the partner waits for others in turn.
UNANSWERED = ("epoch_error", "deadlock")


def partners(name, who=partner_at_least, kinds=UNANSWERED, alone=HANGS, **more):
    return Case(f"epochs.{name}", kinds, who, alone=alone, **more)


EPOCHS = [
    partners("start_without_post"),
    partners("started_once_more"),
    partners("start_at_the_end", least="likely"),
    partners("post_without_start"),
    partners("waits_before_starts", pair, ("deadlock",)),
    partners("never_completed", odd_alone, ("epoch_error",), alone=ANY),
    partners("posted_asleep", odd_alone, ("missing_participant",), least="likely", most="likely"),
    # MPICH 4.0.2 over UCX hangs in MPI_Win_lock by itself. A target that is busy may hold up as well as a lock.
    partners("locked_over_a_barrier", pair, ("deadlock",), least="likely", most="likely", mpis=("openmpi",)),
    partners("two_origins", pair, ("epoch_error",), alone=ANY, ranks=(3, 4, 7)),
]

THREADS = [
    Case("threads.another_thread", ("invalid_argument",), odd_alone, alone=ANY),
    Case("threads.at_once", ("invalid_argument",), odd_alone, alone=ANY),
    Case("threads.collectives_at_once", ("order_mismatch",), odd_alone, alone=ANY),
    Case("threads.forgotten_at_the_end", ("request_error",), odd_alone, alone=ANY),
    Case("threads.one_stuck", WAITS, either, least="likely", most="likely"),  # another thread may still send
]

FILES = [
    file("one_write_less", minority, ("order_mismatch",)),
    file("other_call", minority, ("order_mismatch",)),
    file("not_opened", minority, ("order_mismatch", *NOT_JOINED), least="likely"),
    file("asleep_before_sync", odd_alone, ("missing_participant",), HANGS, least="likely", most="likely"),
    file("left_open", odd_alone, ("resource_leak",)),
]

CLEAN_BUFFERS = ("columns", "gaps", "read_by_many", "parts", "reused", "freed", "in_place", "collectives", "neighbours",
                 "windows", "origins", "stores", "persistent", "nothing", "many")
CLEAN = [
    *clean("collectives", "rooted", "everybody", "pairs", "in_place", "in_place_uneven", "started", "started_uneven",
           "nonblocking", "zero_counts", "operators", "neighbours", "refused", "into_one_place"),
    *clean("messages", "held_back", "in_a_callback", "partly_in_callbacks"),
    *clean("messages", "modes", "large", "wildcards", "probes", "completions", "persistent", "freed_beside_others",
           "nobody", "cancelled", "tags", "errors_returned", "errors_handled", "between", "unstarted", "buffered"),
    *clean("messages", "threads", "threads_refused", ranks=(2, 4)),
    *clean("threads", "beside", "turns", "handed_on"),
    *clean("threads", "collectives", ranks=(2, 4)),
    *clean("communicators", "left_out", "made_meanwhile", "refused_alone", "freed_in_callbacks",
           "refused_in_callbacks", "freed_at_the_end"),
    *clean("communicators", "constructors", "create_group", "groups", "many", "at_a_time", "topologies", "between",
           "attributes", "own_arguments", "null_places"),
    *clean("races", "answers", "workers", "head_and_body", "rank_in_the_message", "several_open", "probed",
           "taken_by_probes", "tags_in_order"),
    *clean("races", "after_a_barrier", "after_other_collectives", "after_a_word", "after_a_send_that_waits",
           "only_one_sends", "named_before", "first_comer", ranks=(3, 4, 7)),
    *clean("types", "column_as_row", "structs", "pairs", "names", "blocks", "bytes", "empty", "rooted",
           "gathered_by_all", "exchanged", "often", "nested", "made_of_unseen"),
    Case("costs.many_requests", alone=ENDS, ranks=(2,)),
    *clean("rma", "fences", "unused_fences", "accumulates", "counters", "flushes", "groups", "requests",
           "shared", "dynamic", "many", "columns", "again", "halo", "in_turns"),
    *clean("files", "blocks", "views", "alone", "not_blocking", "not_there", "deleted"),
    *clean("buffers", *CLEAN_BUFFERS),
    *clean("buffers", "again"),
    *clean("buffers", "threads", ranks=(2, 4)),
    *(dataclasses.replace(case, name=case.name.replace("clean", "watched"), of="clean_buffers",
                          environment=WITH_BUFFERS) for case in clean("buffers", *CLEAN_BUFFERS)),
    # MPICH 4.0.2 as Debian builds it spawns nothing.
    dataclasses.replace(*clean("communicators", "spawned"), mpis=("openmpi",), spawns=True),
    # MPICH 4.0.2 over UCX hangs in MPI_Win_lock by itself.
    dataclasses.replace(*clean("rma", "locks"), mpis=("openmpi",)),
    # Open MPI 4.1.4 crashes in MPI_Compare_and_swap by itself (mca_btl_vader_emu_acswap).
    dataclasses.replace(*clean("rma", "own_lock"), mpis=("mpich",)),
]

FORTRAN = [case for name in ("fortran_mpifh", "fortran_use_mpi", "fortran_use_mpi_f08") for case in (
    Case(f"{name}.clean", alone=ENDS),
    Case(f"{name}.mismatch", ("argument_mismatch",), minority, alone=ANY),
    Case(f"{name}.deadlock", ("deadlock",), pair),
    Case(f"{name}.missing_wait", ("request_error", "resource_leak"), odd_alone, alone=ANY),
)]

PYTHON = [
    Case("mpi4py_program.clean", alone=ENDS, mpis=("openmpi",)),
    # mpi4py asks for MPI_THREAD_MULTIPLE: another thread may still send.
    Case("mpi4py_program.cycle", ("deadlock",), pair, least="likely", mpis=("openmpi",)),
    # Of two, the one that departs from what both have always done: that it is the one is likely.
    Case("mpi4py_program.mismatch", ("argument_mismatch",), minority, least="likely", alone=ANY, mpis=("openmpi",)),
]

TOOLS = [case for place in ("before", "after") for case in (
    Case(f"tool_{place}.everybody", alone=ENDS, of="clean_collectives", tool=place),
    Case(f"tool_{place}.inner_calls", alone=ENDS, ranks=(2,), of="costs", tool=place),
    Case(f"tool_{place}.reduction", ("argument_mismatch",), minority, alone=ANY, of="collectives", tool=place),
)]

CASES = {case.name: case for case in COLLECTIVES + MESSAGES + REQUESTS + RACES + ENDINGS + COMMUNICATORS
         + ARGUMENTS + LIVES + BUFFERS + RMA + EPOCHS + THREADS + FILES + CLEAN + FORTRAN + PYTHON + TOOLS}

# Not found yet, or not always: what is true of them stands above all the same.
OPEN = frozenset({
    "races.status_asked",  # who has the status of a message may call the next receive for it: one run does not tell
})


# One or two a family: what every change is tried on.
SHORT = ("collectives.missing", "collectives.order_swap", "collectives.two_communicators", "collectives.datatype",
         "messages.tag", "messages.receive_receive", "messages.signature", "requests.waitall",
         "races.named_after_wildcard", "races.takes_the_wrong_one", "endings.kill_9", "endings.stopped",
         "arguments.uncommitted_type", "lives.never_waited", "lives.left_type", "buffers.two_receives",
         "buffers.touched_receive", "clean_buffers.collectives", "watched_buffers.collectives",
         "communicators.split_barrier", "communicators.split_missing",
         "clean_collectives.everybody", "clean_collectives.in_place_uneven", "clean_collectives.started",
         "clean_collectives.started_uneven", "clean_collectives.refused",
         "clean_messages.completions", "clean_messages.errors_handled", "clean_messages.threads",
         "clean_communicators.between", "clean_communicators.left_out", "clean_communicators.made_meanwhile",
         "clean_communicators.freed_in_callbacks", "clean_communicators.null_places", "clean_messages.held_back",
         "clean_races.probed", "clean_types.structs", "clean_types.nested", "costs.many_requests", "clean_types.pairs",
         "clean_messages.partly_in_callbacks", "clean_communicators.refused_alone",
         "clean_communicators.freed_at_the_end", "clean_collectives.into_one_place",
         "clean_rma.fences", "clean_rma.locks",
         "threads.at_once", "threads.one_stuck", "clean_threads.turns",
         "clean_files.blocks", "files.one_write_less",
         *(case.name for case in FORTRAN + PYTHON + TOOLS))
