"""What a PyTorch run shares with a mylos run to have the same losses: weights, tokens in order, learning rates.

Weights are a mylos weights file (src/checkpoint/weights.hpp), checked against its SHA-256; tokens a token file
(docs/data.md) read as with data.shuffle=false and data.documents=false; the schedule that of src/optimizer/schedule.cpp.
"""
import hashlib
import json
import math
import pathlib
import sys

import numpy as np
import torch

from llama import weight_name


def load_weights(model, path: str) -> None:
    import h5py

    wanted = {weight_name(name): p for name, p in model.named_parameters()}
    with h5py.File(path, "r") as file:
        if "weights" not in file:
            sys.exit(f"{path}: there is no /weights; give a file that `mylos train` wrote as output.weights")
        names = set(file["weights"])
        if names != set(wanted):
            odd = sorted(names ^ set(wanted))
            sys.exit(f"{path}: its weights are not those of this model: '{odd[0]}' is in only one of them")
        for name, parameter in wanted.items():
            item = file["weights"][name]
            values, stated = item[...], item.attrs["sha256"]
            if hashlib.sha256(values.tobytes()).hexdigest() != (stated.decode() if isinstance(stated, bytes) else stated):
                sys.exit(f"{path}: weight '{name}' is damaged: its SHA-256 is not what the file states")
            if values.dtype == np.uint16:  # bf16: the upper half of an fp32 number
                values = (values.astype(np.uint32) << 16).view(np.float32)
            if values.shape != tuple(parameter.shape):
                sys.exit(f"{path}: weight '{name}' is {values.shape}, the model wants {tuple(parameter.shape)}")
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(values))


class Tokens:
    """The batches of a token file: step s, micro-batch m of B rows reads samples (s·A + m)·B .. of S + 1 tokens, stride S."""

    def __init__(self, path: str, dtype: str | None, sequence: int, vocab: int, device: str):
        sidecar = pathlib.Path(path + ".json")
        stated = json.loads(sidecar.read_text())["dtype"] if sidecar.is_file() else None
        if dtype and stated and dtype != stated:
            sys.exit(f"{path}: --tokens-dtype {dtype}, but its sidecar says {stated}")
        kind = {"u16": np.uint16, "u32": np.uint32}.get(dtype or stated)
        if kind is None:
            sys.exit(f"{path}: it has no sidecar; give --tokens-dtype u16 or u32")
        values = np.fromfile(path, kind)
        if values.size and int(values.max()) >= vocab:
            sys.exit(f"{path}: token {values.max()} is not below the vocabulary of {vocab}")
        self.sequence, self.samples = sequence, (len(values) - 1) // sequence
        if self.samples < 1:
            sys.exit(f"{path}: {len(values)} tokens, fewer than one sample of {sequence} + 1")
        self.values = torch.from_numpy(values.astype(np.int32)).to(device)

    def batch(self, step: int, micro: int, batch: int, accumulation: int):
        first = (step * accumulation + micro) * batch
        rows = [(first + row) % self.samples * self.sequence for row in range(batch)]
        if rows == list(range(rows[0], rows[0] + batch * self.sequence, self.sequence)):
            window = self.values[rows[0] : rows[0] + batch * self.sequence + 1]
            return window[:-1].view(batch, -1).long(), window[1:].view(batch, -1).long()
        window = torch.stack([self.values[r : r + self.sequence + 1] for r in rows]).long()
        return window[:, :-1].contiguous(), window[:, 1:].contiguous()


def learning_rate(step: int, shape: str, peak: float, final_fraction: float, warmup: int, length: int) -> float:
    if step < warmup:
        return peak * ((step + 1) / warmup)
    if shape == "constant":
        return peak
    top = max(warmup, 1) - 1
    fall = length - 1 - top
    progress = min(1.0, (step - top) / fall) if fall > 0 else float(step > top)
    left = 1 - progress if shape == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
    return peak * (final_fraction + (1 - final_fraction) * left)
