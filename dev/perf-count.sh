#!/usr/bin/env bash
# perf-count.sh [accept]: instructions a message by callgrind, the same on a loaded machine, against perf-count.tsv.
#
# Ends with 1 where a count is more than 20 % above the file's; says so where it is more than 2 % off either way.
# `accept` writes the counts into the file; commit it with the change that explains them.
# Counts are of the development profile, which CI has built anyway, and only inside the functions named below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dev/prerequisites.sh perf
file=dev/perf-count.tsv
new=$(mktemp); trap 'rm -f "$new" "$new".*' EXIT

# columns: name, example, its arguments (the first is the messages a round), rounds, functions counted
counts() {
  local name example arguments rounds functions toggles=() total messages
  while IFS='|' read -r name example arguments rounds functions; do
    read -ra arguments <<< "$arguments"; toggles=()
    for function in $functions; do toggles+=("--toggle-collect=$function"); done
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "${toggles[@]}" \
      "target/debug/examples/$example" "${arguments[@]}" > "$new.out" 2> "$new.log" < /dev/null \
      || { cat "$new.out" "$new.log" >&2; return 1; }
    total=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$new.log")
    messages=$(( arguments[0] * rounds ))
    [ "${total:-0}" -gt "$messages" ] || { echo "$name: nothing was counted: is a function of ($functions) gone?" >&2; return 1; }
    printf '%s\t%s\n' "$name" $(( total / messages ))
  done
}
cargo build --locked -q --workspace --example count --example encode
counts > "$new" <<'LIST'
decode|count|20000|1|lakeward_decode::decoder::Decoder::decode
decode, 1 % bad|count|20000 100|1|lakeward_decode::decoder::Decoder::decode
encode zstd|encode|32000 zstd|3|*Writer::write* *seal_next*
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
