#include "analyzer/run/mpi/launcher.h"

#include <algorithm>
#include <filesystem>

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 16;

bool Has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

bool IsLauncherName(const std::string& name) {
  return name.starts_with("mpirun") || name.starts_with("mpiexec") || name.starts_with("orterun") ||
         name.starts_with("prterun") || name.starts_with("oshrun") || name == "prun";
}

// Its own name, and that of every link on the way to the file: mpirun, mpirun.openmpi, orterun.
std::vector<std::string> NamesOnTheWay(const std::string& path) {
  std::vector<std::string> names;
  fs::path at = path;
  for (int i = 0; i < kMostLinks; ++i) {
    names.push_back(at.filename().string());
    std::error_code error;
    const fs::path next = fs::read_symlink(at, error);
    if (error) break;
    at = at.parent_path() / next;
  }
  return names;
}

Mpi ByName(const std::string& name) {
  for (const char* word : {"openmpi", "ompi", "orterun", "prterun", "oshrun", "prun"})
    if (Has(name, word)) return Mpi::kOpenMpi;
  for (const char* word : {"mpich", "hydra", "mpirun_rsh", "gforker", "mvapich"})
    if (Has(name, word)) return Mpi::kMpich;
  return Mpi::kNone;
}

// Open MPI's launcher stands on Open MPI's libraries; MPICH's, Intel's and MVAPICH's is Hydra, which needs none.
std::optional<Evidence> ByContents(const std::string& path) {
  const auto file = OpenElf(path);
  if (!file) return std::nullopt;
  for (const std::string& name : file->ReadLinks().needed)
    if (IsPartOfOpenMpi(name)) return Evidence{Mpi::kOpenMpi, path + " needs " + name};
  if (FileHas(path, "HYDRA_")) return Evidence{Mpi::kMpich, path + " is Hydra"};
  return std::nullopt;
}

// Installations outside the distribution's folders are of one MPI alone; where both lie, the folder tells nothing.
std::optional<Evidence> ByFolder(const std::string& path) {
  const std::string folder = FolderOf(path);
  const auto any = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names)
      if (IsFile(folder + "/" + name)) return folder + "/" + name;
    return "";
  };
  const std::string open_mpi = any({"ompi_info", "orterun", "orted", "prterun", "prted", "../lib/libopen-pal.so"});
  const std::string mpich = any({"mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy", "mpichversion", "mpiname",
                                 "../lib/libmpich.so", "../lib/libmpi.so.12"});
  if (open_mpi.empty() == mpich.empty()) return std::nullopt;
  return open_mpi.empty() ? Evidence{Mpi::kMpich, path + " lies beside " + mpich}
                          : Evidence{Mpi::kOpenMpi, path + " lies beside " + open_mpi};
}

}  // namespace

std::optional<Evidence> MpiOfLauncher(const std::string& word, const Surroundings& here) {
  const std::string found = here.FindProgram(word);
  if (found.empty()) return std::nullopt;
  const std::vector<std::string> names = NamesOnTheWay(found);
  const std::string file = Resolved(found);
  if (!std::any_of(names.begin(), names.end(), IsLauncherName) && !IsLauncherName(FileName(file))) return std::nullopt;
  if (auto evidence = ByContents(file)) return evidence;
  for (const std::string& name : names)
    if (const Mpi mpi = ByName(name); mpi != Mpi::kNone) return Evidence{mpi, found + " is " + name};
  if (auto evidence = ByFolder(file)) return evidence;
  if (const Mpi mpi = ByName(file); mpi != Mpi::kNone) return Evidence{mpi, found + " is " + file};
  return std::nullopt;
}

}  // namespace ncclwatch::analyzer
