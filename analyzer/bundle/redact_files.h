// Redacts files that come from no run directory.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ncclwatch::analyzer {

struct NamesToHide {
  std::vector<std::string> hosts, users, commands;
  std::set<std::string> paths;  // of files that the texts may name without their folders
};

// Names and bytes; what is called *.json is a document, all else is text. A word has one substitute in all of them.
void RedactFiles(const NamesToHide& names, std::vector<std::pair<std::string, std::string>>* files);

}  // namespace ncclwatch::analyzer
