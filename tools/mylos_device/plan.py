"""A plan of rows to measure, one TOML file, and the commands it means.

  limit_s = 100                       # most seconds of a row that says nothing itself
  [tokens.NAME]                       # a file of random tokens (u32) that rows name as {tokens.NAME}
  vocab = 128256
  count = 500_001
  order = "uniform"                   # or "chain": frequent tokens and followers, something to learn; or "text": the source
                                      # of Python's standard library, under a BPE tokenizer of `vocab` words made from it
  document = 64                       # documents of so many tokens on average, the last of which is the end token, vocab - 1
  lengths = "equal"                   # or "lognormal", sigma of the log 1; not for text
  [[row]]
  name = "mylos-none-4x2"             # unique; names the bundle
  config = "configs/x.toml"           # a mylos run: relative to the plan's tree, with
  set = ["train.batch=4"]             # overrides
  [[row]]
  name = "pytorch"
  peer = "gpu_llama"                  # a program of benchmarks/peers, with
  arguments = ["--preset", "7b"]

{weights.ROW} in a value stands for the weights that the earlier row ROW has written.
"""

import math
import re
import subprocess
import sysconfig
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path


class PlanError(Exception):
    """What is wrong with a plan, for the user."""


@dataclass
class Row:
    name: str
    limit_s: float
    config: str = ""
    overrides: list = field(default_factory=list)
    peer: str = ""
    arguments: list = field(default_factory=list)

    def values(self):
        return [*self.overrides, *self.arguments]


@dataclass
class Plan:
    rows: list
    tokens: dict  # name -> arguments of write_tokens


KEYS = {"name", "limit_s", "config", "set", "peer", "arguments"}
TOP_KEYS = {"limit_s", "tokens", "row"}
PEERS = Path(__file__).resolve().parents[2] / "benchmarks/peers"


def _limit(value, path, where):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise PlanError(f"{path}: {where} has limit_s = {value!r}; it must be a finite number of seconds above 0")
    return value


def _texts(entry, key, path, name):
    values = entry.get(key, [])
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise PlanError(f"{path}: row '{name}' has {key} = {values!r}; it must be a list of texts")
    return values


def _peer(peer, path, name, peers):
    if not isinstance(peer, str) or not re.fullmatch(r"[A-Za-z0-9_]+", peer):
        raise PlanError(f"{path}: row '{name}' has peer = {peer!r}; it must be the name of a program: letters, digits and '_'")
    if not (peers / f"{peer}.py").is_file():
        raise PlanError(f"{path}: row '{name}' names the peer '{peer}', and there is no {peers / peer}.py")
    return peer


def _row(entry, default_limit, path, peers):
    name = entry.get("name", "")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        raise PlanError(f"{path}: a row's name is {name!r}; it needs 1 to 100 of letters, digits, '-' and '_', '-' and '_' not first")
    odd = sorted(set(entry) - KEYS)
    if odd:
        raise PlanError(f"{path}: row '{name}' has the key {odd[0]!r}; known are {', '.join(sorted(KEYS))}")
    if ("config" in entry) == ("peer" in entry):
        raise PlanError(f"{path}: row '{name}' needs either config (a mylos run) or peer")
    if ("set" in entry and "peer" in entry) or ("arguments" in entry and "config" in entry):
        raise PlanError(f"{path}: row '{name}': set belongs to config, arguments to peer")
    limit = _limit(entry.get("limit_s", default_limit), path, f"row '{name}'")
    overrides, arguments = (_texts(entry, key, path, name) for key in ("set", "arguments"))
    if "peer" in entry:
        return Row(name, limit, peer=_peer(entry["peer"], path, name, peers), arguments=arguments)
    config = entry["config"]
    if not isinstance(config, str) or not config:
        raise PlanError(f"{path}: row '{name}' has config = {config!r}; it must be the path of a configuration")
    return Row(name, limit, config=config, overrides=overrides)


def _tokens(name, entry, path):
    t = {"order": "uniform", "seed": 1, "document": 0, "lengths": "equal"} | entry
    whole = all(type(t.get(key)) is int and t[key] >= least for key, least in (("vocab", 2), ("count", 2), ("seed", 0), ("document", 0)))
    keys = {"vocab", "count", "order", "seed", "document", "lengths"}
    if set(t) != keys or not whole or t["order"] not in ("uniform", "chain", "text") or t["lengths"] not in ("equal", "lognormal"):
        raise PlanError(
            f"{path}: tokens {name!r} needs vocab and count (2 or more), and may have seed, order: uniform, chain or text, "
            "document: tokens of one, and lengths: equal or lognormal"
        )
    if t["document"] and (t["order"] == "text" or t["vocab"] < 3):
        raise PlanError(f"{path}: tokens {name!r} has document = {t['document']}; that needs vocab of 3 or more and no order 'text'")
    if "lengths" in entry and not t["document"]:
        raise PlanError(f"{path}: tokens {name!r} has lengths = {t['lengths']!r} and no document, the tokens of one")
    return t


def _read(path):
    """The file's tables, of the right types; what is in them is checked later."""
    try:
        toml = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # wrong TOML and wrong UTF-8 are ValueErrors
        raise PlanError(f"{path}: {error}") from error
    odd = sorted(set(toml) - TOP_KEYS)
    if odd:
        raise PlanError(f"{path}: there is the key {odd[0]!r}; known are {', '.join(sorted(TOP_KEYS))}")
    rows, tokens = toml.get("row", []), toml.get("tokens", {})
    if not isinstance(rows, list) or not all(isinstance(entry, dict) for entry in rows):
        raise PlanError(f"{path}: row is not a list of tables; each row begins with [[row]]")
    if not isinstance(tokens, dict) or not all(isinstance(entry, dict) for entry in tokens.values()):
        raise PlanError(f"{path}: tokens is not a table of tables; each begins with [tokens.NAME]")
    return _limit(toml.get("limit_s", 100), path, "the plan"), rows, tokens


def load(path: Path, only: str = "", peers: Path = PEERS) -> Plan:
    """Every key and type is checked before a row runs; `peers` is the folder of the programs that rows may name."""
    try:
        pattern = re.compile(only)
    except re.error as error:
        raise PlanError(f"--only {only!r} is no regular expression: {error}") from error
    default_limit, row_entries, token_entries = _read(path)
    rows = [_row(entry, default_limit, path, peers) for entry in row_entries]
    tokens = {name: _tokens(name, entry, path) for name, entry in token_entries.items()}
    seen = set()
    for row in rows:
        if row.name in seen:
            raise PlanError(f"{path}: two rows are called '{row.name}'")
        for kind, name in re.findall(r"\{(\w+)\.([\w-]+)\}", " ".join(row.values())):
            if name not in {"tokens": tokens, "weights": seen}.get(kind, ()):
                raise PlanError(f"{path}: row '{row.name}' names {{{kind}.{name}}}, and there is no such before it")
        seen.add(row.name)
    chosen = [row for row in rows if pattern.search(row.name)]
    if not chosen:
        raise PlanError(f"{path}: no row matches {only!r}; rows: {', '.join(row.name for row in rows)}")
    return Plan(with_needed(rows, chosen), tokens)


def with_needed(rows, chosen):
    """Chosen rows, and those whose weights they start from, in the plan's order."""
    names = {row.name for row in chosen}
    for row in reversed(rows):
        if row.name in names:
            names |= set(re.findall(r"\{weights\.([\w-]+)\}", " ".join(row.values())))
    return [row for row in rows if row.name in names]


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
