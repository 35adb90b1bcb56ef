# A Spack package. In a repository of your own: packages/ncclwatch/package.py; `spack install ncclwatch`.
from spack.package import *


class Ncclwatch(CMakePackage):
    """Finds out which rank hangs a distributed job of NCCL or MPI, in which call, and why."""

    # The URL of your clone: ncclwatch is built from a checkout.
    git = "file:///path/to/ncclwatch"

    version("main", branch="main")

    variant("openmpi", default=True, description="Build the library for Open MPI's ABI")
    variant("mpich", default=True, description="Build the library for MPICH's ABI")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("python@3.8:", type="build")
    depends_on("cuda@12:", type="build")  # headers alone
    depends_on("nccl@2.19:", type="build")  # headers alone
    depends_on("boost", type="build")  # headers alone
    depends_on("openmpi", type="build", when="+openmpi")  # headers alone
    depends_on("mpich", type="build", when="+mpich")  # headers alone
    for library in ("abseil-cpp", "cli11", "elfutils", "fmt", "hiredis", "libsodium", "libunwind", "mbedtls", "nlohmann-json",
                    "spdlog"):
        depends_on(library, type=("build", "link"))

    # Spack has no package of D3 5, which `ncclwatch report` draws with: its files come from the machine (Debian's node-d3), or from
    # the folder that -DD3_SCRIPT=FILE -DD3_LICENCE=FILE name.

    generator("ninja")

    def setup_run_environment(self, env):
        env.set("NCCLWATCH_LIBRARY", self.prefix.lib.ncclwatch.join("libncclwatch.so"))
