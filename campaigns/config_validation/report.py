"""Tables of config_validation's README, from its bundles: `mylos campaign report config_validation [--check]`."""

import os
import pathlib
import re
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(os.environ.get("MYLOS_ROOT") or HERE.parents[1])
sys.path.insert(0, str(ROOT / "tools"))
from mylos_report import folder_report, parts, quoted  # noqa: E402


def preset(row):
    """The preset's name, and what of it ran: a row is called [cpu-]PRESET[-N-layer(s)]."""
    name = re.sub(r"^cpu-|-\d+-layers?$", "", row["name"])
    whole = tomllib.loads((ROOT / f"configs/model/{name}.toml").read_text(encoding="utf-8"))["model"]
    layers, vocab = row["model"]["layers"], row["model"]["vocab"]
    cut = [f"**{layers} of {whole['layers']} layers** at full width"] if layers != whole["layers"] else []
    cut += [f"vocabulary {vocab:,} of {whole['vocab']:,}"] if vocab != whole["vocab"] else []
    return name, ", ".join(cut) or "whole"


def table(results, is_gpu):
    order = ["debug", "125m", "7b", "13b", "29b", "70b", "175b"]
    rows = [r for r in results.rows if r["hardware"]["is_gpu"] == is_gpu]
    rows.sort(key=lambda r: (r["call"], order.index(preset(r)[0])))
    columns = (
        ("preset", lambda r: preset(r)[0]),
        ("of it", lambda r: preset(r)[1]),
        "verdict",
        "model", "tokens_per_s", "step_time", "mfu_causal",
        "losses",
        ("GiB planned", lambda r: f"{(r['planned_memory'] or 0) / 2**30:.2f}"),
        ("GiB used", lambda r: f"{r['peak_memory'] / 2**30:.2f}"),
        ("steps", lambda r: str(r["window"][2])), "call",
    )  # fmt: skip
    return parts.runs(rows, columns)


if __name__ == "__main__":
    sys.exit(
        folder_report.main(
            __file__,
            {
                "opening": parts.opening,
                "presets": lambda results: table(results, True),
                "cpu": lambda results: table(results, False),
                "quoted": lambda results: quoted.table(quoted.read(HERE / "quoted.toml")),
                "not-run": parts.outcomes,
            },
        )
    )
