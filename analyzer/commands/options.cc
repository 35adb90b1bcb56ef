#include "analyzer/commands/options.h"

#include <cstdio>

#include "analyzer/console/print.h"

namespace ncclwatch::analyzer {

Options::Options(const Command& command, const std::string& description)
    : CLI::App("", fmt::format("ncclwatch {}", command.name)), command_(command), description_(description) {
  get_formatter()->column_width(26);
  get_formatter()->label("REQUIRED", "");
}

std::optional<int> Options::Read(const Arguments& arguments) {
  Arguments reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them so
  try {
    parse(std::move(reversed));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    Print("{}", Help());
    return kDone;
  } catch (const CLI::ParseError& error) {
    return UsageError(command_, error.what());
  }
}

std::string Options::Help() const {
  // CLI11 begins with a usage line of its own, which knows nothing of `-- CMD...`.
  const std::string declared = help();
  const std::size_t first = declared.find("\n\n");
  return fmt::format("Usage: ncclwatch {} {}\n\n{}\n{}", command_.name, command_.synopsis, description_,
                     first == std::string::npos ? "" : declared.substr(first + 1));
}

int UsageError(const Command& command, const std::string& message) {
  WriteComplaint(command.name, message);
  std::fputs(fmt::format("Try `ncclwatch {} --help`.\n", command.name).c_str(), stderr);
  return kUsage;
}

int Unreadable(const Command& command, const absl::Status& status) {
  WriteComplaint(command.name, std::string(status.message()));
  return kUnreadable;
}

}  // namespace ncclwatch::analyzer
