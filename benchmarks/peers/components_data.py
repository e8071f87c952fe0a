"""The reference's bench_data: packing token by token in Python, and iteration over mapped token files through numpy. One core of the host.

Packing as the reference does it: a row of S + 1 tokens is cut from the stream; a loop over its tokens gives each the number of its document and starts
a new one after each end-of-text token; labels that would cross into the next document are masked. Nothing is vectorised: that is the case. In mode
`loop` it reads the mapped array; in mode `list` each row is made a list of Python's before, the most that such a loop can be helped.
"""
import functools
import os
import tempfile

import numpy as np

from component_case import Case, Sizes

END_OF_TEXT = 50256
IGNORED = -100


def pack_by_token(tokens) -> tuple[list, list, list]:
    """Input, labels and the document of each token of one row."""
    documents, labels, document = [], [], 0
    for i in range(len(tokens) - 1):
        documents.append(document)
        ends = int(tokens[i]) == END_OF_TEXT
        labels.append(IGNORED if ends else int(tokens[i + 1]))
        if ends:
            document += 1
    return [int(t) for t in tokens[:-1]], labels, documents


class TokenFile:
    """Random u16 tokens of documents of log-normal length, 600 on average, as in mylos' cases; in a file of its own, mapped. Gone with the object."""

    def __init__(self, tokens: int):
        random = np.random.Generator(np.random.PCG64(1))
        values = random.integers(0, END_OF_TEXT, tokens, dtype=np.uint16)
        sigma = 1.2
        ends = np.cumsum(1 + random.lognormal(np.log(600) - sigma**2 / 2, sigma, tokens // 100).astype(np.int64))
        values[ends[ends < tokens]] = END_OF_TEXT
        handle, self.path = tempfile.mkstemp(suffix=".npy")
        with os.fdopen(handle, "wb") as file:
            np.save(file, values)
        self.tokens = np.load(self.path, mmap_mode="r")

    def __del__(self):
        os.unlink(self.path)


def cases(_: Sizes):
    row = 512
    rows, samples = 64, 2048  # of a call, as in mylos' cases

    def packing(as_list: bool):
        file = TokenFile(rows * row + 1)

        def call():
            for r in range(rows):
                tokens = file.tokens[r * row : (r + 1) * row + 1]
                pack_by_token(tokens.tolist() if as_list else tokens)

        return [call]

    def iteration():
        file = TokenFile(samples * row + 1)
        out = np.empty(row + 1, np.int64)

        def call():
            for s in range(samples):
                np.copyto(out, file.tokens[s * row : (s + 1) * row + 1])  # the reference widens every sample to int64

        return [call]

    for mode in ("loop", "list"):
        yield Case("data/packing", mode, "data", "u16", functools.partial(packing, mode == "list"), "u16 tokens read", bytes=2.0 * rows * row,
                   items=float(rows * row), item_units="tokens", host=True, least=5)
    yield Case("data/mapped_iteration", "numpy", "data", "u16", iteration, "u16 tokens read", bytes=2.0 * samples * row, items=float(samples * row),
               item_units="tokens", host=True, least=5)
