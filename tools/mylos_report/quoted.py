"""Published figures of other systems, quoted from a file `quoted.toml`: facts with their source, never measured here.

  [[row]]
  system = "..."          # with model, device, gpus, sequence, precision, recompute, tokens_per_s (all GPUs), source: needed
  mfu_causal = 51.1       # percent, recomputed from tokens/s by our definition, or
  published = "57.8 %"    # what the source says, in its words

QuotedError names the file, the row and the key.
"""

import tomllib

from .markdown import clean
from .parts import table_of

NEEDED = {"system": str, "model": str, "device": str, "gpus": int, "sequence": int, "precision": str, "recompute": str,
          "tokens_per_s": (int, float), "source": str}  # fmt: skip
OPTIONAL = {"mfu_causal": (int, float), "mfu_palm": (int, float), "mfu_total": (int, float), "published": str, "headline": bool, "nodes": int}
LABEL = "*Quoted, not measured here; each row's source beside it. Other machines, software and data: no ratio to ours is drawn.*"


class QuotedError(Exception):
    pass


def read(path):
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("row", [])
    except (OSError, ValueError) as error:
        raise QuotedError(f"{path}: {error}") from error
    for number, entry in enumerate(entries, 1):
        where = f"{path}: row {number} ({entry.get('system', '?')})"
        for key, kind in NEEDED.items():
            if not isinstance(entry.get(key), kind) or isinstance(entry[key], bool):
                raise QuotedError(f"{where} has {key} = {entry.get(key)!r}; it is needed")
        odd = sorted(set(entry) - set(NEEDED) - set(OPTIONAL))
        if odd:
            raise QuotedError(f"{where} has the key {odd[0]!r}; known are {', '.join([*NEEDED, *OPTIONAL])}")
    return entries


def _percent(entry, key):
    return f"{entry[key]:.1f} %" if key in entry else ""


def table(entries, label=True):
    header = ["system (quoted)", "model", "device", "precision", "recompute", "GPUs", "S", "tokens/s", "tokens/s a GPU", "mfu_causal", "mfu_palm",
              "mfu_total", "as published", "source"]  # fmt: skip
    lines = [
        [
            clean(e["system"]),
            clean(e["model"]),
            clean(e["device"]),
            clean(e["precision"]),
            clean(e["recompute"]),
            f"{e['gpus']:,}",
            str(e["sequence"]),
            f"{e['tokens_per_s']:,.0f}",
            f"{e['tokens_per_s'] / e['gpus']:,.0f}",
            *(_percent(e, key) for key in ("mfu_causal", "mfu_palm", "mfu_total")),
            clean(e.get("published", "")),
            clean(e["source"]),
        ]
        for e in entries
    ]
    text = table_of(header, lines)
    return f"{text}\n\n{LABEL}" if label and text else text
