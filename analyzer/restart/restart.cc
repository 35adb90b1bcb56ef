#include "analyzer/restart/restart.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace ncclwatch::analyzer {
namespace {

// docs/commands.md has this table.
constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kByCategory = {{{"hardware", "without_hosts"},
                                                                                        {"network", "restart"},
                                                                                        {"nccl", "fix_first"},
                                                                                        {"timeout", "restart"},
                                                                                        {"terminated", "fix_first"},
                                                                                        {"rendezvous", "wait"},
                                                                                        {"filesystem", "fix_first"},
                                                                                        {"out_of_memory", "fix_first"},
                                                                                        {"cuda", "fix_first"},
                                                                                        {"numerics", "fix_first"},
                                                                                        {"data", "fix_first"},
                                                                                        {"environment", "fix_first"},
                                                                                        {"python", "fix_first"},
                                                                                        {"checkpoint", "fix_first"},
                                                                                        {"mpi", "fix_first"}}};

std::string_view ByCategory(std::string_view category) {
  for (const auto& [name, advice] : kByCategory)
    if (name == category) return advice;
  return "restart";  // nobody knows: a second failure shows more than a first
}

std::string Why(std::string_view advice, std::string_view category, bool has_hosts) {
  if (category.empty()) return "No rule knows the cause. If the job fails again in the same way, look at that place.";
  if (advice == "restart") return "The cause lies outside of the program and may be gone.";
  if (advice == "wait") return "The cause must be gone first, and it may go by itself.";
  if (advice == "without_hosts")
    return has_hosts ? "The fault belongs to these hosts and would come back there."
                     : "The fault belongs to a host, but the logs do not name it.";
  return "The same failure would come back.";
}

}  // namespace

Restart RestartAdvice(std::string_view category, std::string_view own, std::vector<std::string> hosts, int attempts) {
  Restart restart;
  restart.advice = own.empty() ? ByCategory(category) : own;
  if (restart.advice == "without_hosts") restart.hosts = std::move(hosts);
  if (attempts > 1 && restart.advice == "restart") {
    restart.advice = "fix_first";
    restart.why = "The job has failed in the same way after a restart.";
    return restart;
  }
  restart.why = Why(restart.advice, category, !restart.hosts.empty());
  return restart;
}

std::string RestartText(const Restart& restart) {
  std::string text = restart.advice == "restart"     ? "Restart the job."
                     : restart.advice == "fix_first" ? "Fix the cause before you restart the job."
                     : restart.advice == "wait"      ? "Wait before you restart the job."
                     : restart.hosts.empty()         ? "Restart the job without the host at fault."
                                                     : "";
  if (text.empty()) text = fmt::format("Restart the job without {}.", fmt::join(restart.hosts, ", "));
  return text + " " + restart.why;
}

nlohmann::ordered_json RestartJson(const std::optional<Restart>& restart) {
  if (!restart) return {};
  return {{"advice", restart->advice}, {"hosts", restart->hosts}, {"why", restart->why}};
}

}  // namespace ncclwatch::analyzer
