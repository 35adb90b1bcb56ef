#include "analyzer/import/opcodes.h"

#include <fmt/core.h>

namespace ncclwatch::analyzer::import {
namespace {

struct Refused {
  std::uint8_t opcode;
  const char* name;
  const char* why;
};

constexpr char kImports[] = "it would import a name";
constexpr char kCalls[] = "it would call something";
constexpr char kOutside[] = "it refers to something outside of the file";
constexpr char kOldText[] = "it is of protocol 0, which nobody writes dumps in";
constexpr char kNoDump[] = "no dump holds one";

constexpr Refused kRefused[] = {
    {'c', "GLOBAL", kImports},    {0x93, "STACK_GLOBAL", kImports}, {'i', "INST", kCalls},
    {'R', "REDUCE", kCalls},      {'b', "BUILD", kCalls},           {'o', "OBJ", kCalls},
    {0x81, "NEWOBJ", kCalls},     {0x92, "NEWOBJ_EX", kCalls},      {0x82, "EXT1", kImports},
    {0x83, "EXT2", kImports},     {0x84, "EXT4", kImports},         {'P', "PERSID", kOutside},
    {'Q', "BINPERSID", kOutside}, {0x97, "NEXT_BUFFER", kOutside},  {0x98, "READONLY_BUFFER", kOutside},
    {0x8f, "EMPTY_SET", kNoDump}, {0x90, "ADDITEMS", kNoDump},      {0x91, "FROZENSET", kNoDump},
    {'2', "DUP", kNoDump},        {'I', "INT", kOldText},           {'L', "LONG", kOldText},
    {'F', "FLOAT", kOldText},     {'S', "STRING", kOldText},        {'V', "UNICODE", kOldText},
    {'p', "PUT", kOldText},       {'g', "GET", kOldText},
};

}  // namespace

std::string RefusalText(std::uint8_t opcode) {
  for (const Refused& refused : kRefused)
    if (refused.opcode == opcode) return fmt::format("pickle's {} is refused: {}", refused.name, refused.why);
  return fmt::format("no opcode of pickle: {:#04x}", opcode);
}

}  // namespace ncclwatch::analyzer::import
