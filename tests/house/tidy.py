"""Files hold one idea (at most 30 KB), name no place on somebody's machine and no package registry, and end in a newline."""
import re

from tree import ROOT, TEXT, files, lines, report

LARGEST = 30_000
SPLIT = {".cpp", ".hpp", ".cu", ".py", ".build", ""}
RULES = [
    (re.compile(r"(^|[^A-Za-z0-9_./-])/(home|root|work|farm|Users|tmp/[a-z]+-[a-z]+)/"), "a path of somebody's machine"),
    (re.compile(r"https?://[a-z0-9.-]*(debian|ubuntu|pypi|pythonhosted|npmjs)[a-z.-]*/"), "the address of a package registry"),
    (re.compile(r"^(<<<<<<<|>>>>>>>) "), "a merge conflict"),
]

findings = []
checked = 0
for path in files(TEXT):
    checked += 1
    name = path.relative_to(ROOT).as_posix()
    size = path.stat().st_size
    if path.suffix in SPLIT and size > LARGEST:
        findings.append(f"{name}: {size} bytes, at most {LARGEST}: split it by idea")
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        findings.append(f"{name}: no newline at the end")
    for number, line in lines(path):
        for pattern, what in RULES:
            if pattern.search(line):
                findings.append(f"{name}:{number}: {what}: {line.strip()[:80]}")
report(findings, checked, "files")
