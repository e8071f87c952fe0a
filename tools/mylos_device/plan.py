"""A plan of rows to measure, one TOML file, and the commands it means.

  title = "what is measured"          # campaigns: the report's first line
  gpus = 1                            # GPUs that a row needs which says nothing itself; 0: it runs on a CPU, too
  limit_s = 100                       # most seconds of a row that says nothing itself
  set = ["train.steps=12"]            # overrides of every mylos run, before its own
  [tokens.NAME]                       # a file of random tokens (u32) that rows name as {tokens.NAME}
  vocab = 128256
  count = 500_001
  order = "uniform"                   # or "chain": frequent tokens and followers, something to learn; or "text": the source
                                      # of Python's standard library, under a BPE tokenizer of `vocab` words made from it
  document = 64                       # documents of so many tokens on average, the last of which is the end token, vocab - 1
  lengths = "equal"                   # or "lognormal", sigma of the log 1; not for text
  [scale.cpu-smoke]                   # rows that --scale cpu-smoke chooses
  rows = "^cpu-"                      # regular expression on their names
  budget_s = 240                      # most seconds of the call; default: no bound
  [[row]]
  name = "mylos-none-4x2"             # unique; names the bundle
  config = "configs/x.toml"           # a mylos run: in the plan's folder, or of the tree's configs/, with
  set = ["train.batch=4"]             # overrides, and
  arguments = ["--profile"]           # further options
  gpus = 8                            # of this row, on
  nodes = 2                           # machines
  repeats = 3                         # rows NAME-r1, NAME-r2, NAME-r3
  [row.sweep]                         # a row for each combination, named after the values: NAME-none-exact
  "train.recompute" = ["none", "full"]
  state = {exact = ['optimizer.master="exact"'], bf16 = []}  # an axis of overrides by label
  [[row]]
  name = "pytorch"
  peer = "gpu_llama"                  # a program of benchmarks/peers, with
  arguments = ["--preset", "7b"]
  [[row]]
  name = "attention"
  bench = "attention/"                # cases of mylos-bench by a pattern, with arguments

At most 10,000 rows in all. A configuration lies in the plan's folder or in configs/ of the tree.

{weights.ROW} in a value stands for the weights that the earlier row ROW has written, {out} for the path of the row's files without
their suffix (a peer whose arguments have it gets no --json), {data} for what the environment variable MYLOS_DATA names: token files that the user brings.
"""

import math
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from . import matching, sweep
from .errors import PlanError


@dataclass
class Row:
    name: str
    limit_s: float
    config: str = ""
    overrides: list = field(default_factory=list)
    peer: str = ""
    arguments: list = field(default_factory=list)
    bench: str = ""
    gpus: int = 1
    nodes: int = 1

    def values(self):
        return [*self.overrides, *self.arguments]


@dataclass
class Scale:
    rows: str
    budget_s: float = 0


@dataclass
class Plan:
    rows: list
    tokens: dict  # name -> arguments of write_tokens
    folder: Path  # of the file
    title: str = ""
    scales: dict = field(default_factory=dict)
    all_rows: list = field(default_factory=list)  # of the file, chosen or not

    def row(self, name):
        return next(row for row in self.all_rows if row.name == name)


KINDS = ("config", "peer", "bench")
KEYS = {"name", "limit_s", "set", "arguments", "gpus", "nodes", "repeats", "sweep", *KINDS}
TOP_KEYS = {"title", "gpus", "limit_s", "set", "tokens", "scale", "row"}
PEERS = Path(__file__).resolve().parents[2] / "benchmarks/peers"
MOST_ROWS = 10_000
MOST_TOKENS = 1_000_000_000  # of a file: 4 GB, and up to 24 GB of memory to make them
MOST_WORDS = 1 << 24  # of a vocabulary


def config_path(row: Row, folder: Path, source: Path) -> Path:
    """Where a row's configuration is: in the plan's `folder`, or among the presets of the tree `source`."""
    beside, preset = folder / row.config, source / row.config
    return preset if not beside.is_file() and _is_preset(preset, source) else beside


def _is_preset(path: Path, source: Path) -> bool:
    return path.resolve().is_relative_to(source.resolve() / "configs")


def _limit(value, path, where, key="limit_s"):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise PlanError(f"{path}: {where} has {key} = {value!r}; it must be a finite number of seconds above 0")
    return value


def _texts(entry, key, path, name):
    values = entry.get(key, [])
    if not isinstance(values, list) or not all(isinstance(v, str) and "\0" not in v for v in values):
        raise PlanError(f"{path}: row '{name}' has {key} = {values!r}; it must be a list of texts without NUL")
    return values


def _config(config, path, name, source):
    """Only files of the plan's own folder and the tree's presets: a campaign is read wherever it is copied to."""
    folder = path.resolve().parent
    if not ((folder / config).resolve().is_relative_to(folder) or _is_preset(source / config, source)):
        raise PlanError(f"{path}: row '{name}' has config = {config!r}, outside of the plan's folder and of configs/; copy the file beside the plan")
    return config


def _peer(peer, path, name, peers):
    if not isinstance(peer, str) or not re.fullmatch(r"[A-Za-z0-9_]+", peer):
        raise PlanError(f"{path}: row '{name}' has peer = {peer!r}; it must be the name of a program: letters, digits and '_'")
    if not (peers / f"{peer}.py").is_file():
        raise PlanError(f"{path}: row '{name}' names the peer '{peer}', and there is no {peers / peer}.py")
    return peer


def _whole(entry, key, default, least, path, where):
    value = entry.get(key, default)
    if type(value) is not int or not least <= value <= 100_000:
        raise PlanError(f"{path}: {where} has {key} = {value!r}; it must be a whole number from {least} to 100000")
    return value


def _row(entry, defaults, path, peers):
    name = entry.get("name", "")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        raise PlanError(f"{path}: a row's name is {name!r}; it needs 1 to 100 of letters, digits, '-' and '_', '-' and '_' not first")
    odd = sorted(set(entry) - KEYS)
    if odd:
        raise PlanError(f"{path}: row '{name}' has the key {odd[0]!r}; known are {', '.join(sorted(KEYS))}")
    if sum(kind in entry for kind in KINDS) != 1:
        raise PlanError(f"{path}: row '{name}' needs either config (a mylos run), peer or bench")
    if "set" in entry and "config" not in entry:
        raise PlanError(f"{path}: row '{name}': set belongs to config; of peers and benchmarks there are arguments")
    where = f"row '{name}'"
    row = Row(name, _limit(entry.get("limit_s", defaults["limit_s"]), path, where), gpus=_whole(entry, "gpus", defaults["gpus"], 0, path, where),
              nodes=_whole(entry, "nodes", 1, 1, path, where))  # fmt: skip
    row.overrides, row.arguments = (_texts(entry, key, path, name) for key in ("set", "arguments"))
    if "peer" in entry:
        row.peer = _peer(entry["peer"], path, name, peers)
        return row
    kind = "config" if "config" in entry else "bench"
    if not isinstance(entry[kind], str) or not entry[kind] or "\0" in entry[kind] or entry[kind].startswith("-"):
        what = f"{'the path of a configuration' if kind == 'config' else 'a pattern of cases'}, which does not begin with '-'"
        raise PlanError(f"{path}: row '{name}' has {kind} = {entry[kind]!r}; it must be {what}")
    setattr(row, kind, entry[kind])
    if kind == "config":
        _config(row.config, path, name, peers.parents[1])
        row.overrides = [*defaults["set"], *row.overrides]
    return row


def _scale(name, entry, path):
    rows = entry.get("rows") if isinstance(entry, dict) else None
    odd = sorted(set(entry) - {"rows", "budget_s"}) if isinstance(entry, dict) else []
    if odd or not isinstance(rows, str):
        raise PlanError(f"{path}: scale {name!r} is {entry!r}; it needs rows, a regular expression on names, and may have budget_s")
    matching.compiled(rows, f"{path}: scale {name!r} has rows, which")
    return Scale(rows, _limit(entry["budget_s"], path, f"scale '{name}'", "budget_s") if "budget_s" in entry else 0)


def _tokens(name, entry, path):
    t = {"order": "uniform", "seed": 1, "document": 0, "lengths": "equal"} | entry
    whole = all(type(t.get(key)) is int and t[key] >= least for key, least in (("vocab", 2), ("count", 2), ("seed", 0), ("document", 0)))
    keys = {"vocab", "count", "order", "seed", "document", "lengths"}
    if set(t) != keys or not whole or t["order"] not in ("uniform", "chain", "text") or t["lengths"] not in ("equal", "lognormal"):
        raise PlanError(
            f"{path}: tokens {name!r} needs vocab and count (2 or more), and may have seed, order: uniform, chain or text, "
            "document: tokens of one, and lengths: equal or lognormal"
        )
    for key, most in (("vocab", MOST_WORDS), ("count", MOST_TOKENS), ("document", MOST_TOKENS), ("seed", 2**63 - 1)):
        if t[key] > most:
            raise PlanError(f"{path}: tokens {name!r} has {key} = {t[key]}; at most {most} can be made here: tokenize a text of yours and name it by {{data}}")
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
    rows, tokens, scales = toml.get("row", []), toml.get("tokens", {}), toml.get("scale", {})
    if not isinstance(rows, list) or not all(isinstance(entry, dict) for entry in rows):
        raise PlanError(f"{path}: row is not a list of tables; each row begins with [[row]]")
    if not isinstance(tokens, dict) or not all(isinstance(entry, dict) for entry in tokens.values()):
        raise PlanError(f"{path}: tokens is not a table of tables; each begins with [tokens.NAME]")
    if not isinstance(scales, dict) or not isinstance(toml.get("title", ""), str):
        raise PlanError(f"{path}: title must be a text, and scale a table of tables; each begins with [scale.NAME]")
    toml["limit_s"] = _limit(toml.get("limit_s", 100), path, "the plan")
    toml["set"] = _texts(toml, "set", path, "every row")
    toml["gpus"] = _whole(toml, "gpus", 1, 0, path, "the plan")
    return toml, rows, tokens, scales


def load(path: Path, only: str = "", peers: Path = PEERS, scale: str | None = None) -> Plan:
    """Every key and type is checked before a row runs; `peers` is the folder of the programs that rows may name."""
    pattern = matching.compiled(only, "--only")
    toml, row_entries, token_entries, scale_entries = _read(path)
    if not row_entries:
        raise PlanError(f"{path} has no row; each begins with [[row]]")
    entries = sweep.expanded(row_entries, path, MOST_ROWS)
    rows = [_row(entry, toml, path, peers) for entry in entries]
    tokens = {name: _tokens(name, entry, path) for name, entry in token_entries.items()}
    scales = {name: _scale(name, entry, path) for name, entry in scale_entries.items()}
    seen = set()
    for row in rows:
        if row.name in seen:
            raise PlanError(f"{path}: two rows are called '{row.name}'")
        for kind, name in re.findall(r"\{(\w+)\.([\w-]+)\}", " ".join(row.values())):
            if name not in {"tokens": tokens, "weights": seen}.get(kind, ()):
                raise PlanError(f"{path}: row '{row.name}' names {{{kind}.{name}}}, and there is no such before it")
        seen.add(row.name)
    if scale and scale not in scales:
        raise PlanError(f"{path}: there is no scale '{scale}'; scales: {', '.join(scales) or 'none'}")
    with matching.limited(f"--only {only!r}"):
        chosen = [row for row in rows if pattern.search(row.name)]
    with matching.limited(f"{path}: scale {scale!r}"):
        chosen = [row for row in chosen if not scale or re.search(scales[scale].rows, row.name)]
    if not chosen:
        names = ", ".join(row.name for row in rows[:30]) + (f" and {len(rows) - 30} more" if len(rows) > 30 else "")
        raise PlanError(f"{path}: no row matches {only!r}{f' in scale {scale!r}' if scale else ''}; rows: {names}")
    return Plan(with_needed(rows, chosen), tokens, path.resolve().parent, toml.get("title", ""), scales, rows)


def with_needed(rows, chosen):
    """Chosen rows, and those whose weights they start from, in the plan's order."""
    names = {row.name for row in chosen}
    for row in reversed(rows):
        if row.name in names:
            names |= set(re.findall(r"\{weights\.([\w-]+)\}", " ".join(row.values())))
    return [row for row in rows if row.name in names]
