#include "analyzer/attach/show.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/stacks/show/fold.h"
#include "analyzer/stacks/show/text.h"
#include "core/model/text.h"
#include "core/report/render.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer::attach {
namespace {

constexpr std::size_t kMostFrames = 200;

std::vector<int> RanksOf(const Group& group) {
  std::vector<int> ranks;
  for (const Standing* one : group.members) ranks.push_back(one->rank);
  return ranks;
}

nlohmann::ordered_json Lines(const std::vector<std::string>& lines) {
  auto list = nlohmann::ordered_json::array();
  for (const std::string& line : lines) list.push_back(Printable(line));
  return list;
}

}  // namespace

nlohmann::ordered_json ToJson(const diagnosis::Diagnosis& diagnosis, const RollCall& call) {
  auto json = nlohmann::ordered_json::parse(diagnosis::ToJson(diagnosis, diagnosis::Checked::kShown));
  auto rows = nlohmann::ordered_json::array();
  const auto text = [](const std::string& given) {
    return given.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(given);
  };
  for (const Group& group : GroupsOf(call)) {
    const Standing& first = *group.members.front();
    auto pids = nlohmann::ordered_json::array();
    for (const Standing* one : group.members) pids.push_back(one->pid);
    rows.push_back({{"ranks", RanksOf(group)},
                    {"pids", std::move(pids)},
                    {"moving", group.moving},
                    {"in", text(first.in)},
                    {"site", text(first.site)},
                    {"python_site", text(first.python_site)},
                    {"group", text(first.group)},
                    {"peer", first.peer >= 0 ? nlohmann::ordered_json(first.peer) : nullptr},
                    {"step", first.step.number ? nlohmann::ordered_json(*first.step.number) : nullptr},
                    {"loop", text(first.step.text)}});
  }
  json["roll_call"] = std::move(rows);
  json["logs"] = {{"files", call.logs.files}, {"silent_s", call.logs.silent_s}, {"cause", text(call.logs.cause)}};
  return json;
}

std::string ToText(const RollCall& call) {
  std::string out = fmt::format("roll call: {} looks in {:.1f} s\n", call.looks, call.seconds);
  for (const Group& group : GroupsOf(call))
    out += diagnosis::Wrapped("  ", fmt::format("{} {}: {}", diagnosis::Capital(diagnosis::Ranks(RanksOf(group))),
                                                group.moving ? "moving" : "standing", InText(*group.members.front())));
  return out;
}

nlohmann::ordered_json StacksSection(const RollCall& call) {
  auto list = nlohmann::ordered_json::array();
  for (const Standing& one : call.ranks) {
    std::vector<std::string> frames;
    for (const stacks::ProcessStacks& process : call.last)
      if (const stacks::Thread* main = MainOf(process);
          process.pid == one.pid && process.host == one.host && main != nullptr)
        for (const stacks::Frame& frame : main->frames)
          if (frames.size() < kMostFrames) frames.push_back(stacks::FullText(frame));
    list.push_back({{"rank", one.rank},
                    {"pid", one.pid},
                    {"crash", false},
                    {"state", Lines(one.holds)},
                    {"where", Lines(one.where)},
                    {"frames", Lines(frames.empty() ? one.where : frames)}});
  }
  return list;
}

}  // namespace ncclwatch::analyzer::attach
