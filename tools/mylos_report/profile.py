"""The report of a profile of kernels: tables of categories and kernels, and a figure of both a step's shares and its timeline."""

import numpy as np

from .bundle import BundleError
from .figures import STYLE, _save, plt
from .markdown import clean, table

SHOWN = 40
COLOURS = {
    "products": "#2b6cb0",
    "attention": "#dd6b20",
    "optimizer": "#805ad5",
    "memory-bound": "#2f855a",
    "communication": "#c53030",
    "copy, set": "#718096",
    "idle": "#e2e8f0",
}
MOST_DRAWN = 20_000  # bars of the timeline


def has_kernels(bundle):
    return "/samples/kernels/begin" in bundle.datasets


def _code(text, most=90):
    """Inside of a table's cell, where Markdown must not read it."""
    shown = "".join(c for c in text if c.isprintable() and c not in "`|")
    return f"`{shown if len(shown) <= most else shown[: most - 3] + '...'}`"


def _column(bundle, path, texts=False):
    values = bundle.texts(path) if texts else bundle.datasets.get(path)
    if values is None or len(values) == 0:
        raise BundleError(f"'{bundle.path}' has no {path}")
    return values


def _timeline(bundle, axes, categories):
    """The first profiled step: one row a category, each record where and as long as it ran."""
    begin, end, kernel = (_column(bundle, f"/samples/kernels/{c}") for c in ("begin", "end", "kernel"))
    steps = bundle.table("/samples/steps")
    inside = np.flatnonzero((end > steps["begin"][0]) & (begin < steps["end"][0]))[:MOST_DRAWN]
    of_kernel = _column(bundle, "/derived/kernels/category", texts=True)
    rows = [c for c in categories if c != "idle"]
    for row, category in enumerate(rows):
        own = [i for i in inside if of_kernel[int(kernel[i])] == category]
        bars = [(1e3 * begin[i], 1e3 * (end[i] - begin[i])) for i in own]
        axes.broken_barh(bars, (len(rows) - row - 1.4, 0.8), color=COLOURS.get(category, "#000000"), linewidth=0)
    axes.set_yticks(range(len(rows) - 1, -1, -1), rows)
    axes.set_xlim(1e3 * steps["begin"][0], 1e3 * steps["end"][0])
    axes.set_xlabel("ms of the first profiled step")
    axes.set_title(f"step {steps['step'][0]:.0f}, kernel by kernel")


def figure(bundle, folder):
    categories = _column(bundle, "/derived/categories/category", texts=True)
    exposed = _column(bundle, "/derived/categories/exposed")
    step = bundle.number("/summary/step_time")
    with plt.rc_context(STYLE):
        drawn, (bar, line) = plt.subplots(2, 1, figsize=(8.4, 4.8), height_ratios=(1, 3))
        left = 0.0
        for category, seconds in zip(categories, exposed):
            share = 100 * seconds / step
            label = f"{category} {share:.1f} %"
            bar.barh(0, share, left=left, color=COLOURS.get(category, "#000000"), label=label)
            left += share
        bar.set_xlim(0, 100)
        bar.set_yticks([])
        bar.set_xlabel("% of a step")
        bar.set_title(f"a step takes {1e3 * step:,.2f} ms")
        bar.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.75), fontsize=8.5)
        _timeline(bundle, line, categories)
        return _save(drawn, folder, "kernels.png")


def report(bundle, folder):
    """report.md of a profile bundle; its figure goes beside it."""
    step = bundle.number("/summary/step_time")
    if not step:
        raise BundleError(f"'{bundle.path}' has no /summary/step_time")
    before = bundle.number("/summary/step_time_before") or float("nan")
    steps = bundle.table("/samples/steps")
    device = clean(bundle.attribute("/hardware", "device", "?"))
    out = [
        "# Where the time of a step goes, kernel by kernel",
        "",
        f"{len(steps['step'])} steps of {_code(' '.join(bundle.texts('/provenance/command_line')), 400)} on {device}, from step "
        f"{steps['step'][0]:.0f}, recorded by {clean(bundle.attribute('/samples', 'source', '?'))}: {1e3 * step:,.3f} ms a step; "
        f"the steps before, which were not recorded, took {1e3 * before:,.3f} ms (median).",
        "",
        f"![categories of a step, and its timeline]({figure(bundle, folder)})",
        "",
        "Each kernel counts once. Where several run at a time the instant belongs to one of them, so that the column *exposed* adds up to the "
        "step with idle time; *time* is the sum of durations.",
        "",
    ]

    def cells(at, i):
        calls, time, exposed = (bundle.datasets[f"{at}/{c}"][i] for c in ("calls", "time", "exposed"))
        return f"{calls:,.4g}", f"{1e3 * time:,.3f}", f"{1e3 * exposed:,.3f}", f"{100 * exposed / step:.1f} %"

    sums = "/derived/categories"
    rows = [(clean(name), *cells(sums, i)) for i, name in enumerate(_column(bundle, f"{sums}/category", texts=True))]
    total = bundle.datasets[f"{sums}/exposed"].sum()
    rows.append(("**step**", "", "", f"**{1e3 * total:,.3f}**", f"**{100 * total / step:.1f} %**"))
    figures = ("calls a step", "ms a step", "exposed ms", "share")
    out += [table(("category", *figures), rows), "", "## Kernels", ""]

    at = "/derived/kernels"
    names, regions, categories = (_column(bundle, f"{at}/{c}", texts=True) for c in ("name", "region", "category"))
    longest = sorted(range(len(names)), key=lambda i: -bundle.datasets[f"{at}/exposed"][i])
    rows = [(_code(names[i]), _code(regions[i]) if regions[i] else "none", clean(categories[i]), *cells(at, i)) for i in longest[:SHOWN]]
    out += [table(("kernel", "region", "category", *figures), rows), ""]
    if len(names) > SHOWN:
        out += [f"And {len(names) - SHOWN} kernels more, in the bundle.", ""]
    out += [f"Every dataset's SHA-256 was verified. Commit {clean(bundle.attribute('/provenance', 'commit'))}.", ""]
    return "\n".join(out)
