// A stranger who can see how the job was started, and so has its guessable token, against real watchdogs that end their
// job on a verdict: as their hub and as a member he is heard, and nothing is done because of him.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <thread>

#include "core/nodes/messages.h"
#include "core/reader/box.h"
#include "fake_rank.h"
#include "tests/nodes/played_leader.h"
#include "tests/unit/exchange/relay.h"
#include "watchdog/exchange/rendezvous/address.h"
#include "watchdog/exchange/rendezvous/token_file.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

using exchange::Type;
using functions::Function;
using testing::kWorld;

constexpr std::pair<const char*, const char*> kLauncher[] = {{"RANK", "0"},
                                                             {"WORLD_SIZE", "4"},
                                                             {"LOCAL_RANK", "0"},
                                                             {"LOCAL_WORLD_SIZE", "2"},
                                                             {"MASTER_ADDR", "127.0.0.1"},
                                                             {"MASTER_PORT", "29500"}};

// Who can see this.
std::optional<std::string_view> Seen(std::string_view name) {
  for (const auto& [variable, value] : kLauncher)
    if (name == variable) return value;
  return std::nullopt;
}

class Guessable : public ::testing::Test {
 protected:
  Guessable() : address_("tcp://127.0.0.1:" + std::to_string(testing::FreePort())) {
    for (const auto& [variable, value] : kLauncher) setenv(variable, value, 1);
    setenv("HOME", "/proc/nowhere", 1);  // and no place for a secret
    unsetenv("XDG_STATE_HOME");
    job_.settings.exchange = address_;
    job_.settings.on_fault = settings::OnFault::kAbort;
    job_.settings.timeout_s = 60;
  }
  ~Guessable() override {
    for (const auto& [variable, value] : kLauncher) unsetenv(variable);
  }
  // Two ranks of four.
  void Start() {
    for (int rank = 0; rank < 2; ++rank) job_.Add(rank, 4).MakeCommunicator(kWorld);
  }
  bool Says(const std::string& what, double seconds = 30) {
    return Eventually([&] { return job_.Said().find(what) != std::string::npos; }, seconds);
  }
  std::int64_t Limit_ns() {
    std::int64_t limit_ns = 0;
    for (const reader::BoxImage& box : reader::ReadRun({job_.directory()}).boxes)
      limit_ns = std::max(limit_ns, box.leader_state.suspect_after_ns);
    return limit_ns;
  }
  void ExpectNothingDone() {
    EXPECT_EQ(job_.lease().ending.load(), 0u);
    EXPECT_EQ(job_.lease().evidence_wanted.load(), 0u);
    EXPECT_FALSE(std::filesystem::exists(job_.directory() + "/stacks"));
    EXPECT_FALSE(std::filesystem::exists(job_.directory() + "/evidence"));
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(waitpid(job_[rank].pid(), nullptr, WNOHANG), 0) << "rank " << rank;
  }

  const std::string address_;
  const exchange::Token token_ = exchange::TokenOfJob(exchange::JobIdentity(Seen));
  FakeJob job_;
};

// Says as a hub whatever would harm, again and again.
class StrangerAsHub {
 public:
  StrangerAsHub(const std::string& address, const exchange::Token& token) {
    exchange::Setup setup;
    setup.address = *exchange::ParseAddress(address, nullptr);
    setup.self = {"stranger", "host of a stranger", 1, true};
    setup.tokens = {token};
    setup.job = "any";
    std::string why;
    exchange_ = exchange::Open(setup, &why);
    EXPECT_TRUE(Eventually([&] { return exchange_->IsHub(); })) << why;
  }
  // True once something has come of it.
  bool Harm() {
    ++said_;
    exchange_->Send("*", Type::kFetch, nodes::Write(nodes::Fetch{said_, 1000, 0, 1 << 20}));
    exchange_->Send("*", Type::kAction, nodes::Write(nodes::Action{.evidence = true, .diagnosed_ns = 0, .stacks = {}}));
    nodes::VerdictBroadcast word;
    word.revision = word.verdicts = said_;
    word.limits = {1, 2};
    word.longest_wait_ns = 1'000'000'000'000;
    word.stands = true;
    word.diagnosed_ns = Monotonic();
    word.hub_host = "host of a stranger";
    diagnosis::Finding finding;
    finding.kind = diagnosis::Kind::kDeadRank;
    finding.certainty = diagnosis::Certainty::kCertain;
    finding.culprits = {3};
    word.diagnosis.emplace().findings.push_back(finding);
    for (std::string& piece : nodes::Write(word)) exchange_->Send("*", Type::kVerdict, std::move(piece));
    bool fetched = false;
    while (const std::optional<exchange::Message> message = exchange_->Receive()) {
      summaries_ += message->type == Type::kSummary;
      fetched = fetched || message->type == Type::kRecords;
    }
    return fetched;
  }
  int summaries() const { return summaries_; }

 private:
  std::unique_ptr<exchange::Exchange> exchange_;
  std::uint64_t said_ = 0;
  int summaries_ = 0;
};

TEST_F(Guessable, AHubsWordIsShownAndNothingElseComesOfIt) {
  StrangerAsHub stranger(address_, token_);
  Start();
  EXPECT_TRUE(
      Eventually([&] { return stranger.Harm() || job_.Said().find("may be a stranger") != std::string::npos; }, 30));
  for (int i = 0; i < 20; ++i) {  // what it says is looked at every few milliseconds
    EXPECT_FALSE(stranger.Harm()) << "black boxes were handed out";
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_GT(stranger.summaries(), 0) << "these are exchanged";
  EXPECT_TRUE(Says("so ncclwatch does not act upon it: dead_rank (likely): rank 3"));
  EXPECT_EQ(Count(job_.Said(), "NCCLWATCH_TOKEN_FILE"), 1) << job_.Said();
  EXPECT_EQ(Limit_ns(), 60'000'000'000);
  EXPECT_EQ(job_.Diagnosis(), "");
  ExpectNothingDone();
}

TEST_F(Guessable, UnderAHubThatMayBeAStrangerANodeJudgesAndEndsItself) {
  StrangerAsHub stranger(address_, token_);
  Start();
  EXPECT_TRUE(Eventually([&] { return stranger.Harm() || stranger.summaries() > 0; }, 30));
  job_[0].Enter();
  job_[1].Signal(SIGKILL);
  job_[1].Wait();
  EXPECT_TRUE(Eventually([&] { return job_.Diagnosis().find("\"dead_rank\"") != std::string::npos; }));
  const int status = job_[0].Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 86) << status;
}

// A job of two ranks here, and as many on each node that is played.
class GuessableMember : public Guessable {
 protected:
  void StartAsHub() {
    Start();
    ASSERT_TRUE(Eventually([&] {  // tcp/memory.h
      const std::string memory = Content(job_.directory() + "/exchange");
      return memory.size() > 5 && memory[5] == 1;
    }));
  }
  testing::PlayedLeader* Play(int number, const exchange::Token& token) {
    testing::Options& options = options_.emplace_back();
    options.leaders = options.ranks = 2;
    options.exchange = address_;
    options.token = token;
    played_.push_back(
        std::make_unique<testing::PlayedLeader>(options, *exchange::ParseAddress(address_, nullptr), number));
    return played_.back().get();
  }
  // The job goes on, or stands after a fault, until it holds.
  bool Until(const std::function<bool()>& condition) {
    return Eventually(
        [&] {
          const std::int64_t now_ns = Monotonic();
          if (!fault_.planted) {
            job_.CallAll({Function::ncclAllReduce, testing::kCount, testing::kFloat32});
            ++entered_;
            newest_ns_ = now_ns;
          }
          for (const auto& leader : played_) leader->Tick(now_ns, entered_, newest_ns_, fault_.planted, fault_);
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return condition();
        },
        30);
  }
  void Kill(int rank) {
    ++entered_;
    for (int own = 0; own < 2; ++own) job_[own].Enter({Function::ncclAllReduce, testing::kCount, testing::kFloat32});
    fault_.kind = "killed";
    fault_.rank = rank;
    fault_.position = entered_ - 1;
    fault_.at_ns = newest_ns_ = Monotonic();
    fault_.planted = true;
  }
  bool SaysDead() { return job_.Diagnosis().find("\"dead_rank\"") != std::string::npos; }

  std::deque<testing::Options> options_;  // which the leaders refer to
  std::vector<std::unique_ptr<testing::PlayedLeader>> played_;
  testing::Fault fault_;
  std::uint64_t entered_ = 0;
  std::int64_t newest_ns_ = 1;
};

TEST_F(GuessableMember, MakesNoVerdictThatIsActedOn) {
  ASSERT_NO_FATAL_FAILURE(StartAsHub());
  testing::PlayedLeader* const stranger = Play(1, token_);
  ASSERT_TRUE(Until([&] { return job_.Said().find("watching 4/4 ranks") != std::string::npos; }));
  Kill(3);
  ASSERT_TRUE(Until([&] { return SaysDead(); }));
  EXPECT_NE(job_.Diagnosis().find("\"certainty\": \"likely\""), std::string::npos) << job_.Diagnosis();
  const std::int64_t end_ns = Monotonic() + 1'500'000'000;
  Until([&] { return Monotonic() > end_ns; });
  EXPECT_EQ(stranger->answers(), 0u);
  ExpectNothingDone();
}

TEST_F(GuessableMember, IsNotListenedToOnceProvenOnesMakeUpTheJob) {
  job_.settings.out = job_.top() + "/out";
  const std::string name = exchange::FileNameOf(exchange::JobIdentity(Seen));
  const exchange::Secret secret = exchange::SharedSecret(job_.settings.out + "/.ncclwatch", name);
  ASSERT_EQ(secret.text.size(), 64u) << secret.why;
  ASSERT_NO_FATAL_FAILURE(StartAsHub());
  const testing::PlayedLeader* const stranger = Play(2, token_);  // says that there is a node with ranks 4 and 5
  ASSERT_TRUE(Until([&] { return stranger->connected() && job_.Said().find("could guess") != std::string::npos; }));
  const testing::PlayedLeader* const proven = Play(1, exchange::TokenOfSecret(secret.text, name));
  ASSERT_TRUE(
      Until([&] { return proven->connected() && job_.Said().find("watching 4/4 ranks") != std::string::npos; }));
  const std::int64_t end_ns = Monotonic() + 1'500'000'000;  // who makes up the job is counted every second
  Until([&] { return Monotonic() > end_ns; });
  Kill(3);
  ASSERT_TRUE(Until([&] { return SaysDead(); }));
  EXPECT_NE(job_.Diagnosis().find("\"certainty\": \"certain\""), std::string::npos) << job_.Diagnosis();
  EXPECT_EQ(stranger->answers(), 0u);
  ASSERT_TRUE(Until([&] { return job_.lease().ending.load() != 0; })) << "acted on";
}

}  // namespace
}  // namespace ncclwatch::watch
