#!/usr/bin/env bash
# perf-count.sh [accept]: instructions a message by callgrind, the same on a loaded machine, against perf-count.tsv.
#
# Ends with 1 where a count is more than 20 % above the file's; says so where it is more than 2 % off either way.
# `accept` writes the counts into the file; commit it with the change that explains them.
#
# Each example takes the number of messages as its only argument. Two runs of different lengths are
# subtracted, so that what a process does once is not counted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dev/prerequisites.sh perf
few=20000 many=60000
file=dev/perf-count.tsv
new=$(mktemp); trap 'rm -f "$new" "$new".*' EXIT

instructions() { # PROGRAM MESSAGES
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" "$2" > "$new.out" 2> "$new.log" \
    || { cat "$new.out" "$new.log" >&2; return 1; }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$new.log"
}

# columns: name, package, example
while read -r name package example; do
  cargo build --locked --release -q -p "$package" --example "$example"
  program=target/release/examples/$example
  less=$(instructions "$program" "$few"); more=$(instructions "$program" "$many")
  printf '%s\t%s\n' "$name" $(( (more - less) / (many - few) )) >> "$new"
done <<'LIST'
decode lakeward-decode count
encode lakeward-delta encode
LIST

if [ "${1:-}" = accept ]; then
  { echo "# instructions a message, by dev/perf-count.sh accept"; cat "$new"; } > "$file"
  cat "$file"; exit 0
fi
awk -F'\t' 'NR == FNR { if ($0 !~ /^#/) was[$1] = $2; next }
  !($1 in was) { printf "%s: %d instructions a message, not in the file (dev/perf-count.sh accept)\n", $1, $2; bad = 1; next }
  { change = 100 * ($2 / was[$1] - 1)
    printf "%s: %d instructions a message, %+.1f %% from %d", $1, $2, change, was[$1]
    if (change > 20) { printf ": too many"; bad = 1 }
    else if (change > 2 || change < -2) printf ": dev/perf-count.sh accept, if meant"
    printf "\n" }
  END { exit bad }' "$file" "$new"
