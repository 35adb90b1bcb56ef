#include "analyzer/stacks/show/text.h"

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

std::string ThreadHead(const Thread& thread, const ProcessStacks& process) {
  std::string text = "thread " + std::to_string(thread.tid) + " '" + OneLine(thread.name) + "'";
  if (thread.tid == process.pid) text += " (main)";
  text += ": " + StateText(thread.state);
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
    for (const Frame& frame : thread.frames) text += "  #" + std::to_string(number++) + " " + FullText(frame) + "\n";
  } else {
    for (const Line& line : Fold(thread.frames)) text += "  " + line.text + "\n";
  }
  if (thread.cut) text += "  (more frames follow)\n";
  if (!thread.trouble.empty()) text += "  (" + OneLine(thread.trouble) + ")\n";
  return text;
}

}  // namespace

std::string FileText(const ProcessStacks& process) {
  std::string text = std::string(kMagicLine) + "\nprocess pid " + std::to_string(process.pid) + " start " +
                     std::to_string(process.start_time) + " rank " + std::to_string(process.rank) + " host " +
                     OneLine(process.host) + " at_ns " + std::to_string(process.at_ns) + "\n";
  if (!process.trouble.empty()) text += "state " + OneLine(process.trouble) + "\n";
  for (const std::string& sentence : process.state) text += "state " + OneLine(sentence) + "\n";
  if (!process.python.empty()) text += "state " + OneLine(process.python) + "\n";
  if (const Thread* const thread = Matters(process))
    for (const std::string& line : Where(*thread)) text += "where " + line + "\n";
  text += "\n";
  if (!process.command.empty()) text += "command " + OneLine(process.command) + "\n\n";
  for (const Thread& thread : process.threads) text += ThreadText(thread, process, true) + "\n";
  return text;
}

std::string ProcessText(const ProcessStacks& process, bool full) {
  std::string text = "process " + std::to_string(process.pid);
  if (process.rank >= 0) text += " (rank " + std::to_string(process.rank) + ")";
  if (!process.command.empty()) text += ": " + OneLine(process.command);
  text += "\n";
  if (!process.trouble.empty()) text += "  " + OneLine(process.trouble) + "\n";
  for (const std::string& sentence : process.state) text += "  " + OneLine(sentence) + "\n";
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
    unread += "pid " + std::to_string(process.pid);
    if (process.rank >= 0) unread += " (rank " + std::to_string(process.rank) + ")";
    unread += ": " + OneLine(process.trouble) + "\n";
  }
  if (!unread.empty()) text += (text.empty() ? "" : "\n") + std::string("not read\n\n") + unread;
  return text;
}

}  // namespace ncclwatch::stacks
