#include "analyzer/doctor/facts.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/gpu.h"
#include "analyzer/doctor/checks/network.h"
#include "analyzer/doctor/checks/words.h"
#include "ncclwatch/format/environment.h"
#include "ncclwatch/version.h"
#include "watchdog/settings/redact.h"

namespace ncclwatch::doctor {

std::map<std::string, std::string> VersionsOf(const Machine& machine) {
  std::map<std::string, std::string> facts;
  utsname name{};
  if (uname(&name) == 0) facts["kernel"] = name.release, facts["processor"] = name.machine;
  facts["C library"] = gnu_get_libc_version();
  facts["ncclwatch"] = NCCLWATCH_VERSION;
  if (const auto& gpus = LookAtGpus().gpus; gpus && !gpus->all.empty()) {
    facts["driver"] = gpus->driver;
    facts["GPU"] = gpus->all.front().name;
    facts["GPUs of a host"] = std::to_string(gpus->all.size());
  }
  for (const Check& check : LibraryChecks()) {
    if (check.id != "nccl-library" && check.id != "torch-version" && check.id != "mpi-library") continue;
    const Result result = check.look(machine);
    const std::size_t from = check.id == "nccl-library" ? result.seen.find("NCCL ") : 0, to = result.seen.find(" in /");
    if (result.status != Status::kSkip && from != std::string::npos)
      facts[check.id == "nccl-library"  ? "NCCL"
            : check.id == "mpi-library" ? "MPI"
                                        : "torch"] = result.seen.substr(from, to == std::string::npos ? to : to - from);
  }
  if (const auto release = machine.Read("/etc/os-release"))
    for (const std::string& line : Split(*release, "\n"))
      if (line.starts_with("PRETTY_NAME="))
        facts["system"] = Split(line.substr(12), "\"").empty() ? "" : Split(line.substr(12), "\"").front();
  for (const auto& [interface, mtu] : PacketSizes(machine)) facts["MTU of " + interface] = mtu;
  return facts;
}

std::map<std::string, std::string> ComparedVariables(const Machine& machine) {
  std::map<std::string, std::string> facts;
  for (const auto& [name, value] : machine.environment())
    if (format::ShouldBeAlike(name) && !settings::IsSecretName(name, "")) facts[name] = settings::Redacted(value, "");
  return facts;
}

}  // namespace ncclwatch::doctor
