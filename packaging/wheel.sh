#!/usr/bin/env bash
# packaging/wheel.sh PREFIX VERSION OUT: a wheel of the files below PREFIX, which are not built again. The tag says glibc 2.28
# (tests/built_file checks what the files ask for; auditwheel does so once more here).
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
prefix=$(readlink -f "$1") version=$2 out=$(readlink -f "$3")
tools=$PWD/build/wheel-tools
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ ! -x "$tools/bin/auditwheel" ]; then
  python3 -m venv "$tools"
  "$tools/bin/pip" install -q --disable-pip-version-check build scikit-build-core auditwheel wheel twine
fi
"$tools/bin/python" -m build --wheel --no-isolation --outdir "$work" -Ccmake.define.NCCLWATCH_PREBUILT="$prefix" \
  -Cbuild-dir="$work/build" . >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
# Asked before the wheel gets its tag: auditwheel prints the file's name too.
"$tools/bin/auditwheel" show "$work/ncclwatch-$version"-*.whl >"$work/audit"
grep -qE '"manylinux_2_([5-9]|1[0-9]|2[0-8])_' "$work/audit" || { cat "$work/audit" >&2; exit 1; }
"$tools/bin/wheel" tags --platform-tag "manylinux_2_28_$(uname -m)" --remove "$work/ncclwatch-$version"-*.whl >/dev/null

wheel=$(echo "$work/ncclwatch-$version"-*.whl)
"$tools/bin/twine" check --strict "$wheel" >"$work/twine" || { cat "$work/twine" >&2; exit 1; }
mv "$wheel" "$out/"
