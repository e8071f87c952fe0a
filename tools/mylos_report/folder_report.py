"""What a campaign's report.py calls: makes the parts of its README from its bundles, or holds them against each other.

    sys.exit(folder_report.main(__file__, {"opening": parts.opening, "8b": eight_billion, ...}))

Each function takes Results and returns Markdown, a plots.Figure, or nothing when no bundle has what it shows. Options: --check (exit
status 1 when README, figures, bundles' sums or samples disagree), --results FOLDER (bundles elsewhere: FOLDER/report.md is written, or with
--check held against them, and the campaign's README is left alone).
"""

import argparse
import itertools
import math
import pathlib
import sys

from . import parts, readme
from .bundle import BundleError
from .plots import Figure
from .quoted import QuotedError
from .results import Results

README = "README.md"


def nothing_yet(name):
    return f"*No bundle has this yet; `mylos campaign run {name} --keep` measures it.*"


def made(results, functions, name):
    """Part by name as text, and the figures among them."""
    texts, figures = {}, []
    for part, function in functions.items():
        value = function(results)
        if isinstance(value, Figure):
            figures.append(value)
            value = value.markdown()
        texts[part] = value or nothing_yet(name)
    return texts, figures


def absent(text, texts):
    """Names of parts that have no place in the README: their markers are gone."""
    there = readme.names(text)
    return [name for name in texts if name not in there]


def check(folder, results, texts, figures):
    """A line for each thing that disagrees."""
    results.verify()
    found = list(results.problems)
    found += filter(None, (figure.disagreement(folder) for figure in figures))
    text = readme.text_of(folder / README)
    found += [f"'{folder.name}/{README}' has no place for the part '{part}'" for part in absent(text, texts)]
    found += [f"'{folder.name}/{README}', {line}" for line in readme.differences(text, texts)]
    return found


def rewrite(path, texts):
    """Whether the file changed."""
    before = readme.text_of(path)
    if missing := absent(before, texts):
        raise readme.MarkerError(f"{path.name} has no place for the part '{missing[0]}'; write '<!-- mylos:table {missing[0]} -->' and '{readme.END}', each on a line, where it belongs")
    after = readme.filled(before, texts)
    if after != before:
        readme.write(path, after)
    return after != before


def elsewhere(name, title, results, texts):
    """The text of report.md: of bundles that are not the campaign's kept ones."""
    empty = nothing_yet(name)
    out = [f"# {title}", "", f"Measured anew, from the bundles in this folder; the kept result is the campaign `{name}`.", ""]
    sections = {"": texts.get("opening", ""), "Rows": parts.runs(results.rows), "Rows without a result": parts.outcomes(results)}
    sections |= {part: text for part, text in texts.items() if part not in ("opening", "not-run")}
    for heading, text in sections.items():
        if text and text != empty:
            out += [*([f"## {heading}", ""] if heading else []), text.rstrip(), ""]
    return "\n".join(out)


def check_elsewhere(path, results, text, figures):
    """A line for each thing that disagrees."""
    results.verify(most=math.inf)
    found = list(results.problems)
    found += filter(None, (figure.disagreement(results.place) for figure in figures))
    is_ = readme.text_of(path).splitlines() if path.is_file() else []
    lines = enumerate(itertools.zip_longest(is_, text.splitlines(), fillvalue="(nothing)"), 1)
    differing = next(((number, a, b) for number, (a, b) in lines if a != b), None)
    if not path.is_file():
        found.append(f"there is no '{path}'; make it without --check")
    elif differing:
        found.append(f"'{path}', line {differing[0]}: it is {differing[1]!r}, bundles say {differing[2]!r}")
    return found


def _say(lines):
    for line in lines:
        print(f"report: {line}", file=sys.stderr)


def main(script, functions):
    folder = pathlib.Path(script).resolve().parent
    parser = argparse.ArgumentParser(prog=f"{folder.name}/report.py", description="Makes the README's tables and figures from the bundles.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 when README and bundles disagree")
    parser.add_argument("--results", type=pathlib.Path, help="another folder of bundles; writes report.md into it")
    arguments = parser.parse_args()
    if arguments.results and not arguments.results.is_dir():
        parser.error(f"--results needs a folder that is there, and '{arguments.results}' is none")
    try:
        return _run(folder, functions, arguments)
    except (readme.MarkerError, QuotedError, BundleError, OSError, UnicodeError) as error:
        _say([f"{folder.name}: {error}"])
        return 1


def _checked(name, results, texts, found):
    _say(found)
    print(f"{name}: {len(results.paths())} bundles, {len(texts)} parts, {len(found)} disagreements")
    return 1 if found else 0


def _run(folder, functions, arguments):
    results = Results(arguments.results or folder)
    texts, figures = made(results, functions, folder.name)
    _say(results.problems if not arguments.check else [])
    if arguments.results:
        title = readme.text_of(folder / README).partition("\n")[0].lstrip("# ") or folder.name
        path, here, text = results.place / "report.md", pathlib.Path.cwd(), elsewhere(folder.name, title, results, texts)
        if arguments.check:
            return _checked(folder.name, results, texts, check_elsewhere(path, results, text, figures))
        for figure in figures:
            figure.ensure(results.place)
        readme.write(path, text)
        print(path.relative_to(here) if path.is_relative_to(here) else path)
        return 1 if results.problems else 0
    if arguments.check:
        return _checked(folder.name, results, texts, check(folder, results, texts, figures))
    if results.problems:
        _say([f"{folder.name}/{README} stays as it is: without what is named above it would lose numbers; bring the bundle back, or remove it for good"])
        return 1
    drawn = [f.file for f in figures if f.ensure(folder)]
    changed = rewrite(folder / README, texts)
    print(f"{folder.name}/{README}: {len(texts)} parts, {'written' if changed else 'unchanged'}{', drawn: ' + ', '.join(drawn) if drawn else ''}")
    return 0
