// Stacks of many threads as one tree: what is the same in many ranks is written once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/stacks/base/stack.h"

namespace ncclwatch::stacks {

struct Node {
  std::string text;
  std::vector<std::size_t> processes;  // indices of those that come through here, ascending
  std::size_t threads = 0;
  std::size_t ends = 0;  // threads whose innermost frame this is
  std::vector<Node> children;
};

enum class Which { kMatter, kOthers };
// Outermost frames at the top, folded, without noise. The root has no text. kOthers has a thread's name above its
// frames, its digits as '#'.
Node Merge(const std::vector<ProcessStacks>& processes, Which which);

// "ranks 0,1,3-7 (7)", "rank 2 (1)"; by pid where ranks are not known.
std::string SetText(const std::vector<ProcessStacks>& processes, const std::vector<std::size_t>& which);
std::string RangesText(std::vector<long> numbers);  // "0,1,3-7"

std::string TreeText(const Node& root, const std::vector<ProcessStacks>& processes);

}  // namespace ncclwatch::stacks
