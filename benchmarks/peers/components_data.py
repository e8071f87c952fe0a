"""The reference's bench_data: packing token by token in Python, and iteration over mapped token files through numpy. One core of the host.

Packing as the reference does it: a row of S + 1 tokens is cut from the stream; a loop over its tokens gives each the number of its document and starts
a new one after each end-of-text token; labels that would cross into the next document are masked. Nothing is vectorised: that is the case.
"""
import os
import tempfile

import numpy as np

from component_case import Case, Sizes

END_OF_TEXT = 2
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
    """Random u16 tokens in a file of its own, mapped; every ~400th ends a document. Gone with the object."""

    def __init__(self, tokens: int):
        random = np.random.Generator(np.random.PCG64(1))
        values = random.integers(3, 32000, tokens, dtype=np.uint16)
        values[random.random(tokens) < 1 / 400] = END_OF_TEXT
        handle, self.path = tempfile.mkstemp(suffix=".npy")
        with os.fdopen(handle, "wb") as file:
            np.save(file, values)
        self.tokens = np.load(self.path, mmap_mode="r")

    def __del__(self):
        os.unlink(self.path)


def cases(sizes: Sizes):
    row = 512
    rows = 64 if sizes.small else 512
    samples = 2000 if sizes.small else 50_000

    def packing():
        file = TokenFile(rows * row + 1)

        def call():
            for r in range(rows):
                pack_by_token(file.tokens[r * row : (r + 1) * row + 1])

        return [call]

    def iteration():
        file = TokenFile(samples * row + 1)
        out = np.empty(row + 1, np.int64)

        def call():
            for s in range(samples):
                np.copyto(out, file.tokens[s * row : (s + 1) * row + 1])  # the reference widens every sample to int64

        return [call]

    yield Case("data/packing/concat/S512", "loop", "data", "u16", packing, "u16 tokens read", bytes=2.0 * rows * row, items=float(rows * row), item_units="tokens",
               host=True, least=5)
    yield Case("data/mapped/S512", "numpy", "data", "u16", iteration, "u16 tokens read", bytes=2.0 * samples * row, items=float(samples * row),
               item_units="tokens", host=True, least=5)
