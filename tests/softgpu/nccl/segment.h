// The shared memory through which the ranks of one communicator meet: processes or threads, on one machine. They may be
// in containers of their own, if SOFTGPU_NCCL_DIR is one folder to all of them: a rank of another pid namespace then
// counts as alive.
//
// A small file named after the communicator's identity, under SOFTGPU_NCCL_DIR, /dev/shm, $TMPDIR or /tmp. The first
// rank makes it, the last one to join unlinks it, so nothing is left behind by a communicator that came up; what ranks
// killed during initialisation leave is swept by the next rank that makes a segment.
#ifndef SOFTGPU_NCCL_SEGMENT_H_
#define SOFTGPU_NCCL_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace softgpu {

constexpr size_t kStageBytes = size_t{64} * 1024;      // one rank's contribution to one round of a collective
constexpr size_t kMailChunkBytes = size_t{32} * 1024;  // one step of a point-to-point transfer
constexpr uint64_t kMailChunks = 2;                    // steps in flight
constexpr size_t kExchangeBytes = 64;                  // one rank's contribution to an exchange between hosts

// 128 bits that name a communicator; equal on all its ranks.
struct Identity {
  uint64_t high = 0;
  uint64_t low = 0;
};
Identity HashIdentity(const void* bytes, size_t size);
Identity DeriveIdentity(const Identity& parent, uint64_t kind, uint64_t ordinal, uint64_t color);

// What a rank says it is doing in a round; a round goes on only if all ranks say the same.
struct Signature {
  uint32_t function = 0;
  uint32_t datatype = 0;
  uint32_t reduction = 0;
  int32_t root = 0;
  uint64_t count = 0;
  uint64_t step = 0;
  bool operator==(const Signature&) const = default;
};

struct alignas(64) RankSlot {
  std::atomic<uint32_t> present;
  std::atomic<int32_t> pid;
  std::atomic<uint64_t> start_time;     // of the process, so that a recycled pid is not taken for it
  std::atomic<uint64_t> pid_namespace;  // in which pid is its number
  std::atomic<uint32_t> doorbell;       // counts changes in mailboxes that concern this rank
  std::atomic<uint32_t> doorbell_waiters;
  std::atomic<uint64_t> exchanges;  // exchanges this rank has written, released after the bytes
  uint8_t exchange[2][kExchangeBytes];
  Signature signature[2];
};

// One ordered pair of ranks. The n-th send of the pair meets its n-th receive. Each side writes its bytes, then posts;
// data flows only once both have posted equal sizes.
struct alignas(64) Mailbox {
  std::atomic<uint64_t> sends_posted;
  std::atomic<uint64_t> send_bytes;
  std::atomic<uint64_t> receives_posted;
  std::atomic<uint64_t> receive_bytes;
  std::atomic<uint64_t> chunks_written;
  std::atomic<uint64_t> chunks_read;
  alignas(64) uint8_t data[kMailChunks][kMailChunkBytes];
};

struct SegmentHeader {
  std::atomic<uint32_t> nranks;
  std::atomic<uint32_t> joined;
  std::atomic<uint32_t> complete;       // 1: all have joined; a futex
  std::atomic<uint32_t> spoiled;        // ranks disagree about nranks, or two claim one rank: nobody will ever start
  std::atomic<uint32_t> exchange_bell;  // a futex
  alignas(64) std::atomic<uint64_t> arrivals;    // at rounds, of all ranks since the beginning
  alignas(64) std::atomic<uint32_t> generation;  // rounds that all have arrived at; a futex
};

class Segment {
 public:
  // Maps the segment of `identity`, making it if this rank is first, and enters `rank`. Does not wait for the others.
  // Returns nullptr with errno set if no shared memory could be had. A disagreement with other ranks is no error here:
  // the segment never becomes complete, as NCCL's bootstrap then never ends.
  static Segment* Join(const Identity& identity, int nranks, int rank);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Waits until all ranks have joined. Returns false if `cancelled` became true.
  bool WaitComplete(const std::function<bool()>& cancelled);

  // Gives `size` (<= kExchangeBytes) bytes to all ranks and gets theirs, rank by rank, into `all`. False if cancelled.
  bool Exchange(uint64_t ordinal, const void* mine, void* all, size_t size, const std::function<bool()>& cancelled);

  // True if the process of some rank is gone.
  bool PeerIsGone() const;

  // Wakes whatever sleeps in this segment, in all ranks; they look again and go on sleeping if nothing changed.
  void WakeAll();

  SegmentHeader& header() { return *header_; }
  RankSlot& slot(int rank) { return slots_[rank]; }
  uint8_t* stage(int rank, uint64_t round) { return stages_ + (2UL * rank + (round & 1)) * kStageBytes; }
  Mailbox& mailbox(int source, int destination) { return mailboxes_[source * nranks_ + destination]; }
  void Ring(int rank);

 private:
  Segment() = default;
  bool Map(int fd, size_t size);
  void Enter(const std::string& path);

  int nranks_ = 0;
  int rank_ = 0;
  size_t size_ = 0;
  void* base_ = nullptr;
  SegmentHeader* header_ = nullptr;
  RankSlot* slots_ = nullptr;
  uint8_t* stages_ = nullptr;
  Mailbox* mailboxes_ = nullptr;
};

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_SEGMENT_H_
