#include "analyzer/stacks/show/text.h"

#include <fmt/core.h>

#include <algorithm>

#include "analyzer/stacks/process/words.h"
#include "analyzer/stacks/show/fold.h"
#include "analyzer/stacks/show/merge.h"

namespace ncclwatch::stacks {
namespace {

const Thread* Matters(const ProcessStacks& process) {
  const auto found = std::find_if(process.threads.begin(), process.threads.end(),
                                  [&](const Thread& thread) { return thread.tid == process.matters; });
  return found == process.threads.end() ? nullptr : &*found;
}

std::string HowText(const Thread& thread) {
  switch (thread.how) {
    case How::kSleeping: return "";
    case How::kStopped: return ", stopped for the reading";
    case How::kPartly: return ", without its registers";
    case How::kNotRead: return "";
  }
  return "";
}

std::string RankText(const ProcessStacks& process) {
  return process.rank >= 0 ? fmt::format(" (rank {})", process.rank) : "";
}

std::string ThreadHead(const Thread& thread, const ProcessStacks& process) {
  std::string text = fmt::format("thread {} '{}'{}: {}", thread.tid, OneLine(thread.name),
                                 thread.tid == process.pid ? " (main)" : "", StateText(thread.state));
  if (!thread.call.empty())
    text += " in " + OneLine(thread.call);
  else if (!thread.channel.empty())
    text += " (" + thread.channel + ")";
  return text + HowText(thread);
}

std::string ThreadText(const Thread& thread, const ProcessStacks& process, bool full) {
  std::string text = ThreadHead(thread, process) + "\n";
  if (!thread.waits_on.empty()) text += "    " + OneLine(thread.waits_on) + "\n";
  if (full) {
    std::size_t number = 0;
    for (const Frame& frame : thread.frames) text += fmt::format("  #{} {}\n", number++, FullText(frame));
  } else {
    for (const Line& line : Fold(thread.frames)) text += "  " + line.text + "\n";
  }
  if (thread.cut) text += "  (more frames follow)\n";
  if (!thread.trouble.empty()) text += "  (" + OneLine(thread.trouble) + ")\n";
  return text;
}

}  // namespace

std::string FileText(const ProcessStacks& process) {
  std::string text = fmt::format("{}\nprocess pid {} start {} rank {} host {} at_ns {}\n", kMagicLine, process.pid,
                                 process.start_time, process.rank, OneLine(process.host), process.at_ns);
  if (!process.trouble.empty()) text += "state " + OneLine(process.trouble) + "\n";
  for (const std::string& sentence : process.state) text += "state " + OneLine(sentence) + "\n";
  for (const std::string& sentence : process.figures) text += "figure " + OneLine(sentence) + "\n";
  if (!process.python.empty()) text += (process.python_holds ? "state " : "figure ") + OneLine(process.python) + "\n";
  if (const Thread* const thread = Matters(process))
    for (const std::string& line : Where(*thread)) text += "where " + line + "\n";
  text += "\n";
  if (!process.command.empty()) text += "command " + OneLine(process.command) + "\n\n";
  for (const Thread& thread : process.threads) text += ThreadText(thread, process, true) + "\n";
  return text;
}

std::string ProcessText(const ProcessStacks& process, bool full) {
  std::string text = fmt::format("process {}{}", process.pid, RankText(process));
  if (!process.command.empty()) text += ": " + OneLine(process.command);
  text += "\n";
  if (!process.trouble.empty()) text += "  " + OneLine(process.trouble) + "\n";
  for (const auto* sentences : {&process.state, &process.figures})
    for (const std::string& sentence : *sentences) text += "  " + OneLine(sentence) + "\n";
  if (!process.python.empty()) text += "  " + OneLine(process.python) + "\n";
  text += "\n";
  for (const Thread& thread : process.threads) text += ThreadText(thread, process, full) + "\n";
  return text;
}

std::string MergedText(const std::vector<ProcessStacks>& processes) {
  std::string text;
  const Node matter = Merge(processes, Which::kMatter), others = Merge(processes, Which::kOthers);
  if (!matter.children.empty())
    text += "the thread that matters of each process, outermost frame first\n\n" + TreeText(matter, processes);
  if (!others.children.empty())
    text += (text.empty() ? "" : "\n") + std::string("all other threads\n\n") + TreeText(others, processes);
  std::string unread;
  for (const ProcessStacks& process : processes) {
    if (process.trouble.empty()) continue;
    unread += fmt::format("pid {}{}: {}\n", process.pid, RankText(process), OneLine(process.trouble));
  }
  if (!unread.empty()) text += (text.empty() ? "" : "\n") + std::string("not read\n\n") + unread;
  return text;
}

}  // namespace ncclwatch::stacks
