// Sends and receives of one kernel, all making progress together. A transfer is a rendezvous: neither side is done
// before the other has come, whatever its size (NCCL does not promise to buffer).
#include <cstring>
#include <deque>

#include "futex.h"
#include "kernel.h"

namespace softgpu {
namespace {

// One direction of one pair of ranks: its transfers, in order.
class Channel {
 public:
  Channel(ncclComm* comm, bool is_send, int peer)
      : segment_(*comm->segment.load()),
        mailbox_(is_send ? segment_.mailbox(comm->rank, peer) : segment_.mailbox(peer, comm->rank)),
        finished_(is_send ? comm->sends[peer] : comm->receives[peer]),
        is_send_(is_send),
        peer_(peer) {}

  bool is_for(const PointToPoint& transfer) const { return transfer.is_send == is_send_ && transfer.peer == peer_; }
  void Add(const PointToPoint& transfer) { queue_.push_back(transfer); }
  bool done() const { return queue_.empty(); }

  // Goes as far as possible without waiting. Returns whether anything moved.
  bool Progress() {
    bool moved = false;
    while (!queue_.empty()) {
      if (!posted_) {
        Post();
        moved = true;
      }
      if (!matched_ && !Match()) return moved;
      while (chunk_ < chunks() && (is_send_ ? WriteChunk() : ReadChunk())) moved = true;
      if (chunk_ < chunks() || (is_send_ && mailbox_.chunks_read.load(std::memory_order_acquire) !=
                                                mailbox_.chunks_written.load(std::memory_order_relaxed))) {
        return moved;
      }
      Finish();
      moved = true;
    }
    return moved;
  }

 private:
  size_t bytes() const { return queue_.front().bytes; }
  // An empty message has one empty chunk: it too ends only when both sides have seen one another.
  uint64_t chunks() const { return bytes() == 0 ? 1 : (bytes() + kMailChunkBytes - 1) / kMailChunkBytes; }
  size_t ChunkBytes() const { return std::min(kMailChunkBytes, bytes() - chunk_ * kMailChunkBytes); }
  uint8_t* ChunkAddress() const { return static_cast<uint8_t*>(queue_.front().buffer) + chunk_ * kMailChunkBytes; }

  void Post() {
    (is_send_ ? mailbox_.send_bytes : mailbox_.receive_bytes).store(bytes(), std::memory_order_relaxed);
    // Release: whoever sees the count sees the size.
    (is_send_ ? mailbox_.sends_posted : mailbox_.receives_posted).store(finished_ + 1, std::memory_order_release);
    segment_.Ring(peer_);
    posted_ = true;
  }

  // False: the peer has not come, or with another size, in which case this pair never goes on.
  bool Match() {
    const auto& posted = is_send_ ? mailbox_.receives_posted : mailbox_.sends_posted;
    if (posted.load(std::memory_order_acquire) <= finished_) return false;
    const auto& size = is_send_ ? mailbox_.receive_bytes : mailbox_.send_bytes;
    matched_ = size.load(std::memory_order_relaxed) == bytes();
    return matched_;
  }

  bool WriteChunk() {
    const uint64_t written = mailbox_.chunks_written.load(std::memory_order_relaxed);
    if (written - mailbox_.chunks_read.load(std::memory_order_acquire) >= kMailChunks) return false;
    if (bytes()) std::memcpy(mailbox_.data[written % kMailChunks], ChunkAddress(), ChunkBytes());
    mailbox_.chunks_written.store(written + 1, std::memory_order_release);
    segment_.Ring(peer_);
    ++chunk_;
    return true;
  }

  bool ReadChunk() {
    const uint64_t read = mailbox_.chunks_read.load(std::memory_order_relaxed);
    if (mailbox_.chunks_written.load(std::memory_order_acquire) == read) return false;
    if (bytes()) std::memcpy(ChunkAddress(), mailbox_.data[read % kMailChunks], ChunkBytes());
    mailbox_.chunks_read.store(read + 1, std::memory_order_release);
    segment_.Ring(peer_);
    ++chunk_;
    return true;
  }

  void Finish() {
    ++finished_;
    queue_.pop_front();
    posted_ = matched_ = false;
    chunk_ = 0;
  }

  Segment& segment_;
  Mailbox& mailbox_;
  uint64_t& finished_;
  const bool is_send_;
  const int peer_;
  std::deque<PointToPoint> queue_;
  bool posted_ = false;
  bool matched_ = false;
  uint64_t chunk_ = 0;
};

// Launch() has checked that sends and receives to oneself come in pairs.
void CopyToSelf(ncclComm* comm, const std::vector<PointToPoint>& transfers) {
  std::deque<PointToPoint> sends;
  std::deque<PointToPoint> receives;
  for (const PointToPoint& t : transfers) {
    if (t.peer == comm->rank) (t.is_send ? sends : receives).push_back(t);
  }
  for (size_t i = 0; i < sends.size() && i < receives.size(); ++i) {
    if (sends[i].buffer == receives[i].buffer || sends[i].bytes == 0) continue;
    std::memmove(receives[i].buffer, sends[i].buffer, std::min(sends[i].bytes, receives[i].bytes));
  }
}

bool ProgressAll(std::deque<Channel>& channels, bool* done) {
  bool moved = false;
  *done = true;
  for (Channel& channel : channels) {
    moved |= channel.Progress();
    *done &= channel.done();
  }
  return moved;
}

}  // namespace

bool RunTransfers(ncclComm* comm, const std::vector<PointToPoint>& transfers) {
  CopyToSelf(comm, transfers);
  std::deque<Channel> channels;
  for (const PointToPoint& t : transfers) {
    if (t.peer == comm->rank) continue;
    auto channel = channels.begin();
    while (channel != channels.end() && !channel->is_for(t)) ++channel;
    if (channel == channels.end()) {
      channels.emplace_back(comm, t.is_send, t.peer);
      channel = channels.end() - 1;
    }
    channel->Add(t);
  }
  if (channels.empty()) return true;
  RankSlot& slot = comm->segment.load()->slot(comm->rank);
  for (bool done = false;;) {
    const uint32_t bell = slot.doorbell.load();
    const bool moved = ProgressAll(channels, &done);
    if (done) return true;
    if (comm->aborted()) return false;
    if (moved) continue;
    slot.doorbell_waiters.fetch_add(1);
    if (!FutexWait(&slot.doorbell, bell)) LookAfterPeers(comm);
    slot.doorbell_waiters.fetch_sub(1);
  }
}

}  // namespace softgpu
