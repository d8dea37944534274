#!/usr/bin/env bash
# java.sh: java for a broker under load. The tests' broker runs the quick compiler alone; this one may use both.
words=()
for word in "$@"; do [ "$word" = -XX:TieredStopAtLevel=1 ] || words+=("$word"); done
exec java "${words[@]}"
