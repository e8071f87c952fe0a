#!/bin/sh
# Runs the rows of campaign.toml: profiling.sh [--scale cpu-smoke] [--only PATTERN] [--budget S] [--sbatch] ...
# Options are those of `mylos campaign run`; MYLOS_ROOT names the source tree when this folder lies outside of it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${MYLOS_ROOT:-$(cd "$here/../.." && pwd)}
if [ ! -f "$root/tools/campaign" ]; then
  echo "$0: there is no tools/campaign in '$root'; set MYLOS_ROOT to the source tree of mylos" >&2
  exit 2
fi
exec python3 "$root/tools/campaign" run "$here" "$@"
