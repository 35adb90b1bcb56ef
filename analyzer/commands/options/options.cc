#include "analyzer/commands/options/options.h"

#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/console/print.h"

namespace ncclwatch::analyzer {

namespace {

// CLI11 shows an option's validators ("FLOAT in [0.1 - 60]") and what it excludes: here its value's name alone.
class PlainFormatter : public CLI::Formatter {
 public:
  PlainFormatter() { column_width(26); }
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (const std::string value = ValueOf(option); !value.empty()) text += " " + value;
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
    return text;
  }
  static std::string ValueOf(const CLI::Option* option) {
    std::string value = option->get_type_name();  // NAME:VALIDATOR:VALIDATOR
    for (const char* const validator : {":POSITIVE", ":{", ":INT in ", ":FLOAT in "})
      if (const std::size_t at = value.find(validator); at != std::string::npos) value.resize(at);
    return value;
  }
};

}  // namespace

Options::Options(const Command& command, const std::string& description)
    : CLI::App("", fmt::format("ncclwatch {}", command.name)), command_(command), description_(description) {
  formatter(std::make_shared<PlainFormatter>());
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
  std::string declared = help();
  absl::StrReplaceAll({{"\n\n\n", "\n\n"}}, &declared);  // of a group whose options are all internal
  const std::size_t first = declared.find("\n\n");
  std::string text = fmt::format("Usage: ncclwatch {} {}\n\n{}\n{}Examples:\n", command_.name, command_.synopsis,
                                 description_, first == std::string::npos ? "" : declared.substr(first + 1));
  for (const absl::string_view line : absl::StrSplit(command_.examples, '\n', absl::SkipEmpty()))
    text += fmt::format("  {}\n", std::string(line));
  return text;
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
    options.push_back(
        {{"names", std::move(names)},
         {"value", flag ? nlohmann::ordered_json() : nlohmann::ordered_json(PlainFormatter::ValueOf(option))},
         {"repeated", option->get_expected_max() > 1},
         {"meaning", option->get_description()}});
  }
  const std::vector<std::string> examples = absl::StrSplit(command_.examples, '\n', absl::SkipEmpty());
  return {{"command", command_.name},    {"synopsis", command_.synopsis},         {"summary", command_.summary},
          {"description", description_}, {"positionals", std::move(positionals)}, {"options", std::move(options)},
          {"examples", examples}};
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
