"""Figures of campaigns: each with all that is drawn as data, so that a figure is held against bundles by the data's hash.

A PNG says in its comment what data it was drawn of, and so does the README beside it; pixels depend on fonts and versions and are not
compared. A figure is drawn again only when the data are others.
"""

import hashlib
import json
import pathlib
import struct
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Figure:
    file: str
    alt: str
    data: object  # numbers, texts, lists and dicts of them
    draw: Callable  # (folder, note) -> None

    @property
    def note(self):
        text = json.dumps(self.data, sort_keys=True, default=str)
        return "data sha256 " + hashlib.sha256(text.encode()).hexdigest()

    def markdown(self):
        return f"![{self.alt}]({self.file})\n<!-- {self.note} -->"

    def is_current(self, folder):
        return comment_of(pathlib.Path(folder) / self.file) == self.note

    def disagreement(self, folder):
        """What is wrong with the file; empty: nothing."""
        path = pathlib.Path(folder) / self.file
        return "" if self.is_current(folder) else f"'{path}' was drawn of other data" if path.is_file() else f"'{path}' is missing"

    def ensure(self, folder):
        """Draws it unless it is there; whether it was drawn."""
        if self.is_current(folder):
            return False
        self.draw(pathlib.Path(folder), self.note)
        return True


def comment_of(path):
    """The text `Comment` of a PNG; empty when there is none, or no file."""
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    at = 8
    while at + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        if kind == b"tEXt" and body.startswith(b"Comment\0"):
            return body[8:].decode("latin-1")
        at += 12 + size
    return ""


SPEED = ("file", "name", "system", "mode", "tokens_per_s", "tokens_per_s_low", "tokens_per_s_high", "call", "recompute", "recompute_blocks",
         "batch", "accumulation", "state", "deterministic", "parameters")  # fmt: skip


def share_of_limit(rows, alt):
    """Bars: tokens/s as a part of the limit of the same call; None without a limit."""
    rows = [r for r in rows if r["ratio_limit"] is not None]

    def draw(folder, note):
        from . import figures

        figures.share_of_limit(rows, folder, note)

    data = [{key: r[key] for key in (*SPEED, "ratio_limit")} for r in rows]
    return Figure("share_of_limit.png", alt, data, draw) if rows else None


def parity(pairs, rows, alt):
    """Losses from the same weights on the same tokens, and how far they are apart; None without a pair."""

    def draw(folder, note):
        from . import figures

        figures.parity(pairs, rows, folder, note)

    losses = {r["file"]: sorted(r["losses"].items()) for r in rows}
    data = [[pair["mylos"], losses[pair["mylos"]], pair["other"], losses[pair["other"]]] for pair in pairs]
    return Figure("parity.png", alt, data, draw) if pairs else None


def _lines(rows, series, x, y):
    """{series: [(x, y, low, high)]} sorted by x, where y scales with tokens/s."""
    lines = {}
    for r in rows:
        if y(r) is None:
            continue
        low, high = (y(r) * r[f"tokens_per_s_{end}"] / r["tokens_per_s"] for end in ("low", "high"))
        lines.setdefault(series(r), []).append((x(r), y(r), low, high))
    return {name: sorted(points) for name, points in sorted(lines.items())}


def sweep(rows, file, alt, title, series, x, y, x_label, y_label, log_x=True):
    """Lines with intervals: y (which scales with tokens/s) of a row over x, one line a series. None without rows."""
    return lines(_lines(rows, series, x, y), file, alt, title, x_label, y_label, log_x)


def lines(series, file, alt, title, x_label, y_label, log_x=True):
    """Lines with intervals: {name: [(x, y, low, high)]}. None without a point."""

    def draw(folder, note):
        from .figures import STYLE, _save, plt

        with plt.rc_context(STYLE):
            figure, axes = plt.subplots(figsize=(7.2, 4.2))
            for name, points in series.items():
                xs, ys, lows, highs = zip(*points)
                error = [[v - a for v, a in zip(ys, lows)], [b - v for v, b in zip(ys, highs)]]
                axes.errorbar(xs, ys, yerr=error, marker="o", markersize=4, linewidth=1.5, capsize=2, label=name)
            if log_x:
                ticks = sorted({p[0] for points in series.values() for p in points})
                axes.set_xscale("log", base=2)
                axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
                axes.minorticks_off()
            axes.set(title=title, xlabel=x_label, ylabel=y_label, ylim=(0, None))
            if len(series) > 1:
                axes.legend(loc="best", fontsize=8)
            _save(figure, folder, file, note)

    return Figure(file, alt, {"title": title, "lines": series}, draw) if series else None


def bars(entries, file, alt, title, x_label, mark=None, log_x=False):
    """Bars from the top down: [(name, value, low, high)], with a line at `mark`. None without an entry."""

    def draw(folder, note):
        from .figures import BLUE, GREY, STYLE, _save, plt

        names, values, lows, highs = zip(*entries)
        error = [[v - a for v, a in zip(values, lows)], [b - v for v, b in zip(values, highs)]]
        with plt.rc_context(STYLE):
            figure, axes = plt.subplots(figsize=(7.2, 1.1 + 0.24 * len(entries)))
            axes.barh(names, values, xerr=error, color=BLUE, error_kw={"ecolor": GREY, "capsize": 2})
            axes.set_ylim(len(entries) - 0.4, -0.6)
            axes.tick_params(axis="y", labelsize=8)
            axes.grid(visible=False, axis="y")
            for i, v in enumerate(values):
                axes.annotate(f"{v:.3g}", (highs[i], i), (3, 0), textcoords="offset points", va="center", fontsize=7.5, color=GREY)
            if log_x:
                axes.set_xscale("log")
            if mark is not None:
                axes.axvline(mark, color=GREY, linewidth=1)
            axes.set(title=title, xlabel=x_label)
            _save(figure, folder, file, note)

    return Figure(file, alt, {"title": title, "bars": entries}, draw) if entries else None


def scaling(rows, quoted, file, alt, title):
    """Tokens/s a GPU over GPUs: rows of bundles filled, quoted ones hollow and named so. None without a row of two GPUs or more."""
    from .parts import model_text

    drawn = _lines(rows, lambda r: f"{r['system']} {model_text(r)}", lambda r: r["hardware"]["devices"],
                   lambda r: r["tokens_per_s"] / r["hardware"]["devices"])  # fmt: skip
    foreign = {}
    for e in quoted:
        foreign.setdefault(f"quoted: {e['system']} {e['model']}", []).append((e["gpus"], e["tokens_per_s"] / e["gpus"]))
    foreign = {name: sorted(points) for name, points in foreign.items() if len(points) > 1}

    def draw(folder, note):
        from .figures import GREY, STYLE, _save, plt

        with plt.rc_context(STYLE):
            figure, axes = plt.subplots(figsize=(7.2, 4.2))
            for name, points in drawn.items():
                axes.plot([p[0] for p in points], [p[1] for p in points], marker="o", label=name)
            for i, (name, points) in enumerate(foreign.items()):
                axes.plot(*zip(*points), marker="os^Dv"[i % 5], markerfacecolor="white", linestyle=":", color=GREY, label=name)
            ticks = sorted({p[0] for points in [*drawn.values(), *foreign.values()] for p in points})
            axes.set_xscale("log", base=2)
            axes.set_xticks(ticks, [str(t) for t in ticks])
            axes.minorticks_off()
            axes.set(title=title, xlabel="GPUs", ylabel="tokens/s a GPU", ylim=(0, None))
            axes.legend(loc="best", fontsize=8)
            _save(figure, folder, file, note)

    return Figure(file, alt, {"lines": drawn, "quoted": foreign}, draw) if drawn and (foreign or any(len(p) > 1 for p in drawn.values())) else None
