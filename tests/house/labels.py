"""Every kernel has a label mylos::op::phase, so that a profile reads as the program does."""
import re

from tree import CPP, ROOT, files, report

# A dispatch to the device; those inside a team (over TeamThreadRange and the like) have no label.
DISPATCH = re.compile(r"\bparallel_(?:for|reduce|scan)\s*\(\s*")
NESTED = re.compile(r"(?:Kokkos::)?(?:Team|Thread)(?:Thread|Vector)(?:MD)?Range\b")
FIRST_ARGUMENT = re.compile(r'(?:[^,"]|"[^"]*")*')
LITERAL = re.compile(r'"([^"]*)"')
PASSED_ON = re.compile(r"\w*(?:[Ll]abel|[Nn]ame)\w*\b")
LABEL = re.compile(r"mylos::[a-z0-9_]+(::[a-z0-9_]+)+$")

findings = []
checked = 0
for path in files(CPP, "kernels", "src"):
    text = path.read_text()
    name = path.relative_to(ROOT).as_posix()
    code = re.sub(r"//[^\n]*", lambda m: " " * len(m.group()), text)
    for match in DISPATCH.finditer(code):
        rest = code[match.end() :]
        where = f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
        if NESTED.match(rest):
            continue
        checked += 1
        argument = FIRST_ARGUMENT.match(rest).group()
        labels = LITERAL.findall(argument)
        for label in labels:
            if not LABEL.match(label):
                findings.append(f"{where}: label '{label}' is not of the form mylos::op::phase")
        if not labels and not PASSED_ON.match(argument):
            findings.append(f"{where}: a kernel without a label: {argument.splitlines()[0][:60]}")
    # Labels that are passed on are literals somewhere.
    for literal in re.finditer(r'"(mylos::[^"]+)"', code):
        if not LABEL.match(literal.group(1)):
            where = f"{name}:{text.count(chr(10), 0, literal.start()) + 1}"
            findings.append(f"{where}: label '{literal.group(1)}' is not of the form mylos::op::phase")
report(findings, checked, "kernels")
