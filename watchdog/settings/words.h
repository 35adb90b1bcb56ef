// How words of settings are compared and read.
#pragma once

#include <charconv>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>

namespace ncclwatch::settings {

// True: all of the text is a number that T holds.
template <typename T>
bool Number(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}
// Without regard to capital letters.
bool Same(std::string_view a, std::string_view b);
// The part before the next comma, blanks around it cut off; takes it from the list.
std::string_view TakeElement(std::string_view* list);
std::string_view Trimmed(std::string_view text);
std::string Joined(std::initializer_list<std::string_view> parts);

}  // namespace ncclwatch::settings
