#!/usr/bin/env bash
# run.sh ARGS..: Nexmark.java with ARGS, 2 GB of heap.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
opens=()
for package in java.lang java.lang.reflect java.net java.io java.nio java.text java.time java.util java.util.concurrent java.util.concurrent.atomic \
  java.util.concurrent.locks sun.nio.ch; do
  opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
exec java -Xms2g -Xmx2g -XX:+UseG1GC "${opens[@]}" "-Dlog4j2.configurationFile=file:$here/log4j2.properties" -cp "$here/classes:$here/lib/*" Nexmark "$@"
