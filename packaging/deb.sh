#!/usr/bin/env bash
# packaging/deb.sh PREFIX VERSION OUT: a .deb of the files below PREFIX, without conffiles and maintainer scripts.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
prefix=$1 version=$2 out=$3
maintainer="ncclwatch maintainers <maintainers@ncclwatch.invalid>"
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp -a "$prefix" "$root/usr"

# Debian's places and forms.
doc=$root/usr/share/doc/ncclwatch
gzip -9n "$root"/usr/share/man/man1/*.1
printf 'ncclwatch (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$version" "$maintainer" \
  "$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")" | gzip -9nc >"$doc/changelog.gz"
install -Dm644 "$here/lintian-overrides" "$root/usr/share/lintian/overrides/ncclwatch"
find "$root" -type d -exec chmod 755 {} +
find "$root" -type f ! -perm -u+x -exec chmod 644 {} +
find "$root/usr/lib" -name '*.so*' -exec chmod 644 {} +

# The dependence on glibc is what tests/built_file checks: dpkg-shlibdeps would ask for the one of this machine.
mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<TEXT
Package: ncclwatch
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: libc6 (>= 2.28), libgcc-s1
Section: devel
Priority: optional
Description: watchdog for jobs of NCCL and MPI
 A library is preloaded into every rank. It records each collective and
 point-to-point call in shared memory, which outlives the process. A watchdog
 compares the ranks, finds hangs, mismatched calls, deadlocks and dead ranks,
 and says which rank is to blame and why. The command ncclwatch answers the
 same questions afterwards.
TEXT
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
# The three cores resemble one another: a dictionary of 64 MB sees it.
dpkg-deb --root-owner-group -Zxz -z9 -Sextreme --build "$root" "$out/ncclwatch_${version}_$architecture.deb" >/dev/null
