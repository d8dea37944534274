#!/usr/bin/env bash
# venv.sh: makes the virtual environment venv/ beside this script from requirements.txt, once for each content of it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
stamp=$here/venv/made-from.txt
cmp -s "$here/requirements.txt" "$stamp" && exit 0
rm -rf "$here/venv"
python3 -m venv "$here/venv"
"$here/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
# What people will miss at the first test, they rather miss here.
"$here/venv/bin/python" -c 'import deltalake, duckdb, duckdb_extension_delta, pyarrow'
cp "$here/requirements.txt" "$stamp"
