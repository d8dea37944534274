#!/usr/bin/env bash
# bench.sh ARGS..: sets up the benchmark's virtual environment venv/ beside this script, then runs bench.py ARGS,
# or the script beside it that BENCH_SCRIPT names.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/../dev/prerequisites.sh" test
"$here/../dev/kafka/kafka.sh" fetch
stamp=$here/venv/made-from.txt
if ! cmp -s "$here/requirements.txt" "$stamp"; then
  rm -rf "$here/venv"
  python3 -m venv "$here/venv"
  "$here/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  cp "$here/requirements.txt" "$stamp"
fi
exec "$here/venv/bin/python" "$here/${BENCH_SCRIPT:-bench.py}" "$@"
