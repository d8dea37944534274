#!/usr/bin/env bash
# prerequisites.sh build|test|perf|ci: names what this machine lacks and what to install, all at once. Ends with 1
# if anything is missing. Installs nothing.
#
# Why each is needed:
#   cc, make, perl   the vendored OpenSSL (openssl-src) and zlib, zstd, mimalloc, AWS-LC
#   c++, bash        librdkafka builds by its own configure and make, its C++ part included
#   java, mvn        a real Kafka and a real schema registry, from Maven
#   openssl          Kafka's throw-away certificates
#   python3, venv    independent readers of Delta tables   valgrind  instruction counts
#   go               builds an S3 server                   node, npm Azure's emulator
# Neither cmake nor clang nor pkg-config is needed.
set -euo pipefail
missing=()
lack() { missing+=("$1"$'\n'"      install: $2"); }
have() { command -v "$1" > /dev/null 2>&1; }

# At least version $2 of dotted numbers in $1?
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

for_build() {
  local want version
  want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
  if have cargo && have rustc; then
    version=$(rustc --version | cut -d' ' -f2)
    at_least "$version" "$want" || lack "rustc $want or newer (found $version)" "rustup update stable"
  else
    lack "cargo and rustc $want or newer" "rustup, from your system's packages or Rust's own site"
  fi
  have cc || lack "cc, a C compiler" "apt-get install build-essential"
  have c++ || lack "c++, a C++ compiler (librdkafka)" "apt-get install build-essential"
  have make || lack "make" "apt-get install make"
  have bash || lack "bash (librdkafka's configure)" "apt-get install bash"
  if ! have perl; then lack "perl (the vendored OpenSSL)" "apt-get install perl"
  elif ! perl -MFindBin -MIPC::Cmd -MTime::Piece -MFile::Compare -e 1 2> /dev/null; then
    lack "perl's standard modules FindBin, IPC::Cmd, Time::Piece, File::Compare" \
      "apt-get install perl (Fedora: perl-FindBin perl-IPC-Cmd perl-Time-Piece perl-File-Compare)"
  fi
}

for_test() {
  local version
  cargo fmt --version > /dev/null 2>&1 || lack "rustfmt" "rustup component add rustfmt"
  cargo clippy --version > /dev/null 2>&1 || lack "clippy" "rustup component add clippy"
  if have python3; then
    version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    at_least "$version" 3.10 || lack "python3 3.10 or newer (found $version)" "apt-get install python3"
    python3 -c 'import venv, ensurepip' 2> /dev/null || lack "python3's venv" "apt-get install python3-venv"
  else
    lack "python3 3.10 or newer, with venv" "apt-get install python3 python3-venv"
  fi
  # Also with a broker of LAKEWARD_TEST_KAFKA: tests that stop a broker start their own.
  if have java; then
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    at_least "${version:-0}" 17 || lack "java 17 or newer (found ${version:-an unknown one})" "apt-get install openjdk-17-jre-headless"
  else
    lack "java 17 or newer" "apt-get install openjdk-17-jre-headless"
  fi
  "$(dirname "$0")/registry/registry.sh" java > /dev/null 2>&1 \
    || lack "java 21 or newer, beside an older one or in its place (a real schema registry)" "apt-get install openjdk-21-jre-headless"
  have mvn || lack "mvn (fetches Kafka's jars and the schema registry)" "apt-get install maven"
  if have go; then
    version=$(go version | sed -n 's/^go version go\([0-9.]*\).*/\1/p')
    at_least "${version:-0}" 1.25 || lack "go 1.25 or newer (found ${version:-an unknown one})" "Go from your system's packages, or from Go's own site"
  else
    lack "go 1.25 or newer (builds an S3 server)" "Go from your system's packages, or from Go's own site"
  fi
  if have node && have npm; then
    version=$(node --version)
    at_least "${version#v}" 18 || lack "node 18 or newer (found ${version#v})" "Node.js from your system's packages, or from its own site"
  else
    lack "node 18 or newer, with npm (Azure's emulator)" "apt-get install nodejs npm"
  fi
  have openssl || lack "openssl (the test broker's certificates)" "apt-get install openssl"
}

for_perf() {
  have valgrind || lack "valgrind (instruction counts)" "apt-get install valgrind"
}

case ${1:-} in
  build) for_build ;;
  test) for_build; for_test ;;
  perf) for_build; for_perf ;;
  ci) for_build; for_test; for_perf ;;
  *) echo "usage: prerequisites.sh build|test|perf|ci" >&2; exit 2 ;;
esac
[ ${#missing[@]} = 0 ] && exit 0
{
  echo "Missing on this machine:"
  printf '  - %s\n' "${missing[@]}"
} >&2
exit 1
