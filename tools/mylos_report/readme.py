"""Parts of a Markdown file that are made from bundles, between `<!-- mylos:table NAME -->` and `<!-- mylos:end -->`, each on a line.

    names(text)              # of the parts, in order; MarkerError when one has no end, lies in another, or comes twice
    filled(text, parts)      # the text with parts[name] in each; what lay there before does not matter
    differences(text, parts) # a line for each part whose text is another
    text_of(path)            # a file's text; MarkerError when it is none
    write(path, text)        # whole or not at all
"""

import os
import re

BEGIN = re.compile(r"<!-- mylos:table ([a-z0-9][a-z0-9_-]*) -->\n")
END = "<!-- mylos:end -->"


class MarkerError(Exception):
    """What is wrong with the markers, for the user."""


def text_of(path):
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MarkerError(f"{path.name} is no UTF-8 text: {error.reason} at byte {error.start}") from error


def write(path, text):
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _pieces(text):
    """(name, begin, end) of what lies between markers."""
    found, at = [], 0
    while match := BEGIN.search(text, at):
        name, begin = match.group(1), match.end()
        end = text.find(END, begin)
        following = BEGIN.search(text, begin)
        if end < 0 or (following and following.start() < end):
            raise MarkerError(f"the part '{name}' has no '{END}' after it")
        if name in {other for other, _, _ in found}:
            raise MarkerError(f"the part '{name}' is there twice")
        found.append((name, begin, end))
        at = end + len(END)
    if text.count("mylos:table ") != len(found) or text.count(END) != len(found):
        raise MarkerError(f"there is a marker out of place: begin is '<!-- mylos:table NAME -->' on a line of its own, end is '{END}'")
    return found


def names(text):
    return [name for name, _, _ in _pieces(text)]


def _known(name, parts):
    if name not in parts:
        raise MarkerError(f"nothing makes the part '{name}'; there are {', '.join(parts) or 'none'}")
    return parts[name].rstrip("\n") + "\n"


def filled(text, parts):
    for name, begin, end in reversed(_pieces(text)):
        text = text[:begin] + _known(name, parts) + text[end:]
    return text


def differences(text, parts):
    found = []
    for name, begin, end in _pieces(text):
        is_, should = text[begin:end].splitlines(), _known(name, parts).splitlines()
        if is_ == should:
            continue
        line = next((i for i, (a, b) in enumerate(zip(is_, should)) if a != b), min(len(is_), len(should)))
        shown = [lines[line] if line < len(lines) else "(nothing)" for lines in (is_, should)]
        found.append(f"part '{name}', line {line + 1}: it is {shown[0]!r}, bundles say {shown[1]!r}")
    return found
