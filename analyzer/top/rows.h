// The rows of the table: which ones, in which order, and what stands in their columns.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/top/job.h"

namespace ncclwatch::analyzer::top {

enum class SortBy { kBehind, kRank, kCommunicator, kSince, kCalls, kBytes };
inline constexpr SortBy kLastSort = SortBy::kBytes;
std::string_view Name(SortBy by);

struct Column {
  const char* title;
  bool right;  // numbers
  int width;   // at least
  int weight;  // where there is no room for all, those with less go first
  std::string (*text)(const Job& job, const Member& member);
};
std::span<const Column> Columns();

struct Choice {
  SortBy by = SortBy::kBehind;
  bool reversed = false;
  std::string filter;  // ranks ("0-3,7"), or a part of the host, communicator, call or state
};
std::vector<const Member*> Choose(const Job& job, const Choice& choice);

}  // namespace ncclwatch::analyzer::top
