#include "analyzer/run/pick_library.h"

#include <fmt/core.h>
#include <unistd.h>

#include "analyzer/run/mpi/command_words.h"
#include "analyzer/run/mpi/launcher.h"
#include "analyzer/run/mpi/program.h"
#include "analyzer/run/mpi/python.h"

namespace ncclwatch::analyzer {
namespace {

// `env LD_LIBRARY_PATH=... mpirun`, `mpirun -x PATH=...`: the job's, not ours.
void TakeAssignment(const std::string& word, Surroundings* here) {
  const auto prepend = [&](const std::string& name, std::vector<std::string>* folders) {
    if (!word.starts_with(name + "=")) return;
    const auto more = SplitFolders(word.substr(name.size() + 1));
    folders->insert(folders->begin(), more.begin(), more.end());
  };
  prepend("PATH", &here->path);
  prepend("LD_LIBRARY_PATH", &here->libraries);
  prepend("PYTHONPATH", &here->python_path);
}

// What the words tell, each by the first that tells it.
struct Reported {
  std::optional<Evidence> launcher, program, python;
  std::string with_mpi_inside;  // a file
};

bool CouldBeProgram(const std::string& word) {
  return !word.starts_with('-') && word.find_first_not_of("0123456789.,:") != std::string::npos;
}

Reported Ask(const std::vector<std::string>& words, const Surroundings& here) {
  Reported reported;
  for (const std::string& word : words) {
    if (!CouldBeProgram(word)) continue;
    const bool before_any = !reported.launcher && !reported.program;
    if (before_any && (reported.launcher = MpiOfLauncher(word, here))) continue;
    const std::string file = here.FindProgram(word);
    if (file.empty()) continue;
    if (!reported.program) reported.program = MpiOfFile(file, here);
    if (reported.program) break;
    if (reported.with_mpi_inside.empty() && HasMpiInside(file)) reported.with_mpi_inside = file;
    if (!reported.python) reported.python = MpiOfPython(file, here);
  }
  return reported;
}

std::string NotWrapped(const std::string& what) {
  return what + ": its MPI calls cannot be wrapped from outside and are not watched";
}

}  // namespace

MpiChoice ChooseMpi(const std::vector<std::string>& command, Surroundings here) {
  const std::vector<std::string> words = CommandWords(command);
  for (const std::string& word : words) TakeAssignment(word, &here);
  const Reported reported = Ask(words, here);
  MpiChoice choice;
  if (!reported.program && !reported.with_mpi_inside.empty()) {
    choice.why = reported.with_mpi_inside + " has its MPI inside";
    choice.warning = NotWrapped(reported.with_mpi_inside + " is statically linked with MPI");
    return choice;
  }
  const auto& decisive = reported.program && (!reported.launcher || reported.launcher->mpi != reported.program->mpi)
                             ? reported.program
                         : reported.launcher ? reported.launcher
                                             : reported.python;
  choice.why = decisive ? decisive->why : "nothing of its command is of an MPI";
  if (!decisive) return choice;
  choice.mpi = decisive->mpi;
  if (choice.mpi == Mpi::kStandardAbi) {
    choice.mpi = Mpi::kNone;
    choice.warning = NotWrapped(choice.why + ", MPI 5's ABI, which this version does not know");
  } else if (reported.launcher && decisive->mpi != reported.launcher->mpi) {
    choice.warning = fmt::format("{}, but {}: {} is taken; --mpi says otherwise", choice.why, reported.launcher->why,
                                 NameOf(choice.mpi));
  }
  return choice;
}

LibraryChoice PickLibrary(const std::string& plain, const MpiChoice& mpi) {
  if (mpi.mpi == Mpi::kNone) return {plain, mpi.why, mpi.warning};
  const std::string wanted = fmt::format("{}/libncclwatch-{}.so", FolderOf(plain), NameOf(mpi.mpi));
  if (access(wanted.c_str(), R_OK) == 0) return {wanted, mpi.why, mpi.warning};
  return {plain, mpi.why,
          fmt::format("{} is missing, so libncclwatch.so is preloaded and MPI calls are not watched ({})", wanted,
                      mpi.why)};
}

}  // namespace ncclwatch::analyzer
