#!/usr/bin/env bash
# fuzz.sh [SECONDS] [libFuzzer options]: coverage-guided fuzzing of the decoder, with the stable compiler, SECONDS for
# each target: `decode` has plain JSON and transforms, `formats` all other formats. Starts from ../corpus; what it finds
# on the way stays in corpus/TARGET, findings go to artifacts/.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
shift || true
host=$(rustc -vV | sed -n 's/^host: //p')
out=${CARGO_TARGET_DIR:-target}/fuzz
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
case $host in x86_64-*) flags+=" -Ctarget-cpu=x86-64-v3" ;; esac
# --target keeps build scripts and macros free of the instrumentation.
RUSTFLAGS="$flags" cargo build --release --bins --target "$host" --target-dir "$out"
mkdir -p corpus/decode corpus/formats artifacts
if [ -z "$(ls corpus/decode)" ]; then
    number=0
    while IFS= read -r line; do
        for set in '\000' '\001' '\002' '\003' '\004'; do
            printf "$set%s" "$line" > "corpus/decode/seed-$number" 2>/dev/null || true
            number=$((number + 1))
        done
    done < <(cat ../corpus/*.jsonl)
fi
# Bodies of each format, and what only a packer makes: compressed messages.
if [ -z "$(ls corpus/formats)" ]; then
    number=0
    while IFS= read -r line; do
        printf '\010%s' "$line" > "corpus/formats/json-$number"
        printf '\011{"op":"u","before":null,"after":%s}' "$line" > "corpus/formats/event-$number"
        { printf '\012'; printf '%s' "$line" | gzip -c; } > "corpus/formats/gzip-$number"
        number=$((number + 1))
    done < <(cat ../corpus/*.jsonl)
    for kind in '\000' '\001' '\002' '\005'; do
        printf "$kind\002\002\004hi\002\000\002a\000\002\002k\004\000\002\002\001\000\000" > "corpus/formats/avro-$number"
        number=$((number + 1))
    done
    printf '\006\010\001\022\002hi\032\001a\042\005\012\001k\020\002\052\002\010\003' > corpus/formats/protobuf
fi
# A finding of one target does not keep the other from its time.
failed=0
for target in decode formats; do
    "$out/$host/release/$target" -artifact_prefix="artifacts/$target-" -max_total_time="$seconds" -max_len=4096 "$@" \
        "corpus/$target" || failed=$?
done
exit "$failed"
