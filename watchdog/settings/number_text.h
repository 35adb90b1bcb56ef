#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace ncclwatch::settings {

// True: all of the text is a number that T holds.
template <typename T>
bool Number(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace ncclwatch::settings
