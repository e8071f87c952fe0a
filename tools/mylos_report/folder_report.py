"""What a campaign's report.py calls: makes the parts of its README from its bundles, or holds them against each other.

    sys.exit(folder_report.main(__file__, {"opening": parts.opening, "8b": eight_billion, ...}))

Each function takes Results and returns Markdown, a plots.Figure, or nothing when no bundle has what it shows. Options: --check (exit
status 1 when README, figures, bundles' sums or samples disagree), --results FOLDER (bundles elsewhere: FOLDER/report.md is written, and
the campaign's README is left alone).
"""

import argparse
import pathlib
import sys

from . import parts, readme
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
    found += [f"'{folder.name}/{f.file}' was drawn of other data" for f in figures if not f.is_current(folder)]
    text = (folder / README).read_text(encoding="utf-8")
    found += [f"'{folder.name}/{README}' has no place for the part '{part}'" for part in absent(text, texts)]
    found += [f"'{folder.name}/{README}', {line}" for line in readme.differences(text, texts)]
    return found


def rewrite(path, texts):
    """Whether the file changed."""
    before = path.read_text(encoding="utf-8")
    if missing := absent(before, texts):
        raise readme.MarkerError(f"{path.name} has no place for the part '{missing[0]}'; write '<!-- mylos:table {missing[0]} -->' and '{readme.END}', each on a line, where it belongs")
    after = readme.filled(before, texts)
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def elsewhere(name, title, results, texts, figures):
    """A report of bundles that are not the campaign's kept ones."""
    for figure in figures:
        figure.ensure(results.place)
    empty = nothing_yet(name)
    out = [f"# {title}", "", f"Measured anew, from the bundles in this folder; the kept result is the campaign `{name}`.", ""]
    sections = {"": texts.get("opening", ""), "Rows": parts.runs(results.rows), "Rows without a result": parts.outcomes(results)}
    sections |= {part: text for part, text in texts.items() if part not in ("opening", "not-run")}
    for heading, text in sections.items():
        if text and text != empty:
            out += [*([f"## {heading}", ""] if heading else []), text.rstrip(), ""]
    path = results.place / "report.md"
    path.write_text("\n".join(out), encoding="utf-8")
    return path


def _say(lines):
    for line in lines:
        print(f"report: {line}", file=sys.stderr)


def main(script, functions):
    folder = pathlib.Path(script).resolve().parent
    parser = argparse.ArgumentParser(prog=f"{folder.name}/report.py", description="Makes the README's tables and figures from the bundles.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 when README and bundles disagree")
    parser.add_argument("--results", type=pathlib.Path, help="another folder of bundles; writes report.md into it")
    arguments = parser.parse_args()
    if arguments.results and (arguments.check or not arguments.results.is_dir()):
        parser.error("--results needs a folder that is there, and goes without --check")
    try:
        return _run(folder, functions, arguments)
    except (readme.MarkerError, QuotedError, OSError) as error:
        _say([f"{folder.name}: {error}"])
        return 1


def _run(folder, functions, arguments):
    results = Results(arguments.results or folder)
    texts, figures = made(results, functions, folder.name)
    _say(results.problems if not arguments.check else [])
    if arguments.results:
        title = (folder / README).read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        path, here = elsewhere(folder.name, title, results, texts, figures), pathlib.Path.cwd()
        print(path.relative_to(here) if path.is_relative_to(here) else path)
        return 1 if results.problems else 0
    if arguments.check:
        found = check(folder, results, texts, figures)
        _say(found)
        print(f"{folder.name}: {len(results.paths())} bundles, {len(texts)} parts, {len(found)} disagreements")
        return 1 if found else 0
    if results.problems:
        _say([f"{folder.name}/{README} stays as it is: without what is named above it would lose numbers; bring the bundle back, or remove it for good"])
        return 1
    drawn = [f.file for f in figures if f.ensure(folder)]
    changed = rewrite(folder / README, texts)
    print(f"{folder.name}/{README}: {len(texts)} parts, {'written' if changed else 'unchanged'}{', drawn: ' + ', '.join(drawn) if drawn else ''}")
    return 0
