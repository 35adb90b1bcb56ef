#include <fmt/core.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/words.h"
#include "analyzer/files/input_file.h"
#include "analyzer/run/mpi/library_search.h"
#include "analyzer/run/mpi/loader_cache.h"
#include "analyzer/run/mpi/surroundings.h"
#include "analyzer/run/pick_library.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::Surroundings;

constexpr char kNccl[] = "libnccl.so.2";

// "2.28.9" of "NCCL version 2.28.9+cuda13.0", which every libnccl has among its texts.
std::string VersionIn(const std::string& path) {
  constexpr char kMark[] = "NCCL version ";
  analyzer::InputFile file(path);
  std::string block(1 << 20, '\0'), tail;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    const auto size = static_cast<std::size_t>(file.gcount());
    const std::string text = tail + block.substr(0, size);
    for (std::size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + 1)) {
      const std::size_t from = at + sizeof kMark - 1, to = text.find_first_not_of("0123456789.", from);
      if (to != std::string::npos && to > from) return text.substr(from, to - from);
    }
    tail = text.substr(text.size() - std::min<std::size_t>(text.size(), 64));
  }
  return "";
}

// Folders of Python's packages, of the interpreters on PATH and of the active virtual environment.
std::vector<std::string> PackageFolders(const Machine& machine) {
  std::vector<std::string> folders = Split(machine.Variable("PYTHONPATH").value_or(""), ":"), prefixes;
  if (const auto environment = machine.Variable("VIRTUAL_ENV")) prefixes.push_back(*environment);
  if (const auto conda = machine.Variable("CONDA_PREFIX")) prefixes.push_back(*conda);
  if (!machine.command.empty()) {
    const std::string program = Surroundings::OfThisProcess().FindProgram(machine.command.front());
    prefixes.push_back(analyzer::FolderOf(analyzer::FolderOf(program)));
  }
  for (const char* prefix : {"/usr", "/usr/local"}) prefixes.emplace_back(prefix);
  for (const std::string& prefix : prefixes)
    for (const std::string& name : machine.List(prefix + "/lib"))
      if (name.starts_with("python3"))
        for (const char* packages : {"/site-packages", "/dist-packages"})
          folders.push_back(prefix + "/lib/" + name + packages);
  return folders;
}

// As ld.so would, then as torch does: the wheel of NCCL beside it.
std::string FindNccl(const Machine& machine) {
  if (const auto named = machine.Variable("VLLM_NCCL_SO_PATH")) return *named;
  for (const std::string& folder : Split(machine.Variable("LD_LIBRARY_PATH").value_or(""), ":"))
    if (machine.Exists(folder + "/" + kNccl)) return folder + "/" + kNccl;
  for (const std::string& folder : PackageFolders(machine))
    if (const std::string path = folder + "/nvidia/nccl/lib/" + kNccl; machine.Exists(path)) return path;
  const Surroundings here = Surroundings::OfThisProcess();
  const analyzer::LoaderCache cache = analyzer::ReadLoaderCache(machine.Below("/etc/ld.so.cache"));
  if (const auto found = cache.find(kNccl); found != cache.end())
    for (const std::string& path : found->second)
      if (machine.Exists(path)) return path;
  for (const std::string& folder : here.system_folders)
    if (machine.Exists(folder + "/" + kNccl)) return folder + "/" + kNccl;
  return "";
}

Result NcclLibrary(const Machine& machine) {
  const std::string path = FindNccl(machine);
  if (path.empty()) return Skip(fmt::format("no {} in LD_LIBRARY_PATH, ld.so's cache or Python's packages", kNccl));
  const std::string version = VersionIn(machine.Below(path));
  const std::string seen = fmt::format("{}{}", path, version.empty() ? "" : ", NCCL " + version);
  if (version.empty())
    return Warn(seen, "the file does not say a version of NCCL",
                "see that it is NVIDIA's library, whole and for this processor");
  return Pass(seen);
}

// A program with NCCL inside cannot be watched by a preload.
Result NcclStatic(const Machine& machine) {
  if (machine.command.empty()) return Skip("no program was named: `ncclwatch doctor -- PROGRAM`");
  const std::string program = Surroundings::OfThisProcess().FindProgram(machine.command.front());
  if (program.empty())
    return Fail(machine.command.front(), "there is no such program in PATH", "name the program as the job starts it");
  const std::string seen = analyzer::Resolved(program);
  const auto object = analyzer::LibrarySearch::Open(program);
  if (!object) return Pass(seen + " is a script");
  const auto& needed = object->links.needed;
  const bool shared =
      std::any_of(needed.begin(), needed.end(), [](const std::string& name) { return name.starts_with("libnccl.so"); });
  if (!shared && analyzer::FileHas(seen, "NCCL version "))
    return Warn(seen, "NCCL is linked into the program: ncclwatch sees its calls only through the profiler interface",
                "link libnccl.so, or set NCCL_PROFILER_PLUGIN=STATIC_PLUGIN (NCCL 2.23 or later)");
  return Pass(seen + (shared ? " needs libnccl.so" : " holds no NCCL of its own"));
}

// Starts a child with the variable as it is, so that ld.so complains where it would in the job.
std::string LoaderComplaint() {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]), close(ends[1]);
    execl("/bin/true", "true", nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string said(4096, '\0');
  std::size_t size = 0;
  for (ssize_t count; size < said.size() && (count = read(ends[0], said.data() + size, said.size() - size)) > 0;)
    size += static_cast<std::size_t>(count);
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  said.resize(size);
  return said.substr(0, said.find('\n'));
}

Result Preload(const Machine& machine) {
  const auto preload = machine.Variable("LD_PRELOAD");
  if (!preload) return Pass("LD_PRELOAD is not set; `ncclwatch run` sets it on the ranks alone");
  for (const std::string& path : Split(*preload, ": "))
    if (path.find('/') != std::string::npos && !machine.Exists(path))
      return Fail("LD_PRELOAD=" + *preload, fmt::format("there is no {} on this host: ld.so goes on without it", path),
                  "use a path that every host has");
  const std::string complaint = LoaderComplaint();
  if (!complaint.empty())
    return Warn("LD_PRELOAD=" + *preload, complaint,
                "use the library for this processor and C library, by its whole path");
  return Pass("LD_PRELOAD=" + *preload + " loads");
}

Result MpiLibrary(const Machine& machine) {
  const analyzer::MpiChoice choice = analyzer::ChooseMpi(machine.command, Surroundings::OfThisProcess());
  if (!choice.warning.empty())
    return Warn(choice.why, choice.warning, "start the program with the mpirun of the MPI that it was built for");
  if (choice.mpi == analyzer::Mpi::kNone) return Skip("neither the launcher nor the program uses MPI");
  return Pass(fmt::format("{}: {}", analyzer::NameOf(choice.mpi), choice.why));
}

// From the names of what pip has installed: nothing is run.
Result TorchVersion(const Machine& machine) {
  for (const std::string& folder : PackageFolders(machine)) {
    std::string torch, nccl;
    for (const std::string& name : machine.List(folder)) {
      const std::string version = name.substr(0, name.rfind(".dist-info"));
      if (!name.ends_with(".dist-info")) continue;
      if (name.starts_with("torch-")) torch = version.substr(6);
      if (name.starts_with("nvidia_nccl_cu")) nccl = version.substr(version.find('-') + 1);
    }
    if (!torch.empty())
      return Pass(fmt::format("torch {}{} in {}", torch, nccl.empty() ? "" : ", NCCL's wheel " + nccl, folder));
  }
  return Skip("no torch in VIRTUAL_ENV, CONDA_PREFIX, PYTHONPATH or the system's Python");
}

constexpr Check kLibraryChecks[] = {
    {"nccl-library", "the libnccl that will be loaded", kAnyPhase, NcclLibrary},
    {"nccl-static", "NCCL inside the program", kAnyPhase, NcclStatic},
    {"preload", "LD_PRELOAD", kAnyPhase, Preload},
    {"mpi-library", "the MPI that is used", kAnyPhase, MpiLibrary},
    {"torch-version", "torch and its NCCL", kAnyPhase, TorchVersion},
};

}  // namespace

std::span<const Check> LibraryChecks() { return kLibraryChecks; }

}  // namespace ncclwatch::doctor
