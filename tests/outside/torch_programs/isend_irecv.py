"""A pipeline written by hand: activations go down and gradients come back by batch_isend_irecv."""

import time

from planted import COMPUTE_S, OPTIONS, RANK, finish, layers, planted, start

import torch
import torch.distributed as dist

FIRST, LAST, WIDTH, BATCH = RANK == 0, RANK == 3, 32, 4


def exchange(*operations):
    for work in dist.batch_isend_irecv([dist.P2POp(*operation) for operation in operations]):  # FAULT short_batch
        work.wait()


def shift(activation, gradient):
    """Sends both ways and receives both ways, in one group: a steady state of one forward and one backward."""
    activation_in, gradient_in = torch.empty(BATCH, WIDTH), torch.empty(BATCH, WIDTH)
    operations = []
    if not LAST:
        operations += [(dist.isend, activation, RANK + 1), (dist.irecv, gradient_in, RANK + 1)]
    if not FIRST:
        operations += [(dist.irecv, activation_in, RANK - 1), (dist.isend, gradient, RANK - 1)]
    exchange(*operations)  # FAULT short_batch
    return activation_in, gradient_in


def swap_norms(norm):
    """Neighbours compare gradient norms: even ranks send first, odd ones receive first."""
    other, partner = torch.empty(1), RANK ^ 1
    if (RANK % 2 == 0) != planted("wrong_parity", step):
        dist.send(norm, partner)  # FAULT wrong_parity
        dist.recv(other, partner)
    else:
        dist.recv(other, partner)  # FAULT wrong_parity
        dist.send(norm, partner)
    return other


start()
model = layers(WIDTH)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
activation, gradient = torch.randn(BATCH, WIDTH), torch.zeros(BATCH, WIDTH)
for step in range(OPTIONS.steps):
    time.sleep(COMPUTE_S)
    output = model(activation.requires_grad_())
    output.backward(gradient)
    optimizer.step()
    optimizer.zero_grad()
    sent, back = output.detach(), activation.grad.detach()
    if planted("short_batch", step):  # the last batch of an epoch, without drop_last
        sent = sent[:-1].contiguous()
    activation, gradient = shift(sent, back)
    swap_norms(gradient.norm().reshape(1))  # FAULT wrong_parity
finish()
