#include "watchdog/settings/words.h"

#include <algorithm>

namespace ncclwatch::settings {

bool Same(std::string_view a, std::string_view b) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return small(x) == small(y); });
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string Joined(std::initializer_list<std::string_view> parts) {
  std::string whole;
  for (const std::string_view part : parts) whole += part;
  return whole;
}

std::string_view TakeElement(std::string_view* list) {
  const std::string_view element = list->substr(0, list->find(','));
  list->remove_prefix(std::min(list->size(), element.size() + 1));
  return Trimmed(element);
}

}  // namespace ncclwatch::settings
