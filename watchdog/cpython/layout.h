// Where a CPython keeps what is read of it: one number a field, for each minor version.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "watchdog/cpython/reader.h"

namespace ncclwatch::cpython {

// Offsets in bytes unless said otherwise; kAbsent where the version has no such field.
enum Field : std::uint8_t {
  // of _PyRuntime
  kInterpreters,  // the first PyInterpreterState
  kRuntimeGil,    // the one lock of all interpreters, up to 3.11
  // of PyInterpreterState
  kInterpreterNext,
  kInterpreterId,
  kInterpreterThreads,  // the first PyThreadState
  kInterpreterGil,      // pointer to its lock, from 3.12 on
  kInterpreterModules,  // pointer to the dict sys.modules
  // of the lock (_gil_runtime_state)
  kGil,         // taken off the next three: the process says them from the beginning of PyInterpreterState
  kGilHolder,   // the PyThreadState that has it or had it last
  kGilLocked,   // int
  kGilEnabled,  // int, free-threaded builds only
  // of PyThreadState
  kThreadNext,
  kThreadInterpreter,
  kThreadFrame,  // pointer to its innermost frame, or to a _PyCFrame
  kCFrameFrame,  // of _PyCFrame: pointer to the innermost frame
  kThreadId,     // pthread_t
  kThreadNativeId,
  // of PyFrameObject (up to 3.10) or _PyInterpreterFrame
  kFramePrevious,
  kFrameCode,
  kFrameInstruction,  // up to 3.10 an index (int); then a pointer into the code
  kFrameOwner,        // char
  kFrameEntry,        // bool: the interpreter's loop in C was entered with this frame
  kFrameCodeCopy,     // int: which copy of the code runs, free-threaded builds only
  kFrameLocals,       // its local variables, in the order of their names
  // of PyCodeObject
  kCodeFile,
  kCodeName,
  kCodeQualifiedName,
  kCodeFirstLine,
  kCodeLines,
  kCodeInstructions,
  kCodeCopies,  // pointer to {size, pointers to copies of the code}, free-threaded builds only
  kCodeLocals,  // tuple of the names of its local variables
  // of PyObject, PyTypeObject, PyASCIIObject, PyBytesObject, PyTupleObject, PyLongObject
  kObjectType,
  kTypeName,
  kStrLength,
  kStrState,
  kStrAscii,  // its characters if they are ASCII
  kBytesLength,
  kBytesData,
  kTupleLength,
  kTupleItems,
  kIntSize,    // signed number of digits up to 3.11; then that number above three bits, of which two are its sign
  kIntDigits,  // of 30 bits each
  kStrWideAfterAscii,  // other characters come so much later
  kObjectBytes,        // size of PyObject: other fields of dicts, numbers and modules lie at fixed distances behind it
  kFrameNamespace,     // pointer to the dict that holds a module's variables while it runs
  // bit numbers in the int at kStrState
  kStrKindBit,
  kStrCompactBit,
  kStrAsciiBit,
  kFields,
};

inline constexpr std::int32_t kAbsent = -1;
inline constexpr int kOldestMinor = 9, kNewestMinor = 15;

// Of FRAME_OWNED_BY_*: frames that stand for a C caller, without code of the program.
inline constexpr std::uint8_t kFirstShimOwner = 3;

struct Layout {
  int minor = 0;  // of 3.x
  bool free_threaded = false;
  std::array<std::int32_t, kFields> at{};

  std::int32_t operator[](Field field) const { return at[field]; }
  bool Has(Field field) const { return at[field] != kAbsent; }
};

// What the tables know; `free_threaded` from 3.13 on. For versions that say their offsets themselves it has the places
// where they say them.
std::optional<Layout> KnownLayout(int minor, bool free_threaded);

// 3.13 and later: `runtime` is the address of _PyRuntime, which begins with the offsets.
inline constexpr int kFirstSayingMinor = 13;
inline constexpr char kDebugCookie[] = "xdebugpy";
struct SaidLayout {
  std::optional<Layout> layout;
  std::uint32_t version = 0;  // PY_VERSION_HEX
  std::string trouble;        // why there is no layout
};
SaidLayout ReadLayout(Reader* memory, std::uint64_t runtime);

std::string VersionText(std::uint32_t hex);  // "3.13.5"

}  // namespace ncclwatch::cpython
