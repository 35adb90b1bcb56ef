// Opening black boxes: live or dead, whole, torn, foreign or hostile. Nothing here trusts a byte of the file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/reader/image.h"
#include "core/reader/layout.h"
#include "core/reader/stacks.h"
#include "core/reader/witness.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::reader {

inline constexpr std::uint64_t kUnwrittenTail = 64;  // threads that have taken a slot and not written it yet

class File;

struct Failure {
  std::string path;
  std::string reason;  // one line, for a person
};

// A mapped box (read-only, shared): for the leader, which follows live boxes without copying them whole.
// Sections and counts are validated once at Open; every later access stays inside the mapping. The file may be
// truncated underneath (SIGBUS): who follows it asks StillWhole() before each look; what is cut in the moment between
// is zeroes for those who have a handler (guard.h). Offline commands read a copy instead (ReadBox).
class MappedBox {
 public:
  static std::variant<std::unique_ptr<MappedBox>, Failure> Open(const std::string& path);
  static std::variant<std::unique_ptr<MappedBox>, Failure> Open(const descriptors::Directory& directory,
                                                                const std::string& name);
  // For the process's own box, whose file must not be opened again: closing it would drop the POSIX lock.
  static std::unique_ptr<MappedBox> Borrow(const format::Header* own, const std::string& path);
  ~MappedBox();
  MappedBox(const MappedBox&) = delete;
  MappedBox& operator=(const MappedBox&) = delete;

  // False if the file has been cut short: its memory must not be looked at any more. A system call.
  bool StillWhole() const;

  const std::string& path() const { return path_; }
  const format::Header& header() const { return *header_; }
  std::uint32_t communicators() const;  // entries in use, at most the table's capacity
  const format::Communicator& communicator(std::uint32_t index) const;
  std::uint64_t head() const;  // slots handed out so far
  std::uint64_t ring_size() const;
  std::uint64_t misuses_said() const;  // of MPI, so far
  std::uint64_t words_said() const;    // of what the process has said of its end, so far
  // False if the slot is not whole (being written, overwritten, not yet handed out).
  bool Read(std::uint64_t slot, Call* call) const;
  // What a call with format::kHasParts says of single ranks. False: others have come in their place.
  bool ReadParts(const Call& call, CallParts* parts) const;
  const format::Record& record(std::uint64_t slot) const { return layout_.ring[slot & (layout_.ring_count - 1)]; }
  std::string StringAt(std::uint32_t offset) const;  // of the section of strings; empty for 0
  std::int64_t ToNanoseconds(std::uint64_t ticks) const;
  // A copy of everything, with at most max_calls newest calls.
  BoxImage Image(std::uint64_t max_calls = UINT64_MAX) const;
  // A copy of what a verdict looks at: all but routine calls that are over and older than the `newest` ones.
  BoxImage Sifted(std::uint64_t newest) const;

 private:
  void ReadOfMpi(const format::MpiRecord& record, Call* call) const;
  MappedBox() = default;
  static std::variant<std::unique_ptr<MappedBox>, Failure> Map(const File& file, const std::string& path);
  BoxImage WithoutCalls() const;
  std::string path_;
  const format::Header* header_ = nullptr;
  std::size_t bytes_ = 0;
  int guard_ = -1;
  bool owned_ = false;                // header_ is a mapping of bytes_ bytes to be undone
  std::uint64_t inode_ = 0;           // of a mapped file
  descriptors::Directory directory_;  // that it was found in; none: found by its path
  Layout layout_;
};

// To the calls of an image of the box, with its parts.
void AddCall(const MappedBox& box, const Call& call, BoxImage* image);

// Reads the file into memory first, so that a concurrent truncation cannot hurt. With `newest` the image is sifted.
std::variant<BoxImage, Failure> ReadBox(const std::string& path, std::uint64_t newest = UINT64_MAX);

// All, or as many as a verdict looks at: of thousands of boxes each image is sifted, so that they fit into memory.
enum class Calls { kAll, kForVerdict };

// The boxes of one job, by several threads, in the order of the files. `done` is called now and then, by the caller's
// thread, with how many have been read.
void ReadBoxes(const std::vector<std::string>& files, Calls calls, const std::function<void(std::size_t)>& done,
               std::vector<BoxImage>* boxes, std::vector<Failure>* failures);

struct RunImage {
  std::string directory;
  std::vector<BoxImage> boxes;
  std::vector<Failure> failures;
  std::vector<VerdictStacks> stacks;  // that lie beside the boxes
  Witness witness;                    // likewise
  std::vector<std::string> notes;     // on what was read, for the diagnosis
  std::vector<std::string> missing;   // what could show a fault and was not recorded
  bool untimed = false;               // when the boxes were written is not known, so no wait can be timed
};

// For a verdict. paths: run directories (their newest attempt, see rundir) and single box files, mixed.
RunImage ReadRun(const std::vector<std::string>& paths);
// Fills in run->stacks and run->witness, for whoever has put the boxes together.
void ReadBeside(RunImage* run);

}  // namespace ncclwatch::reader
