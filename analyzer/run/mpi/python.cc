#include "analyzer/run/mpi/python.h"

#include <algorithm>
#include <filesystem>

#include "analyzer/files/input_file.h"
#include "analyzer/run/mpi/program.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

bool IsPython(const std::string& path) { return FileName(path).starts_with("python"); }

// "3.11" of python3.11; empty if the name does not tell.
std::string VersionOf(const std::string& name) {
  const std::size_t digit = name.find_first_of("0123456789");
  return digit == std::string::npos || name.find('.', digit) == std::string::npos
             ? ""
             : name.substr(digit, name.find_first_not_of("0123456789.", digit) - digit);
}

// `include-system-site-packages`, `home` of a virtual environment.
std::string Setting(const std::string& file, const std::string& name) {
  InputFile lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || !line.starts_with(name)) continue;
    const std::size_t value = line.find_first_not_of(' ', equals + 1);
    return value == std::string::npos ? "" : line.substr(value, line.find_last_not_of(" \r") + 1 - value);
  }
  return "";
}

// Where packages lie below a prefix, Debian's folders too.
void AddPackageFolders(const fs::path& prefix, const std::string& version, std::vector<std::string>* folders) {
  for (const char* place : {"local/lib", "lib", "lib64"}) {
    std::error_code error;
    std::vector<std::string> below;
    for (fs::directory_iterator entry(prefix / place, error), end; !error && entry != end; entry.increment(error))
      if (entry->path().filename().string().starts_with("python")) below.push_back(entry->path().string());
    std::sort(below.begin(), below.end());
    for (const std::string& folder : below) {
      const std::string own = VersionOf(FileName(folder));
      if (!own.empty() && !version.empty() && own != version) continue;
      folders->push_back(folder + "/site-packages");
      folders->push_back(folder + "/dist-packages");
    }
  }
}

struct Interpretation {
  std::string version;               // 3.11, or empty
  std::vector<std::string> folders;  // in sys.path's order
};

Interpretation FoldersOf(const std::string& interpreter, const Surroundings& here) {
  const fs::path given = interpreter, real = Resolved(interpreter);
  Interpretation found{VersionOf(real.filename().string()), here.python_path};
  const auto user = [&] { AddPackageFolders(fs::path(here.home) / ".local", found.version, &found.folders); };
  for (const fs::path& root : {given.parent_path(), given.parent_path().parent_path()}) {
    const std::string config = (root / "pyvenv.cfg").string();
    if (!IsFile(config)) continue;
    AddPackageFolders(root, found.version, &found.folders);
    if (Setting(config, "include-system-site-packages") != "true") return found;
    if (!here.home.empty()) user();
    AddPackageFolders(fs::path(Setting(config, "home")).parent_path(), found.version, &found.folders);
    return found;
  }
  if (!here.home.empty()) user();
  AddPackageFolders(real.parent_path().parent_path(), found.version, &found.folders);
  return found;
}

// MPI.cpython-311-x86_64-linux-gnu.so, MPI.abi3.so; those of another version are not for this interpreter.
bool IsModuleOf(const std::string& name, std::string version) {
  if (!name.starts_with("MPI.") || !name.ends_with(".so")) return false;
  version.erase(std::remove(version.begin(), version.end(), '.'), version.end());
  return version.empty() || name.find("cpython-") == std::string::npos ||
         name.find("cpython-" + version + "-") != std::string::npos;
}

std::vector<std::string> ModulesIn(const fs::path& package, const std::string& version) {
  std::vector<std::string> modules;
  std::error_code error;
  for (fs::directory_iterator entry(package, error), end; !error && entry != end; entry.increment(error))
    if (IsModuleOf(entry->path().filename().string(), version)) modules.push_back(entry->path().string());
  std::sort(modules.begin(), modules.end());
  return modules;
}

std::optional<Evidence> MpiOfInterpreter(const std::string& interpreter, const Surroundings& here) {
  const Interpretation python = FoldersOf(interpreter, here);
  for (const std::string& folder : python.folders) {
    std::optional<Evidence> found;
    const auto modules = ModulesIn(fs::path(here.folder) / folder / "mpi4py", python.version);
    for (const std::string& module : modules) {
      const auto one = MpiOfFile(module, here);
      if (one && found && one->mpi != found->mpi) return std::nullopt;  // it chooses when it is imported
      if (one && !found) found = one;
    }
    if (!modules.empty()) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Evidence> MpiOfPython(const std::string& path, const Surroundings& here) {
  const std::vector<std::string> line = Interpreter(path);
  if (line.empty()) return IsPython(path) && OpenElf(path) ? MpiOfInterpreter(path, here) : std::nullopt;
  // #!/usr/bin/python3, #!/usr/bin/env -S python3 -u
  for (const std::string& word : line) {
    if (!IsPython(word)) continue;
    const std::string interpreter = here.FindProgram(word);
    return interpreter.empty() || !Interpreter(interpreter).empty() ? std::nullopt
                                                                    : MpiOfInterpreter(interpreter, here);
  }
  return std::nullopt;
}

}  // namespace ncclwatch::analyzer
