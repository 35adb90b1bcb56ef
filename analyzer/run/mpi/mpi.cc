#include "analyzer/run/mpi/mpi.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ncclwatch::analyzer {
namespace {

bool BeginsWithOne(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](auto beginning) { return name.starts_with(beginning); });
}

// 12 of libmpi.so.12.2; -1 without one.
int Version(std::string_view name) {
  const std::size_t at = name.find(".so.");
  int version = -1;
  if (at != std::string_view::npos) std::from_chars(name.data() + at + 4, name.data() + name.size(), version);
  return version;
}

}  // namespace

const char* NameOf(Mpi mpi) {
  constexpr std::array kNames{"none", "openmpi", "mpich", "MPI 5's ABI"};
  return kNames[static_cast<std::size_t>(mpi)];
}

std::optional<Mpi> MpiNamed(std::string_view name) {
  for (const Mpi mpi : {Mpi::kNone, Mpi::kOpenMpi, Mpi::kMpich})
    if (name == NameOf(mpi)) return mpi;
  return std::nullopt;
}

std::optional<Mpi> MpiOfLibrary(std::string_view name) {
  name = name.substr(name.rfind('/') + 1);
  constexpr int kMpichAbi = 12;  // the MPICH ABI initiative's number; Open MPI: 1, 20, 40 (and 12 in 1.10)
  if (name.starts_with("libmpi_abi.so")) return Mpi::kStandardAbi;
  if (BeginsWithOne(name, {"libmpich.so", "libmpich-", "libpmpich.so"})) return Mpi::kMpich;
  if (name.starts_with("libmpi_ibm.so")) return Mpi::kOpenMpi;  // Spectrum MPI
  if (BeginsWithOne(name, {"libmpi_cray.so", "libmpi_gnu", "libmpi_intel", "libmpi_nvidia", "libmpi_amd"}))
    return Mpi::kMpich;  // Cray MPICH
  if (!name.starts_with("libmpi.so")) return std::nullopt;
  return Version(name) == kMpichAbi ? Mpi::kMpich : Mpi::kOpenMpi;
}

bool IsPartOfOpenMpi(std::string_view library) {
  return BeginsWithOne(library, {"libopen-rte", "libopen-pal", "libprrte"});
}

}  // namespace ncclwatch::analyzer
