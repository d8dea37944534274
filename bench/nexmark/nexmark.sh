#!/usr/bin/env bash
# nexmark.sh ARGS..: the benchmark's virtual environment, then nexmark.py ARGS.
exec env BENCH_SCRIPT=nexmark/nexmark.py "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/../bench.sh" "$@"
