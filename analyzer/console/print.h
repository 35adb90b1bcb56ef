// What the command writes: lines for people, and JSON. Nothing in them steers the terminal.
#pragma once

#include <fmt/core.h>

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace ncclwatch::analyzer {

void WriteOut(std::string_view text);                                  // on stdout; line ends stay
void WriteComplaint(std::string_view command, std::string_view text);  // on stderr: "ncclwatch COMMAND: TEXT"
void WriteNote(std::string_view text);  // on stderr: "[ncclwatch] TEXT", as the library's own

template <typename... Args>
void Print(fmt::format_string<Args...> format, Args&&... args) {
  WriteOut(fmt::format(format, std::forward<Args>(args)...));
}

// What is wrong. `command` is empty where no one command is meant.
template <typename... Args>
void Complain(std::string_view command, fmt::format_string<Args...> format, Args&&... args) {
  WriteComplaint(command, fmt::format(format, std::forward<Args>(args)...));
}

// What `ncclwatch run` says among the job's own lines.
template <typename... Args>
void Note(fmt::format_string<Args...> format, Args&&... args) {
  WriteNote(fmt::format(format, std::forward<Args>(args)...));
}

void PrintJson(const nlohmann::ordered_json& value);

}  // namespace ncclwatch::analyzer
