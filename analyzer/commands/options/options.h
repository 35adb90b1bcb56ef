// Reads a sub-command's arguments: --help to stdout and 0, mistakes to stderr and 2, the same for all sub-commands.
#pragma once

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "analyzer/console/command.h"

namespace ncclwatch::analyzer {

// The group of options that other parts of ncclwatch give: no help lists them.
constexpr char kInternal[] = "";

// The argument for which a command describes itself as JSON, for man pages and completions (`ncclwatch help --json`).
constexpr char kHelpAsJson[] = "--help-json";

class Options : public CLI::App {
 public:
  Options(const Command& command, const std::string& description);  // `description` may have several paragraphs
  // The exit status if there is nothing more to do.
  std::optional<int> Read(const Arguments& arguments);

 private:
  std::string Help() const;
  nlohmann::ordered_json HelpAsJson() const;

  Command command_;
  std::string description_;
};

// A command of the user's: what follows the first `--`, which is taken out of *arguments with it.
Arguments TakeCommand(Arguments* arguments);

// What is wrong, on stderr. Returns kUsage.
int UsageError(const Command& command, const std::string& message);
// Likewise of an input that cannot be read. Returns kUnreadable.
int Unreadable(const Command& command, const absl::Status& status);

}  // namespace ncclwatch::analyzer
