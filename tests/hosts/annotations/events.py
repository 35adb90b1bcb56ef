"""What happens, told by Python."""

import pathlib

import ncclwatch

itself = {}
itself["itself"] = itself
with ncclwatch.step(3):
    ncclwatch.event("checkpoint", path=pathlib.Path("/a"), loss=float("nan"), shards=[1, 2], type="full")
ncclwatch.event("odd", itself=itself)
