#!/usr/bin/env python3
"""The software bill of materials of a staged prefix, as SPDX 2.3 JSON on standard output: the product, its files with their
checksums, and the libraries that are linked into them.

    packaging/sbom.py --prefix PREFIX --version 0.1.0
"""

import argparse
import datetime
import hashlib
import json
import os
import subprocess

# Debian's package of each library that is linked statically; its licence by SPDX's name. GCC's own come besides.
LIBRARIES = {
    "libabsl-dev": "Apache-2.0", "libbz2-dev": "bzip2-1.0.6", "libcli11-dev": "BSD-3-Clause",
    "libdw-dev": "LGPL-3.0-or-later OR GPL-2.0-or-later", "libelf-dev": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "libfmt-dev": "MIT", "libhiredis-dev": "BSD-3-Clause",
    "liblzma-dev": "0BSD", "libmbedtls-dev": "Apache-2.0", "libncurses-dev": "X11-distribute-modifications-variant",
    "libre2-dev": "BSD-3-Clause", "libsodium-dev": "ISC", "libspdlog-dev": "MIT",
    "libtomlplusplus-dev": "MIT", "libunwind-dev": "MIT", "libzstd-dev": "BSD-3-Clause OR GPL-2.0-only", "libboost-dev": "BSL-1.0", "libprotozero-dev": "BSD-2-Clause", "nlohmann-json3-dev": "MIT", "rapidjson-dev": "MIT", "zlib1g-dev": "Zlib",
    "node-d3": "BSD-3-Clause",  # inside the page of `ncclwatch report`
}


def version_of(package):
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "NOASSERTION"


def runtime_of_gcc():
    """Debian's package that libstdc++.a and libgcc.a come with."""
    major = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0].strip()
    return f"libstdc++-{major}-dev"


def is_linked_statically(package, prefix):
    """False for elfutils where Debian's archives of it do not link (cmake/Elfutils.cmake)."""
    if package not in ("libdw-dev", "libelf-dev"):
        return True
    return b"libdw.so.1" not in open(os.path.join(prefix, "bin", "ncclwatch"), "rb").read()


def checksums(path):
    with open(path, "rb") as file:
        data = file.read()
    return [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, data).hexdigest()} for name in ("sha1", "sha256")]


def package(identifier, name, version, licence, **more):
    return {"SPDXID": identifier, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "licenseConcluded": "NOASSERTION", "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}


def document(prefix, version):
    product = "SPDXRef-ncclwatch"
    files = []
    for folder, _, names in sorted(os.walk(prefix)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            files.append({"SPDXID": f"SPDXRef-file-{len(files)}", "fileName": "./" + os.path.relpath(path, prefix),
                          "checksums": checksums(path), "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION",
                          "licenseInfoInFiles": ["NOASSERTION"]})
    codes = sorted(one["checksums"][0]["checksumValue"] for one in files)
    packages = [package(product, "ncclwatch", version, "NOASSERTION", filesAnalyzed=True, hasFiles=[f["SPDXID"] for f in files],
                        licenseInfoFromFiles=["NOASSERTION"], packageVerificationCode={
                            "packageVerificationCodeValue": hashlib.sha1("".join(codes).encode()).hexdigest()})]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", product)]
    libraries = {**LIBRARIES, runtime_of_gcc(): "GPL-3.0-or-later WITH GCC-exception-3.1"}
    for name, licence in libraries.items():
        identifier = "SPDXRef-" + name.replace("+", "x")
        packages.append(package(identifier, name, version_of(name), licence, filesAnalyzed=False))
        relations.append((product, "STATIC_LINK" if is_linked_statically(name, prefix) else "DYNAMIC_LINK", identifier))
    relations += [(product, "CONTAINS", one["SPDXID"]) for one in files]
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), datetime.timezone.utc)
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"ncclwatch-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/ncclwatch-{version}-{codes[0][:12]}",
            "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: ncclwatch-sbom"]},
            "packages": packages, "files": files,
            "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--version", required=True)
    arguments = parser.parse_args()
    print(json.dumps(document(arguments.prefix, arguments.version), indent=1))


if __name__ == "__main__":
    main()
