#!/usr/bin/env python3
"""Runs the tests of run.py under every version of Python that is read, with the packages of Debian and Ubuntu.

    versions.py --build build/release [--only jammy-3.10] [TEST...]

The packages are fetched by apt into build/pythons (apt's own lists are left alone) and unpacked there, nothing is
installed. A version runs with its own C library where this machine's is older. Also checks the table of offsets against
the headers of all of them. Needs apt-get, dpkg-deb and about 600 MB."""
import argparse
import glob
import os
import shutil
import stat
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DEBIAN = ("http://deb.debian.org/debian", "debian-archive-keyring", "main")
UBUNTU = ("http://archive.ubuntu.com/ubuntu", "ubuntu-keyring", "main universe")
PYTHONS = [  # release, minor version of Python
    (DEBIAN, "bullseye", 9), (UBUNTU, "jammy", 10), (DEBIAN, "bookworm", 11), (UBUNTU, "noble", 12),
    (DEBIAN, "trixie", 13), (UBUNTU, "questing", 13), (UBUNTU, "questing", 14), (UBUNTU, "resolute", 14),
    (DEBIAN, "sid", 14), (DEBIAN, "sid", 15)]
PYTHON_PACKAGES = ["python3.{}-minimal", "libpython3.{}-minimal", "libpython3.{}-stdlib", "libpython3.{}-dev"]
LIBRARIES = ["libc6", "libexpat1", "zlib1g"]
LIBRARY_OF_SOME = ["libffi7", "libffi8", "libzstd1"]
LIBC = ("libc.", "libm.", "libpthread.", "libdl.", "librt.", "libutil.", "ld-linux", "libresolv.", "libnss", "libmvec.",
        "libanl.", "libBrokenLocale.", "libthread_db.", "libc_malloc", "libmemusage", "libpcprofile", "libnsl.")


class Missing(Exception):
    pass


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Missing(f"{' '.join(command[:2])}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


class Release:
    """Lists of one release, apart from those of this machine."""

    def __init__(self, place, mirror, release):
        self.place, self.release = os.path.join(place, "apt", release), release
        url, keyring, components = mirror
        for folder in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/trusted.gpg.d", "var/lib/dpkg",
                       "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
            os.makedirs(os.path.join(self.place, folder), exist_ok=True)
        open(os.path.join(self.place, "var/lib/dpkg/status"), "a").close()
        suites = [release] if mirror is DEBIAN else [release, release + "-updates"]
        with open(os.path.join(self.place, "etc/apt/sources.list"), "w") as file:
            for suite in suites:
                file.write(f"deb [signed-by={keyring_path(place, keyring)}] {url} {suite} {components}\n")
        if not glob.glob(os.path.join(self.place, "var/lib/apt/lists/*_Packages*")):
            self.apt("apt-get", "update")

    def apt(self, program, *arguments, cwd=None):
        options = {"Dir": self.place, "Dir::State::status": os.path.join(self.place, "var/lib/dpkg/status"),
                   "Acquire::Languages": "none", "APT::Architecture": run(["dpkg", "--print-architecture"]).strip()}
        if os.geteuid() == 0:
            options["APT::Sandbox::User"] = "root"
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return run([program, "-q", *words, *arguments], cwd=cwd)

    def known(self, package):
        return package in self.apt("apt-cache", "pkgnames", package).split()

    def unpack(self, packages, to):
        debs = to + ".debs"
        os.makedirs(debs, exist_ok=True)
        self.apt("apt-get", "download", *packages, cwd=debs)
        for deb in glob.glob(os.path.join(debs, "*.deb")):
            run(["dpkg-deb", "-x", deb, to])
        shutil.rmtree(debs)


def keyring_path(place, package):
    name = {"ubuntu-keyring": "ubuntu-archive-keyring"}.get(package, package) + ".gpg"
    installed = os.path.join("/usr/share/keyrings", name)
    fetched = os.path.join(place, "keyrings", "usr/share/keyrings", name)
    if os.path.exists(installed) or os.path.exists(fetched):
        return installed if os.path.exists(installed) else fetched
    # Each of the two distributions has the other's keys.
    Release(place, *((DEBIAN, "sid") if package == "ubuntu-keyring" else (UBUNTU, "noble"))).unpack(
        [package], os.path.join(place, "keyrings"))
    return fetched


def libraries_apart(root, libraries):
    """What belongs to no C library, for a run with this machine's own."""
    os.makedirs(libraries, exist_ok=True)
    for path in glob.glob(os.path.join(root, "**", "*.so.*"), recursive=True):
        name = os.path.basename(path)
        if not name.startswith(LIBC) and "/python3" not in path and os.path.isfile(path):
            shutil.copy(path, os.path.join(libraries, name))


def starter(folder, minor):
    """A script that runs it as if it were installed; the first way that works."""
    root, libraries = os.path.join(folder, "root"), os.path.join(folder, "libraries")
    program = os.path.join(root, f"usr/bin/python3.{minor}")
    loaders = [path for path in glob.glob(os.path.join(root, "**", "ld-linux*"), recursive=True) if os.path.exists(path)]
    loaders += glob.glob(os.path.join(root, "**", "ld-2*.so"), recursive=True)
    own = ":".join(sorted({os.path.dirname(path) for path in glob.glob(os.path.join(root, "**", "libc.so.6"), recursive=True) +
                           glob.glob(os.path.join(root, "**", "libexpat.so.1"), recursive=True)}))
    ways = [f'exec env PYTHONHOME={root}/usr LD_LIBRARY_PATH={libraries} {program} "$@"']
    ways += [f'exec env PYTHONHOME={root}/usr {loader} --library-path {own} {program} "$@"' for loader in loaders]
    script = os.path.join(folder, f"python3.{minor}")
    for way in ways:
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\n{way}\n")
        os.chmod(script, os.stat(script).st_mode | stat.S_IXUSR)
        test = "import ctypes, asyncio, threading, hashlib"
        if subprocess.run([script, "-c", test], capture_output=True, stdin=subprocess.DEVNULL).returncode == 0:
            return script
    raise Missing("it does not run here, neither with this machine's C library nor with its own")


def fetched(place, mirror, release, minor):
    folder = os.path.join(place, f"{release}-3.{minor}")
    root, script = os.path.join(folder, "root"), os.path.join(folder, f"python3.{minor}")
    if not os.path.exists(os.path.join(folder, "complete")):
        shutil.rmtree(folder, ignore_errors=True)
        lists = Release(place, mirror, release)
        packages = [name.format(minor) for name in PYTHON_PACKAGES]
        if not lists.known(packages[0]):
            raise Missing("the release has it no more")
        lists.unpack(packages + LIBRARIES + [name for name in LIBRARY_OF_SOME if lists.known(name)], root)
        libraries_apart(root, os.path.join(folder, "libraries"))
        script = starter(folder, minor)
        open(os.path.join(folder, "complete"), "w").close()
    return script, os.path.join(root, f"usr/include/python3.{minor}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", action="append", metavar="RELEASE-VERSION")
    parser.add_argument("--pythons", default=os.path.join(HERE, "..", "..", "build", "pythons"), help="where they are kept")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    place = os.path.abspath(options.pythons)
    failed, headers = [], []
    for mirror, release, minor in PYTHONS:
        name = f"{release}-3.{minor}"
        if options.only and name not in options.only:
            continue
        try:
            script, include = fetched(place, mirror, release, minor)
        except Missing as error:
            print(f"{name}: left out: {error}", flush=True)
            continue
        headers.append(include)
        version = run([script, "-c", "import sys; print(sys.version.split()[0])"]).strip()
        print(f"{name}: Python {version}", flush=True)
        status = subprocess.run([sys.executable, os.path.join(HERE, "run.py"), "--build", options.build, *options.tests],
                                env={**os.environ, "NCCLWATCH_TEST_ONLY_PYTHON": script}).returncode
        if status not in (0, 77):
            failed.append(name)
    if headers and not options.tests:
        status = subprocess.run([sys.executable, os.path.join(HERE, "layouts.py"), "--check", *headers],
                                stdout=subprocess.DEVNULL).returncode
        print(f"table of offsets against {len(headers)} sets of headers: {'ok' if status == 0 else 'DIFFERS'}")
        failed += ["layouts"] if status else []
    print(f"{len(headers)} versions, failed: {', '.join(failed) or 'none'}")
    return 1 if failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
