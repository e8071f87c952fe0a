"""Tables of micro's README, from its bench bundles: `mylos campaign report micro [--check]`."""

import itertools
import math
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(pathlib.Path(os.environ.get("MYLOS_ROOT") or HERE.parents[1]) / "tools"))
from mylos_report import bench_figures, folder_report, parts, plots  # noqa: E402


def cases(bundle):
    """Cases of a bench bundle with their figures, which follow from its samples."""
    found = bench_figures.cases(bundle)
    modes = bundle.texts("/cases/mode") or [bundle.attribute("/", "mode", "")] * len(found)
    about = {"system": bundle.attribute("/", "system", "mylos"), "call": bundle.attribute("/provenance", "call", ""),
             "is_gpu": bool(bundle.attribute("/hardware", "is_gpu"))}  # fmt: skip
    return [case | about | {"mode": mode} for case, mode in zip(found, modes, strict=True)]


def all_cases(results):
    return [case for bundle in results.bundles("bench") for case in cases(bundle)]


def rate(case):
    """FLOPs where they are many a byte, else bytes."""
    flops, moved = (case[name] if math.isfinite(case[name]) else 0 for name in ("flop_rate", "byte_rate"))
    if flops > 10 * moved:
        return f"{flops / 1e12:,.3g} TFLOP/s"
    return f"{moved / 1e9:,.4g} GB/s" if moved else ""


def microseconds(seconds):
    return f"{1e6 * seconds:,.2f}" if seconds < 1e-4 else f"{1e6 * seconds:,.0f}"


def alike(case, peer):
    """Whether both did the same work: names are equal by intent only. FLOPs of a rule may be counted as it is written, or as it is computed."""
    counted = all(math.isfinite(c["flops"]) and c["flops"] > 0 for c in (case, peer))
    return case["items"] == peer["items"] and (not counted or 0.75 < peer["flops"] / case["flops"] < 1.34)


def fastest(peers, case):
    """The peer's fastest mode of the same case in the same call, or None."""
    same = [p for p in peers if p["name"] == case["name"] and p["call"] == case["call"] and math.isfinite(p["median"]) and alike(case, p)]
    return min(same, key=lambda p: p["median"], default=None)


def component(name, is_gpu):
    def table(results):
        found = [c for c in all_cases(results) if c["is_gpu"] == is_gpu]
        peers = [c for c in found if c["system"] != "mylos"]
        lines = []
        for c in (c for c in found if c["system"] == "mylos" and (c["component"] == name or name == "all") and not c["skipped"]):
            peer = fastest(peers, c)
            half = max(c["median_high"] - c["median"], c["median"] - c["median_low"]) / c["median"]
            lines.append(
                [f"`{c['name']}`", c["dtype"], f"{microseconds(c['median'])} ± {100 * half:.1f} %", rate(c),
                 f"{100 * c['share']:.0f} %" if math.isfinite(c["share"]) else "", microseconds(peer["median"]) if peer else "",
                 peer["mode"] if peer else "", f"{peer['median'] / c['median']:.2f}x" if peer else ""]
            )  # fmt: skip
        header = ["case", "dtype", "us, 95 %", "rate", "of the roofline", "PyTorch, us", "its fastest mode", "mylos is"]
        kept = [i for i in range(len(header)) if any(line[i] for line in lines)]
        return parts.table_of([header[i] for i in kept], [[line[i] for i in kept] for line in lines])

    return table


def mylos_cases(results, is_gpu=True):
    return [c for c in all_cases(results) if c["system"] == "mylos" and c["is_gpu"] == is_gpu and math.isfinite(c["median"])]


def against(results, cases, mode):
    """What PyTorch takes in that mode ("" its fastest) over what mylos takes, a figure a case: in one call, or there is none."""
    peers = [c for c in all_cases(results) if c["system"] != "mylos" and mode in ("", c["mode"])]
    found = ((c, fastest(peers, c)) for c in cases)
    return [(c["name"], peer["median"] / c["median"], peer["median_low"] / c["median_high"], peer["median_high"] / c["median_low"]) for c, peer in found if peer]


def span(values, form):
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


# What is asked of components: (of which cases, against what, the least it should be).
ASKED = (
    ("forward/125m/forward_backward$", "eager", 4.0),
    ("forward/125m/forward_backward$", "compiled", 1.0),
    ("attention/S\\d+/causal/.*(forward|backward)$", "cudnn", 1.0),
    ("optimizer/muon/(125m|1g)$", "compiled", 1.5),
    ("data/packing$", "loop", 50.0),
    ("optimizer/(adamw|lion|schedule_free)/1g$", "share", 0.95),
    ("data/mapped_iteration$", "share", 0.9),
    ("data/packing$", "rate", 2e9),
)


def asked(results):
    """Each machine that measured a case that something is asked of."""
    lines = []
    for (pattern, what, least), is_gpu in itertools.product(ASKED, (True, False)):
        cases = [c for c in mylos_cases(results, is_gpu) if re.fullmatch(pattern, c["name"])]
        if what == "rate":
            values, form, of = [c["byte_rate"] for c in cases], lambda v: f"{v / 1e9:.3g} GB/s", "one core"
        elif what == "share":
            values, form, of = [c["share"] for c in cases], lambda v: f"{v:.3f}", "a copy in the same run"
        else:
            values, form, of = [v for _, v, _, _ in against(results, cases, what)], lambda v: f"{v:,.2f}x", f"PyTorch, {what}, in the same call"
        if values:
            name = "`" + pattern.rstrip("$").replace("|", "\\|") + "`"
            lines.append([name, str(len(values)), "H200" if is_gpu else "CPU", of, span(values, form), form(least)])
    return parts.table_of(["cases", "of them", "machine", "against", "seen", "at least"], lines)


def attention_figure(results):
    series = {}
    for c in all_cases(results):
        name = re.fullmatch(r"attention/S(\d+)/causal/32x8x128/(forward|forward_backward)", c["name"])
        if name and c["is_gpu"] and math.isfinite(c["median"]):
            label = f"{c['system']}{' ' + c['mode'] if c['mode'] else ''}, {name[2].replace('_', ' + ')}"
            rate = c["flop_rate"] / 1e12
            series.setdefault(label, []).append(
                (int(name[1]), rate, rate * c["median"] / c["median_high"], rate * c["median"] / c["median_low"])
            )
    return plots.lines({name: sorted(points) for name, points in sorted(series.items())}, "attention.png",
                       "TFLOP/s of causal attention by sequence length", "Causal attention, 32/8 heads of 128, 16,384 tokens, bf16",
                       "sequence", "TFLOP/s")  # fmt: skip


def share_figure(is_gpu, pattern, file, title):
    def figure(results):
        found = [c for c in mylos_cases(results, is_gpu) if re.match(pattern, c["name"]) and math.isfinite(c["share"])]
        entries = [(c["name"], c["share"], c["share"] * c["median"] / c["median_high"], c["share"] * c["median"] / c["median_low"]) for c in found]
        return plots.bars(entries, file, title, title, "part of the roofline of the same run", mark=1.0)

    return figure


def peers_figure(results):
    entries = against(results, mylos_cases(results), "")
    return plots.bars(entries, "peers.png", "how many times faster than PyTorch's fastest mode each component is",
                      "mylos against PyTorch's fastest mode", "times faster (log)", mark=1.0, log_x=True)  # fmt: skip


def skipped(results):
    lines = sorted({(c["name"], c["system"], c["skipped"]) for c in all_cases(results) if c["skipped"]})
    if not lines:
        return "None." if all_cases(results) else ""
    return parts.table_of(["case", "system", "why it has no samples"], [[f"`{n}`", s, w.replace("|", "/")] for n, s, w in lines])


if __name__ == "__main__":
    made = {"opening": parts.opening, "asked": asked, "attention-figure": attention_figure, "peers-figure": peers_figure}
    made["share-figure"] = share_figure(True, "ops/7b/.*/bf16$", "share.png", "Ops of a 7B block, bf16: part of the roofline")
    made["cpu-figure"] = share_figure(False, "(ops/small/\\w+/f32|optimizer/.*|data/(mapped|packing).*)$", "cpu.png", "On a CPU, ops in f32: part of the roofline")
    made |= {name: component(name, True) for name in ("forward", "optimizer", "data", "checkpoint", "harness")}
    made |= {"cpu": component("all", False), "skipped": skipped, "not-run": parts.outcomes}
    sys.exit(folder_report.main(__file__, made))
