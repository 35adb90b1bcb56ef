#include "analyzer/stacks/show/merge.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "analyzer/stacks/show/fold.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kIndent = 2;

void Pass(Node* node, std::size_t process) {
  ++node->threads;
  if (node->processes.empty() || node->processes.back() != process) node->processes.push_back(process);
}

Node* Child(Node* node, const std::string& text) {
  const auto found =
      std::find_if(node->children.begin(), node->children.end(), [&](const Node& child) { return child.text == text; });
  if (found != node->children.end()) return &*found;
  node->children.push_back({text, {}, 0, 0, {}});
  return &node->children.back();
}

std::string NameOf(const Thread& thread) {
  std::string name = OneLine(thread.name);
  for (char& c : name)
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) c = '#';
  while (name.find("##") != std::string::npos) name.replace(name.find("##"), 2, "#");
  return "thread '" + name + "'";
}

// Outermost first.
std::vector<std::string> Path(const Thread& thread, Which which) {
  std::vector<std::string> path;
  if (which == Which::kOthers) path.push_back(NameOf(thread));
  const std::vector<Line> lines = Fold(thread.frames);
  bool any = false;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->noise) continue;
    path.push_back(line->text);
    any = true;
  }
  if (any) return path;
  // Nothing but noise, or no frames at all.
  if (!lines.empty())
    path.push_back(lines.front().text);
  else
    path.push_back("[no frames" + (thread.trouble.empty() ? "" : ": " + OneLine(thread.trouble)) + "]");
  return path;
}

// The largest sets first; what is the same keeps its order.
void Sort(Node* node) {
  std::stable_sort(node->children.begin(), node->children.end(), [](const Node& a, const Node& b) {
    return std::pair(a.processes.size(), a.threads) > std::pair(b.processes.size(), b.threads);
  });
  for (Node& child : node->children) Sort(&child);
}

class Printer {
 public:
  explicit Printer(const std::vector<ProcessStacks>& processes) : processes_(processes) {}

  std::string Run(const Node& root) {
    for (const Node& child : root.children) Branch(child, 0);
    return std::move(text_);
  }

 private:
  void Write(std::size_t indent, const std::string& line) { text_ += std::string(indent, ' ') + line + "\n"; }

  void Branch(const Node& node, std::size_t indent) {
    std::string set = SetText(processes_, node.processes);
    if (node.threads > node.processes.size()) set += fmt::format(", {} threads", node.threads);
    Write(indent, set);
    Below(node, indent + kIndent);
  }

  // A chain without a branch stays at one depth.
  void Below(const Node& node, std::size_t indent) {
    const Node* at = &node;
    for (;;) {
      Write(indent, at->text);
      if (at->children.size() != 1 || at->ends > 0) break;
      at = &at->children.front();
    }
    if (at->children.empty()) return;
    if (at->ends > 0) Write(indent + kIndent, fmt::format("(here: {} thread{})", at->ends, at->ends == 1 ? "" : "s"));
    for (const Node& child : at->children) Branch(child, indent + kIndent);
  }

  const std::vector<ProcessStacks>& processes_;
  std::string text_;
};

}  // namespace

Node Merge(const std::vector<ProcessStacks>& processes, Which which) {
  Node root;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    for (const Thread& thread : processes[i].threads) {
      if ((thread.tid == processes[i].matters) != (which == Which::kMatter)) continue;
      Node* node = &root;
      Pass(node, i);
      for (const std::string& text : Path(thread, which)) {
        node = Child(node, text);
        Pass(node, i);
      }
      ++node->ends;
    }
  }
  Sort(&root);
  return root;
}

std::string RangesText(std::vector<long> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (last - i < 2) last = i;  // "0,1" is no longer than "0-1", and plainer
    ranges.push_back(last > i ? fmt::format("{}-{}", numbers[i], numbers[last]) : fmt::format("{}", numbers[i]));
    i = last + 1;
  }
  return absl::StrJoin(ranges, ",");
}

std::string SetText(const std::vector<ProcessStacks>& processes, const std::vector<std::size_t>& which) {
  std::vector<long> ranks, pids;
  for (const std::size_t index : which) {
    const ProcessStacks& process = processes[index];
    process.rank >= 0 ? ranks.push_back(process.rank) : pids.push_back(process.pid);
  }
  std::vector<std::string> texts;
  for (const auto& [noun, numbers] : {std::pair("rank", ranks), std::pair("pid", pids)})
    if (!numbers.empty())
      texts.push_back(
          fmt::format("{}{} {} ({})", noun, numbers.size() == 1 ? "" : "s", RangesText(numbers), numbers.size()));
  return absl::StrJoin(texts, ", ");
}

std::string TreeText(const Node& root, const std::vector<ProcessStacks>& processes) {
  return Printer(processes).Run(root);
}

}  // namespace ncclwatch::stacks
