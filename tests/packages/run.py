#!/usr/bin/env python3
"""The packages of `./dev package`, on bare roots of Debian: installed, the demo's verdict from the package, uninstalled, nothing
left. As root, with debootstrap:

    tests/packages/run.py --packages build/packages [bullseye bookworm trixie]
"""

import argparse
import glob
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import debian_root  # noqa: E402

RELEASES = ("bullseye", "bookworm", "trixie")
# What dpkg and the commands of the test itself write.
OTHERS = ("var/lib/dpkg/", "var/log/", "var/cache/", "tmp/", "dev/", "root/.bash_history", "var/lib/apt/")


class Root:
    """A root of its own for one package: the made one, with changes that are thrown away."""

    def __init__(self, release):
        self.root = debian_root.make(release, f"{release}-bare")
        self.changes = tempfile.mkdtemp(prefix="ncclwatch-packages-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.changes, ignore_errors=True)

    def run(self, *argv):
        return debian_root.inside(self.root, argv, {}, changes=self.changes)

    def must(self, *argv):
        status, out, err = self.run(*argv)
        if status != 0:
            raise SystemExit(f"{' '.join(argv)}: status {status}\n{out}{err}")
        return out + err

    def bring(self, path):
        folder = os.path.join(self.changes, "upper", "tmp")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(path, folder)
        return "/tmp/" + os.path.basename(path)

    def files(self):
        upper = os.path.join(self.changes, "upper")
        return {os.path.relpath(os.path.join(folder, name), upper)
                for folder, _, names in os.walk(upper) for name in names
                if not os.path.relpath(os.path.join(folder, name), upper).startswith(OTHERS)}


def check_demo(root, command, where):
    said = root.must(command, "demo")
    for wanted in ("missing_participant (likely): rank 2", "step 0", "ended the job (status 86)"):
        if wanted not in said:
            raise SystemExit(f"{where}: the demo did not say '{wanted}':\n{said}")
    version = root.must(command, "--version").strip()
    print(f"{where}: {version}; the demo's verdict is right")


def check_deb(release, path):
    with Root(release) as root:
        root.must("dpkg", "-i", root.bring(path))
        installed = root.files()
        check_demo(root, "/usr/bin/ncclwatch", f"{release} .deb ({os.path.getsize(path) / 1e6:.1f} MB, {len(installed)} files)")
        root.must("dpkg", "-P", "ncclwatch")
        if root.files():
            raise SystemExit(f"{release} .deb: left after removal: {sorted(root.files())}")


def check_tarball(release, path):
    with Root(release) as root:
        root.must("mkdir", "-p", "/opt/two words")
        root.must("tar", "-C", "/opt/two words", "--no-same-owner", "-xzf", root.bring(path))
        name = os.path.basename(path)[:-len(".tar.gz")]
        check_demo(root, f"/opt/two words/{name}/bin/ncclwatch", f"{release} tarball ({os.path.getsize(path) / 1e6:.1f} MB)")
        root.must("rm", "-r", "/opt/two words")
        if root.files():
            raise SystemExit(f"{release} tarball: left after removal: {sorted(root.files())}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", required=True)
    parser.add_argument("releases", nargs="*", default=RELEASES)
    options = parser.parse_args()
    if not debian_root.can_make():
        print("skipped: needs root and debootstrap")
        return 77
    deb, = glob.glob(os.path.join(options.packages, "ncclwatch_*.deb"))
    tarball, = [path for path in glob.glob(os.path.join(options.packages, "ncclwatch-*.tar.gz")) if "-debug" not in path]
    for release in options.releases:
        check_deb(release, deb)
        check_tarball(release, tarball)
    return 0


if __name__ == "__main__":
    sys.exit(main())
