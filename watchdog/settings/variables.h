// Every NCCLWATCH_* variable there is, once.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::settings {

struct Variable {
  std::string_view name;
  std::string_view fallback;  // what holds where nobody sets it; empty: nothing
  std::string_view least;     // what does least: holds where the administrator forbids it and names nothing else
  bool ordered = false;       // has a more and a less, so that it may have a ceiling
  bool of_one_job = false;    // has no place in a file for all jobs
};

std::span<const Variable> Variables();
const Variable* FindVariable(std::string_view name);

// Letters left out, added, changed or swapped with their neighbour, to make one word of the other.
std::size_t Distance(std::string_view a, std::string_view b);
// The known name that this one was probably meant to be; empty if none is near.
std::string_view Nearest(std::string_view name);

// One line for each variable of an environment ("NAME=value") that has our beginning or nearly the name of one of ours,
// and is none.
std::vector<std::string> Misspelt(const char* const* environment);

}  // namespace ncclwatch::settings
