#include "analyzer/stacks/threads/proc_thread.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/core.h>

#include <cstdlib>
#include <vector>

namespace ncclwatch::stacks {

std::optional<InCall> ParseInCall(const std::string& text) {
  InCall call;
  if (text.starts_with("running")) {
    call.running = true;
    return call;
  }
  const char* at = text.c_str();
  const auto next = [&at](std::uint64_t* value) {
    char* end = nullptr;
    *value = std::strtoull(at, &end, 0);
    const bool any = end != at;
    at = end;
    return any;
  };
  std::uint64_t number = 0;
  if (!next(&number)) return std::nullopt;
  call.number = static_cast<long>(number);
  if (call.number != -1)
    for (std::uint64_t& argument : call.arguments)
      if (!next(&argument)) return std::nullopt;
  if (!next(&call.stack_pointer) || !next(&call.pc)) return std::nullopt;
  return call;
}

ProcThread::ProcThread(int pid, int tid) : tid_(tid), folder_(fmt::format("/proc/{}/task/{}", pid, tid)) {}

std::optional<ProcThread::Stat> ProcThread::ReadStat() const {
  const auto text = folder_.ReadShort("stat");
  if (!text) return std::nullopt;
  // The name may have spaces and brackets in it.
  const std::size_t open = text->find('('), close = text->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 2 >= text->size()) return std::nullopt;
  return Stat{text->substr(open + 1, close - open - 1), (*text)[close + 2]};
}

std::optional<InCall> ProcThread::ReadInCall() const {
  const auto text = folder_.ReadShort("syscall");
  return text ? ParseInCall(*text) : std::nullopt;
}

std::string ProcThread::Turns() const {
  // Time on a processor, time waiting for one, times that it got one.
  std::string spent = folder_.ReadShort("schedstat").value_or("");
  if (!spent.empty() && spent != "0 0 0\n") return spent;
  const std::string status = folder_.ReadShort("status").value_or("");
  const std::size_t at = status.find("voluntary_ctxt_switches:");
  return at == std::string::npos ? "" : status.substr(at);
}

std::string ProcThread::WaitChannel() const {
  const std::string channel = folder_.ReadShort("wchan").value_or("");
  return channel == "0" ? "" : channel;
}

std::string ProcThread::KernelFunctions() const {
  constexpr int kMost = 6;
  const std::string text = folder_.Read("stack", 8192).value_or("");
  std::vector<std::string> functions;
  const std::vector<std::string> lines = absl::StrSplit(text, absl::MaxSplits('\n', kMost));
  for (int i = 0; i < std::min(kMost, static_cast<int>(lines.size())); ++i) {  // "[<0>] futex_wait+0x123/0x1a0"
    const std::string& line = lines[static_cast<std::size_t>(i)];
    const std::size_t begin = line.find("] ");
    if (begin != std::string::npos) functions.push_back(line.substr(begin + 2, line.find('+') - begin - 2));
  }
  return absl::StrJoin(functions, " < ");
}

}  // namespace ncclwatch::stacks
