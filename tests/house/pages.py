"""docs/how-to-add-an-op.md names the files of its example, all of them and no others, and quotes what is there."""
import re

from tree import ROOT, files, report

PAGE, EXAMPLE = "docs/how-to-add-an-op.md", "kernels/rms_norm"
text = (ROOT / PAGE).read_text()
sources = list(files({".cpp", ".hpp", ".build"}, EXAMPLE))
joined = "".join("".join(path.read_text().split()) for path in sources)  # line breaks are clang-format's
table = "".join(line for line in text.splitlines() if line.startswith(f"| `{EXAMPLE}/"))
named = {name.removeprefix(f"{EXAMPLE}/") for row in re.findall(r"\| (`[^|]+`) \|[^|]*\|[^|]*\|", table) for name in re.findall(r"`([^`]+)`", row)}

findings = [f"{PAGE}: its table does not name {path.name} of {EXAMPLE}" for path in sources if path.name not in named]
findings += [f"{PAGE}: there is no {name} in {EXAMPLE}" for name in sorted(named - {path.name for path in sources})]
quotes = re.findall(r"^```(?:cpp|meson)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
for quote in quotes:
    for part in re.split(r"^.*\.\.\..*\n", quote, flags=re.MULTILINE):  # a line with "..." stands for what is left out
        if "".join(part.split()) not in joined:
            findings.append(f"{PAGE}: {EXAMPLE} does not hold what it quotes: {part.strip()[:100]}")
report(findings, len(named) + len(quotes), "names and quotes")
