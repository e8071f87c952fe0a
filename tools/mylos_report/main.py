"""The command: tools/report BUNDLE [--out DIR], or tools/report CAMPAIGN [--json]."""

import argparse
import pathlib
import sys

from . import campaign, figures, markdown, profile, recompute
from .bundle import Bundle, BundleError

STEP_COLUMNS = ("step", "loss", "grad_norm", "learning_rate", "tokens", "step_time", "tokens_per_s")


def draw(bundle, folder):
    steps, evaluation = bundle.table("/samples/steps"), bundle.table("/samples/evaluation")
    missing = [c for c in STEP_COLUMNS if c not in steps]
    if missing:
        raise BundleError(f"'{bundle.path}' has no /samples/steps/{missing[0]}")
    for name, table in (("steps", steps), ("evaluation", evaluation)):
        if len({len(v) for v in table.values()}) > 1:
            raise BundleError(f"'{bundle.path}': the columns of /samples/{name} differ in length")
    summary = {
        n: bundle.number("/summary/" + n)
        for n in (
            "steady_window_first",
            "steady_window_end",
            "tokens_per_s_median",
            "tokens_per_s_median_low",
            "tokens_per_s_median_high",
        )
    }
    drawn = {
        "loss": figures.loss(steps, evaluation, folder),
        "throughput": figures.throughput(steps, summary, folder),
        "optimization": figures.optimization(steps, folder),
    }
    return {name: file for name, file in drawn.items() if file}


def compare(arguments):
    try:
        text, lines, status = campaign.report(arguments.bundle, arguments.json, arguments.out)
    except OSError as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(text)
    for what in lines:
        print(f"report: {what}", file=sys.stderr)
    return status


def main():
    parser = argparse.ArgumentParser(
        prog="report", description="Verifies a train bundle and writes report.md with figures from it; of a folder, compares its bundles."
    )
    parser.add_argument("bundle", type=pathlib.Path, help="HDF5 file that `mylos train` wrote, or a campaign's folder")
    parser.add_argument(
        "--out", type=pathlib.Path, help="folder of the report (default: the bundle's path without suffix)"
    )
    parser.add_argument("--json", action="store_true", help="of a folder: rows as JSON")
    arguments = parser.parse_args()
    if arguments.bundle.is_dir():
        return compare(arguments)
    if arguments.json:
        print("report: --json is for folders: a campaign's rows; of a bundle, see `mylos inspect`", file=sys.stderr)
        return 2
    folder = arguments.out or arguments.bundle.with_suffix("")
    try:
        bundle = Bundle(arguments.bundle)
        kind = bundle.attribute("/", "kind")
        kernels = kind == "profile" and profile.has_kernels(bundle)
        if kind != "train" and not kernels:
            raise BundleError(
                f"'{bundle.path}' is of kind '{kind}'; reports are drawn of train bundles and of profiles of kernels (see it with: mylos inspect)"
            )
        if found := recompute.disagreements(bundle):
            raise BundleError(f"{found[0]}{f' (and {len(found) - 1} more)' if len(found) > 1 else ''}; no report is made of it")
        if folder == arguments.bundle:
            raise BundleError(f"'{bundle.path}' has no suffix, so the report's folder would have its name; name another with --out")
        folder.mkdir(parents=True, exist_ok=True)
        text = profile.report(bundle, folder) if kernels else markdown.report(bundle, draw(bundle, folder))
        (folder / "report.md").write_text(text)
    except (BundleError, OSError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(f"{folder / 'report.md'}: {len(bundle.datasets)} datasets verified")
    return 0
