// Whose line a match is, if the line alone does not say: by what other lines say of processes, hosts and local ranks.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

void SettleRanks(const std::vector<Rule>& rules, std::vector<ScannedFile>* files);

// Empty: the match has no such field.
std::string_view FieldOf(const Match& match, std::string_view name);
// -1: it has none, or it is no number.
int NumberOf(const Match& match, std::string_view name);

// "0-3,7", as Slurm writes tasks.
std::set<int> RanksIn(std::string_view list);

// A line without what differs between two that mean the same: numbers and addresses.
std::string TemplateOf(std::string_view text);

}  // namespace ncclwatch::analyzer
