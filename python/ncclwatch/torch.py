"""For programs of torch: `ncclwatch.torch.watch(model)` tells which parameters a collective carries, and the steps.

Verdicts, `trace` and `stats` then name the buckets of DDP and the units of FSDP. Steps are those of the optimizer. The only
hook is one behind its step(): nothing is added to forward or backward.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import weakref
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch import distributed
from torch.optim.optimizer import register_optimizer_step_post_hook

from .annotate import add_event, handle, set_payload, set_step, watched

__all__ = ["evaluation", "watch"]

_NAMED = 4  # parameters of a bucket; longer lists say how many more there are


class Payload(NamedTuple):
    """What calls of one operation and count in a process group carry."""

    group: Any
    op: str
    count: int
    name: str


def _join(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _shards(group: Any) -> bool:
    return group is not None and group.size() > 1


# ---- DistributedDataParallel ------------------------------------------------------------------------------------------


def _ddp_parameters(ddp: Any) -> Dict[str, torch.nn.Parameter]:
    """Those that its reducer has, by name, in its order."""
    found: Dict[str, torch.nn.Parameter] = {}
    seen: Set[int] = set()
    for path, module in ddp.module.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full = f"{path}.{name}"
            if parameter.requires_grad and full not in ddp.parameters_to_ignore and id(parameter) not in seen:
                seen.add(id(parameter))
                found[full.lstrip(".")] = parameter
    return found


def _numbers(text: str) -> List[int]:
    return [int(word) for word in text.replace(",", " ").split()]


def _first_buckets(ddp: Any, parameters: List[torch.nn.Parameter], data: Dict[str, Any]) -> List[List[int]]:
    if len(_numbers(data.get("bucket_sizes", ""))) == 1:
        return [list(range(len(parameters)))]
    first = min(distributed._DEFAULT_FIRST_BUCKET_BYTES, ddp.bucket_bytes_cap)
    for limits in ([first, ddp.bucket_bytes_cap], [ddp.bucket_bytes_cap]):
        buckets, _ = distributed._compute_bucket_assignment_by_size(parameters, limits, [False] * len(parameters))
        if _bytes(parameters, buckets[::-1]) == _numbers(data["bucket_sizes"]):
            return list(buckets[::-1])
    return []


def _bytes(parameters: List[torch.nn.Parameter], buckets: Sequence[Sequence[int]]) -> List[int]:
    return [sum(parameters[i].numel() * parameters[i].element_size() for i in bucket) for bucket in buckets]


def _buckets(ddp: Any) -> Tuple[List[Payload], bool]:
    """Its buckets, and whether they stay as they are: it makes new ones in its second step."""
    data = ddp._get_ddp_logging_data()
    names, parameters = zip(*_ddp_parameters(ddp).items())
    rebuilt = data.get("rebuilt_per_bucket_param_indices")
    if rebuilt:
        buckets = [_numbers(bucket) for bucket in rebuilt.split(",")]
        sizes = _numbers(data["rebuilt_bucket_sizes"])
    else:
        buckets, sizes = _first_buckets(ddp, list(parameters), data), _numbers(data.get("bucket_sizes", ""))
    settled = bool(rebuilt) or (ddp.find_unused_parameters and not ddp.static_graph)
    if getattr(ddp, "_has_rebuilt_buckets", False) and not rebuilt:
        return [], False  # its log does not have the new ones yet
    if any(i >= len(parameters) for bucket in buckets for i in bucket) or _bytes(parameters, buckets) != sizes:
        return [], settled  # other parameters than ours
    return [
        Payload(ddp.process_group, "AllReduce", sum(parameters[i].numel() for i in bucket),
                f"DDP bucket {number} ({_join([names[i] for i in bucket])})")
        for number, bucket in enumerate(buckets)
    ], settled


# ---- FSDP -------------------------------------------------------------------------------------------------------------


def _gathers_itself(parameter: Any) -> bool:
    return hasattr(parameter._sharded_local_tensor, "fsdp_pre_all_gather")


def _gathered_type(parameter: Any, group: Any) -> torch.dtype:
    policy = getattr(parameter, "mp_policy", None) or group.mp_policy
    return policy.param_dtype or parameter.sharded_param.dtype


def _fsdp2_units(module: torch.nn.Module, name: str) -> Iterator[Payload]:
    state = module._get_fsdp_state()  # type: ignore[operator]
    groups = getattr(state, "_fsdp_param_groups", None)
    for group in groups if groups is not None else filter(None, [state._fsdp_param_group]):
        parameters = group.fsdp_params
        if group.modules[0] is not module or any(_gathers_itself(parameter) for parameter in parameters):
            continue  # a unit of several modules has the name of the first
        mesh = group.mesh_info
        sizes = [parameter.padded_sharded_param_size.numel() for parameter in parameters]
        types = [_gathered_type(parameter, group) for parameter in parameters]
        as_bytes = len(set(types)) > 1
        gathered = sum(size * (kind.itemsize if as_bytes else 1) for size, kind in zip(sizes, types))
        reduced = sum(size for size, parameter in zip(sizes, parameters) if parameter.sharded_param.requires_grad)
        shards = getattr(mesh, "shard_process_group", None)
        if _shards(shards):
            yield Payload(shards, "AllGather", gathered, name)
            yield Payload(getattr(mesh, "reduce_scatter_process_group", None) or shards, "ReduceScatter", reduced, name)
        replicas = getattr(mesh, "replicate_process_group", None)
        if _shards(replicas):
            yield Payload(replicas, "AllReduce", reduced, name)


def _fsdp1_units(module: Any, name: str) -> Iterator[Payload]:
    if module._handle is None or not _shards(module.process_group):
        return
    count = module._handle.flat_param._sharded_size.numel()
    yield Payload(module.process_group, "AllGather", count, name)
    yield Payload(module.process_group, "ReduceScatter", count, name)


def _units(model: torch.nn.Module) -> List[Payload]:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    units: List[Payload] = []
    if fsdp is None:
        return units
    modern = getattr(fsdp, "FSDPModule", ())
    for path, module in model.named_modules():
        name = f"FSDP unit {path.replace('_fsdp_wrapped_module.', '') or '(root)'}"
        if isinstance(module, modern):
            units.extend(_fsdp2_units(module, name))
        elif isinstance(module, fsdp.FullyShardedDataParallel):
            units.extend(_fsdp1_units(module, name))
    return units


# ---- the watch --------------------------------------------------------------------------------------------------------


def _log(what: str) -> None:
    logging.getLogger("ncclwatch").debug("ncclwatch.torch %s", what, exc_info=True)


def _wrappers(model: torch.nn.Module) -> List[Any]:
    """DistributedDataParallel's that hold the model: it may have been wrapped after watch()."""
    kind = torch.nn.parallel.DistributedDataParallel
    inside = [module for module in model.modules() if isinstance(module, kind)]
    return inside or [one for one in gc.get_objects() if issubclass(type(one), kind) and getattr(one, "module", None) is model]


class _Model:
    """One model: what has been told of it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = weakref.ref(model)
        self._wrappers: Optional[List[Any]] = None
        self._told: Dict[Tuple[int, str, int, str], None] = {}
        self._left = 0  # optimizer steps until the next look
        self._looks = 0
        self.tell()

    def has(self, optimizer: torch.optim.Optimizer) -> bool:
        model = self.model()
        own = {id(parameter) for parameter in model.parameters()} if model is not None else set()
        return any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"])

    def after_step(self) -> None:
        """Looks again, ever more seldom, until all is known."""
        self._left -= 1
        if self._left == 0:
            self.tell()

    def tell(self) -> None:
        try:
            self._tell()
        except Exception:  # of a torch that is not as we know it: no names
            _log("names no payloads")

    def _tell(self) -> None:
        model = self.model()
        if model is None:
            return
        if not self._wrappers and self._looks < 2:  # before the first step and after it
            self._wrappers = [weakref.proxy(one) for one in _wrappers(model)]
        payloads, settled = _units(model), self._looks > 0
        for ddp in self._wrappers or []:
            buckets, stay = _buckets(ddp)
            payloads += buckets
            settled = settled and stay
        wanted: Dict[Tuple[int, str, int, str], None] = {}
        for payload in payloads:
            communicator = handle(payload.group)
            settled = settled and communicator != 0  # 0: it has made no call yet
            if communicator and payload.count:
                wanted[communicator, payload.op, payload.count, payload.name] = None
        for key in self._told:
            if key not in wanted:
                set_payload(*key, begins=False)
        for key in wanted:
            set_payload(*key, begins=True)
        self._told = wanted
        self._looks += 1
        self._left = 0 if settled else max(1, self._looks - 3)


class _Program:
    """The models that are watched, and the step that has begun: of one optimizer, if several step them in turn."""

    def __init__(self) -> None:
        self.models: "weakref.WeakKeyDictionary[torch.nn.Module, _Model]" = weakref.WeakKeyDictionary()
        self.step = 0
        self._models_of: "weakref.WeakKeyDictionary[torch.optim.Optimizer, List[_Model]]" = weakref.WeakKeyDictionary()
        self._leader: Optional["weakref.ref[torch.optim.Optimizer]"] = None
        self._since: Set[int] = set()  # optimizers that have stepped since the leader did
        self._hook: Any = None

    def add(self, model: torch.nn.Module, step: int) -> None:
        self.models[model] = _Model(model)
        self._models_of.clear()
        if self._hook is None:
            self.step = step
            self._hook = register_optimizer_step_post_hook(self._after_step)
            set_step(self.step, True)

    def _leads(self, optimizer: torch.optim.Optimizer) -> bool:
        leader = self._leader() if self._leader else None
        if leader not in (None, optimizer) and id(optimizer) not in self._since:
            self._since.add(id(optimizer))
            return False
        self._leader = weakref.ref(optimizer)  # the first one; another if that has stopped
        self._since.clear()
        return True

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        try:
            if optimizer not in self._models_of:
                self._models_of[optimizer] = [model for model in self.models.values() if model.has(optimizer)]
            models = self._models_of[optimizer]
            if models and self._leads(optimizer):
                set_step(self.step, False)
                self.step += 1
                set_step(self.step, True)
            for model in models:
                model.after_step()
        except Exception:
            _log("counts no steps")
            self._hook.remove()

    def pause(self, state: str, begins: bool) -> None:
        if self._hook is not None:
            add_event("evaluation", {"state": state})
            set_step(self.step, begins)


_program = _Program()


def watch(model: torch.nn.Module, step: int = 0) -> None:
    """Names what the model's collectives carry, and counts its optimizer's steps. Nothing happens without ncclwatch.

    model: as it is trained, or before DistributedDataParallel or fully_shard wrap it. A model may be watched twice.
    step: the number of the first one, of a training that is resumed.
    """
    if watched():
        _program.add(model, step)


@contextlib.contextmanager
def evaluation() -> Iterator[None]:
    """`with evaluation():` around what belongs to no training step. Its begin and end are events too."""
    _program.pause("begun", False)
    try:
        yield
    finally:
        _program.pause("ended", True)
