// Reads a sub-command's arguments: --help to stdout and 0, mistakes to stderr and 2, the same for all sub-commands.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "analyzer/commands/command.h"

namespace ncclwatch::analyzer {

class Options : public CLI::App {
 public:
  // `name` is the sub-command's; `description` may have several paragraphs.
  Options(const std::string& name, const std::string& description);
  // The exit status if there is nothing more to do.
  std::optional<int> Read(const Arguments& arguments);

 private:
  std::string Help() const;

  std::string command_;
  std::string description_;
};

// Says what is wrong with the usage on stderr; returns kUsage.
int UsageError(const std::string& command, const std::string& message);

}  // namespace ncclwatch::analyzer
