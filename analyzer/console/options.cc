#include "analyzer/console/options.h"

#include <algorithm>
#include <cstdio>

#include "analyzer/console/terminal.h"

namespace ncclwatch::analyzer {

Options::Options(const std::string& name, const std::string& description)
    : CLI::App("", "ncclwatch " + name), command_(name), description_(description) {
  get_formatter()->column_width(26);
  get_formatter()->label("REQUIRED", "");
}

std::optional<int> Options::Read(const Arguments& arguments) {
  Arguments reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them so
  try {
    parse(std::move(reversed));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::fputs(Help().c_str(), stdout);
    return kDone;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s\nTry `%s --help`.\n", get_name().c_str(), PrintableLines(error.what()).c_str(),
                 get_name().c_str());
    return kUsage;
  }
}

std::string Options::Help() const {
  const Command* command = FindCommand(command_);
  // CLI11 begins with a usage line of its own, which knows nothing of `-- CMD...`.
  const std::string declared = help();
  const std::size_t first = declared.find("\n\n");
  return "Usage: ncclwatch " + command_ + " " + (command ? command->synopsis : "") + "\n\n" + description_ + "\n" +
         (first == std::string::npos ? "" : declared.substr(first + 1));
}

int UsageError(const std::string& command, const std::string& message) {
  std::fprintf(stderr, "ncclwatch %s: %s\nTry `ncclwatch %s --help`.\n", command.c_str(), Printable(message).c_str(),
               command.c_str());
  return kUsage;
}

}  // namespace ncclwatch::analyzer
