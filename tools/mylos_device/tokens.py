"""Token files (u32) that a plan makes for its rows: random ones, chains with something to learn, or a text's.

The same arguments give the same file, and its name has their hash, so that a file of other ones is never taken for it. PlanError says why a
file cannot be made.
"""

import hashlib
import json
import math
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from .errors import PlanError


def token_file(folder: Path, name: str, about: dict, mylos: Path, environment: dict) -> Path:
    """The file of [tokens.NAME] in the folder: made when it is not there, and there only when it is whole."""
    made_of = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:8]
    path = folder / f"{name}-{made_of}.bin"
    if path.is_file() and path.stat().st_size == 4 * about["count"]:
        return path
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        if about["order"] == "text":
            write_text_tokens(temporary, mylos, environment, about["vocab"], about["count"])
        else:
            write_tokens(temporary, **about)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def write_text_tokens(path: Path, mylos: Path, environment: dict, vocab: int, count: int) -> None:
    """The first `count` tokens of the standard library, file after file in the order of their names."""
    import numpy as np

    files, size = [], 0
    for file in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if not {"site-packages", "dist-packages", "test", "tests"} & set(file.parts) and size < 8 * count:
            files.append(file)
            size += file.stat().st_size
    with tempfile.TemporaryDirectory() as folder:
        command = [mylos, "tokenize", *files, "--out", f"{folder}/tokens", "--tokenizer", f"train:{vocab}", "--validation-fraction", "0"]
        done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PlanError(f"tokens of text cannot be made: {(done.stderr or done.stdout).strip()[-300:]}")
        parts = [np.fromfile(part, np.uint16) for part in sorted(Path(folder).glob("tokens/train-*.bin"))]
    tokens = np.concatenate(parts).astype(np.uint32)
    if len(tokens) < count:
        raise PlanError(f"the standard library has {len(tokens)} tokens, {count} are wanted; ask for fewer")
    tokens[:count].tofile(path)


def write_tokens(path: Path, vocab: int, count: int, order: str, seed: int, document: int = 0, lengths: str = "equal") -> None:
    """The same tokens for the same numbers. Of documents each ends with the token vocab - 1, which is nowhere else."""
    import numpy as np

    random = np.random.Generator(np.random.PCG64(seed))
    tokens = (chain_of if order == "chain" else uniform)(random, vocab - 1 if document else vocab, count)
    if document:
        ends = np.cumsum(document_lengths(random, count, document, lengths)) - 1
        tokens[ends[ends < count]] = vocab - 1
    tokens.tofile(path)


def uniform(random, vocab: int, count: int):
    return random.integers(0, vocab, count, dtype="uint32")


def document_lengths(random, count: int, mean: int, lengths: str):
    """Enough documents for `count` tokens."""
    import numpy as np

    if lengths == "equal":
        return np.full(count // mean + 1, mean)
    drawn = np.zeros(0, np.int64)
    while drawn.sum() < count:
        more = random.lognormal(math.log(mean) - 0.5, 1.0, count // mean + 1)
        drawn = np.concatenate([drawn, np.maximum(1, np.rint(more)).astype(np.int64)])
    return drawn


def chain_of(random, vocab: int, count: int):
    """Tokens of Zipf's frequencies, of which four in five follow from the one before."""
    import numpy as np

    weights = 1 / np.arange(1, vocab + 1)
    fresh = random.choice(vocab, count, p=weights / weights.sum())
    follower, follows = random.choice(vocab, vocab, p=weights / weights.sum()), random.random(count) < 0.8
    tokens = np.empty(count, np.uint32)
    last = 0
    for i in range(count):
        last = follower[last] if follows[i] else fresh[i]
        tokens[i] = last
    return tokens
