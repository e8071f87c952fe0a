"""The figures of a train report. Each function returns the name of its file, or None with nothing to draw."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the back end is chosen before)
import numpy as np  # noqa: E402
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter  # noqa: E402

BLUE, ORANGE, GREEN, GREY = "#2b6cb0", "#dd6b20", "#2f855a", "#718096"
STYLE = {
    "figure.dpi": 150,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelcolor": "#2d3748",
    "axes.edgecolor": "#a0aec0",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e2e8f0",
    "grid.linewidth": 0.8,
    "xtick.color": "#4a5568",
    "ytick.color": "#4a5568",
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
}


def rolling(values, width, reduce=np.nanmedian):
    """`reduce` over a centred window of `width` values, shorter at the ends."""
    half = width // 2
    padded = np.concatenate([np.full(half, np.nan), values, np.full(half, np.nan)])
    return reduce(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)


def _save(figure, folder, name, note=""):
    """`note` is kept in the file: what the figure was drawn of."""
    figure.tight_layout()
    # Without the version and date, equal data give equal files.
    figure.savefig(folder / name, metadata={"Software": None} | ({"Comment": note} if note else {}))
    plt.close(figure)
    return name


def loss(steps, evaluation, folder):
    finite = np.isfinite(steps["loss"])
    if not finite.any():
        return None
    x, y = steps["step"][finite], steps["loss"][finite]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 4.2))
        width = max(1, len(y) // 40) | 1
        many = width >= 5
        axes.plot(
            x,
            y,
            color=BLUE,
            linewidth=0.8 if many else 1.6,
            alpha=0.3 if many else 1,
            marker="o" if len(y) == 1 else None,
            label=None if many else "training",
        )
        if many:
            axes.plot(
                x,
                rolling(y, width, np.nanmean),
                color=BLUE,
                linewidth=1.8,
                label=f"training (mean of {width} steps; raw: pale)",
            )
        valid = np.isfinite(evaluation.get("loss", np.array([])))
        if valid.any():
            ex, ey = evaluation["step"][valid], evaluation["loss"][valid]
            axes.plot(
                ex,
                ey,
                color=ORANGE,
                linewidth=1.4,
                marker="o",
                markersize=4.5,
                markeredgecolor="white",
                markeredgewidth=0.8,
                label="validation",
                zorder=3,
            )
            axes.annotate(
                f"{ey[-1]:.3f}",
                (ex[-1], ey[-1]),
                textcoords="offset points",
                xytext=(4, 7),
                color=ORANGE,
                fontweight="bold",
                ha="right" if len(ex) > 1 else "left",
            )
        axes.set(title="Loss", xlabel="optimizer step", ylabel="cross entropy (nats per token)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        # A single outlier must not flatten the curve.
        low, high = np.min(y), np.percentile(y, 99.5)
        if valid.any():
            low, high = min(low, ey.min()), max(high, np.percentile(ey, 99.5))
        if high > low:
            axes.set_ylim(low - 0.05 * (high - low), high + 0.07 * (high - low))
        axes.legend(loc="upper right")
        return _save(figure, folder, "loss.png")


def throughput(steps, summary, folder):
    rate, time = steps["tokens_per_s"], np.cumsum(steps["step_time"])
    if not len(rate):
        return None
    unit, scale = ("min", 60.0) if time[-1] >= 300 else ("s", 1.0)
    x = (time - 0.5 * steps["step_time"]) / scale
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 3.6))
        axes.plot(x, rate, color=GREEN, linewidth=0, marker=".", markersize=4, alpha=0.35, label="each step")
        width = max(1, len(rate) // 40) | 1
        if width >= 3:
            axes.plot(x, rolling(rate, width), color=GREEN, linewidth=1.7, label=f"median of {width} steps")
        first, end = summary.get("steady_window_first"), summary.get("steady_window_end")
        median, low, high = (summary.get("tokens_per_s_median" + end_) for end_ in ("", "_low", "_high"))
        if median is not None and first is not None and 0 <= first < end <= len(x):
            inside = (x[int(first)], x[int(end) - 1])
            axes.plot(
                inside,
                (median, median),
                color="#1a202c",
                linewidth=1.3,
                linestyle="--",
                zorder=4,
                label=f"steady median {median:,.0f} (95 %: {low:,.0f} to {high:,.0f})",
            )
            axes.fill_between(inside, low, high, color=GREY, alpha=0.25, linewidth=0)
            if first > 0:
                axes.axvspan(0, x[int(first) - 1], color="#edf2f7", linewidth=0, zorder=0)
        axes.set(
            title="Throughput",
            xlabel=f"training time ({unit}; evaluation left out, warm-up shaded)",
            ylabel="tokens per second",
        )
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_ylim(0, 1.25 * np.percentile(rate, 99.5))
        axes.set_xlim(left=0)
        axes.legend(loc="lower right", ncols=1)
        return _save(figure, folder, "throughput.png")


def optimization(steps, folder):
    if not len(steps["step"]):
        return None
    norm = np.where(np.isfinite(steps["grad_norm"]) & (steps["grad_norm"] > 0), steps["grad_norm"], np.nan)
    with plt.rc_context(STYLE):
        figure, (upper, lower) = plt.subplots(2, 1, figsize=(7.2, 4.6), sharex=True)
        upper.plot(steps["step"], steps["learning_rate"], color=BLUE, linewidth=1.6)
        upper.set(title="Learning rate and gradient norm", ylabel="learning rate", ylim=(0, None))
        upper.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
        width = max(1, len(norm) // 40) | 1
        lower.plot(steps["step"], norm, color=ORANGE, linewidth=0.8, alpha=0.35 if width >= 3 else 1)
        if width >= 3 and np.isfinite(norm).all():
            lower.plot(
                steps["step"], rolling(norm, width), color=ORANGE, linewidth=1.6, label=f"median of {width} steps"
            )
            lower.legend(loc="upper right")
        if np.isfinite(norm).any():
            lower.set_yscale("log")
            lower.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            lower.yaxis.set_minor_formatter(NullFormatter())
        lower.set(xlabel="optimizer step", ylabel="norm before clipping")
        lower.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.align_ylabels()
        return _save(figure, folder, "optimization.png")


def share_of_limit(rows, folder, note=""):
    """Speed of each row as a part of the limit of its call; rows without a limit are left out."""
    shown = [r for r in rows if r["ratio_limit"] is not None]
    if not shown:
        return None
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(9.6, 1.3 + 0.34 * len(shown)))
        place = np.arange(len(shown))[::-1]
        colour = {"limit": GREY, "pytorch": ORANGE, "mylos": BLUE}
        values = [100 * r["ratio_limit"] for r in shown]
        axes.barh(place, values, height=0.62, color=[colour.get(r["system"], GREEN) for r in shown])
        low = [100 * r["ratio_limit"] * (1 - r["tokens_per_s_low"] / r["tokens_per_s"]) for r in shown]
        high = [100 * r["ratio_limit"] * (r["tokens_per_s_high"] / r["tokens_per_s"] - 1) for r in shown]
        axes.errorbar(values, place, xerr=[low, high], fmt="none", ecolor="#2d3748", elinewidth=1, capsize=2)
        for y, r, v in zip(place, shown, values):
            axes.text(1.5, y, f"{r['tokens_per_s']:,.0f} tokens/s", va="center", fontsize=8, color="white")
            axes.annotate(f"{v:.1f} %", (v, y), (7, 0), textcoords="offset points", va="center", fontsize=8)
        axes.set_yticks(place)
        several = len({r["call"] for r in shown}) > 1
        axes.set_yticklabels([_row_label(r) + (f"  [{r['call'][-4:]}]" if several else "") for r in shown])
        axes.grid(axis="y", visible=False)
        axes.axvline(100, color=GREY, linewidth=1)
        axes.set_xlim(0, max(112, 1.12 * max(values)))
        axes.set_xlabel("% of the limit: products and attention alone, same call")
        axes.set_title("Tokens/s as a part of the limit")
        return _save(figure, folder, "share_of_limit.png", note)


def parity(pairs, rows, folder, note=""):
    """Losses of mylos and of a peer from the same weights on the same tokens, and how far they are apart."""
    losses = {r["file"]: r["losses"] for r in rows}
    if not pairs:
        return None
    with plt.rc_context(STYLE):
        figure, (upper, lower) = plt.subplots(2, 1, figsize=(8.0, 5.6), sharex=True, height_ratios=(2, 1))
        for i, pair in enumerate(pairs):
            mine, other = losses[pair["mylos"]], losses[pair["other"]]
            steps = sorted(mine.keys() & other.keys())
            name = f"{pair['other'].split('.')[1]} ({pair['other_state']})"
            if i == 0:
                upper.plot(steps, [mine[s] for s in steps], color=BLUE, linewidth=1.2, label="mylos")
            upper.plot(steps, [other[s] for s in steps], linewidth=1.0, linestyle="--", color=(ORANGE, GREEN)[i % 2], label=name)
            apart = [max(abs(mine[s] - other[s]), 1e-7) for s in steps]
            lower.semilogy(steps, apart, linewidth=1.0, color=(ORANGE, GREEN)[i % 2])
        upper.set(ylabel="loss, nat/token", title="The same weights and tokens")
        upper.legend(frameon=False)
        lower.set(xlabel="optimizer step", ylabel="apart")
        return _save(figure, folder, "parity.png", note)


def _row_label(row):
    system = f"{row['system']} {row['mode']}" if row["system"] == "pytorch" else row["system"]
    size = f"{row['parameters'] / 1e9:.1f} B" if row["parameters"] >= 1e9 else f"{row['parameters'] / 1e6:.0f} M"
    if row["system"] == "limit":
        return f"{size} limit, recompute {row['recompute']}"
    free = " free" if row["system"] == "mylos" and not row["deterministic"] else ""
    state = "/".join(row["state"][k] for k in ("weights", "gradients", "master", "moments"))
    recompute = f"{row['recompute']}{row['recompute_blocks'] or ''}"
    return f"{size} {system}{free}, {recompute} {row['batch']}x{row['accumulation']}, {state}"
