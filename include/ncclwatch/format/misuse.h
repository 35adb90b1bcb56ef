// What a process does wrong with MPI by the standard's own rules, whatever the other ranks do: noted by the wrapper
// before MPI is asked, since MPI may end the process over it, or say nothing. In the section of last words
// (last_words.h), whose entries' life these share.
#pragma once

#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ncclwatch::format {

enum class MisuseKind : std::uint32_t { kInvalidArgument, kRequestError, kResourceLeak, kEpochError, kLibraryError };

enum class Wrong : std::uint32_t {
  kNothing = 0,                                          // of an entry that was taken back
#define MISUSE(number, name, kind, text) name = number,  // NOLINT(bugprone-macro-parentheses): it declares the name
#include "ncclwatch/format/misuses.def"
};

struct MisuseInfo {
  Wrong wrong;
  MisuseKind kind;
  std::string_view text;
};
inline constexpr MisuseInfo kMisuseTexts[] = {
#define MISUSE(number, name, kind, text) {Wrong::name, MisuseKind::kind, text},
#include "ncclwatch/format/misuses.def"
};
// Null for a number that is not known here.
constexpr const MisuseInfo* Find(Wrong wrong) {
  for (const MisuseInfo& info : kMisuseTexts)
    if (info.wrong == wrong) return &info;
  return nullptr;
}

// The text with its numbers, cut where there is no room. The length.
inline std::size_t MisuseText(Wrong wrong, std::int64_t value, std::int64_t limit, char* text, std::size_t size) {
  const MisuseInfo* const info = Find(wrong);
  std::string_view rest = info ? info->text : std::string_view("it is wrong in a way that is not known here");
  std::size_t used = 0;
  const auto add = [&](std::string_view part) {
    for (std::size_t i = 0; i < part.size() && used + 1 < size; ++i) text[used++] = part[i];
  };
  while (!rest.empty()) {
    const std::size_t open = rest.find('{');
    add(rest.substr(0, open));
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find('}', open);
    if (rest.substr(open).starts_with("{s were}")) {
      add(value == 1 ? " was" : "s were");
      rest.remove_prefix(close + 1);
      continue;
    }
    char number[24];
    const auto end =
        std::to_chars(number, number + sizeof number, rest.substr(open).starts_with("{value}") ? value : limit);
    add({number, static_cast<std::size_t>(end.ptr - number)});
    rest.remove_prefix(close + 1);
  }
  text[used] = '\0';
  return used;
}

// Strings are offsets in the string section, 0: not known. Places are return addresses, named "/path/of/module+0x1234".
struct Misuse {
  std::atomic<std::uint64_t> commit;
  std::int64_t at_ns;     // the first time
  std::uint64_t site;     // of the call
  std::uint64_t made_at;  // where the object was made or freed, or the operation begun; 0: it has to do with none
  std::atomic<std::int64_t> value;
  std::int64_t limit;
  std::atomic<std::uint64_t> times;
  std::uint32_t wrong;     // Wrong
  std::uint32_t function;  // functions::Function: the call
  std::uint32_t made_by;   // functions::Function that made_at calls, 0 unknown
  std::uint32_t communicator;
  std::uint32_t generation;
  std::uint32_t thread;
  std::atomic<std::int32_t> result;  // of the call, kNoResult until it returned
  std::uint32_t site_name;
  std::uint32_t made_at_name;
  std::uint32_t tells_program;  // 1: where MPI refuses the call it tells the program, and does not end the process
};
static_assert(sizeof(Misuse) == 96);
inline constexpr std::uint32_t kMisuses = 64;  // different ones; those that come later are counted alone

}  // namespace ncclwatch::format
