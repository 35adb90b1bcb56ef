// Objects of a Python program, as bytes of its memory. The memory may be torn or hostile: types are checked, lengths
// bounded. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "watchdog/cpython/layout.h"

namespace ncclwatch::cpython {

struct Code {
  std::string function;  // qualified from 3.11 on; empty if it could not be read
  std::string file;
  int first_line = 0;
  std::string lines;               // the table that line_table.h decodes
  std::uint64_t instructions = 0;  // address of the first, from 3.11 on

  // The interpreter's own: it runs __init__ of a class in a frame between caller and callee, which tracebacks leave
  // out.
  bool IsInterpreters() const { return file == "__init__" && function == "__init__"; }
};

inline constexpr std::size_t kWord = sizeof(std::uint64_t);

inline constexpr std::uint64_t kStackRefTag = 7;  // of a pointer in a frame, from 3.14 on

struct Item {  // of a dict
  std::uint64_t key = 0, value = 0;
};

class Objects {
 public:
  Objects(Reader* memory, const Layout& layout) : memory_(memory), layout_(layout) {}

  const Layout& layout() const { return layout_; }
  std::optional<std::uint64_t> Pointer(std::uint64_t base, Field field);
  std::optional<std::int32_t> Int(std::uint64_t base, Field field);
  bool IsA(std::uint64_t object, std::string_view type);
  // The name of its type, empty if this is no object. Valid until the next call.
  std::string_view TypeOf(std::uint64_t object);

  // As UTF-8, control characters as '?'; cut with "..." after `limit` characters.
  std::optional<std::string> Str(std::uint64_t object, std::size_t limit);
  // None if there are more.
  std::optional<std::string> Bytes(std::uint64_t object, std::size_t limit);
  // Of an int (no bool) of at most 60 bits.
  std::optional<std::int64_t> Number(std::uint64_t object);
  // The elements of a tuple. None if there are more.
  std::optional<std::vector<std::uint64_t>> Elements(std::uint64_t tuple, std::size_t limit);
  // Of a dict that is no object's own, in the order in which they were put in. None if there are more.
  std::optional<std::vector<Item>> Items(std::uint64_t dict, std::size_t limit);

  // The name of a code object's file, as CodeAt reads it. None if there is no code object.
  std::optional<std::string> FileOf(std::uint64_t code);
  // None if there is no code object. Valid until the next call. What was read before is taken where the object at this
  // address still points to the same things.
  const Code* CodeAt(std::uint64_t object);
  // 0 if it is not known. `copy` as kFrameCodeCopy has it.
  int LineOf(std::uint64_t object, const Code& code, std::int64_t instruction, std::int32_t copy);

 private:
  struct Parts {
    std::uint64_t file = 0, name = 0, lines = 0;
    std::int32_t first_line = 0;
    bool operator==(const Parts&) const = default;
  };
  struct Kept {
    Parts parts;
    Code code;
  };
  std::optional<Parts> PartsOf(std::uint64_t code);
  std::optional<std::uint64_t> EntriesOf(std::uint64_t keys, std::uint64_t* count, std::size_t* words);

  Reader* memory_;
  Layout layout_;
  std::unordered_map<std::uint64_t, std::string> type_names_;
  std::unordered_map<std::uint64_t, Kept> codes_;
};

}  // namespace ncclwatch::cpython
