// TOML of users. Some wrong texts ("[=") meet an assertion of toml++ of 3.3, which ends the program, or with
// NDEBUG means undefined behaviour. Here an assertion throws. Include this header instead of toml++'s own.
#pragma once

#include <absl/status/statusor.h>
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_HEADER_ONLY 1
#define TOML_ASSERT(expression) ((expression) ? void() : throw std::logic_error(#expression))
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace ncclwatch::analyzer {

// `source` is for messages.
inline absl::StatusOr<toml::table> ParseToml(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", source, error.source().begin.line, error.description()));
  } catch (const std::logic_error&) {
    return absl::InvalidArgumentError(source + ": no TOML");
  }
}

}  // namespace ncclwatch::analyzer
