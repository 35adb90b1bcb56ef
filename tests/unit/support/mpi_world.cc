#include "tests/unit/support/mpi_world.h"

#include <algorithm>

#include "core/reader/awaited.h"

namespace ncclwatch::testing {

struct MpiWorld::Sent {
  int from = 0, to = 0, tag = 0;
  std::uint64_t slot = 0;
  bool waits = false;  // for the receive
  bool matched = false;
  bool Done() const { return !waits || matched; }
};

struct MpiWorld::Posted {
  int source = kAny, tag = kAny;
  std::uint64_t slot = 0;
  std::shared_ptr<Sent> got;
  bool Takes(const Sent& sent) const {
    return (source == kAny || source == sent.from) && (tag == kAny || tag == sent.tag);
  }
};

struct MpiWorld::Cut {
  diagnosis::Snapshot snapshot;
  int missing = 0;
  bool live = false;  // the instant was taken before the boxes
};

MpiWorld::MpiWorld(int ranks, unsigned seed) : job_(ranks), random_(seed) {
  eager_ = Chance(0.5) ? 1024 : 65536;
  const std::size_t rings[] = {12, 24, 64, 1 << 20};
  ring_ = rings[Between(0, 3)];
  for (int rank = 0; rank < ranks; ++rank) ranks_.emplace_back(this, rank, ranks);
  for (Rank& rank : ranks_) rank.last_arrival_.assign(static_cast<std::size_t>(ranks), 0);
}

MpiWorld::~MpiWorld() = default;

std::int64_t MpiWorld::Between(std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
}

bool MpiWorld::Chance(double of) { return std::bernoulli_distribution(of)(random_); }

// Mostly short, now and then longer than the second after which a send counts as held.
std::int64_t MpiWorld::Delay() {
  if (Chance(0.03)) return Between(500'000'000, 2'500'000'000);
  return Chance(0.5) ? Between(100, 20'000) : Between(20'000, 2'000'000);
}

void MpiWorld::In(std::int64_t ns, std::function<void()> what) {
  events_.push({time_ns_ + ns, order_++, std::move(what)});
}

void MpiWorld::Wake() {
  for (auto sleeper = sleepers_.begin(); sleeper != sleepers_.end();) {
    if (!sleeper->ready()) {
      ++sleeper;
      continue;
    }
    In(Chance(0.2) ? Delay() : Moment(), [who = sleeper->who] { who.resume(); });
    sleeper = sleepers_.erase(sleeper);
  }
}

bool MpiWorld::Run(const Program& program, double cuts_per_event, const Diagnose& judge) {
  std::deque<Task> tasks;
  for (Rank& rank : ranks_) tasks.push_back(program(rank));
  for (Task& task : tasks) In(Moment(), [&task] { task.Start(); });
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    time_ns_ = event.at_ns;
    job_.At(static_cast<double>(time_ns_) * 1e-9);
    event.what();
    Wake();
    if (of_the_job_ && Chance(cuts_per_event)) BeginCut(judge);
    of_the_job_ = true;
  }
  if (!std::all_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.done(); })) return false;
  DiagnoseEnd(judge);
  return true;
}

// With all that was recorded, and with what a ring has kept of it.
void MpiWorld::DiagnoseEnd(const Diagnose& judge) {
  job_.Pass(0.01);
  for (const Rank& rank : ranks_) job_.Other(rank.rank(), Function::MPI_Finalize);
  job_.Pass(0.01);
  diagnosis::Snapshot snapshot = job_.Snapshot();
  judge(snapshot);
  for (reader::BoxImage& box : snapshot.boxes) DropOld(&box);
  judge(snapshot);
}

void MpiWorld::DropOld(reader::BoxImage* image) const {
  if (image->calls.size() <= ring_) return;
  image->first_slot = image->head - ring_;
  image->calls.erase(image->calls.begin(), image->calls.end() - static_cast<std::ptrdiff_t>(ring_));
}

std::shared_ptr<MpiWorld::Sent> MpiWorld::HandOver(int from, int to, int tag, std::uint64_t bytes, std::uint64_t slot,
                                                   bool synchronous) {
  auto sent = std::make_shared<Sent>(Sent{from, to, tag, slot, synchronous || bytes > eager_});
  std::int64_t& last = ranks_[static_cast<std::size_t>(from)].last_arrival_[static_cast<std::size_t>(to)];
  last = std::max(last, time_ns_ + Delay());  // of one sender they arrive in order
  In(last - time_ns_, [this, sent] { Arrive(sent); });
  return sent;
}

void MpiWorld::Arrive(const std::shared_ptr<Sent>& sent) {
  Rank& to = ranks_[static_cast<std::size_t>(sent->to)];
  const auto posted = std::find_if(to.posted_.begin(), to.posted_.end(),
                                   [&](const std::shared_ptr<Posted>& one) { return one->Takes(*sent); });
  if (posted == to.posted_.end()) return to.unexpected_.push_back(sent);
  (*posted)->got = sent;
  sent->matched = true;
  to.posted_.erase(posted);
}

std::shared_ptr<MpiWorld::Posted> MpiWorld::Post(int rank, int source, int tag, std::uint64_t slot) {
  Rank& to = ranks_[static_cast<std::size_t>(rank)];
  auto posted = std::make_shared<Posted>(Posted{source, tag, slot, nullptr});
  const auto sent = std::find_if(to.unexpected_.begin(), to.unexpected_.end(),
                                 [&](const std::shared_ptr<Sent>& one) { return posted->Takes(*one); });
  if (sent == to.unexpected_.end()) {
    to.posted_.push_back(posted);
    return posted;
  }
  posted->got = *sent;
  (*sent)->matched = true;
  to.unexpected_.erase(sent);
  return posted;
}

bool MpiWorld::AllEntered(std::uint64_t collectives) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.collectives_ >= collectives; });
}

void MpiWorld::BeginCut(const Diagnose& judge) {
  const auto cut = std::make_shared<Cut>();
  cut->live = Chance(0.5);
  cut->missing = static_cast<int>(ranks_.size());
  cut->snapshot.now_ns = job_.now_ns();
  cut->snapshot.limits.suspect_after_ns = cut->snapshot.limits.likely_after_ns = 1'000'000'000'000;
  const std::int64_t spans[] = {0, 2'000, 50'000, 2'000'000, 800'000'000};
  const std::int64_t most = spans[Between(0, 4)];
  for (Rank& rank : ranks_)
    In(Between(0, most), [this, cut, most, judge, at = rank.rank()] { CopyBox(cut, at, most, judge); });
}

// The counts first, then the calls, older before newer: each part as it is when its turn comes.
void MpiWorld::CopyBox(const std::shared_ptr<Cut>& cut, int rank, std::int64_t most_ns, const Diagnose& judge) {
  auto image = std::make_shared<reader::BoxImage>(job_.Box(rank));
  image->heartbeat_ns = job_.now_ns();
  DropOld(image.get());
  const std::size_t middle = static_cast<std::size_t>(Between(0, static_cast<std::int64_t>(image->calls.size())));
  const auto refresh = [this, image, rank](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) image->calls[i] = job_.At(rank, image->calls[i].slot);
  };
  const std::int64_t first = Between(0, most_ns / 4), second = first + Between(0, most_ns / 4);
  of_the_job_ = false;
  In(first, [this, refresh, middle] {
    of_the_job_ = false;
    refresh(0, middle);
  });
  In(second, [this, refresh, middle, image, cut, judge] {
    of_the_job_ = false;
    refresh(middle, image->calls.size());
    reader::MarkAwaited(image.get());
    cut->snapshot.boxes.push_back(std::move(*image));
    if (!cut->live) cut->snapshot.now_ns = job_.now_ns();
    if (--cut->missing == 0) judge(cut->snapshot);
  });
}

bool MpiWorld::Rank::Done(const Request& request) const {
  if (request.posted) return request.posted->got != nullptr;
  if (request.sent) return request.sent->Done();
  return world_.AllEntered(request.collective);
}

const MpiWorld::Rank::Request& MpiWorld::Rank::Of(std::uint64_t slot) const {
  return *std::find_if(requests_.begin(), requests_.end(), [&](const Request& one) { return one.slot == slot; });
}

Task MpiWorld::Rank::Compute() { co_await Later(); }

Task MpiWorld::Rank::Send(int to, int tag, std::uint64_t bytes, bool synchronous) {
  MpiMessage message{.peer = to, .tag = tag, .bytes = bytes};
  const std::uint64_t slot = synchronous ? world_.job_.Ssend(rank_, message) : world_.job_.Send(rank_, message);
  co_await Moment();
  const std::shared_ptr<Sent> sent = world_.HandOver(rank_, to, tag, bytes, slot, synchronous);
  Until done{world_, [sent] { return sent->Done(); }};
  co_await done;
  world_.job_.Return(rank_, slot);
}

Task MpiWorld::Rank::Recv(int from, int tag, std::uint64_t bytes, MpiStatus* status) {
  MpiMessage message{.peer = from, .tag = tag, .bytes = bytes};
  if (status == nullptr) message.flags = format::kNoStatus;
  const std::uint64_t slot = world_.job_.Recv(rank_, message);
  co_await Moment();
  const std::shared_ptr<Posted> posted = world_.Post(rank_, from, tag, slot);
  Until done{world_, [posted] { return posted->got != nullptr; }};
  co_await done;
  world_.job_.Receipt(rank_, slot, posted->got->from, posted->got->tag);
  if (status != nullptr) *status = {posted->got->from, posted->got->tag};
  co_await Moment();
  world_.job_.Return(rank_, slot);
}

Task MpiWorld::Rank::Sendrecv(int to, int from, int tag, std::uint64_t bytes) {
  MpiMessage out{.peer = to, .tag = tag, .bytes = bytes, .function = Function::MPI_Sendrecv};
  MpiMessage in{.peer = from, .tag = tag, .bytes = bytes, .function = Function::MPI_Sendrecv};
  const std::uint64_t first = world_.job_.Send(rank_, out);
  co_await Moment();
  const std::uint64_t second = world_.job_.Recv(rank_, in);
  world_.job_.At(rank_, second).group = first + 1;
  co_await Moment();
  world_.job_.At(rank_, first).group = first + 1;
  co_await Moment();
  const std::shared_ptr<Posted> posted = world_.Post(rank_, from, tag, second);
  const std::shared_ptr<Sent> sent = world_.HandOver(rank_, to, tag, bytes, first, false);
  Until done{world_, [posted, sent] { return posted->got != nullptr && sent->Done(); }};
  co_await done;
  world_.job_.Receipt(rank_, second, from, tag);
  co_await Moment();
  world_.job_.Return(rank_, first);
  co_await Moment();
  world_.job_.Return(rank_, second);
}

Task MpiWorld::Rank::Isend(int to, int tag, std::uint64_t bytes, std::uint64_t* request, bool synchronous) {
  MpiMessage message{.peer = to, .tag = tag, .bytes = bytes};
  if (synchronous) message.function = Function::MPI_Issend, message.flags = format::kSynchronous;
  *request = world_.job_.Isend(rank_, message);
  requests_.push_back({*request, world_.HandOver(rank_, to, tag, bytes, *request, synchronous), nullptr, 0});
  co_await Moment();
}

Task MpiWorld::Rank::Irecv(int from, int tag, std::uint64_t bytes, std::uint64_t* request) {
  MpiMessage message{.peer = from, .tag = tag, .bytes = bytes};
  *request = world_.job_.Irecv(rank_, message);
  requests_.push_back({*request, nullptr, world_.Post(rank_, from, tag, *request), 0});
  co_await Moment();
}

const MpiWorld::Sent* MpiWorld::Rank::Probed(int from, int tag) const {
  const Posted wanted{from, tag, 0, nullptr};
  for (const std::shared_ptr<Sent>& sent : unexpected_)
    if (wanted.Takes(*sent)) return sent.get();
  return nullptr;
}

Task MpiWorld::Rank::Probe(int from, int tag, MpiStatus* status) {
  const std::uint64_t slot = world_.job_.Probe(rank_, MpiMessage{.peer = from, .tag = tag});
  Until found{world_, [this, from, tag] { return Probed(from, tag) != nullptr; }};
  co_await found;
  const Sent* const sent = Probed(from, tag);
  *status = {sent->from, sent->tag};
  world_.job_.Return(rank_, slot);
  co_await Moment();
}

Task MpiWorld::Rank::Iprobe(int from, int tag, bool* found, MpiStatus* status) {
  co_await Later();
  const Sent* const sent = Probed(from, tag);
  *found = sent != nullptr;
  if (sent != nullptr) {
    *status = {sent->from, sent->tag};
    world_.job_.Other(rank_, Function::MPI_Iprobe);
  } else {
    world_.job_.PollProbe(rank_, MpiMessage{.peer = from, .tag = tag});
  }
}

void MpiWorld::Rank::Close(std::uint64_t slot, MpiStatus* status) {
  const Request& request = Of(slot);
  if (request.posted) {
    const Sent& got = *request.posted->got;
    world_.job_.Receipt(rank_, slot, got.from, got.tag);
    if (status != nullptr) *status = {got.from, got.tag};
  }
  world_.job_.Complete(rank_, slot);
}

// The requests are told one after the other who waits for them.
Task MpiWorld::Rank::EnterWait(Function function, const Slots& requests, std::uint64_t* slot) {
  *slot = world_.job_.Wait(rank_, function, {});
  world_.job_.At(rank_, *slot).count = requests.size();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (world_.Chance(0.3)) co_await Moment();
    world_.job_.At(rank_, requests[i]).waiter = *slot + 1;
  }
  co_await Moment();
}

Task MpiWorld::Rank::Waitall(Slots requests) {
  std::uint64_t slot = 0;
  co_await EnterWait(Function::MPI_Waitall, requests, &slot);
  Until done{world_, [this, &requests] {
               return std::all_of(requests.begin(), requests.end(),
                                  [this](std::uint64_t one) { return Done(Of(one)); });
             }};
  co_await done;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Close(requests[i], nullptr);
    if (world_.Chance(0.3)) co_await Moment();
  }
  world_.job_.Return(rank_, slot);
}

Task MpiWorld::Rank::Waitany(Slots requests, std::size_t* which, MpiStatus* status) {
  std::uint64_t slot = 0;
  co_await EnterWait(Function::MPI_Waitany, requests, &slot);
  const auto first = [this, &requests] {
    return std::find_if(requests.begin(), requests.end(), [this](std::uint64_t one) { return Done(Of(one)); });
  };
  Until done{world_, [&first, &requests] { return first() != requests.end(); }};
  co_await done;
  *which = static_cast<std::size_t>(first() - requests.begin());
  Close(requests[*which], status);
  co_await Moment();
  world_.job_.Return(rank_, slot);
}

Task MpiWorld::Rank::Testall(Slots requests, bool* done) {
  co_await Later();
  *done = std::all_of(requests.begin(), requests.end(), [this](std::uint64_t one) { return Done(Of(one)); });
  if (!*done) {
    world_.job_.Poll(rank_, Function::MPI_Testall, requests);
    co_return;
  }
  world_.job_.Other(rank_, Function::MPI_Testall);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Close(requests[i], nullptr);
    if (world_.Chance(0.3)) co_await Moment();
  }
}

Task MpiWorld::Rank::Barrier() {
  const std::uint64_t slot = world_.job_.Collective(rank_, Function::MPI_Barrier);
  co_await Moment();
  const std::uint64_t mine = ++collectives_;
  Until done{world_, [this, mine] { return world_.AllEntered(mine); }};
  co_await done;
  world_.job_.Return(rank_, slot);
}

Task MpiWorld::Rank::Ibarrier(std::uint64_t* request) {
  *request = world_.job_.Collective(rank_, Function::MPI_Ibarrier);
  world_.job_.At(rank_, *request).flags |= format::kRequest;
  world_.job_.Return(rank_, *request);
  requests_.push_back({*request, nullptr, nullptr, ++collectives_});
  co_await Moment();
}

Task MpiWorld::Rank::Bcast(int root) {
  const std::uint64_t slot = world_.job_.Collective(rank_, Function::MPI_Bcast, root);
  co_await Moment();
  const std::uint64_t mine = ++collectives_;
  Until done{world_, [this, mine, root] { return world_.ranks_[static_cast<std::size_t>(root)].collectives_ >= mine; }};
  co_await done;
  world_.job_.Return(rank_, slot);
}

Task MpiWorld::Rank::Reduce(int root) {
  const std::uint64_t slot = world_.job_.Collective(rank_, Function::MPI_Reduce, root);
  co_await Moment();
  const std::uint64_t mine = ++collectives_;
  Until done{world_, [this, mine, root] { return rank_ != root || world_.AllEntered(mine); }};
  co_await done;
  world_.job_.Return(rank_, slot);
}

}  // namespace ncclwatch::testing
