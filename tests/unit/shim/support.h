// The black box of this very process, as a reader sees it.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::shim_test {

// The run directory of this test program, emptied at its start.
const std::string& RunDirectory();
std::vector<std::string> BoxFiles();

class OwnBox {
 public:
  OwnBox();  // maps the one box of this process; the process must have made a recorded call
  ~OwnBox();
  OwnBox(const OwnBox&) = delete;
  OwnBox& operator=(const OwnBox&) = delete;

  const format::Header& header() const { return *header_; }
  format::Header& mutable_header() { return *header_; }
  const format::Communicator& communicator(std::uint32_t index) const;
  // The entry whose handle this is and which is not ended; fails the test if there is none.
  const format::Communicator& Of(ncclComm_t comm) const;
  const format::Record& record(std::uint64_t slot) const;
  // Newest first.
  const format::Record& Newest(std::uint64_t back = 0) const { return record(head() - 1 - back); }
  std::uint64_t head() const { return header_->head.load(); }
  const format::Peer* PeerOf(ncclComm_t comm, std::uint32_t peer) const;

 private:
  format::Header* header_ = nullptr;
  std::size_t bytes_ = 0;
};

ncclComm_t MakeComm(int rank = 0, int size = 4);
ncclResult_t AllReduce(ncclComm_t comm, std::size_t count = 16, ncclRedOp_t op = ncclSum,
                       ncclDataType_t type = ncclFloat32);
// Runs `body` in a process of its own, whose standard error is the test's from the start: the library says nothing to a
// file that came later. The body holds, and one line is said there, with `word` in it.
void ExpectSaid(bool (*body)(), const char* word);
inline std::uint32_t Number(functions::Function function) { return static_cast<std::uint32_t>(function); }

}  // namespace ncclwatch::shim_test
