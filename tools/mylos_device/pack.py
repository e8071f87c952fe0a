"""Gathers what the GPU machine needs: programs and their libraries, configurations, the scripts of benchmarks and reports."""

import os
import re
import shutil
import subprocess
from pathlib import Path

# Found on any machine with a compiler and CUDA; a copy would only get in the way.
LEFT_BEHIND = re.compile(r"^(ld-linux|libc\.|libm\.|libdl\.|librt\.|libpthread\.|libstdc\+\+|libgcc_s|libcuda|libcublas|libcudnn|libnccl|libnvrtc|libcupti)")
TREES = ("tests/model/golden", "tests/fuzz/corpus", "configs", "benchmarks/peers", "tools/mylos_report", "tools/mylos_device",
         "tools/mylos_campaign")
FILES = ("tools/device", "tools/report", "tools/campaign")
OF_CAMPAIGNS = ("toml", "json", "sh", "py", "md")  # their kept bundles stay behind


def programs(build: Path):
    for path in sorted(build.rglob("*")):
        if path.is_file() and os.access(path, os.X_OK) and (path.name.startswith("test_") or path.name.startswith("bench_") or path.name in ("mylos", "mylos-bench")):
            with path.open("rb") as f:
                if f.read(4) == b"\x7fELF":
                    yield path


def copy_sources(source: Path, dest: Path) -> None:
    """The parts of the tree that programs read or that run as scripts, under the same names."""
    for folder in TREES:
        if (source / folder).is_dir():
            shutil.copytree(source / folder, dest / folder, ignore=shutil.ignore_patterns("__pycache__"))
    plans = [path.relative_to(source) for kind in OF_CAMPAIGNS for path in source.glob(f"campaigns/*/*.{kind}")]
    for name in [*FILES, *plans]:
        (dest / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, dest / name)
    commit = subprocess.run(["git", "-C", str(source), "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout
    (dest / "commit").write_text(commit or "unknown\n")


def pack(build: Path, dest: Path, only: str) -> int:
    """`only` chooses test and bench programs; mylos and mylos-bench always come along."""
    source = Path(__file__).resolve().parents[2]
    shutil.rmtree(dest, ignore_errors=True)
    (dest / "bin").mkdir(parents=True)
    (dest / "lib").mkdir()
    libraries = {}
    for program in programs(build):
        if only and program.name not in ("mylos", "mylos-bench") and not re.search(only, program.name):
            continue
        shutil.copy2(program, dest / "bin" / program.name)
        subprocess.run(["strip", "--strip-all", dest / "bin" / program.name], check=False)
        listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", listing, re.M):
            if not LEFT_BEHIND.match(name):
                libraries[name] = path
    for name, path in libraries.items():
        shutil.copy2(Path(path).resolve(), dest / "lib" / name)
    copy_sources(source, dest / "source")
    (dest / "share/mylos").mkdir(parents=True)
    for script in ("tokenizer.py", "sentencepiece_model.py"):  # where mylos looks for them
        shutil.copy2(source / "tools" / script, dest / "share/mylos" / script)
    size = sum(f.stat().st_size for f in dest.rglob("*") if f.is_file())
    print(f"{len(list((dest / 'bin').iterdir()))} programs and {len(libraries)} libraries in {dest}: {size / 2**20:.0f} MiB")
    return 0
