#!/usr/bin/env bash
# spark.sh fetch: Apache Spark with Delta Lake, a reader and a peer for `make test-readers`. Makes venv/ (pyspark) and
# jars/ (Delta Lake) beside this script, once for each content of requirements.txt and pom.xml.
#
# pyspark and Delta go in pairs: Delta 4.4 wants pyspark up to 4.2.0. pom.xml cuts all transitive dependencies, since
# older copies of Hadoop, Parquet and Jackson clash with pyspark's own.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() { echo "spark.sh: $*" >&2; exit 1; }

check_java() {
  command -v java > /dev/null || die "java is missing: install Java 17 or newer (Debian: openjdk-17-jre-headless)"
  local version
  version=$(java -version 2>&1 | sed -n 's/^[^"]* version "\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 17 ] || die "java is version ${version:-unknown}: Spark needs Java 17 or newer"
}

fetched() {
  cat "$here/requirements.txt" "$here/pom.xml" | cmp -s - "$here/venv/made-from.txt"
}

fetch() {
  check_java
  command -v mvn > /dev/null || die "mvn is missing: install Maven (Debian: maven); it fetches Delta Lake's jars"
  ! fetched || return 0
  exec 9> "$here/venv.lock"
  flock 9 # two test runs on a new machine
  if ! fetched; then
    rm -rf "$here/venv" "$here/jars"
    mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$here/jars" >&2 \
      || die "Maven could not fetch Delta Lake's jars"
    python3 -m venv "$here/venv"
    "$here/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2 \
      || die "pip could not install what $here/requirements.txt names"
    # The stamp comes last: without it all is made again.
    cat "$here/requirements.txt" "$here/pom.xml" > "$here/venv/made-from.txt"
  fi
  exec 9>&-
  rm -f "$here/venv.lock"
}

case ${1:-} in
  fetch) fetch ;;
  *) echo "usage: spark.sh fetch" >&2; exit 2 ;;
esac
