"""The files of the source tree, for the house tests."""
import pathlib
import sys
from typing import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("kernels", "src", "benchmarks", "campaigns", "tests", "configs", "tools", "docs", "meson", "subprojects/kokkos-provider", ".ci")
TEXT = {".cpp", ".hpp", ".cu", ".py", ".build", ".txt", ".md", ".toml", ".ini", ".in", ".wrap", ".sh", ".supp", ""}
CPP = {".cpp", ".hpp", ".cu"}


def files(suffixes: set[str], *folders: str) -> Iterator[pathlib.Path]:
    """Every file with one of the suffixes under the folders (all folders of the house, and the root's own files, when none is given)."""
    found = [] if folders else [p for p in ROOT.iterdir() if p.is_file() and p.name != ".git"]  # a file in a worktree, not of the tree
    for folder in folders or FOLDERS:
        if (ROOT / folder).is_dir():
            found += (ROOT / folder).rglob("*")
    for path in sorted(found):
        if path.suffix in suffixes and path.is_file() and not {"__pycache__", "corpus", "results"} & set(path.parts):
            yield path


def lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    yield from enumerate(path.read_text(errors="replace").splitlines(), 1)


def report(findings: list[str], checked: int, what: str) -> None:
    """Prints the findings and ends the program; a check that looked at nothing has failed too."""
    for finding in findings:
        print(finding)
    print(f"{checked} {what} checked, {len(findings)} findings")
    sys.exit(1 if findings or checked == 0 else 0)
