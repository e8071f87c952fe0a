"""What every campaign's folder must be (docs/campaigns.md); problems(folder) gives a line for each thing that is not so."""

import os
import pathlib
import re
import subprocess

from mylos_device.bundles import KEPT_BYTES
from mylos_device.errors import PlanError
from mylos_device.plan import config_path
from mylos_report import readme

from .folder import ROOT, Campaign, campaigns

SECTIONS = ("## Configuration", "## Results", "## Analysis", "## Reproduction")
ABSOLUTE = re.compile(r"""(?:^|[\s"'=:(])/(?!dev/null\b)[A-Za-z]""")


def _files(folder):
    needed = ("README.md", "campaign.toml", f"{folder.name}.sh", "report.py")
    return [f"there is no {name}" for name in needed if not (folder / name).is_file()]


def _readme(folder):
    text = readme.text_of(folder / "README.md")
    first_line = f"# {folder.name}: {Campaign(folder).plan().title}"
    found = [] if text.startswith(first_line + "\n") else [f"README.md does not begin with '{first_line}', of which campaign.toml has the title"]
    try:
        first = readme.names(text)[:1]
    except readme.MarkerError as error:
        return [*found, f"README.md: {error}"]
    opening = re.match(r"# [^\n]+\n\n<!-- mylos:table opening -->\n", text)
    if first != ["opening"] or not opening:
        found.append("README.md does not open with the part 'opening': date, commit, hardware, data, steps, steady window")
    places = [text.find(f"\n{section}\n") for section in SECTIONS]
    if -1 in places or places != sorted(places):
        found.append(f"README.md lacks a section, or has them in another order: {', '.join(SECTIONS)}")
    bare = readme.filled(text, {name: "" for name in readme.names(text)})
    by_hand = [line for line in bare.splitlines() if line.startswith("|") or re.search(r"!\[[^\]]*\]\((?!\w+:)", line)]
    return found + [f"README.md has a table or figure outside of the markers: {line[:60]}" for line in by_hand]


def _driver(folder):
    path = folder / f"{folder.name}.sh"
    if not os.access(path, os.X_OK):
        return [f"{path.name} cannot be executed; chmod +x it"]
    lines = readme.text_of(path).splitlines()
    found = [f"{path.name}, line {i}: an absolute path" for i, line in enumerate(lines, 1) if i > 1 and ABSOLUTE.search(line)]
    environment = os.environ | {"MYLOS_ROOT": str(ROOT)}
    done = subprocess.run([str(path), "--help"], cwd="/", env=environment, capture_output=True, text=True, check=False)
    return found if done.returncode == 0 else [*found, f"{path.name} --help fails in another folder: {done.stderr.strip()[-200:]}"]


def _alone(folder):
    """A campaign may depend on the framework, never on another campaign."""
    others = [other.name for other in campaigns() if other.name != folder.name]
    pattern = re.compile(r"(?:campaigns/|\.\./)(" + "|".join(map(re.escape, others)) + r")\b") if others else None
    found = []
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".toml", ".sh", ".py", ".md")):
        if pattern and (match := pattern.search(readme.text_of(path))):
            found.append(f"{path.name} refers to the campaign '{match.group(1)}'")
    return found


def _plan(folder):
    try:
        plan = Campaign(folder).plan()
    except PlanError as error:
        return [str(error)]
    absent = {row.config for row in plan.rows if row.config and not config_path(row, folder, ROOT).is_file()}
    found = [f"campaign.toml names the configuration '{config}', which is not there" for config in sorted(absent)]
    return found + ([] if plan.title else ["campaign.toml has no title"])


def _results(folder):
    found = []
    for path in sorted((folder / "results").glob("*")):
        if not (path.suffix == ".h5" or path.name.endswith(".rows.json")) or path.name.endswith(".weights.h5"):
            found.append(f"results/{path.name} is neither a bundle nor a record of rows")
        elif path.stat().st_size > KEPT_BYTES:
            found.append(f"results/{path.name} has {path.stat().st_size} bytes; at most {KEPT_BYTES} are kept")
    return found


def problems(folder):
    folder = pathlib.Path(folder).resolve()
    found = _files(folder)
    if not found:
        for check in (_plan, _readme, _driver, _alone, _results):
            try:
                found += check(folder)
            except readme.MarkerError as error:
                found.append(str(error))
            if check is _plan and found:
                break
    return [f"{folder.name}: {what}" for what in found]
