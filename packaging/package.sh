#!/usr/bin/env bash
# Makes all packages from a finished release build, into build/packages: packaging/package.sh BUILD (`./dev package`).
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
build=$(readlink -f "${1:?the build folder}")
out=$PWD/build/packages
version=$("$build/bin/ncclwatch" --version | sed 's/^ncclwatch \([^,]*\).*/\1/')
name=ncclwatch-$version-linux-$(uname -m)
stage=$out/stage
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
export SOURCE_DATE_EPOCH

rm -rf "$out" && mkdir -p "$stage"
cmake --install "$build" --prefix "$stage/$name" >"$stage/install.log"
mkdir -p "$stage/$name-debug/lib"
mv "$stage/$name/lib/debug" "$stage/$name-debug/lib/"
python3 packaging/copyright.py >"$stage/$name/share/doc/ncclwatch/copyright"

tarball() {
  tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$1" | gzip -9n >"$out/$1.tar.gz"
}
tarball "$name"
tarball "$name-debug"

packaging/deb.sh "$stage/$name" "$version" "$out"
[ ! -x packaging/wheel.sh ] || packaging/wheel.sh "$stage/$name" "$version" "$out"
[ ! -f packaging/sbom.py ] || python3 packaging/sbom.py --prefix "$stage/$name" --version "$version" >"$out/ncclwatch-$version.spdx.json"
cp packaging/Containerfile "$out/" 2>/dev/null || true

rm -rf "$stage"
(cd "$out" && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
ls -l "$out" | awk 'NR > 1 { printf "%10d  %s\n", $5, $9 }'
