"""Mixture of experts: tokens go to the ranks of their experts and back by all_to_all_single with uneven splits."""

import time

from planted import COMPUTE_S, OPTIONS, RANK, finish, planted, start

import torch
import torch.distributed as dist

WIDTH = 16


def route(step):
    """How many tokens every rank sends to every other: the same table on all ranks."""
    return torch.randint(1, 5, (4, 4), generator=torch.Generator().manual_seed(step))


def to_experts(tokens, sends, receives):
    arrived = torch.empty(sum(receives), WIDTH)
    dist.all_to_all_single(arrived, tokens, receives, sends)  # FAULT stale_table
    return arrived


def moe_layer(expert, tokens, sends, receives):
    if tokens.shape[0] == 0:
        return tokens  # "nothing to do"
    arrived = to_experts(tokens, sends, receives)
    back = torch.empty_like(tokens)
    dist.all_to_all_single(back, expert(arrived).detach(), sends, receives)
    return back


start()
expert = torch.nn.Linear(WIDTH, WIDTH)
seen = torch.zeros(WIDTH)
for step in range(OPTIONS.steps):
    time.sleep(COMPUTE_S)
    table = route(step - planted("stale_table", step))
    sends, receives = table[RANK].tolist(), table[:, RANK].tolist()
    tokens = torch.randn(sum(sends), WIDTH)
    if planted("no_tokens", step):
        tokens = tokens[:0]
    seen += moe_layer(expert, tokens, sends, receives).sum(0)  # FAULT stale_table
    dist.all_reduce(seen)  # FAULT no_tokens
finish()
