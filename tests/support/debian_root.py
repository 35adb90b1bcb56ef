"""Roots of Debian releases, made once by debootstrap, and commands inside them. As root."""

import os
import re
import shutil
import subprocess
import sys

BUILT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "roots"))


def can_make():
    return os.getuid() == 0 and shutil.which("debootstrap") is not None


def mirror():
    """The one that this machine uses."""
    for folder, _, names in os.walk("/etc/apt"):
        for name in names:
            if name.endswith((".list", ".sources")):
                with open(os.path.join(folder, name)) as file:
                    found = re.search(r"https?://\S+/debian/?(?=\s)", file.read() + "\n")
                if found:
                    return found.group(0)
    sys.exit("no mirror of Debian in /etc/apt")


def make(release, name, packages=""):
    """The root build/roots/NAME: Debian's smallest set of packages, and these."""
    root = os.path.join(BUILT, name)
    if not os.path.exists(os.path.join(root, "made")):
        os.makedirs(BUILT, exist_ok=True)
        shutil.rmtree(root, ignore_errors=True)
        print(f"{release}: making a root in {root}", flush=True)
        subprocess.run(["debootstrap", "--variant=minbase", *([f"--include={packages}"] if packages else []), release, root,
                        mirror()], check=True, stdout=subprocess.DEVNULL)
        open(os.path.join(root, "made"), "w").close()
    return root


def inside(root, argv, environment, timeout=120, changes=None):
    """Status, output and errors of a command in the root, in a mount namespace of its own, so that nothing stays mounted. With
    `changes`, a folder, the root itself stays as it is: what the command writes is in changes/upper."""
    script = ('mount -t proc proc "$0/proc" && mkdir -p "$0/dev/shm" && mount -t tmpfs tmpfs "$0/dev/shm" && '
              '{ [ -c "$0/dev/null" ] || mount --bind /dev "$0/dev"; } && exec chroot "$0" "$@"')
    if changes:
        for name in ("upper", "work", "merged"):
            os.makedirs(os.path.join(changes, name), exist_ok=True)
        options = f"lowerdir={root},upperdir={changes}/upper,workdir={changes}/work"
        script = f"mount -t overlay -o '{options}' overlay \"$0\" && {script}"
        root = os.path.join(changes, "merged")
    words = ["env", *(f"{name}={value}" for name, value in environment.items()), *argv]
    done = subprocess.run(["unshare", "-m", "bash", "-c", script, root, *words], capture_output=True, text=True,
                          timeout=timeout, stdin=subprocess.DEVNULL,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C"})
    return done.returncode, done.stdout, done.stderr
