"""Every header compiles alone, and twice in one file. usage: headers.py BUILD_FOLDER

Flags come from the build's compile_commands.json. With device=cuda the headers that reach Kokkos are left to the host variants,
where they compile in two seconds instead of fourteen. ccache makes a second run cheap.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from tree import ROOT, files, report

build = pathlib.Path(sys.argv[1]).resolve()
commands = json.loads((build / "compile_commands.json").read_text())
ORDINARY = ("-fno-", "-fopenmp", "-ffp-", "-march", "-std=", "-D")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)', re.M)


def flags_of(source: str) -> tuple[list[str], list[str]]:
    """Compiler and flags (language, definitions), and include folders, of a source of the build."""
    entry = next((e for e in commands if e["file"].endswith(source)), None)
    if entry is None:
        sys.exit(f"{source} is not in {build / 'compile_commands.json'}")
    words = shlex.split(entry["command"])
    compiler = words[: 2 if os.path.basename(words[0]) == "ccache" else 1]
    return compiler + [w for w in words if w.startswith(ORDINARY)], includes_of(words)


def includes_of(words: list[str]) -> list[str]:
    """Outside include folders of a command, as absolute -isystem pairs flattened to one list."""
    found = []
    for i, word in enumerate(words):
        path = word[2:] if word.startswith("-I") else word[len("-isystem") :] if word.startswith("-isystem") else None
        if path == "":
            path = words[i + 1]
        if path and (not word.startswith("-I") or os.path.isabs(path)):
            found += ["-isystem", str((build / path).resolve())]
    return found


def reaches_kokkos(header: pathlib.Path, seen: set[pathlib.Path]) -> bool:
    if header in seen:
        return False
    seen.add(header)
    for name in INCLUDE.findall(header.read_text()):
        if name.startswith("Kokkos_"):
            return True
        for folder in (ROOT / "src", ROOT):
            if (folder / name).is_file() and reaches_kokkos(folder / name, seen):
                return True
    return False


device_flags, device_folders = flags_of("src/tensor/device.cpp")
host_flags, _ = flags_of("src/base/error.cpp")
on_cuda = "-DKOKKOS_DEPENDENCE" in device_flags
# A host header may need any library that some host source is compiled with, but never Kokkos.
all_folders = dict.fromkeys(f for e in commands for f in includes_of(shlex.split(e["command"]))[1::2])
host_folders = [f for folder in all_folders if folder not in device_folders for f in ("-isystem", folder)]
ours = [f"-I{ROOT / folder}" for folder in ("src", ".", "tests")]


def compile_alone(header: pathlib.Path, scratch: pathlib.Path) -> str:
    root = ROOT / "src" if header.is_relative_to(ROOT / "src") else ROOT
    name = header.relative_to(root).as_posix()
    source = scratch / (name.replace("/", "_") + ".cpp")
    source.write_text(f'#include "{name}"\n#include "{name}"\n')
    with_kokkos = reaches_kokkos(header, set())
    if with_kokkos and on_cuda:
        return ""
    flags = device_flags + device_folders if with_kokkos else host_flags
    command = [*flags, *ours, *host_folders, "-O0", "-c", str(source), "-o", str(source.with_suffix(".o"))]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"{name} does not compile alone:\n{done.stderr}"


headers = list(files({".hpp"}, "src", "kernels", "tests/support"))
scratch = build / "tests/house/headers"  # a fixed place, so that ccache knows the files again
scratch.mkdir(parents=True, exist_ok=True)
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(lambda header: compile_alone(header, scratch), headers))
report([result for result in results if result], len(headers), "headers")
