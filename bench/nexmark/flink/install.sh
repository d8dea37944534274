#!/usr/bin/env bash
# install.sh: Flink's jars in lib/ and the program compiled in classes/, both beside this script, once. Needs Maven and a JDK of 17 or newer.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ ! -d "$here/lib" ]; then
  rm -rf "$here/lib.part"
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$here/lib.part"
  mv "$here/lib.part" "$here/lib"
fi
rm -rf "$here/classes"
javac -cp "$here/lib/*" -d "$here/classes" "$here/Nexmark.java"
echo "$here/classes with $here/lib"
