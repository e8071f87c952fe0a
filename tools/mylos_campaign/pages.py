"""Pages that draw on all campaigns: campaigns/README.md, docs/reference/benchmarks.md. Made, or held against the bundles, by `campaign report`.

The headline: of each model, sequence length and device the call with most systems, of such the one with most rows, of such the last; and of it the limit, PyTorch's
fastest row, and mylos' fastest for each precision of the state. Quoted rows stand in a table of their own, with their sources.
"""

import sys

from mylos_report import parts, quoted, readme
from mylos_report.campaign import state_text
from mylos_report.results import Results

from .folder import ROOT, Campaign, campaigns

HEADLINE = "mfu_scaling"
PAGES = ("campaigns/README.md", "docs/reference/benchmarks.md")
COLUMNS = ("system", "model", "gpus", "sequence", "recompute", "state", "tokens_per_s_interval", "mfu_causal", "mfu_palm", "mfu_total", "memory",
           "energy", "ratio_limit", "ratio_pytorch", "call")  # fmt: skip


def _index(all_results, links):
    lines = []
    for folder, results in all_results.items():
        title = Campaign(folder).plan().title
        days = sorted({r["created"][:10] for r in results.abouts})
        devices = sorted({r["device"] if r["hardware"]["is_gpu"] else "CPU" for r in results.abouts})
        commits = sorted({r["commit"][:7] for r in results.abouts})
        lines.append(
            [f"[{folder.name}]({links}{folder.name}/README.md)", title, " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "not yet",
             ", ".join(devices), ", ".join(commits), str(len(results.paths()))]
        )  # fmt: skip
    return parts.table_of(["campaign", "what", "measured", "on", "commits", "bundles"], lines)


def _groups(rows):
    """Rows by model, sequence and device, of one call: that with most systems, then with most rows, then the last."""
    groups = {}
    for row in rows:
        if "parity" not in row["name"] and not row["documents"]:
            groups.setdefault((-row["parameters"], row["sequence"], row["device"]), []).append(row)
    for _, group in sorted(groups.items()):
        of_call = {call: [r for r in group if r["call"] == call] for call in {r["call"] for r in group}}
        yield of_call[max(of_call, key=lambda call: (len({r["system"] for r in of_call[call]}), len(of_call[call]), call))]


def _best(rows):
    """One row for each system and, of mylos, for each precision."""
    best = {}
    for row in rows:
        if row["system"] == "limit" and row["recompute"] != "none":
            continue
        key = (row["system"], state_text(row["state"]) if row["system"] == "mylos" else "")
        if key not in best or row["tokens_per_s"] > best[key]["tokens_per_s"]:
            best[key] = row
    return sorted(best.values(), key=lambda r: ({"limit": 0, "pytorch": 1}.get(r["system"], 2), -r["tokens_per_s"]))


def _headline(rows, is_gpu):
    chosen = [row for group in _groups(r for r in rows if r["hardware"]["is_gpu"] == is_gpu) for row in _best(group)]
    return parts.runs(chosen, COLUMNS if is_gpu else (*COLUMNS[:7], "step_time", "memory_mib", "call"))


def _presets(results):
    return parts.runs(results.rows, ("row", "layers", "gpus", "verdict", "tokens_per_s", "step_time", "mfu_causal", "memory", "planned", "losses", "call")) if results else ""


def texts(links):
    all_results = {folder: Results(folder) for folder in campaigns()}
    by_name = {folder.name: results for folder, results in all_results.items()}
    nothing = "*No bundle has this yet.*"
    entries = [e for e in quoted.read(ROOT / "campaigns" / HEADLINE / "quoted.toml") if e.get("headline")]
    made = {
        "index": _index(all_results, links),
        "headline": _headline(by_name[HEADLINE].rows, True),
        "quoted": quoted.table(entries),
        "cpu": _headline(by_name[HEADLINE].rows, False),
        "presets": _presets(by_name.get("config_validation")),
    }
    return {name: text or nothing for name, text in made.items()}


def make(check):
    """How many pages disagree with the bundles (`check`), or cannot be made."""
    bad = 0
    for page in PAGES:
        path = ROOT / page
        links = "" if page.startswith("campaigns/") else "../../campaigns/"
        try:
            before = readme.text_of(path)
            made = texts(links)
            found = readme.differences(before, made)
        except (OSError, readme.MarkerError, quoted.QuotedError) as error:
            found, check_only = [str(error)], True
        else:
            check_only = check
            if not check:
                readme.write(path, readme.filled(before, made))
        for line in found if check_only else []:
            print(f"report: '{page}', {line}", file=sys.stderr)
        bad += bool(found) and check_only
        print(f"{page}: {'disagrees' if found and check_only else 'written' if found else 'agrees'}")
    return bad
