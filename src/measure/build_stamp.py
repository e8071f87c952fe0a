"""Writes what the source tree differs from its commit by as a C++ string: build_stamp.py SOURCE_ROOT OUTPUT.

Runs at every build; OUTPUT changes only when the difference does, so nothing is compiled again for nothing.
"""

import pathlib
import subprocess
import sys

LIMIT = 256 * 1024  # bytes; a bundle is no place for a large diff


def git(root, *arguments):
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return b""
    return done.stdout


def difference(root):
    if git(root, "rev-parse", "--show-prefix").strip():
        return b""  # the root lies inside some other project's checkout
    diff = git(root, "diff", "--no-color", "--no-ext-diff", "HEAD")
    for name in git(root, "ls-files", "--others", "--exclude-standard").splitlines():
        diff += b"untracked: " + name + b"\n"
    diff = diff.replace(b"\0", b"").decode("utf-8", "replace").encode()
    if len(diff) > LIMIT:
        diff = diff[:LIMIT].decode("utf-8", "ignore").encode() + b"\n... cut: the difference has %d bytes\n" % len(diff)
    return diff


def literal(data):
    # Octal escapes have a fixed length, and short pieces keep within every compiler's limits.
    pieces = [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
    return "\n".join('"' + "".join(f"\\{byte:03o}" for byte in piece) + '"' for piece in pieces)


def main():
    root, output = sys.argv[1], pathlib.Path(sys.argv[2])
    text = "inline constexpr char kSourceDiff[] =\n" + literal(difference(root)) + ";\n"
    if not output.exists() or output.read_text() != text:
        output.write_text(text)


main()
