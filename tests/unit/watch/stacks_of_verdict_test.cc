// Stacks that the leader asks for once a verdict is out, with a stand-in for the program that takes them.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/diagnose.h"
#include "core/model/snapshot.h"
#include "core/reader/box.h"
#include "core/report/render.h"
#include "core/report/where.h"
#include "core/view/from_boxes.h"
#include "fake_rank.h"

namespace ncclwatch::watch {
namespace {

namespace fs = std::filesystem;

// Writes a head for every process that it is given, as the program does. In the shell alone: on a busy machine every
// further process costs more than the deadline has.
constexpr char kWriteHeads[] = R"sh(
into=$3
shift 3
pids=
for word in "$@"; do
  case $word in --thread|--started|*:*) ;; *) pids="$pids $word" ;; esac
done
read -r up idle < /proc/uptime
at=$((${up%.*}${up#*.} * 10000000 + 20000000))
for pid in $pids; do
  read -r stat < /proc/$pid/stat
  set -- ${stat##*) }
  shift 19
  printf 'ncclwatch.stacks/1\nprocess pid %s start %s rank 0 host host at_ns %s\nwhere next_batch (train.py:57)\nwhere main (train.py:9)\n' \
    $pid $1 $at > $into/$pid.txt
done
echo all > $into/merged.txt
)sh";

class StacksOfVerdict : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("NCCLWATCH_COMMAND"); }
  void Command(const std::string& script) {
    const std::string path = job_.top() + "/command.sh";
    std::ofstream(path + ".new") << "#!/bin/sh\n" << script << "\n";
    fs::permissions(path + ".new", fs::perms::owner_all);
    fs::rename(path + ".new", path);
    setenv("NCCLWATCH_COMMAND", path.c_str(), 1);  // inherited by the ranks
  }
  void StallWithout(int culprit) {
    job_.settings.timeout_s = 1;
    job_.Start(3);
    job_.CallAll();
    for (int rank = 0; rank < 3; ++rank)
      if (rank != culprit) job_[rank].Enter();
  }
  bool Says(const std::string& what, double seconds = 15) {
    return Eventually([&] { return job_.Diagnosis().find(what) != std::string::npos; }, seconds);
  }
  void ExpectOfflineIsTheSame() {
    // The leader may be about to write.
    EXPECT_TRUE(Eventually(
        [this] {
          const reader::RunImage run = reader::ReadRun({job_.directory()});
          diagnosis::Snapshot snapshot = diagnosis::FromBoxes(run.boxes);
          diagnosis::UseStacks(run.stacks, &snapshot);
          return diagnosis::ToJson(diagnosis::Diagnose(snapshot)) == job_.Diagnosis();
        },
        2));
  }
  FakeJob job_;
};

TEST_F(StacksOfVerdict, AreAddedToItAndSaidOnce) {
  Command(kWriteHeads);
  StallWithout(1);
  ASSERT_TRUE(Says("missing_participant"));
  ASSERT_TRUE(Says("rank 1 stands in next_batch (train.py:57), called from main (train.py:9)"));
  EXPECT_TRUE(Says("\"where\": [\n"));
  ExpectOfflineIsTheSame();
  EXPECT_TRUE(Eventually([this] { return job_.Said().find("/stacks/merged.txt") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_EQ(Count(job_.Said(), "rank 1 stands in next_batch (train.py:57)"), 1) << job_.Said();
  EXPECT_EQ(Count(job_.Said(), "has not called"), 1);
  EXPECT_EQ(job_.lease().verdicts.load(), 1u);
}

TEST_F(StacksOfVerdict, TheCulpritIsAskedForFirst) {
  Command("echo \"$@\" > \"$3/asked\"");
  StallWithout(2);
  ASSERT_TRUE(Eventually([this] { return fs::exists(job_.directory() + "/stacks/asked"); }));
  const std::string asked = Content(job_.directory() + "/stacks/asked");
  const std::string culprit = std::to_string(job_[2].pid());
  EXPECT_NE(asked.find("--thread " + culprit + ":" + culprit), std::string::npos) << asked;
  EXPECT_LT(asked.find(" " + culprit + " "), asked.find(" " + std::to_string(job_[0].pid()) + " ")) << asked;
}

TEST_F(StacksOfVerdict, WithoutTheProgramTheVerdictAndTheRestStand) {
  setenv("NCCLWATCH_COMMAND", "/no/such/command", 1);
  StallWithout(1);
  ASSERT_TRUE(Says("missing_participant"));
  EXPECT_TRUE(
      Eventually([this] { return job_.Said().find("stacks are missing: /no/such/command") != std::string::npos; }));
  EXPECT_TRUE(Eventually([this] {
    return fs::exists(job_.directory() + "/evidence/rank-1.pid-" + std::to_string(job_[1].pid()) + ".txt");
  }));
  EXPECT_EQ(Count(job_.Said(), "stacks are missing"), 1);
  ExpectOfflineIsTheSame();
}

TEST_F(StacksOfVerdict, ASlowProgramIsEndedAndTheHeartbeatGoesOn) {
  Command("exec sleep 100");
  StallWithout(1);
  ASSERT_TRUE(Says("missing_participant"));
  const std::uint64_t beats = job_[0].header().heartbeats;
  ASSERT_TRUE(Eventually([this] { return job_.Said().find("not done after 3 s") != std::string::npos; }));
  EXPECT_GT(job_[0].header().heartbeats, beats + 20);
  EXPECT_EQ(job_.lease().verdicts.load(), 1u);
  ExpectOfflineIsTheSame();
}

TEST_F(StacksOfVerdict, ACrashingProgramCostsNothingButItsStacks) {
  Command(std::string(kWriteHeads) + "kill -SEGV $$");
  StallWithout(1);
  ASSERT_TRUE(Says("rank 1 stands in next_batch"));  // what it had written counts
  EXPECT_TRUE(Eventually([this] { return job_.Said().find("ended by signal 11") != std::string::npos; }));
  ExpectOfflineIsTheSame();
}

TEST_F(StacksOfVerdict, HostileHeadsAreHarmless) {
  Command(
      "head -c 300000 /dev/urandom > $3/garbage; for pid in $(echo \"$@\" | grep -o ' [0-9]*' ); do"
      " cp $3/garbage $3/$pid.txt; done; ln -s /dev/zero $3/merged.txt");
  StallWithout(1);
  ASSERT_TRUE(Says("missing_participant"));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_EQ(job_.Diagnosis().find("stands in"), std::string::npos);
  ExpectOfflineIsTheSame();
  EXPECT_TRUE(Eventually([this] { return job_.Leader() != nullptr; }));
}

TEST_F(StacksOfVerdict, OfALeaderThatDiedTheNextOneTakesThemAgain) {
  Command("exec sleep 100");  // its first leader dies waiting
  StallWithout(1);
  ASSERT_TRUE(Says("missing_participant"));
  FakeRank* leader = job_.Leader();
  Command(kWriteHeads);
  leader->Signal(SIGKILL);
  leader->Wait();
  ASSERT_TRUE(Says("rank 1 stands in next_batch"));
  ExpectOfflineIsTheSame();
}

TEST_F(StacksOfVerdict, AWithdrawnVerdictLeavesNoneBehind) {
  Command(kWriteHeads);
  StallWithout(1);
  ASSERT_TRUE(Says("rank 1 stands in"));
  job_[1].Enter();
  for (int rank = 0; rank < 3; ++rank) job_[rank].Return();
  job_.CallAll();
  ASSERT_TRUE(Says("\"healthy\": true"));
  EXPECT_EQ(job_.Diagnosis().find("stands in"), std::string::npos);
}

TEST_F(StacksOfVerdict, EvidenceIsGivenWhenItIsAskedForThoughNothingIsWrong) {
  Command(kWriteHeads);
  job_.settings.out = job_.top() + "/out";
  job_.Start(3);
  job_.CallAll();
  const std::uint64_t ticket = job_.lease().evidence_wanted.fetch_add(1) + 1;
  ASSERT_TRUE(Eventually([&] { return job_.lease().evidence_given.load() >= ticket; }));
  for (int rank = 0; rank < 3; ++rank) {
    const std::string pid = std::to_string(job_[rank].pid());
    for (const std::string& place : {job_.directory(), job_.settings.out + "/fake-0123456789ab"}) {
      EXPECT_TRUE(fs::exists(place + "/stacks/" + pid + ".txt")) << place;
      EXPECT_TRUE(fs::exists(place + "/evidence/rank-" + std::to_string(rank) + ".pid-" + pid + ".txt")) << place;
    }
  }
  EXPECT_EQ(job_.Diagnosis(), "");
  EXPECT_EQ(job_.lease().verdicts.load(), 0u);
  EXPECT_EQ(job_.Said().find("could not be saved"), std::string::npos) << job_.Said();
  // Asked twice at once, answered together or one after the other.
  job_.lease().evidence_wanted.fetch_add(1);
  const std::uint64_t last = job_.lease().evidence_wanted.fetch_add(1) + 1;
  EXPECT_TRUE(Eventually([&] { return job_.lease().evidence_given.load() >= last; }));
}

TEST_F(StacksOfVerdict, ASignalToAnyRankAsksForEvidence) {
  Command(kWriteHeads);
  job_.Start(2);
  job_[1].Signal(SIGUSR2);
  EXPECT_TRUE(Eventually([this] { return job_.lease().evidence_given.load() == 1; }));
  EXPECT_TRUE(fs::exists(job_.directory() + "/stacks/" + std::to_string(job_[0].pid()) + ".txt"));
  EXPECT_EQ(Count(job_.Said(), "evidence as asked for"), 1) << job_.Said();
}

TEST_F(StacksOfVerdict, ReportAloneTakesNone) {
  Command(kWriteHeads);
  job_.settings.on_fault = settings::OnFault::kReport;
  StallWithout(1);
  ASSERT_TRUE(Says("missing_participant"));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(fs::exists(job_.directory() + "/stacks"));
}

}  // namespace
}  // namespace ncclwatch::watch
