"""A component of the reference system in PyTorch, to be timed: what it is called, what one call does, and how to make it."""
import dataclasses
from typing import Callable

import torch


@dataclasses.dataclass
class Case:
    name: str  # that of mylos' case beside which it stands
    mode: str  # how PyTorch runs it: eager, compiled, graph (compiled where that helps, captured as a CUDA graph), cudnn, flash, numpy, loop
    component: str
    dtype: str
    make: Callable[[], list]  # the calls, one a set of operands
    work_source: str  # where the three numbers come from
    flops: float = 0.0
    bytes: float = 0.0
    items: float = 0.0
    item_units: str = ""
    captured: bool = False
    host: bool = False  # runs on one core of the host, whatever the device
    attention: str = "cudnn"  # backend of scaled_dot_product_attention
    least: int = 20  # samples before the interval may end it
    patience: float = 1.0  # budgets of a case that it may take: long calls want more

    def facts(self) -> dict:
        kept = ("name", "mode", "component", "dtype", "flops", "bytes", "items", "item_units", "work_source")
        return {key: getattr(self, key) for key in kept} | {"threads": 1 if self.host else torch.get_num_threads(), "warm": False, "peak_memory": 0}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What the cases are made for: an H200, or a CPU that is to show that they work."""

    scale: str
    device: str

    @property
    def small(self) -> bool:
        return self.scale == "cpu"

    @property
    def dtype(self):
        return torch.float32 if self.device == "cpu" else torch.bfloat16

    @property
    def dtype_name(self) -> str:
        return "f32" if self.device == "cpu" else "bf16"

    @property
    def modes(self) -> tuple:
        return ("eager", "compiled", "graph") if self.device == "cuda" else ("eager", "compiled")
