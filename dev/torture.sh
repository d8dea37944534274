#!/usr/bin/env bash
# torture.sh: the long runs: kills at random and at every crash point, object stores that stall, LAKEWARD_TORTURE rounds of them (default 20),
# then the oracle of the SQL engine (ORACLE_CASES, default 1000000, from seed ORACLE_SEED, default a new one each day),
# then what else has a long form (fuzz targets under libFuzzer, LAKEWARD_FUZZ_SECONDS each, default 600).
#   LAKEWARD_TEST_KAFKA=host:port   a broker that runs already; none is started then
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LAKEWARD_TORTURE=${LAKEWARD_TORTURE:-20}
dev/with-kafka.sh cargo test --locked --workspace --test e2e -- --nocapture kills stores
dev/readers/venv.sh
ORACLE_CASES=${ORACLE_CASES:-1000000} ORACLE_SEED=${ORACLE_SEED:-$(($(date +%s) / 86400))000000} \
  cargo test --locked --workspace --test sql -- --nocapture incremental_answers
for fuzz in crates/*/fuzz/fuzz.sh; do
  [ -e "$fuzz" ] || { echo "no fuzz targets here" >&2; exit 1; }
  "$fuzz" "${LAKEWARD_FUZZ_SECONDS:-600}"
done
