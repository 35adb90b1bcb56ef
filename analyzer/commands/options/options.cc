#include "analyzer/commands/options/options.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "analyzer/console/print.h"

namespace ncclwatch::analyzer {

Options::Options(const Command& command, const std::string& description)
    : CLI::App("", fmt::format("ncclwatch {}", command.name)), command_(command), description_(description) {
  get_formatter()->column_width(26);
  get_formatter()->label("REQUIRED", "");
}

std::optional<int> Options::Read(const Arguments& arguments) {
  if (arguments.size() == 1 && arguments.front() == kHelpAsJson) {
    Print("{}\n", HelpAsJson().dump());
    return kDone;
  }
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

nlohmann::ordered_json Options::HelpAsJson() const {
  auto options = nlohmann::ordered_json::array(), positionals = nlohmann::ordered_json::array();
  for (const CLI::Option* option : get_options()) {
    if (option->get_group().empty()) continue;  // hidden: for this command alone
    if (option->get_positional()) {
      positionals.push_back({{"name", option->get_name(true)}, {"meaning", option->get_description()}});
      continue;
    }
    auto names = nlohmann::ordered_json::array();
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const bool flag = option->get_expected_max() == 0;
    options.push_back({{"names", std::move(names)},
                       {"value", flag ? nlohmann::ordered_json() : nlohmann::ordered_json(option->get_type_name())},
                       {"repeated", option->get_expected_max() > 1},
                       {"meaning", option->get_description()}});
  }
  return {{"command", command_.name},    {"synopsis", command_.synopsis},         {"summary", command_.summary},
          {"description", description_}, {"positionals", std::move(positionals)}, {"options", std::move(options)}};
}

Arguments TakeCommand(Arguments* arguments) {
  const auto dashes = std::find(arguments->begin(), arguments->end(), "--");
  if (dashes == arguments->end()) return {};
  Arguments command(dashes + 1, arguments->end());
  arguments->erase(dashes, arguments->end());
  return command;
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
