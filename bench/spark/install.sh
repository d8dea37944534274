#!/usr/bin/env bash
# install.sh: pyspark in venv/ and the jars that it lacks in jars/, both beside this script, once. 540 MB, a minute or more.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's:.*<spark.version>\(.*\)</spark.version>.*:\1:p' "$here/pom.xml")
if [ ! -d "$here/jars" ]; then
  rm -rf "$here/jars.part"
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$here/jars.part"
  mv "$here/jars.part" "$here/jars"
fi
if ! "$here/venv/bin/python" -c 'import pyspark' 2> /dev/null; then
  rm -rf "$here/venv"
  python3 -m venv "$here/venv"
  "$here/venv/bin/pip" install --quiet --disable-pip-version-check "pyspark==$version"
fi
echo "$here/venv/bin/python with $here/jars"
