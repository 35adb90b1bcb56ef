#include "analyzer/run/ranks_only.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_split.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "analyzer/run/mpi/launcher.h"
#include "analyzer/run/setting_up.h"

namespace ncclwatch::analyzer {
namespace {

using Words = std::vector<std::string>;

constexpr char kVariable[] = "LD_PRELOAD";
constexpr std::string_view kAssigned = "LD_PRELOAD=";

enum class LauncherKind { kNone, kOpenMpi, kHydra, kSlurm };

// Names as they are installed: a script of another name may not take the options.
bool IsMpiLauncher(const std::string& name) {
  static const absl::flat_hash_set<std::string> kNames{
      "mpirun",          "mpiexec",      "orterun",       "prterun",       "mpirun.openmpi",
      "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra", "mpirun.hydra"};
  return kNames.contains(name);
}

LauncherKind LauncherKindOf(const std::string& launcher, const Surroundings& here) {
  const std::string name = FileName(launcher);
  if (name == "srun") return LauncherKind::kSlurm;
  if (!IsMpiLauncher(name)) return LauncherKind::kNone;
  const auto evidence = MpiOfLauncher(launcher, here);
  if (!evidence) return LauncherKind::kNone;
  if (evidence->mpi == Mpi::kOpenMpi) return LauncherKind::kOpenMpi;
  return evidence->mpi == Mpi::kMpich && FileName(Resolved(here.FindProgram(launcher))) != "mpirun_rsh"
             ? LauncherKind::kHydra
             : LauncherKind::kNone;
}

class Rewriting {
 public:
  Rewriting(const Words& command, const PreloadRequest& request, const Surroundings& here)
      : command_(command), request_(request), here_(here) {}

  std::optional<Words> Run(LauncherKind kind) {
    for (std::size_t begin = 0; begin < command_.size() && possible_;) {
      words_.push_back(command_[begin++]);  // the launcher, or the colon before another program
      const std::size_t program = ProgramAt(begin), next = NextColon(program);
      const Words options(command_.begin() + static_cast<std::ptrdiff_t>(begin),
                          command_.begin() + static_cast<std::ptrdiff_t>(program));
      if (kind == LauncherKind::kOpenMpi) OpenMpi(options);
      if (kind == LauncherKind::kHydra) Hydra(options);
      if (kind == LauncherKind::kSlurm) Slurm(options);
      for (std::size_t i = program; i < next; ++i) words_.push_back(command_[i]);
      begin = next;
    }
    return possible_ ? std::optional<Words>(words_) : std::nullopt;
  }

 private:
  std::string With(const std::string& before) const { return Preload(request_.library, before); }

  std::size_t ProgramAt(std::size_t at) const {
    for (; at < command_.size() && command_[at] != ":"; ++at) {
      if (command_[at].starts_with('-')) continue;
      const std::string file = here_.FindProgram(command_[at]);
      if (!file.empty() && access(file.c_str(), X_OK) == 0) break;
    }
    return at;
  }
  std::size_t NextColon(std::size_t at) const {
    return static_cast<std::size_t>(std::find(command_.begin() + static_cast<std::ptrdiff_t>(at), command_.end(), ":") -
                                    command_.begin());
  }

  void OpenMpi(const Words& options) {
    bool set = false;
    possible_ = possible_ && !request_.open_mpi_environment_list;
    for (std::size_t i = 0; i < options.size(); ++i) {
      words_.push_back(options[i]);
      if (options[i].find("mca_base_env_list") != std::string::npos) possible_ = false;
      if ((options[i] != "-x" && options[i] != "--x") || i + 1 == options.size()) continue;
      const std::string& what = options[++i];
      const bool assigned = what.starts_with(kAssigned);
      words_.push_back(assigned || what == kVariable
                           ? std::string(kAssigned) +
                                 With(assigned ? what.substr(kAssigned.size()) : request_.inherited)
                           : what);
      set = set || assigned || what == kVariable;
    }
    if (!set) Insert(options.size(), {"-x", std::string(kAssigned) + With(request_.inherited)});
  }

  // -genv holds for all programs, -env for one and wins.
  void Hydra(const Words& options) {
    const bool first = words_.size() == 1;
    for (std::size_t i = 0; i < options.size(); ++i) {
      words_.push_back(options[i]);
      const std::string name =
          options[i].substr(std::min<std::size_t>(options[i].find_first_not_of('-'), options[i].size()));
      if ((name != "genv" && name != "env") || i + 1 == options.size()) continue;
      const std::string& what = options[++i];
      if (what.starts_with(kAssigned)) {
        words_.push_back(std::string(kAssigned) + With(what.substr(kAssigned.size())));
      } else {
        words_.push_back(what);
        if (what == kVariable && i + 1 < options.size()) words_.push_back(With(options[++i]));
      }
      global_ = global_ || (name == "genv" && what.starts_with(kVariable) &&
                            (what.size() == kAssigned.size() - 1 || what.starts_with(kAssigned)));
    }
    if (first && !global_) Insert(options.size(), {"-genv", kVariable, With(request_.inherited)});
  }

  // The last --export counts. Without one, SLURM_EXPORT_ENV; without that, all is exported.
  void Slurm(const Words& options) {
    bool set = false;
    for (std::size_t i = 0; i < options.size(); ++i) {
      constexpr std::string_view kOption = "--export=";
      if (options[i].starts_with(kOption)) {
        words_.push_back(std::string(kOption) + Exported(options[i].substr(kOption.size())));
        set = true;
      } else if (options[i] == "--export" && i + 1 < options.size()) {
        words_.push_back(std::string(kOption) + Exported(options[++i]));
        set = true;
      } else {
        words_.push_back(options[i]);
      }
    }
    if (!set)
      Insert(options.size(), {"--export=" + Exported(request_.slurm_export.empty() ? "ALL" : request_.slurm_export)});
  }

  std::string Exported(const std::string& list) {
    std::string preload = request_.inherited, kept;
    bool all = false;
    const Words items = absl::StrSplit(list, ',');
    for (const std::string& item : items) {
      all = all || item == "ALL";
      if (item.starts_with(kAssigned)) preload = item.substr(kAssigned.size());
      const bool nothing = item.empty() || item == "NONE" || item == "NIL";
      if (!nothing && item != kVariable && !item.starts_with(kAssigned)) kept += item + ",";
    }
    if (!all)
      for (const std::string& name : request_.ours) kept += name + ",";
    const std::string value = With(preload);
    if (value.find(',') != std::string::npos) possible_ = false;  // divides the list
    return kept + std::string(kAssigned) + value;
  }

  // Before the options that were just copied.
  void Insert(std::size_t before, const Words& more) {
    words_.insert(words_.end() - static_cast<std::ptrdiff_t>(before), more.begin(), more.end());
  }

  const Words& command_;
  const PreloadRequest& request_;
  const Surroundings& here_;
  Words words_;
  bool global_ = false;
  bool possible_ = true;
};

}  // namespace

std::optional<std::vector<std::string>> PreloadRanksOnly(const std::vector<std::string>& command,
                                                         const PreloadRequest& request, const Surroundings& here) {
  const LauncherKind kind = command.empty() ? LauncherKind::kNone : LauncherKindOf(command.front(), here);
  return kind == LauncherKind::kNone ? std::nullopt : Rewriting(command, request, here).Run(kind);
}

}  // namespace ncclwatch::analyzer
