// How words of settings are compared.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace ncclwatch::settings {

// Without regard to capital letters.
bool Same(std::string_view a, std::string_view b);
// `*` in the pattern stands for any number of characters. Capital letters matter.
bool Matches(std::string_view pattern, std::string_view text);
// The part before the next comma, blanks around it cut off; takes it from the list.
std::string_view TakeElement(std::string_view* list);
std::string_view Trimmed(std::string_view text);
std::string Joined(std::initializer_list<std::string_view> parts);

}  // namespace ncclwatch::settings
