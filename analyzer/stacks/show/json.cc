#include <nlohmann/json.hpp>

#include "analyzer/stacks/show/fold.h"
#include "analyzer/stacks/show/merge.h"
#include "analyzer/stacks/show/text.h"
#include "core/text/printable.h"

namespace ncclwatch::stacks {
namespace {

using Json = nlohmann::ordered_json;

Json Optional(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

const char* NameOf(How how) {
  switch (how) {
    case How::kNotRead: return "not_read";
    case How::kSleeping: return "sleeping";
    case How::kStopped: return "stopped";
    case How::kPartly: return "partly";
  }
  return "not_read";
}

Json Of(const Frame& frame) {
  if (frame.kind == Frame::Kind::kPython)
    return {{"kind", "python"},
            {"function", frame.function},
            {"file", frame.file},
            {"line", frame.line > 0 ? Json(frame.line) : Json(nullptr)}};
  return {{"kind", "native"},
          {"function", Optional(frame.function)},
          {"module", Optional(frame.module_path)},
          {"address", frame.address},
          {"module_address", frame.module.empty() ? Json(nullptr) : Json(frame.module_address)},
          {"guessed", frame.guessed}};
}

Json Of(const Thread& thread) {
  Json frames = Json::array(), folded = Json::array();
  for (const Frame& frame : thread.frames) frames.push_back(Of(frame));
  for (const Line& line : Fold(thread.frames)) folded.push_back(line.text);
  return {{"tid", thread.tid},
          {"name", thread.name},
          {"state", std::string(1, thread.state)},
          {"wait_channel", Optional(thread.channel)},
          {"call", Optional(thread.call)},
          {"waits_on", Optional(thread.waits_on)},
          {"read", NameOf(thread.how)},
          {"trouble", Optional(thread.trouble)},
          {"cut", thread.cut},
          {"folded", std::move(folded)},
          {"frames", std::move(frames)}};
}

Json Of(const ProcessStacks& process) {
  Json threads = Json::array(), where = Json::array();
  for (const Thread& thread : process.threads) {
    threads.push_back(Of(thread));
    if (thread.tid == process.matters)
      for (const std::string& line : Where(thread)) where.push_back(line);
  }
  return {{"pid", process.pid},
          {"start_time", process.start_time},
          {"rank", process.rank >= 0 ? Json(process.rank) : Json(nullptr)},
          {"host", process.host},
          {"at_ns", process.at_ns},
          {"command", process.command},
          {"state", process.state},
          {"figures", process.figures},
          {"python", Optional(process.python)},
          {"trouble", Optional(process.trouble)},
          {"matters", process.matters},
          {"where", std::move(where)},
          {"threads", std::move(threads)}};
}

Json Of(const Node& node, const std::vector<ProcessStacks>& processes) {
  Json children = Json::array(), pids = Json::array();
  for (const Node& child : node.children) children.push_back(Of(child, processes));
  for (const std::size_t index : node.processes) pids.push_back(processes[index].pid);
  return {{"frame", Optional(node.text)},
          {"set", SetText(processes, node.processes)},
          {"pids", std::move(pids)},
          {"threads", node.threads},
          {"children", std::move(children)}};
}

}  // namespace

std::string JsonText(const std::vector<ProcessStacks>& processes) {
  Json all = Json::array();
  for (const ProcessStacks& process : processes) all.push_back(Of(process));
  const Json whole = {{"schema", kMagicLine},
                      {"processes", std::move(all)},
                      {"merged", Of(Merge(processes, Which::kMatter), processes)},
                      {"merged_others", Of(Merge(processes, Which::kOthers), processes)}};
  return PrintableJson(whole.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace ncclwatch::stacks
